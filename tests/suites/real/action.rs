//! What a client may do in a script that is made up by chance: every operation, within a few paths
//! and users, so that actions meet each other.

use proptest::prelude::*;
use proptest::sample::select;
use zk_proto::owned::{self, List, Multi, MultiOp, MultiReadOp, Request};
use zk_proto::{AddWatchMode, CreateMode, DigestId, OpCode, Perms, WatcherType, Zxid};

/// Who acts: so many sessions there are.
pub(crate) const CLIENTS: usize = 3;
const USERS: [&str; 2] = ["alice:wonder", "bob:builder"];
/// Nobody proves to be this one.
const STRANGER: &str = "carol:secret";

/// A path, in the directory of the script or from the root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Below(&'static str),
    Root(&'static str),
}

impl Place {
    fn resolve(self, directory: &str) -> String {
        match self {
            Self::Below(path) => format!("{directory}{path}"),
            Self::Root(path) => path.into(),
        }
    }
}

/// An access control list, by what it is good for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    Open,
    ReadOnly,
    Creator,
    Alice,
    BobAndReaders,
    Stranger,
    ThisMachine,
    ElsewhereAndCreate,
    Odd(&'static str, Option<&'static str>),
    Empty,
}

impl Access {
    fn list(self) -> List<owned::Acl> {
        let digest = |credentials| DigestId::of(credentials).to_string();
        let acl = |perms, scheme: &str, id: &str| owned::Acl {
            perms,
            id: owned::Id { scheme: scheme.into(), id: Some(id.into()) },
        };
        let all = Perms::ALL;
        let read = acl(Perms::READ, "world", "anyone");
        List::from(match self {
            Self::Open => vec![acl(all, "world", "anyone")],
            Self::ReadOnly => vec![read.clone(), read],
            Self::Creator => vec![acl(all, "auth", ""), read],
            Self::Alice => vec![acl(all, "digest", &digest(USERS[0]))],
            Self::BobAndReaders => {
                vec![acl(Perms::WRITE | Perms::ADMIN, "digest", &digest(USERS[1])), read]
            }
            Self::Stranger => vec![acl(all, "digest", &digest(STRANGER)), read],
            Self::ThisMachine => vec![acl(all, "ip", "127.0.0.0/8")],
            Self::ElsewhereAndCreate => vec![
                acl(all, "ip", "10.1.2.3"),
                acl(Perms::CREATE | Perms::DELETE, "world", "anyone"),
            ],
            Self::Odd(scheme, id) => vec![owned::Acl {
                perms: all,
                id: owned::Id { scheme: scheme.into(), id: id.map(Into::into) },
            }],
            Self::Empty => vec![],
        })
    }
}

/// One thing to do.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(OpCode, Place, CreateMode, Access, i64),
    Delete(Place, i32),
    SetData(Place, Option<&'static [u8]>, i32),
    SetAcl(Place, Access, i32),
    Check(Place, i32),
    Read(OpCode, Place, bool),
    Watch(OpCode, Place, i32),
    /// Watches set again, as if since so many transactions.
    SetWatches(i64, [Vec<Place>; 5], bool),
    Multi(Vec<Self>),
    MultiRead(Vec<Self>),
    Auth(&'static str, Option<&'static [u8]>),
    Sasl,
    Reconfig(i64),
    /// An operation without a body, known or not.
    Bare(OpCode),
    /// A new connection for the same session.
    Reconnect,
    Close,
}

impl Action {
    /// The operation and what is sent for it.
    pub(crate) fn request(&self, directory: &str, last: Zxid) -> Option<Request> {
        let at = |place: &Place| place.resolve(directory);
        let strings = |places: &Vec<Place>| List::from(places.iter().map(at).collect::<Vec<_>>());
        Some(match self {
            Self::Create(OpCode::CREATE_TTL, ..) => match self.part(directory)? {
                MultiOp::CreateTtl(request) => Request::CreateTtl(request),
                _ => return None,
            },
            Self::Create(opcode, ..) => match (*opcode, self.part(directory)?) {
                (OpCode::CREATE, MultiOp::Create(request)) => Request::Create(request),
                (OpCode::CREATE2, MultiOp::Create2(request)) => Request::Create2(request),
                (_, MultiOp::CreateContainer(request)) => Request::CreateContainer(request),
                _ => return None,
            },
            Self::Delete(place, version) => {
                Request::Delete(owned::DeleteRequest { path: at(place), version: *version })
            }
            Self::SetData(place, data, version) => Request::SetData(owned::SetDataRequest {
                path: at(place),
                data: data.map(Into::into),
                version: *version,
            }),
            Self::SetAcl(place, access, version) => Request::SetAcl(owned::SetAclRequest {
                path: at(place),
                acl: access.list(),
                version: *version,
            }),
            Self::Check(place, version) => {
                Request::Check(owned::CheckVersionRequest { path: at(place), version: *version })
            }
            Self::Read(opcode, place, watch) => read(*opcode, at(place), *watch)?,
            Self::Watch(opcode, place, number) => watch(*opcode, at(place), *number)?,
            Self::SetWatches(since, [data, exist, child, ..], false) => {
                Request::SetWatches(owned::SetWatches {
                    relative_zxid: Zxid(last.0 - since),
                    data_watches: strings(data),
                    exist_watches: strings(exist),
                    child_watches: strings(child),
                })
            }
            Self::SetWatches(since, [data, exist, child, persistent, recursive], true) => {
                Request::SetWatches2(owned::SetWatches2 {
                    relative_zxid: Zxid(last.0 - since),
                    data_watches: strings(data),
                    exist_watches: strings(exist),
                    child_watches: strings(child),
                    persistent_watches: strings(persistent),
                    persistent_recursive_watches: strings(recursive),
                })
            }
            Self::Multi(parts) => {
                let parts = parts.iter().filter_map(|part| part.part(directory));
                Request::Multi(Multi(parts.collect()))
            }
            Self::MultiRead(parts) => {
                let parts = parts.iter().filter_map(|part| part.read_part(directory));
                Request::MultiRead(Multi(parts.collect()))
            }
            Self::Auth(scheme, auth) => Request::Auth(owned::AuthPacket {
                auth_type: 0,
                scheme: (*scheme).into(),
                auth: auth.map(Into::into),
            }),
            Self::Sasl => Request::Sasl(owned::GetSaslRequest { token: Some(Vec::new()) }),
            Self::Reconfig(version) => Request::Reconfig(owned::ReconfigRequest {
                joining_servers: None,
                leaving_servers: Some("2".into()),
                new_members: None,
                cur_config_id: *version,
            }),
            Self::Close => Request::CloseSession(()),
            Self::Bare(_) | Self::Reconnect => return None,
        })
    }

    /// As a part of a multi.
    fn part(&self, directory: &str) -> Option<MultiOp> {
        let at = |place: &Place| place.resolve(directory);
        Some(match self {
            Self::Create(OpCode::CREATE_TTL, place, mode, access, ttl) => {
                MultiOp::CreateTtl(owned::CreateTtlRequest {
                    path: at(place),
                    data: Some(b"data".into()),
                    acl: access.list(),
                    mode: *mode,
                    ttl: *ttl,
                })
            }
            Self::Create(opcode, place, mode, access, _) => {
                let (path, acl, mode) = (at(place), access.list(), *mode);
                let request = owned::CreateRequest { path, data: Some(b"data".into()), acl, mode };
                match *opcode {
                    OpCode::CREATE => MultiOp::Create(request),
                    OpCode::CREATE2 => MultiOp::Create2(request),
                    _ => MultiOp::CreateContainer(request),
                }
            }
            Self::Delete(place, version) => {
                MultiOp::Delete(owned::DeleteRequest { path: at(place), version: *version })
            }
            Self::SetData(place, data, version) => MultiOp::SetData(owned::SetDataRequest {
                path: at(place),
                data: data.map(Into::into),
                version: *version,
            }),
            Self::Check(place, version) => {
                MultiOp::Check(owned::CheckVersionRequest { path: at(place), version: *version })
            }
            _ => return None,
        })
    }

    /// As a part of a multiRead.
    fn read_part(&self, directory: &str) -> Option<MultiReadOp> {
        match self {
            Self::Read(opcode, place, flag) => {
                match read(*opcode, place.resolve(directory), *flag)? {
                    Request::GetData(request) => Some(MultiReadOp::GetData(request)),
                    Request::GetChildren(request) => Some(MultiReadOp::GetChildren(request)),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn read(opcode: OpCode, path: String, watch: bool) -> Option<Request> {
    Some(match opcode {
        OpCode::EXISTS => Request::Exists(owned::ExistsRequest { path, watch }),
        OpCode::GET_DATA => Request::GetData(owned::GetDataRequest { path, watch }),
        OpCode::GET_CHILDREN => Request::GetChildren(owned::GetChildrenRequest { path, watch }),
        OpCode::GET_CHILDREN2 => Request::GetChildren2(owned::GetChildrenRequest { path, watch }),
        OpCode::GET_ACL => Request::GetAcl(owned::GetAclRequest { path }),
        OpCode::SYNC => Request::Sync(owned::SyncRequest { path }),
        OpCode::GET_ALL_CHILDREN_NUMBER => {
            Request::GetAllChildrenNumber(owned::GetAllChildrenNumberRequest { path })
        }
        OpCode::GET_EPHEMERALS => {
            Request::GetEphemerals(owned::GetEphemeralsRequest { prefix_path: Some(path) })
        }
        OpCode::DELETE_CONTAINER => {
            Request::DeleteContainer(owned::DeleteContainerRequest { path })
        }
        _ => return None,
    })
}

fn watch(opcode: OpCode, path: String, number: i32) -> Option<Request> {
    let watcher_type = WatcherType(number);
    Some(match opcode {
        OpCode::ADD_WATCH => {
            Request::AddWatch(owned::AddWatchRequest { path, mode: AddWatchMode(number) })
        }
        OpCode::CHECK_WATCHES => {
            Request::CheckWatches(owned::CheckWatchesRequest { path, watcher_type })
        }
        OpCode::REMOVE_WATCHES => {
            Request::RemoveWatches(owned::RemoveWatchesRequest { path, watcher_type })
        }
        _ => return None,
    })
}

/// A script: who does what. It shrinks to fewer steps, but is hardly ever made up with fewer.
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
    let mixed = (reads, writes, 0..8).prop_map(|(reads, writes, odd)| match odd {
        0 => Action::Multi(reads),
        _ if writes.is_empty() || odd > 1 => Action::MultiRead(reads),
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
        3 => odd(),
    ]
}

fn odd() -> impl Strategy<Value = Action> {
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

/// What can stand in a multi too.
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

/// Nodes of the script: what is changed at the root would be seen by other scripts.
fn writable() -> impl Strategy<Value = Place> {
    let usual = vec!["/a", "/a", "/a", "/b", "/b", "/a/x", "/a/x"];
    let deeper = vec!["/a/x/y", "/a/y", "/b/s-", "/a/", "/b/"];
    let numbered = vec!["/a/0000000000", "/a/0000000001", "/b/s-0000000000", "/b/s-0000000001"];
    let odd = vec!["", "/a//x", "/a/.", "/a/\0", "/\u{7f}", "/ü漢", "/missing/x"];
    let below = |paths: Vec<&'static str>| select(paths).prop_map(Place::Below);
    prop_oneof![14 => below(usual), 4 => below(deeper), 1 => below(numbered), 1 => below(odd)]
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
    let odd = vec![
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
        1 => select(odd),
    ]
}
