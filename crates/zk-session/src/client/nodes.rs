//! Nodes that come and go.

use alloc::string::String;
use core::future::Future;

use zk_proto::{Acl, NodeKind, Stat};

use super::{Answer, Client, Watch};
use crate::error::RequestError;
use crate::face::operations;

/// # Nodes
impl Client {
    /// Creates a node that is open to everybody. Returns its path, with a sequence number if the
    /// kind is sequential, and its stat.
    ///
    /// [`NodeKind`] says how long the node lives: until it is deleted, until the session ends, as a
    /// container until some time after its last child is deleted, or for a time to live.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.5, and for a time
    /// to live from one that does not allow it (`extendedTypesEnabled`);
    /// [`NODE_EXISTS`](zk_proto::ErrorCode::NODE_EXISTS); [`NO_NODE`](zk_proto::ErrorCode::NO_NODE)
    /// when the parent is missing;
    /// [`NO_CHILDREN_FOR_EPHEMERALS`](zk_proto::ErrorCode::NO_CHILDREN_FOR_EPHEMERALS). After
    /// [`Error::ConnectionLost`](crate::Error::ConnectionLost) the node may exist; a sequential one
    /// is then only found by a name that nobody else uses.
    pub fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Answer<(String, Stat)> {
        self.create_with_acl(path, data, kind, &[Acl::OPEN])
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Answer<(String, Stat)> {
        Answer::of(operations::create(self, path, data, kind, acl))
    }

    /// Deletes a node, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`NOT_EMPTY`](zk_proto::ErrorCode::NOT_EMPTY).
    pub fn delete(&self, path: &str, version: Option<i32>) -> Answer<()> {
        Answer::of(operations::delete(self, path, version))
    }

    /// A node's stat, or `None` if there is no such node.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn exists(&self, path: &str) -> Answer<Option<Stat>> {
        Answer::of(operations::exists(self, path))
    }

    /// As [`exists`](Self::exists), with a watch that fires when the node is created, changed or
    /// deleted.
    ///
    /// # Errors
    ///
    /// As [`exists`](Self::exists). No watch is left then, nor when the future is dropped.
    pub fn exists_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Stat>, Watch), RequestError>> + Send + use<> {
        let asked = operations::exists_and_watch(self, path);
        async move {
            let (answer, watch) = asked?;
            Ok((answer.await?, watch))
        }
    }
}
