//! The requests that several machines submit.

use alloc::vec::Vec;
use zk_session::ServerKind;
use zk_session::sync::Arc;

use zk_session::proto::{
    CreateMode, CreateRequest, DeleteRequest, ExistsRequest, GetChildrenRequest,
    GetEphemeralsRequest, Multi, MultiOp, Request, SyncRequest,
};

use super::access::AccessList;
use super::turn::Turn;
use super::watches::{OpId, Watch, WatchKind};

/// # Writes
impl Turn<'_> {
    /// Creates a contender's node in the queue, with a sequence number.
    pub(crate) fn create_node(&mut self, prefix: &str, data: &[u8], acl: &AccessList) -> OpId {
        self.create_with_token(create(prefix, data, CreateMode::EPHEMERAL_SEQUENTIAL, acl))
    }

    /// Creates an ephemeral node with this very path.
    pub(crate) fn create_alone(&mut self, path: &str, data: &[u8], acl: &AccessList) -> OpId {
        self.create_with_token(create(path, data, CreateMode::EPHEMERAL, acl))
    }

    /// Creates a node whose fencing token [`created_node`](super::creation::created_node) finds in
    /// the reply. A Keeper may lack `create2`.
    fn create_with_token(&mut self, node: CreateRequest<'_>) -> OpId {
        self.submit(&match self.server_kind() {
            ServerKind::Keeper => Request::Create(node),
            _ => Request::Create2(node),
        })
    }

    /// Creates several nodes with sequence numbers in one transaction.
    pub(crate) fn create_nodes(
        &mut self,
        prefix: &str,
        count: u32,
        data: &[u8],
        acl: &AccessList,
    ) -> OpId {
        let one = create(prefix, data, CreateMode::EPHEMERAL_SEQUENTIAL, acl);
        let all: Vec<_> = (0..count).map(|_| MultiOp::Create(one)).collect();
        self.submit(&Request::Multi(Multi::new(&all)))
    }

    /// Creates a container, which the server deletes when it is no longer used, or a persistent
    /// node.
    pub(crate) fn create_parent(&mut self, path: &str, container: bool, acl: &AccessList) -> OpId {
        self.submit(&match container {
            true => Request::CreateContainer(create(path, &[], CreateMode::CONTAINER, acl)),
            false => Request::Create(create(path, &[], CreateMode::PERSISTENT, acl)),
        })
    }

    pub(crate) fn delete(&mut self, path: &str) -> OpId {
        self.submit(&Request::Delete(DeleteRequest { path, version: -1 }))
    }
}

/// # Reads
impl Turn<'_> {
    #[cfg(feature = "full")]
    pub(crate) fn list(&mut self, path: &str) -> OpId {
        self.submit(&Request::GetChildren(GetChildrenRequest { path, watch: false }))
    }

    /// Lists the children, however many there are. The reply may come in pieces, which a
    /// [`Listing`](super::listing::Listing) reads.
    pub(crate) fn list_in_pieces(&mut self, path: &str) -> OpId {
        self.submit_in_pieces(&Request::GetChildren(GetChildrenRequest { path, watch: false }))
    }

    /// Lists the queue of a lock in the same way. Many attempts of one client share the list.
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub(crate) fn list_queue(&mut self, path: &Arc<str>) -> OpId {
        self.list_together(path)
    }

    #[cfg(not(all(feature = "full", feature = "blocking")))]
    #[inline(always)]
    pub(crate) fn list_queue(&mut self, path: &str) -> OpId {
        self.list_in_pieces(path)
    }

    /// Lists the session's own nodes with this path prefix, if the list of all nodes is unreadable.
    pub(crate) fn list_own(&mut self, prefix: &str) -> OpId {
        let prefix_path = Some(prefix);
        self.submit(&Request::GetEphemerals(GetEphemeralsRequest { prefix_path }))
    }

    pub(crate) fn sync(&mut self, path: &str) -> OpId {
        self.submit(&Request::Sync(SyncRequest { path }))
    }

    pub(crate) fn stat(&mut self, path: &str) -> OpId {
        self.submit(&Request::Exists(ExistsRequest { path, watch: false }))
    }

    /// Watches for the deletion of a node, and for changes of the list of its children, which is the
    /// reply (`getChildren`). A node that is missing is answered by `NO_NODE`, and no watch is set.
    ///
    /// It is renewed while it stays silent, as the other watches are.
    pub fn watch(&mut self, path: impl Into<Arc<str>>) -> OpId {
        self.set_watch(Watch { path: path.into(), kind: WatchKind::End })
    }

    /// Watches for the deletion of a node, and for a change of its data, which is the reply
    /// (`getData`). A node that is missing is answered by `NO_NODE`, and no watch is set.
    pub fn watch_data(&mut self, path: impl Into<Arc<str>>) -> OpId {
        self.set_watch(Watch { path: path.into(), kind: WatchKind::Data })
    }

    /// Watches for the creation of a node, its deletion, and a change of its data. The reply has its
    /// stat (`exists`). A node that is missing is answered by `NO_NODE`, and the watch is set.
    pub fn watch_presence(&mut self, path: impl Into<Arc<str>>) -> OpId {
        self.set_watch(Watch { path: path.into(), kind: WatchKind::Presence })
    }
}

pub(crate) fn create<'a>(
    path: &'a str,
    data: &'a [u8],
    mode: CreateMode,
    acl: &'a AccessList,
) -> CreateRequest<'a> {
    CreateRequest { path, data: Some(data), acl: acl.list(), mode }
}
