//! A barrier that clients close and open.

use core::future::poll_fn;

use zk_session::proto::ErrorCode;
use zk_session::{End, Error};

use crate::Client;
use crate::attempt::{Scheme, WaitPolicy};
use crate::barrier::BarrierWait;
use crate::client::SessionClient;
use crate::client::pending::Pending;
use crate::client::queue::{Patience, Queue};
use crate::client::report::{MachineReport, Status};
use crate::client::session_client::{TimeLimit, unless};
use crate::error::{LockError, RecipeError};
use crate::options::Options;

/// A barrier that is closed while its node exists, as Apache Curator's `DistributedBarrier`.
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
/// When `wait` returns, the barrier was open at some moment after the call. It may be closed again
/// by then. The node is persistent: the end of a session does not open the barrier.
///
/// After a session has closed a barrier, it finds it closed. To see changes by another session,
/// `sync` the path first.
///
/// # Cost
///
/// One round trip to close the barrier, one to open it, and one to pass when it is open: two with a
/// chroot, which must exist. Each waiter has one watch, and all of them are woken when the barrier
/// opens.
#[doc(alias = "DistributedBarrier")]
#[derive(Clone, Debug)]
pub struct Barrier<C = Client>(Queue<C>);

impl<C: SessionClient> Barrier<C> {
    /// Returns the barrier at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the barrier at `path`. Its node is created with the data and the access control
    /// lists of these options; the other options have no effect. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "barrier", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Returns the path of the barrier's node.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Waits until the barrier is open, also across lost connections.
    ///
    /// The request timeout of the client does not limit it. It ignores a read-only server's reply
    /// that the barrier is open, and repeats the request until a server with a quorum answers.
    ///
    /// # Errors
    ///
    /// [`LockError::Ended`], or [`LockError::Request`] if the node cannot be read.
    pub fn wait(&self) -> Pending<(), C> {
        let queue = self.0.clone();
        Pending::new(&self.0.client, |end| async move {
            let path = queue.client.chroot().apply(&queue.path).into_owned();
            let barrier = || BarrierWait::new(path, WaitPolicy::Queue);
            let handle = queue.attach(barrier, None, None);
            let passed = handle.status.wait(|report: &mut MachineReport| match &report.status {
                Status::Released => Some(Ok(())),
                _ => report.acquired.take().map(|result| result.map(drop)),
            });
            let (mut limit, mut patience) = (TimeLimit::new(end), Patience::default());
            let late = poll_fn(|cx| patience.poll(&mut limit, &queue.client, &handle.status, cx));
            let passed = match unless(late, passed).await {
                // Below a chroot that is missing, any barrier seems to be open.
                Ok(Some(Ok(()))) => queue.check_chroot().await,
                Ok(Some(failed)) => failed,
                // The runtime was shut down.
                Ok(None) => Err(LockError::Ended(End::Closed)),
                Err(error) => Err(error),
            };
            passed.map_err(|error| queue.call("wait").failed(error))
        })
    }

    /// Closes the barrier, if it is open. Parent nodes that are missing are created as containers.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If its outcome is unknown, close the barrier again.
    pub fn close(&self) -> Pending<(), C> {
        let queue = self.0.clone();
        Pending::within(self.0.call("close"), async move {
            let options = &queue.options;
            match queue.create_persistent(&queue.path, &options.data, &options.acl).await {
                Err(LockError::Request(Error::Server(ErrorCode::NODE_EXISTS))) => Ok(()),
                closed => closed,
            }
        })
    }

    /// Opens the barrier, if it is closed. All waiters pass.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If its outcome is unknown, open the barrier again.
    pub fn open(&self) -> Pending<(), C> {
        let queue = self.0.clone();
        Pending::within(self.0.call("open"), async move {
            match queue.client.delete(&queue.path, None).await {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(()),
                opened => Ok(opened?),
            }
        })
    }

    /// Returns whether the barrier is closed.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn is_closed(&self) -> Pending<bool, C> {
        let queue = self.0.clone();
        Pending::within(self.0.call("is_closed"), async move {
            let is_closed = queue.client.exists(&queue.path).await?.is_some();
            if !is_closed {
                queue.check_chroot().await?;
            }
            Ok(is_closed)
        })
    }
}
