//! What is in the nodes.

use core::future::Future;

use bytes::Bytes;
use zk_proto::Stat;

use super::{Answer, Client, Watch};
use crate::error::RequestError;
use crate::face::{MultiRead, ReadResult, operations, reads};

/// # Data
impl Client {
    /// A node's data and stat. The data shares the memory that it was received into, along with
    /// answers that came next to it; copy what is to be kept for long.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_data(&self, path: &str) -> Answer<(Bytes, Stat)> {
        Answer::of(operations::get_data(self, path))
    }

    /// As [`get_data`](Self::get_data), with a watch that fires when the node is changed or
    /// deleted. There is none if the node does not exist.
    ///
    /// # Errors
    ///
    /// As [`get_data`](Self::get_data). No watch is left then, nor when the future is dropped.
    pub fn get_data_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Bytes, Stat, Watch), RequestError>> + Send + use<> {
        let asked = operations::get_data_and_watch(self, path);
        async move {
            let (answer, watch) = asked?;
            let (data, stat) = answer.await?;
            Ok((data, stat, watch))
        }
    }

    /// Replaces a node's data, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE),
    /// [`BAD_VERSION`](zk_proto::ErrorCode::BAD_VERSION).
    pub fn set_data(&self, path: &str, data: &[u8], version: Option<i32>) -> Answer<Stat> {
        Answer::of(operations::set_data(self, path, data, version))
    }

    /// Several reads in one request.
    pub fn multi_read(&self) -> MultiRead<'_, Self> {
        MultiRead::new(self, &self.chroot)
    }
}

impl MultiRead<'_, Client> {
    /// Sends the reads, in the order of this call among other requests. There is one result for
    /// each, in their order.
    ///
    /// # Errors
    ///
    /// [`Error::Unsupported`](crate::Error::Unsupported) from a server before 3.6, which also
    /// closes the connection. A read that fails is no error of the whole.
    pub fn send(self) -> Answer<alloc::vec::Vec<ReadResult>> {
        Answer::of(reads::send(self))
    }
}
