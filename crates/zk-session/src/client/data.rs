//! The data of nodes.

use bytes::Bytes;
use zk_proto::{GetDataRequest, OpCode, Request, SetDataRequest, Stat};

use super::methods::methods;
use super::{MultiRead, any_version, decode};

methods! {
    /// # Data
    impl Data for Client {
        /// Returns a node's data and stat.
        ///
        /// The data shares the buffer into which it was received with the replies next to it. Copy
        /// data that is kept for long.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
        #[doc(alias = "getData")]
        request fn get_data(&self, path: &str) -> (Bytes, Stat) {
            let path = self.server_path(OpCode::GET_DATA, path)?;
            self.send(&Request::GetData(GetDataRequest { path: &path, watch: false }), decode::data)
        }

        /// Returns a node's data and stat, and a watch that fires when the node is changed or
        /// deleted.
        ///
        /// # Errors
        ///
        /// Those of [`get_data`](Self::get_data). No watch is left then, also if the node does not
        /// exist.
        watch fn get_data_and_watch(&self, path: &str) -> (Bytes, Stat, Watch) {
            let path = self.server_path(OpCode::GET_DATA, path)?;
            let request = GetDataRequest { path: &path, watch: true };
            self.send_and_watch(&Request::GetData(request), decode::data)
        }

        /// Replaces a node's data. With a `version`, only if the node has this version. Returns the
        /// new stat.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
        /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION).
        #[doc(alias = "setData")]
        request fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Stat {
            let path = self.server_path(OpCode::SET_DATA, path)?;
            let version = any_version(version);
            let request = SetDataRequest { path: &path, data: Some(data), version };
            self.send(&Request::SetData(request), decode::data_set)
        }

        /// Begins a request of several reads, which show one state of the tree.
        get fn multi_read(&self) -> MultiRead<'_, Self> {
            MultiRead::new(self, self.chroot())
        }
    }
}
