//! Caches with arbitrary replies, events and losses, for the fuzz target `machine`.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use arbitrary::Unstructured;
use bytes::Bytes;
use zk_proto::{
    ErrorCode, EventType, ExistsResponse, GetChildren2Response, GetDataResponse, List, SessionId,
    Stat, Zxid,
};
use zk_recipes::machine::{CacheConfig, CacheEvent, CacheMachine, CacheOutput, CacheRequest};
use zk_session::dispatch::Input;
use zk_session::session::{Reply, WatchedEvent};
use zk_session::{End, Error, Outcome, State};

use crate::fuzz_machine::encoded;

const ROOT: &str = "/tree";
const SESSION: SessionId = SessionId(7);
/// The greatest number of nodes.
const NODES: usize = 8;
/// The greatest number of requests under way, besides that of a persistent watch.
const REQUESTS: usize = 3;
/// The maximum number of steps in a run.
const STEPS: usize = 300;

/// Runs a cache whose session follows `input`.
///
/// Events alone make up the tree that the cache has, requests and nodes are bounded, and a cache is
/// done when its session has ended.
pub(crate) fn cache(input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
    let mut config = CacheConfig::new(ROOT.into());
    config.is_recursive = input.arbitrary()?;
    config.is_persistent = input.arbitrary()?;
    (config.max_nodes, config.max_requests) = (NODES, REQUESTS);
    let mut world = World {
        machine: CacheMachine::new(config),
        waiting: Vec::new(),
        watches: BTreeMap::new(),
        mirror: BTreeMap::new(),
        zxid: 1,
        is_connected: false,
        has_timer: false,
    };
    for _ in 0..STEPS {
        if input.is_empty() || world.step(input).is_err() || world.machine.is_done() {
            break;
        }
    }
    world.lose(&Error::Ended { end: End::Expired, outcome: Outcome::Unknown });
    world.give(Input::State(State::Ended(End::Expired)));
    assert!(world.machine.is_done() && world.mirror.is_empty());
    Ok(())
}

struct World {
    machine: CacheMachine,
    /// Requests without a reply, in order.
    waiting: Vec<(u64, CacheRequest)>,
    /// The paths of watches that are set.
    watches: BTreeMap<u64, Arc<str>>,
    /// The nodes by the events alone, and their versions.
    mirror: BTreeMap<String, (Zxid, Zxid)>,
    zxid: i64,
    is_connected: bool,
    has_timer: bool,
}

impl World {
    fn step(&mut self, input: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        match input.int_in_range(0..=11_u8)? {
            0..=6 if self.is_connected && !self.waiting.is_empty() => {
                let (tag, request) = self.waiting.remove(0);
                let result = self.reply(&request, input)?;
                if result.is_ok() || matches!(request, CacheRequest::Existence(_)) {
                    self.watches.insert(tag, path(&request).clone());
                }
                self.give(Input::Reply { tag, result });
            }
            7 | 8 if self.is_connected && !self.watches.is_empty() => {
                let place = input.choose_index(self.watches.len())?;
                let Some((tag, root)) = self.watches.iter().nth(place) else { return Ok(()) };
                let below = *input.choose(&["", "/a", "/b", "/a/a", "/a/b"])?;
                let (tag, path) = (*tag, Arc::from(format!("{root}{below}")));
                let event_type = EventType(input.int_in_range(-1..=5)?);
                let event = WatchedEvent::new(event_type, path, Zxid(-1));
                self.give(Input::Watch { tag, event });
            }
            9 if self.is_connected => {
                self.lose(&Error::ConnectionLost);
                self.is_connected = false;
                let state = *input.choose(&[State::Suspended, State::Renewing])?;
                self.give(Input::State(state));
            }
            10 if !self.is_connected => {
                self.is_connected = true;
                let (server, session) = (0, SESSION);
                self.give(Input::State(match input.arbitrary()? {
                    true => State::Connected { server, session },
                    false => State::ReadOnly { server, session },
                }));
            }
            11 if self.has_timer => {
                self.has_timer = false;
                self.give(Input::Timer);
            }
            _ => {}
        }
        Ok(())
    }

    /// Fails all requests that wait.
    fn lose(&mut self, error: &Error) {
        self.watches.clear();
        for (tag, _) in core::mem::take(&mut self.waiting) {
            self.give(Input::Reply { tag, result: Err(error.clone()) });
        }
    }

    fn give(&mut self, input: Input) {
        self.machine.handle(input);
        while let Some(output) = self.machine.poll_output() {
            match output {
                CacheOutput::Submit(tag, request) => self.waiting.push((tag, request)),
                CacheOutput::Unwatch(tag) => drop(self.watches.remove(&tag)),
                CacheOutput::UnwatchAll => self.watches.clear(),
                CacheOutput::SetTimer(_) => self.has_timer = true,
                CacheOutput::Event(event) => self.note(event),
            }
        }
        let tree = self.machine.tree().iter();
        let tree: BTreeMap<_, _> = tree
            .map(|(path, node)| (path.to_string(), (node.stat.czxid, node.stat.mzxid)))
            .collect();
        assert_eq!(self.mirror, tree, "the events do not make up the tree");
        assert!(tree.len() <= NODES, "{} nodes", tree.len());
        let requests = self.waiting.len();
        assert!(requests <= REQUESTS + 1, "{requests} requests");
    }

    fn note(&mut self, event: CacheEvent) {
        match event {
            CacheEvent::Added(path, node) => {
                let versions = (node.stat.czxid, node.stat.mzxid);
                let before = self.mirror.insert(path.to_string(), versions);
                assert_eq!(before, None, "{path} was added twice");
            }
            CacheEvent::Changed(path, node) => {
                let versions = (node.stat.czxid, node.stat.mzxid);
                let before = self.mirror.insert(path.to_string(), versions);
                assert!(before.is_some(), "{path} was changed before it was added");
            }
            CacheEvent::Removed(path, _) => {
                let before = self.mirror.remove(&*path);
                assert!(before.is_some(), "{path} was removed before it was added");
            }
            CacheEvent::Ended(_) => self.mirror.clear(),
            _ => {}
        }
    }

    /// Returns the reply to a request: a refusal, arbitrary bytes, or one that makes sense.
    fn reply(
        &mut self,
        request: &CacheRequest,
        input: &mut Unstructured<'_>,
    ) -> arbitrary::Result<Result<Reply, Error>> {
        match input.int_in_range(0..=9_u8)? {
            0 => return Ok(Err(Error::Server(*input.choose(ErrorCode::KNOWN)?))),
            1 => return Ok(Err(Error::Server(ErrorCode::NO_NODE))),
            _ => {}
        }
        self.zxid += input.int_in_range(0..=2)?;
        let czxid = Zxid(self.zxid + input.int_in_range(-2..=0)?);
        let mzxid = Zxid(czxid.0 + input.int_in_range(0..=2)?);
        let stat =
            Stat { czxid, mzxid, num_children: input.int_in_range(0..=2)?, ..Stat::default() };
        let names: &[&str] = input.choose::<&[&str]>(&[&[], &["a"], &["b"], &["a", "b"]])?;
        let body = match request {
            _ if input.ratio(1, 16)? => {
                let length = input.int_in_range(0..=32)?;
                input.bytes(length)?.to_vec()
            }
            CacheRequest::Watch(_) => Vec::new(),
            CacheRequest::Data(..) => encoded(&GetDataResponse { data: Some(b"data"), stat }),
            CacheRequest::Children(..) => {
                encoded(&GetChildren2Response { children: List::new(names), stat })
            }
            CacheRequest::Existence(_) => encoded(&ExistsResponse { stat }),
        };
        Ok(Ok(Reply::new(request.request().opcode(), Zxid(self.zxid), Bytes::from(body))))
    }
}

fn path(request: &CacheRequest) -> &Arc<str> {
    match request {
        CacheRequest::Watch(path)
        | CacheRequest::Data(path, _)
        | CacheRequest::Children(path, _)
        | CacheRequest::Existence(path) => path,
    }
}
