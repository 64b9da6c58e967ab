//! More than one node at a time. None of this is atomic.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_proto::{CreateMode, ErrorCode, Stat, path};

use super::Client;
use crate::error::Error;
use crate::face::subtree;

/// # Several nodes, one after the other
///
/// These begin when they are first polled.
impl Client {
    /// Creates a node, and before it whichever of its ancestors is missing, as persistent nodes
    /// without data that are open to everybody.
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
        mode: CreateMode,
    ) -> Result<(String, Stat), Error> {
        loop {
            match self.create(path, data, mode).await {
                Err(Error::Server(ErrorCode::NO_NODE)) => {}
                created => return created,
            }
            let Some(parent) = subtree::parent(path) else {
                return Err(Error::Server(ErrorCode::NO_NODE));
            };
            // Whoever deletes it meanwhile has it created again.
            self.ensure_path(parent).await?;
        }
    }

    /// Sees to it that a node exists, and all of its ancestors: those that are missing are created
    /// as persistent nodes without data that are open to everybody. All requests are sent at once.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), except that there is nothing wrong with nodes that exist.
    ///
    /// # Cancellation
    ///
    /// The nodes are created all the same.
    pub async fn ensure_path(&self, path: &str) -> Result<(), Error> {
        path::validate(path)?;
        let creations: Vec<_> = subtree::from_the_root(path)
            .map(|path| self.create(path, b"", CreateMode::PERSISTENT))
            .collect();
        let mut result = Ok(());
        for created in creations {
            // The deepest one decides: what is above it may not be ours to create.
            result = created.await.map(drop);
        }
        match result {
            Err(Error::Server(ErrorCode::NODE_EXISTS)) => Ok(()),
            // Nor may the deepest be, and yet be there.
            Err(Error::Server(ErrorCode::NO_AUTH)) if self.exists(path).await?.is_some() => Ok(()),
            result => result,
        }
    }

    /// Deletes a node and all below it, from the bottom up, until none of it is left, while others
    /// may create and delete there, too. There is nothing wrong with a node that does not exist.
    /// Of the root, everything is deleted but itself and `/zookeeper`.
    ///
    /// # Errors
    ///
    /// As [`delete`](Self::delete). What was deleted stays deleted.
    ///
    /// # Cancellation
    ///
    /// Any part of it may have been deleted, but none that has something left below it.
    pub async fn delete_all(&self, path: &str) -> Result<(), Error> {
        path::validate(path)?;
        let keep_root = self.chroot.apply(path) == "/";
        // Each node is listed once before it is deleted, and again if somebody was faster.
        let mut open = Vec::from([path.to_string()]);
        while let Some(node) = open.last().cloned() {
            let is_root = keep_root && open.len() == 1;
            let children = match self.get_children(&node).await {
                Ok((children, _)) => children,
                Err(Error::Server(ErrorCode::NO_NODE)) => Vec::new(),
                Err(error) => return Err(error),
            };
            let children: Vec<_> = children
                .iter()
                .filter(|name| !is_root || *name != "zookeeper")
                .map(|name| path::child(&node, name))
                .collect();
            // Leaves go at once; those with something below them are looked into.
            let before = open.len();
            for some in children.chunks(subtree::AT_ONCE) {
                let deletions: Vec<_> = some.iter().map(|path| self.delete(path, None)).collect();
                for (path, deleted) in some.iter().zip(deletions) {
                    match deleted.await {
                        Ok(()) | Err(Error::Server(ErrorCode::NO_NODE)) => {}
                        Err(Error::Server(ErrorCode::NOT_EMPTY)) => open.push(path.clone()),
                        Err(error) => return Err(error),
                    }
                }
            }
            if open.len() > before {
                continue;
            }
            if is_root {
                return Ok(());
            }
            match self.delete(&node, None).await {
                Ok(()) | Err(Error::Server(ErrorCode::NO_NODE)) => drop(open.pop()),
                Err(Error::Server(ErrorCode::NOT_EMPTY)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
