//! The barrier that somebody closes and opens.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::Poll;
use core::time::Duration;

use tokio::time::Sleep;
use zk_session::proto::{ErrorCode, NodeKind, path};
use zk_session::{Client, Error};

use crate::error::{LockError, RecipeError};
use crate::face::Call;
use crate::face::limited::limited;
use crate::face::options::Options;
use crate::face::waiting;
use crate::machine::{Entry, Renewal};

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
    path: Arc<str>,
    options: Options,
}

impl Barrier {
    /// The barrier at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The barrier at `path`, closed in this way: with these data and access control lists. The
    /// other options do not count, since nobody stands in a queue.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        path::validate(path).map_err(|error| RecipeError::new("new", path, error))?;
        Ok(Self { client: client.clone(), path: path.into(), options })
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
    pub async fn close(&self) -> Result<(), RecipeError> {
        let Self { client, path, options } = self;
        let acl: Vec<_> = options.acl.list().iter().collect();
        let parent_acl: Vec<_> = options.parent_acl.list().iter().collect();
        // The directory may be deleted in between, but not for ever.
        loop {
            let kind = NodeKind::Persistent;
            match client.create_with_acl(path, &options.data, kind, &acl).await {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(self.call("close").failed(error)),
            }
            let directory = path::parent(path).unwrap_or("/");
            let made = client.ensure_path_with(directory, NodeKind::Container, &parent_acl).await;
            made.map_err(|error| self.call("close").failed(error))?;
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
    pub async fn open(&self) -> Result<(), RecipeError> {
        match self.client.delete(&self.path, None).await {
            Ok(()) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(()),
            Err(error) => Err(self.call("open").failed(error)),
        }
    }

    /// Whether the barrier is closed.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub async fn is_closed(&self) -> Result<bool, RecipeError> {
        let stat = self.client.exists(&self.path).await;
        let stat = stat.map_err(|error| self.call("is_closed").failed(error))?;
        Ok(stat.is_some())
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
    pub fn wait(&self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        self.wait_by("wait", Entry::Queue)
    }

    fn wait_by(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        let (client, call) = (self.client.clone(), self.call(operation));
        async move {
            let waited = match entry.refusal() {
                None => wait_for_end(&client, &call.path).await,
                Some(refusal) => look_for_end(&client, &call.path, refusal).await,
            };
            waited.map_err(|error| call.failed(error))
        }
    }

    limited!("wait": wait_until, wait_timeout: wait() by wait_by() -> ());

    fn call(&self, operation: &'static str) -> Call {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }
}

/// Whether there is no such node now, as far as a server says so.
async fn look_for_end(client: &Client, path: &str, refusal: LockError) -> Result<(), LockError> {
    match waiting::while_connected(client, client.exists(path)).await {
        Some(Ok(None)) => Ok(()),
        Some(Err(error)) if error.reason != Error::ConnectionLost => Err(LockError::from(error)),
        Some(_) | None => Err(refusal),
    }
}

/// Waits until there is no such node.
async fn wait_for_end(client: &Client, path: &str) -> Result<(), LockError> {
    let mut renewal = Renewal::new(client.session_id().0.cast_unsigned());
    // The old watch goes when the new one is set, so that the server need not be told.
    let mut standing = None;
    loop {
        match client.get_data_and_watch(path).await {
            Ok((_, _, watch)) => {
                let watch = standing.insert(watch);
                let silence = sleep(client, renewal.wait(client.session_timeout()));
                if let Some(event) = before(silence, watch).await {
                    event?;
                    standing = None;
                }
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(()),
            Err(error) if error.reason == Error::ConnectionLost => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits on the runtime of the session, whatever polls it.
fn sleep(client: &Client, time: Duration) -> Pin<Box<Sleep>> {
    let _on_runtime = client.runtime().enter();
    Box::pin(tokio::time::sleep(time))
}

/// What comes of `watch`, if it comes before `silence` is over.
async fn before<T>(
    mut silence: Pin<Box<Sleep>>,
    mut watch: impl Future<Output = T> + Unpin,
) -> Option<T> {
    poll_fn(|cx| match Pin::new(&mut watch).poll(cx) {
        Poll::Ready(event) => Poll::Ready(Some(event)),
        Poll::Pending => silence.as_mut().poll(cx).map(|()| None),
    })
    .await
}
