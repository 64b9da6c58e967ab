//! The children of nodes.

use alloc::string::String;
use alloc::vec::Vec;

use zk_proto::Stat;

use super::driver::Driver;
use super::read::Read;
use super::{Answer, Client, Watch, decode};

/// # Children
impl<D: Driver> Client<D> {
    /// Returns the names of a node's children, in no order, and its stat.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    #[doc(alias = "getChildren")]
    pub fn get_children(&self, path: &str) -> Answer<(Vec<String>, Stat), D> {
        self.read(Read::Children, path, decode::children)
    }

    /// Returns the names of a node's children, in no order, its stat, and a watch that fires when
    /// a child is created or deleted, or the node itself is deleted.
    ///
    /// # Errors
    ///
    /// Those of [`get_children`](Self::get_children). No watch is left then.
    pub fn get_children_and_watch(&self, path: &str) -> Answer<(Vec<String>, Stat, Watch<D>), D> {
        self.read_and_watch(Read::Children, path, |arrived, watch| {
            let (names, stat) = decode::children(arrived)?;
            Ok((names, stat, watch))
        })
    }

    /// Returns how many nodes are below a node: its children, their children, and so on
    /// (`getAllChildrenNumber`). Needs a server since 3.6, which looks at every node that it has.
    ///
    /// # Errors
    ///
    /// [`NO_NODE`](zk_proto::ErrorCode::NO_NODE).
    pub fn count_descendants(&self, path: &str) -> Answer<usize, D> {
        self.read(Read::Descendants, path, decode::descendants)
    }

    /// Returns the ephemeral nodes of this session whose paths begin with `path`, in no order.
    /// Paths are compared as text: those that begin with `/a` include `/ab`. Needs a server
    /// since 3.6.
    ///
    /// # Errors
    ///
    /// Those that any request can have; see [`Client`].
    pub fn get_ephemerals(&self, path: &str) -> Answer<Vec<String>, D> {
        self.read(Read::Ephemerals, path, decode::ephemerals)
    }
}
