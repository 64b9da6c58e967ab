//! Random scripts: which actions are likely, on which paths, with which lists.

use proptest::prelude::*;
use proptest::sample::select;
use zk_proto::{CreateMode, OpCode};

use crate::action::{Access, Action, CLIENTS, Place, USERS};

/// Returns a strategy for scripts of actions and their clients. Scripts shrink to fewer steps, but
/// are rarely generated with fewer.
pub(crate) fn script(steps: usize) -> impl Strategy<Value = Vec<(usize, Action)>> {
    let step = prop_oneof![
        1 => Just(None),
        1_000_000 => (0..CLIENTS, action()).prop_map(Some),
    ];
    prop::collection::vec(step, steps).prop_map(|steps| steps.into_iter().flatten().collect())
}

fn action() -> impl Strategy<Value = Action> {
    let parts = prop::collection::vec(part(), 0..4).prop_map(Action::Multi);
    let reads = prop::collection::vec(read_part(), 0..4);
    let writes = prop::collection::vec(part(), 0..3);
    let mixed = (reads, writes, 0..8).prop_map(|(reads, writes, invalid)| match invalid {
        0 => Action::Multi(reads),
        _ if writes.is_empty() || invalid > 1 => Action::MultiRead(reads),
        _ => Action::MultiRead(writes),
    });
    prop_oneof![
        18 => part(),
        3 => (writable(), access(), version()).prop_map(|(p, a, v)| Action::SetAcl(p, a, v)),
        14 => reading(),
        8 => watching(),
        3 => setting_watches(),
        4 => parts,
        2 => mixed,
        2 => select(&USERS[..]).prop_map(|user| Action::Auth("digest", Some(user.as_bytes()))),
        3 => invalid(),
    ]
}

fn invalid() -> impl Strategy<Value = Action> {
    let opcodes = vec![OpCode::PING, OpCode::WHO_AM_I, OpCode::WHO_AM_I, OpCode(999), OpCode(-1)];
    let auths = vec![
        ("ip", Some(&b"any"[..])),
        ("sasl", Some(b"")),
        ("world", Some(b"anyone")),
        ("digest", None),
    ];
    prop_oneof![
        3 => Just(Action::Reconnect),
        2 => Just(Action::Close),
        5 => select(opcodes).prop_map(Action::Bare),
        1 => select(auths).prop_map(|(scheme, auth)| Action::Auth(scheme, auth)),
        1 => Just(Action::Sasl),
        1 => (-1..2i64).prop_map(Action::Reconfig),
    ]
}

/// Returns actions that can also be operations of a multi.
fn part() -> impl Strategy<Value = Action> {
    let data = select(vec![None, Some(&b""[..]), Some(b"changed")]);
    prop_oneof![
        5 => creation(),
        2 => (writable(), version()).prop_map(|(place, version)| Action::Delete(place, version)),
        3 => (writable(), data, version()).prop_map(|(p, d, v)| Action::SetData(p, d, v)),
        1 => (writable(), version()).prop_map(|(place, version)| Action::Check(place, version)),
    ]
}

fn creation() -> impl Strategy<Value = Action> {
    let plain = select(vec![OpCode::CREATE, OpCode::CREATE2]);
    let any = select(vec![OpCode::CREATE, OpCode::CREATE2, OpCode::CREATE_CONTAINER]);
    let modes = (0..4i32).prop_map(CreateMode);
    let ttls = select(vec![-2, 0, 1, 3_600_000, 0xff_ffff_ffff, 0x100_0000_0000i64]);
    let long = select(vec![3_600_000, 0xff_ffff_ffffi64]);
    let create =
        |(opcode, place, mode, access, ttl)| Action::Create(opcode, place, mode, access, ttl);
    prop_oneof![
        12 => (plain, writable(), modes, access(), Just(-1)).prop_map(create),
        3 => (any, writable(), (-1..8i32).prop_map(CreateMode), access(), Just(-1))
            .prop_map(create),
        2 => (Just(OpCode::CREATE_CONTAINER), writable(), Just(CreateMode::CONTAINER), access(),
            Just(-1)).prop_map(create),
        2 => (Just(OpCode::CREATE_TTL), writable(), (5..7i32).prop_map(CreateMode), access(), long)
            .prop_map(create),
        1 => (Just(OpCode::CREATE_TTL), writable(), (5..8i32).prop_map(CreateMode), access(), ttls)
            .prop_map(create),
    ]
}

fn read_part() -> impl Strategy<Value = Action> {
    let opcodes = select(vec![OpCode::GET_DATA, OpCode::GET_CHILDREN]);
    (opcodes, readable(), any::<bool>()).prop_map(|(o, p, watch)| Action::Read(o, p, watch))
}

fn reading() -> impl Strategy<Value = Action> {
    let opcodes = select(vec![
        OpCode::EXISTS,
        OpCode::EXISTS,
        OpCode::GET_DATA,
        OpCode::GET_DATA,
        OpCode::GET_CHILDREN,
        OpCode::GET_CHILDREN2,
        OpCode::GET_ACL,
        OpCode::SYNC,
        OpCode::GET_ALL_CHILDREN_NUMBER,
        OpCode::GET_EPHEMERALS,
        OpCode::DELETE_CONTAINER,
    ]);
    (opcodes, readable(), any::<bool>()).prop_map(|(o, p, watch)| Action::Read(o, p, watch))
}

fn watching() -> impl Strategy<Value = Action> {
    let add = (Just(OpCode::ADD_WATCH), prop_oneof![9 => 0..2i32, 1 => -1..3i32]);
    let other = select(vec![OpCode::CHECK_WATCHES, OpCode::REMOVE_WATCHES]);
    let how = prop_oneof![3 => add, 2 => (other, 0..7i32)];
    (how, readable()).prop_map(|((opcode, number), place)| Action::Watch(opcode, place, number))
}

fn setting_watches() -> impl Strategy<Value = Action> {
    let places = || prop::collection::vec(readable(), 0..3);
    let lists = [places(), places(), places(), places(), places()];
    (0..20i64, lists, any::<bool>())
        .prop_map(|(since, lists, second)| Action::SetWatches(since, lists, second))
}

/// Returns places below the script's own node. Changes at the root would disturb other scripts.
fn writable() -> impl Strategy<Value = Place> {
    let usual = vec!["/a", "/a", "/a", "/b", "/b", "/a/x", "/a/x"];
    let deeper = vec!["/a/x/y", "/a/y", "/b/s-", "/a/", "/b/"];
    let numbered = vec!["/a/0000000000", "/a/0000000001", "/b/s-0000000000", "/b/s-0000000001"];
    let invalid = vec!["", "/a//x", "/a/.", "/a/\0", "/\u{7f}", "/ü漢", "/missing/x"];
    let below = |paths: Vec<&'static str>| select(paths).prop_map(Place::Below);
    prop_oneof![14 => below(usual), 4 => below(deeper), 1 => below(numbered), 1 => below(invalid)]
}

fn readable() -> impl Strategy<Value = Place> {
    let roots = vec!["/", "", "/zookeeper", "/zookeeper/config", "/missing"];
    prop_oneof![
        14 => writable(),
        2 => Just(Place::Below("")),
        1 => select(roots).prop_map(Place::Root),
    ]
}

fn version() -> impl Strategy<Value = i32> {
    prop_oneof![5 => Just(-1), 2 => 0..3i32]
}

fn access() -> impl Strategy<Value = Access> {
    let invalid = vec![
        Access::Empty,
        Access::Odd("world", Some("someone")),
        Access::Odd("world", None),
        Access::Odd("digest", Some("user")),
        Access::Odd("digest", Some("user:")),
        Access::Odd("digest", Some(":hash")),
        Access::Odd("digest", Some("a:b:")),
        Access::Odd("digest", Some("a:b:c")),
        Access::Odd("digest", None),
        Access::Odd("ip", Some("127.0.0.1/33")),
        Access::Odd("ip", Some("127.0.0")),
        Access::Odd("ip", Some("::1")),
        Access::Odd("ip", Some("0.0.0.0/0")),
        Access::Odd("ip", None),
        Access::Odd("auth", None),
        Access::Odd("sasl", Some("user")),
        Access::Odd("unknown", None),
    ];
    let useful = vec![
        Access::ReadOnly,
        Access::Creator,
        Access::Alice,
        Access::BobAndReaders,
        Access::Stranger,
        Access::ThisMachine,
        Access::ElsewhereAndCreate,
    ];
    prop_oneof![
        12 => Just(Access::Open),
        8 => select(useful),
        1 => select(invalid),
    ]
}
