//! The barrier that somebody closes and opens.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::future::Future;

use zk_session::proto::{CreateMode, ErrorCode, path};
use zk_session::{Client, Error};

use crate::error::LockError;
use crate::face::limited::limited;
use crate::face::options::Options;

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
    options: Options,
}

impl Barrier {
    /// The barrier at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::with(client, path, Options::new())
    }

    /// The barrier at `path`, closed in this way: with these data and access control lists. The
    /// other options do not count, since nobody stands in a queue.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, LockError> {
        path::validate(path)?;
        Ok(Self { client: client.clone(), path: path.to_string(), options })
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Closes the barrier, if it is open. Directories that are missing are created as containers.
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
        let Self { client, path, options } = self;
        let acl: Vec<_> = options.acl.list().iter().collect();
        let parent_acl: Vec<_> = options.parent_acl.list().iter().collect();
        // The directory may be deleted in between, but not for ever.
        loop {
            let mode = CreateMode::PERSISTENT;
            match client.create_with_acl(path, &options.data, mode, &acl).await {
                Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => return Ok(()),
                Err(Error::Server(ErrorCode::NO_NODE)) => {}
                Err(error) => return Err(error.into()),
            }
            let directory = path::parent(path).unwrap_or("/");
            client.ensure_path_with(directory, CreateMode::CONTAINER, &parent_acl).await?;
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
        let Self { client, path, .. } = self.clone();
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
