//! The requests that a machine submits.

use alloc::string::String;
#[cfg(feature = "full")]
use alloc::vec::Vec;
use zk_session::sync::Arc;

use bytes::Bytes;
#[cfg(feature = "full")]
use zk_session::proto::{CheckVersionRequest, SetDataRequest};
use zk_session::proto::{
    CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest, GetDataRequest,
    GetEphemeralsRequest, Request, SyncRequest,
};
#[cfg(feature = "full")]
use zk_session::proto::{Multi, MultiOp};

use super::AccessList;

/// The number of a request of one machine. It also identifies the watch that the request sets.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(super) u64);

/// A machine that consists of several gives each a number: the upper half of its request numbers.
impl OpId {
    const PART: u32 = 32;

    pub(super) const fn of_part(self, part: u32) -> Self {
        Self(((part as u64) << Self::PART) + self.0)
    }

    /// Undoes [`of_part`](Self::of_part). `None` for a request of an earlier part.
    pub(super) const fn since_part(self, part: u32) -> Option<Self> {
        match self.0.checked_sub((part as u64) << Self::PART) {
            Some(op) => Some(Self(op)),
            None => None,
        }
    }

    /// Returns the sub-machine whose request it is, and its number there.
    pub(super) const fn split(self) -> (u32, Self) {
        ((self.0 >> Self::PART) as u32, Self(self.0 & u32::MAX as u64))
    }
}

/// A request that a machine submits. Paths are those of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    path: Arc<str>,
    kind: Kind,
}

/// A request that sets a watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Watch {
    path: Arc<str>,
    kind: WatchKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchKind {
    End,
    Data,
    Presence,
}

impl Watch {
    pub(super) fn request(&self) -> Request<'_> {
        self.kind.request(&self.path)
    }
}

impl WatchKind {
    fn request(self, path: &str) -> Request<'_> {
        match self {
            // `getChildren` is the cheapest watch. Lock nodes have no children, so the reply is
            // empty, whatever their data is. It does not fire when the data changes. Unlike
            // `exists`, it leaves no watch if the node is gone.
            Self::End => Request::GetChildren(GetChildrenRequest { path, watch: true }),
            Self::Data => Request::GetData(GetDataRequest { path, watch: true }),
            Self::Presence => Request::Exists(ExistsRequest { path, watch: true }),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    CreateNode {
        data: Bytes,
        acl: AccessList,
    },
    CreateAlone {
        data: Bytes,
        acl: AccessList,
    },
    #[cfg(feature = "full")]
    CreateNodes {
        count: u32,
        data: Bytes,
        acl: AccessList,
    },
    CreateParent {
        container: bool,
        acl: AccessList,
    },
    #[cfg(feature = "full")]
    CreateMaximum {
        maximum: [u8; 4],
        acl: AccessList,
    },
    #[cfg(feature = "full")]
    Replace {
        by: String,
        data: Bytes,
        acl: AccessList,
    },
    #[cfg(feature = "full")]
    Announce {
        present: Vec<String>,
        acl: Option<AccessList>,
    },
    #[cfg(feature = "full")]
    Retract {
        version: i32,
        present: String,
    },
    Delete,
    List,
    ListInPieces,
    ListOwn,
    Sync,
    Stat,
    Watch(WatchKind),
}

impl Operation {
    fn new(path: impl Into<Arc<str>>, kind: Kind) -> Self {
        Self { path: path.into(), kind }
    }

    /// Creates a contender's node in the queue, with a sequence number.
    pub(super) fn create_node(prefix: String, data: Bytes, acl: AccessList) -> Self {
        Self::new(prefix, Kind::CreateNode { data, acl })
    }

    /// Creates an ephemeral node with this very path.
    pub(super) fn create_alone(path: Arc<str>, data: Bytes, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateAlone { data, acl })
    }

    /// Creates several nodes with sequence numbers in one transaction.
    #[cfg(feature = "full")]
    pub(super) fn create_nodes(prefix: String, count: u32, data: Bytes, acl: AccessList) -> Self {
        Self::new(prefix, Kind::CreateNodes { count, data, acl })
    }

    /// Creates the node with the number of permits, in the format of Curator's `SharedCount`.
    #[cfg(feature = "full")]
    pub(super) fn create_maximum(path: String, maximum: u32, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateMaximum { maximum: maximum.to_be_bytes(), acl })
    }

    /// Creates a container, which the server deletes when it is no longer used, or a persistent
    /// node.
    pub(super) fn create_parent(path: String, container: bool, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateParent { container, acl })
    }

    /// Replaces one lock node by another in one transaction.
    #[cfg(feature = "full")]
    pub(super) fn replace(
        path: impl Into<Arc<str>>,
        by: String,
        data: Bytes,
        acl: AccessList,
    ) -> Self {
        Self::new(path, Kind::Replace { by, data, acl })
    }

    /// Creates `path` with `acl`, or sets its data if `acl` is `None`, in one transaction that checks
    /// that all of `present` exist.
    #[cfg(feature = "full")]
    pub(super) fn announce(path: String, present: Vec<String>, acl: Option<AccessList>) -> Self {
        Self::new(path, Kind::Announce { present, acl })
    }

    /// Deletes `path` if it has this version, in one transaction that checks that `present` exists.
    #[cfg(feature = "full")]
    pub(super) fn retract(path: String, version: i32, present: String) -> Self {
        Self::new(path, Kind::Retract { version, present })
    }

    pub(super) fn delete(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Delete)
    }

    pub(super) fn list(lock_path: impl Into<Arc<str>>) -> Self {
        Self::new(lock_path, Kind::List)
    }

    /// Lists the children, however many there are. The reply may [come in
    /// pieces](Self::comes_in_pieces), which a [`Listing`](super::listing::Listing) reads.
    pub(super) fn list_in_pieces(lock_path: impl Into<Arc<str>>) -> Self {
        Self::new(lock_path, Kind::ListInPieces)
    }

    /// Lists the session's own nodes with this path prefix, if the list of all nodes is unreadable.
    pub(super) fn list_own(prefix: impl Into<Arc<str>>) -> Self {
        Self::new(prefix, Kind::ListOwn)
    }

    pub(super) fn sync(lock_path: impl Into<Arc<str>>) -> Self {
        Self::new(lock_path, Kind::Sync)
    }

    pub(super) fn stat(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Stat)
    }

    /// Watches for the deletion of a lock node, or for changes of the list of children.
    pub(super) fn watch(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::End))
    }

    /// Watches for the deletion of a lock node, or for a change of its data.
    pub(super) fn watch_data(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::Data))
    }

    /// Watches for the creation of a node, or for a change.
    pub(super) fn watch_presence(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::Presence))
    }

    /// Returns the path of the node that the request concerns.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the request that renews the watch. `None` if this request sets none.
    pub(super) fn watch_request(&self) -> Option<Watch> {
        match self.kind {
            Kind::Watch(kind) => Some(Watch { path: self.path.clone(), kind }),
            _ => None,
        }
    }

    /// Returns whether the request sets a watch.
    pub fn watches(&self) -> bool {
        matches!(self.kind, Kind::Watch(_))
    }

    /// Returns whether the reply may come in pieces: submit the request by
    /// [`Port::submit_in_pieces`](zk_session::dispatch::Port::submit_in_pieces).
    pub const fn comes_in_pieces(&self) -> bool {
        matches!(self.kind, Kind::ListInPieces)
    }

    #[cfg(feature = "study")]
    pub(super) const fn is_deletion(&self) -> bool {
        matches!(self.kind, Kind::Delete)
    }

    /// Calls `send` with the request.
    pub fn with_request<R>(&self, send: impl FnOnce(&Request<'_>) -> R) -> R {
        let path = &*self.path;
        let create = |data, mode, acl| CreateRequest { path, data: Some(data), acl, mode };
        let request = match &self.kind {
            // `create2` returns the stat, which contains the fencing token.
            Kind::CreateNode { data, acl } => {
                Request::Create2(create(data, CreateMode::EPHEMERAL_SEQUENTIAL, acl.list()))
            }
            Kind::CreateAlone { data, acl } => {
                Request::Create2(create(data, CreateMode::EPHEMERAL, acl.list()))
            }
            #[cfg(feature = "full")]
            Kind::CreateNodes { count, data, acl } => {
                let one = create(data, CreateMode::EPHEMERAL_SEQUENTIAL, acl.list());
                let all: Vec<_> = (0..*count).map(|_| MultiOp::Create(one)).collect();
                return send(&Request::Multi(Multi::new(&all)));
            }
            #[cfg(feature = "full")]
            Kind::CreateMaximum { maximum, acl } => {
                Request::Create(create(maximum, CreateMode::PERSISTENT, acl.list()))
            }
            #[cfg(feature = "full")]
            Kind::Announce { present, acl } => {
                let change = match acl {
                    Some(acl) => MultiOp::Create(create(&[], CreateMode::PERSISTENT, acl.list())),
                    None => MultiOp::SetData(SetDataRequest { path, data: Some(&[]), version: -1 }),
                };
                let checks = present.iter().map(|path| check_presence(path));
                let all: Vec<_> = checks.chain([change]).collect();
                return send(&Request::Multi(Multi::new(&all)));
            }
            #[cfg(feature = "full")]
            Kind::Retract { version, present } => {
                let deletion = MultiOp::Delete(DeleteRequest { path, version: *version });
                return send(&Request::Multi(Multi::new(&[check_presence(present), deletion])));
            }
            Kind::CreateParent { container: true, acl } => {
                Request::CreateContainer(create(&[], CreateMode::CONTAINER, acl.list()))
            }
            Kind::CreateParent { container: false, acl } => {
                Request::Create(create(&[], CreateMode::PERSISTENT, acl.list()))
            }
            #[cfg(feature = "full")]
            Kind::Replace { by, data, acl } => {
                let mode = CreateMode::EPHEMERAL;
                let new = CreateRequest { path: by, data: Some(data), acl: acl.list(), mode };
                let old = DeleteRequest { path, version: -1 };
                let both = [MultiOp::Create(new), MultiOp::Delete(old)];
                return send(&Request::Multi(Multi::new(&both)));
            }
            Kind::Delete => Request::Delete(DeleteRequest { path, version: -1 }),
            Kind::List | Kind::ListInPieces => {
                Request::GetChildren(GetChildrenRequest { path, watch: false })
            }
            Kind::ListOwn => {
                Request::GetEphemerals(GetEphemeralsRequest { prefix_path: Some(path) })
            }
            Kind::Sync => Request::Sync(SyncRequest { path }),
            Kind::Stat => Request::Exists(ExistsRequest { path, watch: false }),
            Kind::Watch(kind) => kind.request(path),
        };
        send(&request)
    }
}

#[cfg(feature = "full")]
fn check_presence(path: &str) -> MultiOp<'_> {
    MultiOp::Check(CheckVersionRequest { path, version: -1 })
}
