//! The ensemble itself.

use core::future::Future;

use bytes::Bytes;
use zk_proto::{ReconfigRequest, Stat};

use super::{Answer, Client, Watch};
use crate::error::RequestError;
use crate::face::operations;

/// # The ensemble
impl Client {
    /// Waits until the member has caught up with what the leader had committed; reads that follow
    /// see at least that. It is not a quorum operation (ZOOKEEPER-1675).
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn sync(&self, path: &str) -> Answer<()> {
        Answer::of(operations::sync(self, path))
    }

    /// The configuration of the ensemble, as text, and its stat; `/zookeeper/config`, whatever the
    /// [`chroot`](Self::chroot). Empty from a server that has none.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE) from servers before 3.5.
    pub fn get_config(&self) -> Answer<(Bytes, Stat)> {
        Answer::of(operations::get_config(self))
    }

    /// As [`get_config`](Self::get_config), with a watch that fires when it changes.
    ///
    /// # Errors
    ///
    /// As [`get_config`](Self::get_config). No watch is left then, nor when the future is dropped.
    pub fn get_config_and_watch(
        &self,
    ) -> impl Future<Output = Result<(Bytes, Stat, Watch), RequestError>> + Send + use<> {
        let asked = operations::get_config_and_watch(self);
        async move {
            let (answer, watch) = asked?;
            let (data, stat) = answer.await?;
            Ok((data, stat, watch))
        }
    }

    /// Changes who is a member of the ensemble: its new configuration, and the stat of that.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) from a server that is alone,
    /// [`RECONFIG_DISABLED`](zk_proto::ErrorCode::RECONFIG_DISABLED),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION),
    /// [`BAD_ARGUMENTS`](zk_proto::ErrorCode::BAD_ARGUMENTS),
    /// [`NEW_CONFIG_NO_QUORUM`](zk_proto::ErrorCode::NEW_CONFIG_NO_QUORUM),
    /// [`RECONFIG_IN_PROGRESS`](zk_proto::ErrorCode::RECONFIG_IN_PROGRESS).
    pub fn reconfig(&self, change: &ReconfigRequest<'_>) -> Answer<(Bytes, Stat)> {
        Answer::of(operations::reconfig(self, change))
    }
}
