//! The data of nodes.

use bytes::Bytes;
use zk_proto::{OpCode, Request, SetDataRequest, Stat};

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, MultiRead, Watch, any_version, decode};

/// # Data
impl<D: Driver> Client<D> {
    /// Returns a node's data and stat.
    ///
    /// The data shares the buffer into which it was received with the replies next to it. Copy
    /// data that is kept for long.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    #[doc(alias = "getData")]
    pub fn get_data(&self, path: &str) -> Answer<(Bytes, Stat), D> {
        self.read(Read::Data, path, decode::data)
    }

    /// Returns a node's data and stat, and a watch that fires when the node is changed or
    /// deleted.
    ///
    /// # Errors
    ///
    /// Those of [`get_data`](Self::get_data). No watch is left then, also if the node does not
    /// exist.
    pub fn get_data_and_watch(&self, path: &str) -> Answer<(Bytes, Stat, Watch<D>), D> {
        self.read_and_watch(Read::Data, path, decode::data_and_watch)
    }

    /// Replaces a node's data. With a `version`, only if the node has this version. Returns the
    /// new stat.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION).
    #[doc(alias = "setData")]
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Answer<Stat, D> {
        Answer::of(|| {
            let path = self.server_path(OpCode::SET_DATA, path)?;
            let version = any_version(version);
            let request = SetDataRequest { path: &path, data: Some(data), version };
            Ok(self.send(&Request::SetData(request), decode::data_set))
        })
    }

    /// Begins a request of several reads, which show one state of the tree.
    pub fn multi_read(&self) -> MultiRead<'_, Self> {
        MultiRead::new(self, self.chroot())
    }
}
