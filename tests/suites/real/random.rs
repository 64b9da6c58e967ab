//! Scripts that are made up by chance, within a few paths so that requests meet each other.

use std::env;

use zk_proto::{
    CheckVersionRequest, CreateMode, DeleteRequest, GetChildrenRequest, List, MultiOp,
    MultiRequest, RemoveWatchesRequest, Request, SetDataRequest, SetWatches, WatcherType, Zxid,
};

use crate::script::{Script, create, exists, get_children, get_data, node};

const PATHS: [&str; 8] = ["/r", "/r/a", "/r/b", "/r/a/x", "/r/a/x/y", "/r/c", "/", "/r/"];
const MODES: [CreateMode; 5] = [
    CreateMode::PERSISTENT,
    CreateMode::EPHEMERAL,
    CreateMode::PERSISTENT_SEQUENTIAL,
    CreateMode::EPHEMERAL_SEQUENTIAL,
    CreateMode::CONTAINER,
];
const REQUESTS: usize = 1_500;

/// What the server at `address` says to random requests. `ZK_SEED` chooses others.
pub(crate) fn play(address: &str) -> Vec<String> {
    let seed = env::var("ZK_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut chance = Chance(seed);
    let mut script = Script::start(address);
    script.transcript.push(format!("ZK_SEED={seed}"));
    for _ in 0..REQUESTS {
        let who = chance.below(2);
        ask(&mut script, who, &mut chance);
    }
    script.transcript
}

fn ask(script: &mut Script, who: usize, chance: &mut Chance) {
    let path = chance.pick(&PATHS);
    let watch = chance.below(2) == 0;
    let request = match chance.below(14) {
        0..=2 => create(path, chance.pick(&MODES)),
        3 => Request::Create2(node(path, chance.pick(&MODES))),
        4 => Request::CreateContainer(node(path, CreateMode::CONTAINER)),
        5 | 6 => Request::Delete(DeleteRequest { path, version: chance.version() }),
        7 => Request::SetData(SetDataRequest { path, data: None, version: chance.version() }),
        8 => exists(path, watch),
        9 => get_data(path, watch),
        10 => get_children(path, watch),
        11 => Request::GetChildren2(GetChildrenRequest { path, watch }),
        12 => {
            let ops: Vec<_> = (0..1 + chance.below(4)).map(|_| chance.op()).collect();
            return script.ask(who, Request::Multi(MultiRequest::new(&ops)));
        }
        _ if watch => {
            let kinds = [WatcherType::ANY, WatcherType::DATA, WatcherType::CHILDREN];
            let watcher_type = chance.pick(&kinds);
            Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type })
        }
        _ => {
            let [data, exist, child] = [(); 3].map(|()| [chance.pick(&PATHS), chance.pick(&PATHS)]);
            let since = chance.below(20) as i64;
            let request = SetWatches {
                relative_zxid: Zxid(script.last_zxid.0 - since),
                data_watches: List::new(&data),
                exist_watches: List::new(&exist),
                child_watches: List::new(&child),
            };
            return script.ask(who, Request::SetWatches(request));
        }
    };
    script.ask(who, request);
}

/// SplitMix64.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let x = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((x ^ (x >> 31)) >> 32) as usize % limit
    }

    fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    fn version(&mut self) -> i32 {
        self.pick(&[-1, -1, -1, 0, 1])
    }

    fn op(&mut self) -> MultiOp<'static> {
        let (path, version) = (self.pick(&PATHS), self.version());
        match self.below(5) {
            0 | 1 => MultiOp::Create(node(path, self.pick(&MODES))),
            2 => MultiOp::Delete(DeleteRequest { path, version }),
            3 => MultiOp::SetData(SetDataRequest { path, data: Some(b"m"), version }),
            _ => MultiOp::Check(CheckVersionRequest { path, version }),
        }
    }
}
