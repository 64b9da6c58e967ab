//! The ensemble: its configuration, and waiting for its leader.

use bytes::Bytes;
use zk_proto::{ReconfigRequest, Request, Stat};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, Watch, decode};

/// The node with the configuration of the ensemble. It is outside every chroot.
pub(super) const CONFIG: &str = "/zookeeper/config";

/// # The ensemble
impl<D: Driver> Client<D> {
    /// Waits until the server has caught up with the leader. Later reads show every transaction
    /// that the leader had committed by then. It is not a quorum operation (ZOOKEEPER-1675).
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn sync(&self, path: &str) -> Answer<(), D> {
        self.read(Read::Sync, path, decode::nothing)
    }

    /// Returns the configuration of the ensemble as text, and its stat: the node
    /// `/zookeeper/config`, outside the [`chroot`](Self::chroot). The text is empty if the
    /// server has no configuration.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE) from servers before 3.5.
    pub fn get_config(&self) -> Answer<(Bytes, Stat), D> {
        self.read_at(Read::Data, CONFIG, decode::data)
    }

    /// Returns what [`get_config`](Self::get_config) returns, and a watch that fires when the
    /// configuration changes.
    ///
    /// # Errors
    ///
    /// Those of [`get_config`](Self::get_config). No watch is left then.
    pub fn get_config_and_watch(&self) -> Answer<(Bytes, Stat, Watch<D>), D> {
        Answer::of(|| self.read_at_and_watch(Read::Data, CONFIG, decode::data_and_watch))
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
    pub fn reconfig(&self, change: &ReconfigRequest<'_>) -> Answer<(Bytes, Stat), D> {
        self.send(&Request::Reconfig(*change), decode::data)
    }
}
