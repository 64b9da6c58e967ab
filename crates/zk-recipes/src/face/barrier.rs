//! The barrier that somebody closes and opens.

use alloc::string::{String, ToString};
use core::future::Future;

use zk_session::proto::{CreateMode, ErrorCode, path};
use zk_session::{Client, Error};

use crate::error::LockError;
use crate::face::limited::limited;

/// A barrier: while its node exists nobody passes. As Apache Curator's `DistributedBarrier`.
///
/// ```no_run
/// use zk_recipes::{Barrier, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// migration.close().await?;
/// // ... and everybody else:
/// migration.wait().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// Whoever has [waited](Self::wait) has seen the barrier open, at some moment after it asked; it
/// may be closed again by then. The node belongs to nobody: it outlives whoever has closed the
/// barrier, and the end of a session opens nothing. What one session has closed it finds closed;
/// to see what another has done, wait behind a [sync](Client::sync).
///
/// # Cost
///
/// One round trip to close the barrier, one to open it, and one to pass when it is open. Whoever
/// waits has one watch; all of them are woken when the barrier opens, for all can go on.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: String,
}

impl Barrier {
    /// The barrier at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        path::validate(path)?;
        Ok(Self { client: client.clone(), path: path.to_string() })
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Closes the barrier, if it is open.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If that leaves it open whether the barrier was closed, it does no
    /// harm to close it again.
    ///
    /// # Cancellation
    ///
    /// It may be closed or not.
    pub async fn close(&self) -> Result<(), LockError> {
        match self.client.create_all(&self.path, b"", CreateMode::PERSISTENT).await {
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Opens the barrier, if it is closed: all who wait pass.
    ///
    /// # Errors
    ///
    /// As for [`close`](Self::close).
    ///
    /// # Cancellation
    ///
    /// It may be opened or not.
    pub async fn open(&self) -> Result<(), LockError> {
        match self.client.delete(&self.path, None).await {
            Ok(()) | Err(Error::Server(ErrorCode::NO_NODE)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether the barrier is closed.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub async fn is_closed(&self) -> Result<bool, LockError> {
        Ok(self.client.exists(&self.path).await?.is_some())
    }

    /// Waits until the barrier is open, also across lost connections.
    ///
    /// # Errors
    ///
    /// [`LockError::Ended`], [`LockError::Request`] when the node cannot be read.
    ///
    /// # Cancellation
    ///
    /// The watch is removed.
    pub fn wait(&self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let Self { client, path } = self.clone();
        async move {
            while wait_for_end(&client, &path).await? {}
            Ok(())
        }
    }

    limited!(wait_until, wait_timeout: wait() -> ());
}

/// Waits until something happens to a node. False if there is no such node.
async fn wait_for_end(client: &Client, path: &str) -> Result<bool, LockError> {
    match client.get_data_and_watch(path).await {
        Ok((_, _, watch)) => drop(watch.await?),
        Err(Error::Server(ErrorCode::NO_NODE)) => return Ok(false),
        Err(Error::ConnectionLost) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(true)
}
