//! Nodes: create, delete, exists.

use alloc::string::String;

use zk_proto::{Acl, DeleteRequest, ExistsRequest, NodeKind, OpCode, Request, Stat};

use super::methods::methods;
use super::{any_version, decode};

methods! {
    /// # Nodes
    impl Nodes for Client {
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
        request fn create(&self, path: &str, data: &[u8], kind: NodeKind) -> (String, Stat) {
            self.create_with_acl(path, data, kind, &[Acl::OPEN])
        }

        /// Creates a node with an access control list. Returns what [`create`](Self::create) returns.
        ///
        /// # Errors
        ///
        /// Those of [`create`](Self::create), and
        /// [`INVALID_ACL`](zk_proto::ErrorCode::INVALID_ACL).
        request fn create_with_acl(
            &self,
            path: &str,
            data: &[u8],
            kind: NodeKind,
            acl: &[Acl<'_>],
        ) -> (String, Stat) {
            let path = self.server_path_to_create(kind, path)?;
            self.send(&kind.create(&path, Some(data), acl.into()), decode::created)
        }

        /// Deletes a node. With a `version`, only if the node has this version.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
        /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
        /// [`NOT_EMPTY`](zk_proto::ErrorCode::NOT_EMPTY).
        request fn delete(&self, path: &str, version: Option<i32>) -> () {
            let path = self.server_path(OpCode::DELETE, path)?;
            let request = DeleteRequest { path: &path, version: any_version(version) };
            self.send(&Request::Delete(request), decode::nothing)
        }

        /// Returns a node's stat, or `None` if the node does not exist.
        ///
        /// # Errors
        ///
        /// Those that any request can have; see [`Client`].
        request fn exists(&self, path: &str) -> Option<Stat> {
            let path = self.server_path(OpCode::EXISTS, path)?;
            let request = ExistsRequest { path: &path, watch: false };
            self.send(&Request::Exists(request), decode::stat_if_exists)
        }

        /// Returns a node's stat, or `None` if the node does not exist, and a watch that fires when
        /// the node is created, changed or deleted.
        ///
        /// # Errors
        ///
        /// Those of [`exists`](Self::exists). No watch is left then.
        watch fn exists_and_watch(&self, path: &str) -> (Option<Stat>, Watch) {
            let path = self.server_path(OpCode::EXISTS, path)?;
            let request = ExistsRequest { path: &path, watch: true };
            self.send_and_watch(&Request::Exists(request), decode::stat_if_exists)
        }
    }
}
