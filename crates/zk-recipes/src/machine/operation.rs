//! The requests that a machine makes.

use alloc::string::String;

use bytes::Bytes;
use zk_session::proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest, Request,
    SyncRequest,
};

/// Names a request of one machine, and the watch that it asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct OpId(pub(super) u64);

/// A request that a machine wants to be made. Paths are the server's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    path: String,
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    CreateNode(Bytes),
    CreateParent { container: bool },
    Delete,
    List,
    Sync,
    Stat,
    Watch,
}

impl Operation {
    const fn new(path: String, kind: Kind) -> Self {
        Self { path, kind }
    }

    /// Puts a node into the queue; the server numbers it.
    pub(super) const fn create_node(prefix: String, data: Bytes) -> Self {
        Self::new(prefix, Kind::CreateNode(data))
    }

    /// Creates a directory, which the server removes again when it is no longer used.
    pub(super) const fn create_parent(path: String, container: bool) -> Self {
        Self::new(path, Kind::CreateParent { container })
    }

    pub(super) const fn delete(path: String) -> Self {
        Self::new(path, Kind::Delete)
    }

    pub(super) const fn list(directory: String) -> Self {
        Self::new(directory, Kind::List)
    }

    pub(super) const fn sync(directory: String) -> Self {
        Self::new(directory, Kind::Sync)
    }

    pub(super) const fn stat(path: String) -> Self {
        Self::new(path, Kind::Stat)
    }

    /// Waits for the end of a lock node.
    pub(super) const fn watch(path: String) -> Self {
        Self::new(path, Kind::Watch)
    }

    /// The node that it is about.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether the request asks for a watch.
    pub fn watches(&self) -> bool {
        self.kind == Kind::Watch
    }

    /// The request on the wire.
    pub fn request(&self) -> Request<'_> {
        const OPEN: &[Acl<'static>] = &[Acl::OPEN];
        let path = self.path.as_str();
        let create = |data, mode| CreateRequest { path, data: Some(data), acl: OPEN.into(), mode };
        match &self.kind {
            // `create2`, since the stat that it returns has the fencing token.
            Kind::CreateNode(data) => {
                Request::Create2(create(data, CreateMode::EPHEMERAL_SEQUENTIAL))
            }
            Kind::CreateParent { container: true } => {
                Request::CreateContainer(create(&[], CreateMode::CONTAINER))
            }
            Kind::CreateParent { container: false } => {
                Request::Create(create(&[], CreateMode::PERSISTENT))
            }
            Kind::Delete => Request::Delete(DeleteRequest { path, version: -1 }),
            Kind::List => Request::GetChildren(GetChildrenRequest { path, watch: false }),
            Kind::Sync => Request::Sync(SyncRequest { path }),
            Kind::Stat => Request::Exists(ExistsRequest { path, watch: false }),
            // The cheapest watch: lock nodes have no children, so the reply is empty whatever
            // data they hold; it does not fire when that changes; and unlike `exists` it leaves
            // no watch behind when the node is gone already.
            Kind::Watch => Request::GetChildren(GetChildrenRequest { path, watch: true }),
        }
    }
}
