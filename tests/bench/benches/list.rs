//! Reading the list of a lock's path, with many contenders:
//! `cargo bench --bench list`.
//!
//! Instructions per name are exact where times are not. They are the count that this prints, less
//! that of a shorter list, by the difference of their lengths:
//!
//! ```sh
//! valgrind --tool=callgrind --callgrind-out-file=/dev/null --toggle-collect='*read_list*' \
//!     target/release/deps/list-* --test curator/1000
//! ```

use std::hint::black_box;
use std::task::Waker;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use uuid::Uuid;
use zk_recipes::machine::{
    AttemptConfig, Contender, Event, LockMode, Machine, OpId, Scheme, Turn, Watches,
};
use zk_recipes::session::dispatch::{Host, Input, Port, Submission};
use zk_recipes::session::proto::{
    Create2Response, Encode, GetChildrenResponse, List, OpCode, Request, SessionId, Stat, Zxid,
};
use zk_recipes::session::session::{Reply, State};
use zk_recipes::session::time::Instant;

const SESSION: SessionId = SessionId(7);
/// Scatters what would be in order.
const SCATTER: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;

fn reply(opcode: OpCode, body: &impl Encode) -> Reply {
    let mut bytes = BytesMut::new();
    body.encode(&mut bytes);
    Reply::new(opcode, Zxid(1), Bytes::from(bytes))
}

/// Keeps the numbers of requests, and nothing else.
#[derive(Debug, Default)]
struct Nowhere(Vec<OpId>);

impl Host for Nowhere {
    fn submit(&mut self, tag: u64, _: &Request<'_>, _: Submission) {
        self.0.push(OpId::of_tag(tag));
    }

    fn unwatch(&mut self, _: u64) {}

    fn unwatch_all(&mut self) {}

    fn set_timer(&mut self, _: Option<Instant>) {}

    fn settle(&mut self) {}

    fn session_id(&self) -> SessionId {
        SESSION
    }

    fn session_timeout(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn lease_has_ended(&self) -> bool {
        false
    }

    fn wake(&mut self, _: Waker) {}

    fn report(&mut self, _: Box<dyn FnOnce() + Send>) {}

    fn defer(&mut self, _: Box<dyn FnOnce() + Send>) {}
}

/// A contender, and what it needs to act.
struct Lone {
    contender: Contender,
    watches: Watches,
    events: Vec<Event>,
    host: Nowhere,
}

impl Lone {
    fn handle(&mut self, input: Input) {
        let port = Port::new(&mut self.host, Instant::START);
        let mut turn = Turn::new(port, &mut self.events, &mut self.watches);
        self.contender.handle(input, &mut turn);
    }
}

/// The last in line, which is about to read who is before it, and what it reads.
fn last_in_line(scheme: Scheme, contenders: usize) -> (Lone, Input) {
    let guid = |number: usize| Uuid::from_u128((number as u128 + 1).wrapping_mul(SCATTER));
    let name = |number: usize| {
        let node_guid = AttemptConfig::node_guid(guid(number), SESSION);
        let prefix = scheme.prefix(LockMode::Exclusive, node_guid, SESSION);
        format!("{prefix}{number:010}")
    };
    let last = contenders - 1;
    let mut names: Vec<_> = (0..contenders).map(name).collect();
    let path = format!("/locks/printer/{}", names[last]);
    // Servers list in the order of a hash table.
    names.sort_unstable_by_key(|name| {
        name.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(u32::from(byte)))
    });
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let config = AttemptConfig::new("/locks/printer".into(), scheme, guid(last));
    let (contender, watches) = (Contender::new(config), Watches::new(None));
    let host = Nowhere::default();
    let mut contender = Lone { contender, watches, events: Vec::new(), host };
    contender.handle(Input::State(State::Connected { server: 0, session: SESSION }));
    let [create, list] = contender.host.0[..] else { panic!("two requests") };
    let stat = Stat { czxid: Zxid(9), ephemeral_owner: SESSION, ..Stat::default() };
    let created = reply(OpCode::CREATE2, &Create2Response { path: &path, stat });
    contender.handle(Input::Reply { tag: create.tag(), result: Ok(created) });
    let children = GetChildrenResponse { children: List::new(&names) };
    (
        contender,
        Input::Reply { tag: list.tag(), result: Ok(reply(OpCode::GET_CHILDREN, &children)) },
    )
}

/// Has a name of its own, so that what is counted can be named.
#[inline(never)]
fn read_list(contender: &mut Lone, list: Input) {
    contender.handle(black_box(list));
}

fn main() {
    let mut criterion = Criterion::default()
        .warm_up_time(Duration::from_millis(300))
        .measurement_time(Duration::from_secs(1))
        .configure_from_args();
    for (kind, scheme) in
        [("curator", Scheme::CURATOR_MUTEX), ("private", Scheme::private("lock-", None))]
    {
        let mut group = criterion.benchmark_group(kind);
        for contenders in [10, 100, 1_000, 10_000] {
            group.throughput(Throughput::Elements(contenders as u64));
            group.bench_function(BenchmarkId::from_parameter(contenders), |bencher| {
                let made = || last_in_line(scheme, contenders);
                let read = |(mut contender, list)| {
                    read_list(&mut contender, list);
                    contender
                };
                bencher.iter_batched(made, read, BatchSize::SmallInput);
            });
        }
        group.finish();
    }
    criterion.final_summary();
}
