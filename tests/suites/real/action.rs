//! The actions of a random script: every operation, on a few paths and by a few users, so that
//! actions interact.

use zk_proto::owned::{self, List, Multi, MultiOp, MultiReadOp, Request};
use zk_proto::{AddWatchMode, CreateMode, DigestId, OpCode, Perms, WatcherType, Zxid};

/// The number of sessions.
pub(crate) const CLIENTS: usize = 3;
pub(crate) const USERS: [&str; 2] = ["alice:wonder", "bob:builder"];
/// A user that no client authenticates as.
const OTHER_USER: &str = "carol:secret";

/// A path, below the script's own node or from the root.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    Below(&'static str),
    Root(&'static str),
}

impl Place {
    fn resolve(self, parent: &str) -> String {
        match self {
            Self::Below(path) => format!("{parent}{path}"),
            Self::Root(path) => path.into(),
        }
    }
}

/// An access control list, by its purpose.
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
        let digest = |credentials| DigestId::from_credentials(credentials).to_string();
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
            Self::Stranger => vec![acl(all, "digest", &digest(OTHER_USER)), read],
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

/// An action.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    Create(OpCode, Place, CreateMode, Access, i64),
    Delete(Place, i32),
    SetData(Place, Option<&'static [u8]>, i32),
    SetAcl(Place, Access, i32),
    Check(Place, i32),
    Read(OpCode, Place, bool),
    Watch(OpCode, Place, i32),
    /// Watches set again, with a last zxid this many transactions ago.
    SetWatches(i64, [Vec<Place>; 5], bool),
    Multi(Vec<Self>),
    MultiRead(Vec<Self>),
    Auth(&'static str, Option<&'static [u8]>),
    Sasl,
    Reconfig(i64),
    /// An operation without a body, known or unknown.
    Bare(OpCode),
    /// A new connection for the same session.
    Reconnect,
    Close,
}

impl Action {
    /// Returns the request of the action, if it has one.
    pub(crate) fn request(&self, parent: &str, last: Zxid) -> Option<Request> {
        let at = |place: &Place| place.resolve(parent);
        let strings = |places: &Vec<Place>| List::from(places.iter().map(at).collect::<Vec<_>>());
        Some(match self {
            Self::Create(OpCode::CREATE_TTL, ..) => match self.part(parent)? {
                MultiOp::CreateTtl(request) => Request::CreateTtl(request),
                _ => return None,
            },
            Self::Create(opcode, ..) => match (*opcode, self.part(parent)?) {
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
                let parts = parts.iter().filter_map(|part| part.part(parent));
                Request::Multi(Multi(parts.collect()))
            }
            Self::MultiRead(parts) => {
                let parts = parts.iter().filter_map(|part| part.read_part(parent));
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

    /// Returns the action as an operation of a multi.
    fn part(&self, parent: &str) -> Option<MultiOp> {
        let at = |place: &Place| place.resolve(parent);
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

    /// Returns the action as an operation of a multiRead.
    fn read_part(&self, parent: &str) -> Option<MultiReadOp> {
        match self {
            Self::Read(opcode, place, flag) => match read(*opcode, place.resolve(parent), *flag)? {
                Request::GetData(request) => Some(MultiReadOp::GetData(request)),
                Request::GetChildren(request) => Some(MultiReadOp::GetChildren(request)),
                _ => None,
            },
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
