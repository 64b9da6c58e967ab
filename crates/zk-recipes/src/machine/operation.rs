//! The requests that a machine submits.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::Bytes;
use zk_session::Error;
use zk_session::proto::{
    CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest, GetDataRequest,
    GetEphemeralsRequest, GetEphemeralsResponse, Multi, MultiOp, Request, SetDataRequest,
    SyncRequest, path,
};
use zk_session::session::Reply;

use super::AccessList;

/// The number of a request of one machine. It also identifies the watch that the request sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(pub(super) u64);

/// A machine that consists of several gives each a number: the upper half of its request numbers.
impl OpId {
    const PART: u32 = 32;

    pub(super) const fn of_part(self, part: u32) -> Self {
        Self((part as u64) << Self::PART | self.0)
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

/// A request that asks for a watch.
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
            // The cheapest watch: lock nodes have no children, so the reply is empty whatever
            // data they hold; it does not fire when that changes; and unlike `exists` it leaves
            // no watch behind when the node is gone already.
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
    #[cfg(feature = "study")]
    CreateAlone {
        data: Bytes,
        acl: AccessList,
    },
    CreateNodes {
        count: u32,
        data: Bytes,
        acl: AccessList,
    },
    CreateParent {
        container: bool,
        acl: AccessList,
    },
    CreateMaximum {
        maximum: [u8; 4],
        acl: AccessList,
    },
    Replace {
        by: String,
        data: Bytes,
        acl: AccessList,
    },
    CreateMark {
        acl: AccessList,
    },
    Touch,
    Delete,
    List,
    ListOwn,
    Sync,
    Stat,
    Watch(WatchKind),
}

impl Operation {
    fn new(path: impl Into<Arc<str>>, kind: Kind) -> Self {
        Self { path: path.into(), kind }
    }

    /// Puts a node into the queue; the server numbers it.
    pub(super) fn create_node(prefix: String, data: Bytes, acl: AccessList) -> Self {
        Self::new(prefix, Kind::CreateNode { data, acl })
    }

    /// Creates the one node of a lock without a queue.
    #[cfg(feature = "study")]
    pub(super) fn create_alone(path: Arc<str>, data: Bytes, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateAlone { data, acl })
    }

    /// Creates so many nodes that the server numbers, at once.
    pub(super) fn create_nodes(prefix: String, count: u32, data: Bytes, acl: AccessList) -> Self {
        Self::new(prefix, Kind::CreateNodes { count, data, acl })
    }

    /// Keeps the number of permits of a semaphore, as Curator's shared count does.
    pub(super) fn create_maximum(path: String, maximum: u32, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateMaximum { maximum: maximum.to_be_bytes(), acl })
    }

    /// Creates a directory, which the server removes again when it is no longer used.
    pub(super) fn create_parent(path: String, container: bool, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateParent { container, acl })
    }

    /// Puts one node of the queue in the place of another, at once.
    pub(super) fn replace(
        path: impl Into<Arc<str>>,
        by: String,
        data: Bytes,
        acl: AccessList,
    ) -> Self {
        Self::new(path, Kind::Replace { by, data, acl })
    }

    /// Creates a node that tells something by being there.
    pub(super) fn create_mark(path: String, acl: AccessList) -> Self {
        Self::new(path, Kind::CreateMark { acl })
    }

    /// Changes a node that tells something by having been changed.
    pub(super) fn touch(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Touch)
    }

    pub(super) fn delete(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Delete)
    }

    pub(super) fn list(lock_path: impl Into<Arc<str>>) -> Self {
        Self::new(lock_path, Kind::List)
    }

    /// Lists the session's own nodes whose paths begin so: for who cannot read the list of all.
    pub(super) fn list_own(prefix: impl Into<Arc<str>>) -> Self {
        Self::new(prefix, Kind::ListOwn)
    }

    pub(super) fn sync(lock_path: impl Into<Arc<str>>) -> Self {
        Self::new(lock_path, Kind::Sync)
    }

    pub(super) fn stat(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Stat)
    }

    /// Waits for the end of a lock node; or lists a directory, and waits for it to change.
    pub(super) fn watch(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::End))
    }

    /// Waits for the end of a lock node, or for other data in it.
    pub(super) fn watch_data(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::Data))
    }

    /// Waits for a node to come, or to be changed.
    pub(super) fn watch_presence(path: impl Into<Arc<str>>) -> Self {
        Self::new(path, Kind::Watch(WatchKind::Presence))
    }

    /// The node that it is about.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the request for a watch, to be made again, if it is one.
    pub(super) fn watch_request(&self) -> Option<Watch> {
        match self.kind {
            Kind::Watch(kind) => Some(Watch { path: self.path.clone(), kind }),
            _ => None,
        }
    }

    /// Whether the request asks for a watch.
    pub fn watches(&self) -> bool {
        matches!(self.kind, Kind::Watch(_))
    }

    #[cfg(feature = "study")]
    pub(super) const fn is_deletion(&self) -> bool {
        matches!(self.kind, Kind::Delete)
    }

    /// Has `send` make the request.
    pub fn with_request<R>(&self, send: impl FnOnce(&Request<'_>) -> R) -> R {
        let path = &*self.path;
        let create = |data, mode, acl| CreateRequest { path, data: Some(data), acl, mode };
        let request = match &self.kind {
            // `create2`, since the stat that it returns has the fencing token.
            Kind::CreateNode { data, acl } => {
                Request::Create2(create(data, CreateMode::EPHEMERAL_SEQUENTIAL, acl.list()))
            }
            #[cfg(feature = "study")]
            Kind::CreateAlone { data, acl } => {
                Request::Create2(create(data, CreateMode::EPHEMERAL, acl.list()))
            }
            Kind::CreateNodes { count, data, acl } => {
                let one = create(data, CreateMode::EPHEMERAL_SEQUENTIAL, acl.list());
                let all: Vec<_> = (0..*count).map(|_| MultiOp::Create(one)).collect();
                return send(&Request::Multi(Multi::new(&all)));
            }
            Kind::CreateMaximum { maximum, acl } => {
                Request::Create(create(maximum, CreateMode::PERSISTENT, acl.list()))
            }
            Kind::CreateMark { acl } => {
                Request::Create(create(&[], CreateMode::PERSISTENT, acl.list()))
            }
            Kind::CreateParent { container: true, acl } => {
                Request::CreateContainer(create(&[], CreateMode::CONTAINER, acl.list()))
            }
            Kind::CreateParent { container: false, acl } => {
                Request::Create(create(&[], CreateMode::PERSISTENT, acl.list()))
            }
            Kind::Replace { by, data, acl } => {
                let mode = CreateMode::EPHEMERAL;
                let new = CreateRequest { path: by, data: Some(data), acl: acl.list(), mode };
                let old = DeleteRequest { path, version: -1 };
                let both = [MultiOp::Create(new), MultiOp::Delete(old)];
                return send(&Request::Multi(Multi::new(&both)));
            }
            Kind::Touch => Request::SetData(SetDataRequest { path, data: Some(&[]), version: -1 }),
            Kind::Delete => Request::Delete(DeleteRequest { path, version: -1 }),
            Kind::List => Request::GetChildren(GetChildrenRequest { path, watch: false }),
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

/// The names of the nodes in `directory` that [`Operation::list_own`] has found.
pub(super) fn own_names<'r>(lock_path: &str, reply: &'r Reply) -> Result<Vec<&'r str>, Error> {
    let nodes = reply.decode::<GetEphemeralsResponse<'r>>()?.ephemerals;
    let is_here = |node: &&str| path::parent(node) == Some(lock_path);
    Ok(nodes.iter().filter(is_here).filter_map(|node| node.rsplit('/').next()).collect())
}
