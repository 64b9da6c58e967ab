//! What is below the nodes.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::Future;

use zk_proto::Stat;

use super::{Answer, Client, Watch};
use crate::error::RequestError;
use crate::face::operations;

/// # Children
impl Client {
    /// The names of a node's children, in no order, and its stat.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn get_children(&self, path: &str) -> Answer<(Vec<String>, Stat)> {
        Answer::of(operations::get_children(self, path))
    }

    /// As [`get_children`](Self::get_children), with a watch that fires when a child is created
    /// or deleted, or the node itself is deleted.
    ///
    /// # Errors
    ///
    /// As [`get_children`](Self::get_children). No watch is left then, nor when the future is
    /// dropped.
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat, Watch), RequestError>> + Send + use<> {
        let asked = operations::get_children_and_watch(self, path);
        async move {
            let (answer, watch) = asked?;
            let (children, stat) = answer.await?;
            Ok((children, stat, watch))
        }
    }

    /// How many nodes are below a node, children of children included (`getAllChildrenNumber`).
    /// Needs a server since 3.6, which looks at every node that it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn count_descendants(&self, path: &str) -> Answer<usize> {
        Answer::of(operations::count_descendants(self, path))
    }

    /// The ephemeral nodes of this session whose paths begin with `path`, in no order. It is the
    /// beginning of the text that counts: `/a` has `/ab`, too. Needs a server since 3.6.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn get_ephemerals(&self, path: &str) -> Answer<Vec<String>> {
        Answer::of(operations::get_ephemerals(self, path))
    }
}
