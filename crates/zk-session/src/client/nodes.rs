//! Nodes: create, delete, exists.

use alloc::string::String;

use zk_proto::{Acl, DeleteRequest, NodeKind, OpCode, Request, Stat};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, Watch, any_version, decode};

/// # Nodes
impl<D: Driver> Client<D> {
    /// Creates a node with the ACL "world:anyone", all permissions. Returns its path and its
    /// stat. The path of a sequential node ends with its sequence number.
    ///
    /// [`NodeKind`] decides how long the node lives: until it is deleted, until the session
    /// ends, or for a time to live. A container lives until some time after its last child is
    /// deleted.
    ///
    /// # Errors
    ///
    /// - [`NODE_EXISTS`](zk_proto::ErrorCode::NODE_EXISTS).
    /// - [`NO_NODE`](zk_proto::ErrorCode::NO_NODE): the parent does not exist.
    /// - [`NO_CHILDREN_FOR_EPHEMERALS`](zk_proto::ErrorCode::NO_CHILDREN_FOR_EPHEMERALS).
    /// - [`Error::Unsupported`](crate::Error::Unsupported): the server is older than 3.5, or does
    ///   not allow a time to live (`extendedTypesEnabled`).
    /// - [`Error::ConnectionLost`](crate::Error::ConnectionLost): the node may exist. A sequential
    ///   node can then only be found by a name that no other client uses.
    #[doc(alias = "znode")]
    pub fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> Answer<(String, Stat), D> {
        self.create_with_acl(path, data, kind, &[Acl::OPEN])
    }

    /// Creates a node with an access control list. Returns what [`create`](Self::create) returns.
    ///
    /// # Errors
    ///
    /// Those of [`create`](Self::create), and
    /// [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Answer<(String, Stat), D> {
        Answer::of(|| {
            let path = self.server_path_to_create(kind, path)?;
            Ok(self.send(&kind.create(&path, Some(data), acl.into()), decode::created))
        })
    }

    /// Deletes a node. With a `version`, only if the node has this version.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`NOT_EMPTY`](zk_proto::ErrorCode::NOT_EMPTY).
    pub fn delete(&self, path: &str, version: Option<i32>) -> Answer<(), D> {
        Answer::of(|| {
            let path = self.server_path(OpCode::DELETE, path)?;
            let request = DeleteRequest { path: &path, version: any_version(version) };
            Ok(self.send(&Request::Delete(request), decode::nothing))
        })
    }

    /// Returns a node's stat, or `None` if the node does not exist.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn exists(&self, path: &str) -> Answer<Option<Stat>, D> {
        self.read(Read::Exists, path, decode::stat_if_exists)
    }

    /// Returns a node's stat, or `None` if the node does not exist, and a watch that fires when
    /// the node is created, changed or deleted.
    ///
    /// # Errors
    ///
    /// Those of [`exists`](Self::exists). No watch is left then.
    pub fn exists_and_watch(&self, path: &str) -> Answer<(Option<Stat>, Watch<D>), D> {
        self.read_and_watch(Read::Exists, path, |arrived, watch| {
            Ok((decode::stat_if_exists(arrived)?, watch))
        })
    }
}
