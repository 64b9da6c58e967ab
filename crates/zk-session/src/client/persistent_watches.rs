//! Persistent watches.

use zk_proto::{AddWatchMode, AddWatchRequest, OpCode, Request};

use super::decode;
use super::methods::methods;

methods! {
    /// # Persistent watches
    impl Client {
        /// Watches a node, whether or not it exists: every change of the node, and its children that
        /// are created and deleted. Changes before the watch is set are not reported, so read the
        /// node after this returns. Needs a server since 3.6.
        ///
        /// # Errors
        ///
        /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.6, which also
        /// closes the connection. No watch is left then.
        #[doc(alias = "addWatch")]
        watch fn watch(&self, path: &str) -> PersistentWatch {
            let path = self.server_path(OpCode::ADD_WATCH, path)?;
            let request = AddWatchRequest { path: &path, mode: AddWatchMode::PERSISTENT };
            self.send_and_keep_watching(&Request::AddWatch(request), decode::nothing)
        }

        /// Watches a node and all nodes below it, including nodes created later. A created or
        /// deleted child is reported by itself, not as a change of its parent's list of children.
        /// [`watch`](Self::watch) documents what is not reported.
        ///
        /// # Errors
        ///
        /// Those of [`watch`](Self::watch).
        watch fn watch_recursively(&self, path: &str) -> PersistentWatch {
            let path = self.server_path(OpCode::ADD_WATCH, path)?;
            let request = AddWatchRequest { path: &path, mode: AddWatchMode::PERSISTENT_RECURSIVE };
            self.send_and_keep_watching(&Request::AddWatch(request), decode::nothing)
        }
    }
}
