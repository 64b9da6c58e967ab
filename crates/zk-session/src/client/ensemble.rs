//! The ensemble: its configuration, and waiting for its leader.

use bytes::Bytes;
use zk_proto::{GetDataRequest, OpCode, ReconfigRequest, Request, Stat, SyncRequest};

use super::decode;
use super::methods::methods;

/// The node with the configuration of the ensemble. It is outside every chroot.
pub(super) const CONFIG: &str = "/zookeeper/config";

methods! {
    /// # The ensemble
    impl Ensemble for Client {
        /// Waits until the server has caught up with the leader. Later reads show every transaction
        /// that the leader had committed by then. It is not a quorum operation (ZOOKEEPER-1675).
        ///
        /// # Errors
        ///
        /// Those that any request can have; see [`Client`].
        request fn sync(&self, path: &str) -> () {
            let path = self.server_path(OpCode::SYNC, path)?;
            self.send(&Request::Sync(SyncRequest { path: &path }), decode::nothing)
        }

        /// Returns the configuration of the ensemble as text, and its stat: the node
        /// `/zookeeper/config`, outside the [`chroot`](Self::chroot). The text is empty if the
        /// server has no configuration.
        ///
        /// # Errors
        ///
        /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE) from servers before 3.5.
        request fn get_config(&self) -> (Bytes, Stat) {
            let request = GetDataRequest { path: CONFIG, watch: false };
            self.send(&Request::GetData(request), decode::data)
        }

        /// Returns what [`get_config`](Self::get_config) returns, and a watch that fires when the
        /// configuration changes.
        ///
        /// # Errors
        ///
        /// Those of [`get_config`](Self::get_config). No watch is left then.
        watch fn get_config_and_watch(&self) -> (Bytes, Stat, Watch) {
            let request = GetDataRequest { path: CONFIG, watch: true };
            self.send_and_watch(&Request::GetData(request), decode::data)
        }

        /// Changes the members of the ensemble. Returns the new configuration and its stat.
        ///
        /// # Errors
        ///
        /// [`Error::Unsupported`](crate::Error::Unsupported) from a standalone server,
        /// [`RECONFIG_DISABLED`](zk_proto::ErrorCode::RECONFIG_DISABLED),
        /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
        /// [`BAD_ARGUMENTS`](zk_proto::ErrorCode::BAD_ARGUMENTS),
        /// [`NEW_CONFIG_NO_QUORUM`](zk_proto::ErrorCode::NEW_CONFIG_NO_QUORUM),
        /// [`RECONFIG_IN_PROGRESS`](zk_proto::ErrorCode::RECONFIG_IN_PROGRESS).
        request fn reconfig(&self, change: &ReconfigRequest<'_>) -> (Bytes, Stat) {
            self.send(&Request::Reconfig(*change), decode::data)
        }
    }
}
