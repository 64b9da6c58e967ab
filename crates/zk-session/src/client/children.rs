//! The children of nodes.

use alloc::string::String;
use alloc::vec::Vec;

use zk_proto::{
    GetAllChildrenNumberRequest, GetChildrenRequest, GetEphemeralsRequest, OpCode, Request, Stat,
};

use super::decode;
use super::methods::methods;

methods! {
    /// # Children
    impl Children for Client {
        /// Returns the names of a node's children, in no order, and its stat.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
        #[doc(alias = "getChildren")]
        request fn get_children(&self, path: &str) -> (Vec<String>, Stat) {
            let path = self.server_path(OpCode::GET_CHILDREN2, path)?;
            let request = GetChildrenRequest { path: &path, watch: false };
            self.send(&Request::GetChildren2(request), decode::children)
        }

        /// Returns the names of a node's children, in no order, its stat, and a watch that fires when
        /// a child is created or deleted, or the node itself is deleted.
        ///
        /// # Errors
        ///
        /// Those of [`get_children`](Self::get_children). No watch is left then.
        watch fn get_children_and_watch(&self, path: &str) -> (Vec<String>, Stat, Watch) {
            let path = self.server_path(OpCode::GET_CHILDREN2, path)?;
            let request = GetChildrenRequest { path: &path, watch: true };
            self.send_and_watch(&Request::GetChildren2(request), decode::children)
        }

        /// Returns how many nodes are below a node: its children, their children, and so on
        /// (`getAllChildrenNumber`). Needs a server since 3.6, which looks at every node that it has.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
        request fn count_descendants(&self, path: &str) -> usize {
            let path = self.server_path(OpCode::GET_ALL_CHILDREN_NUMBER, path)?;
            let request = GetAllChildrenNumberRequest { path: &path };
            self.send(&Request::GetAllChildrenNumber(request), decode::descendants)
        }

        /// Returns the ephemeral nodes of this session whose paths begin with `path`, in no order.
        /// Paths are compared as text: those that begin with `/a` include `/ab`. Needs a server
        /// since 3.6.
        ///
        /// # Errors
        ///
        /// Those that any request can have; see [`Client`].
        request fn get_ephemerals(&self, path: &str) -> Vec<String> {
            let path = self.server_path(OpCode::GET_EPHEMERALS, path)?;
            let request = GetEphemeralsRequest { prefix_path: Some(&path) };
            self.send(&Request::GetEphemerals(request), decode::ephemerals)
        }
    }
}
