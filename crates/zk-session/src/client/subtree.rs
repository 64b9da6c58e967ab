//! More than one node at a time. None of this is atomic.

use alloc::string::String;

use zk_proto::{Acl, NodeKind, Stat};

use super::Client;
use crate::error::RequestError;
use crate::face::subtree::{self, Like};

/// # Several nodes, one after the other
///
/// These begin when they are first polled.
impl Client {
    /// Creates a node, and before it whichever of its ancestors is missing, the
    /// [`chroot`](Self::chroot) included, as persistent nodes without data that are open to
    /// everybody. Waits for room where requests are refused for want of it.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create). Ancestors that were created stay.
    ///
    /// # Cancellation
    ///
    /// Any number of the nodes may have been created.
    pub async fn create_all(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
    ) -> Result<(String, Stat), RequestError> {
        let node = Like { kind, ..Like::PERSISTENT };
        subtree::create_all(self, path, data, node, Like::PERSISTENT).await
    }

    /// As [`create_all`](Self::create_all), with an access control list for all nodes that are
    /// created, and the mode of its ancestors among them:
    /// [`Persistent`](NodeKind::Persistent), or [`Container`](NodeKind::Container), which the
    /// server deletes some time after the last child.
    ///
    /// # Errors
    ///
    /// As [`create_with_acl`](Self::create_with_acl). Ancestors that were created stay.
    ///
    /// # Cancellation
    ///
    /// Any number of the nodes may have been created.
    pub async fn create_all_with(
        &self,
        path: &str,
        data: &[u8],
        kind: NodeKind,
        acl: &[Acl<'_>],
        ancestors: NodeKind,
    ) -> Result<(String, Stat), RequestError> {
        let (node, ancestors) = (Like { kind, acl }, Like { kind: ancestors, acl });
        subtree::create_all(self, path, data, node, ancestors).await
    }

    /// Sees to it that a node exists, and all of its ancestors, the [`chroot`](Self::chroot)
    /// included: those that are missing are created as persistent nodes without data that are open
    /// to everybody. All requests are sent at once, as far as there is room.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), except that there is nothing wrong with nodes that exist.
    ///
    /// # Cancellation
    ///
    /// Any number of the nodes may have been created.
    pub async fn ensure_path(&self, path: &str) -> Result<(), RequestError> {
        subtree::ensure_path(self, path, Like::PERSISTENT).await
    }

    /// As [`ensure_path`](Self::ensure_path), with the mode and the access control list of the
    /// nodes that are missing; see [`create_all_with`](Self::create_all_with).
    ///
    /// # Errors
    ///
    /// As [`create_with_acl`](Self::create_with_acl), except that there is nothing wrong with nodes
    /// that exist.
    ///
    /// # Cancellation
    ///
    /// Any number of the nodes may have been created.
    pub async fn ensure_path_with(
        &self,
        path: &str,
        kind: NodeKind,
        acl: &[Acl<'_>],
    ) -> Result<(), RequestError> {
        subtree::ensure_path(self, path, Like { kind, acl }).await
    }

    /// Deletes a node and all below it, from the bottom up, until none of it is left, while others
    /// may create and delete there, too. There is nothing wrong with a node that does not exist.
    /// Of the root, everything is deleted but itself and `/zookeeper`. Waits for room where
    /// requests are refused for want of it.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete). What was deleted stays deleted.
    ///
    /// # Cancellation
    ///
    /// Any part of it may have been deleted, but none that has something left below it.
    pub async fn delete_all(&self, path: &str) -> Result<(), RequestError> {
        subtree::delete_all(self, path).await
    }
}
