//! The textbook lock.

use core::future::Future;

use zk_session::Client;
use zk_session::proto::path;

use crate::error::RecipeError;
use crate::face::Call;
use crate::face::Queue;
use crate::face::limited::limited;
use crate::face::options::Options;
use crate::face::waiting::guard;
use crate::machine::{Claim, Entry, Scheme, SimpleContender};

/// The textbook lock: one ephemeral node, which whoever creates it owns. It is here to be compared
/// with [`Mutex`](crate::Mutex), not to be used.
///
/// Those who wait watch the node. When it goes, all of them are woken and try to create it; one
/// succeeds, whichever is fastest.
///
/// ```no_run
/// use zk_recipes::{SimpleLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = SimpleLock::new(&client, "/locks/printer")?.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// As for [`Mutex`](crate::Mutex), as long as nobody else deletes the node: all owners use one
/// name, so a release could then hit the next one's. It is not fair: somebody who waits may wait
/// for ever.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Whoever waits has one
/// watch. A release with n waiters costs n notifications and 2n - 1 requests, all but one of them
/// in vain.
#[derive(Clone, Debug)]
pub struct SimpleLock(Queue);

impl SimpleLock {
    /// The lock whose node is at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The lock whose node is at `path`, taken in this way. There are no names to choose. A
    /// persistent node at the path is refused with
    /// [`LockError::Foreign`](crate::LockError::Foreign), as it may be the parent of another lock,
    /// unless [`Foreign::Ignore`](crate::Foreign::Ignore) says otherwise.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error.
    ///
    /// # Ordering
    ///
    /// None.
    ///
    /// # Cancellation
    ///
    /// As for [`Mutex::acquire`](crate::Mutex::acquire).
    pub fn acquire(&self) -> impl Future<Output = Result<SimpleGuard, RecipeError>> + Send + use<> {
        self.enter("acquire", Entry::Queue)
    }

    fn enter(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<SimpleGuard, RecipeError>> + Send + use<> {
        let contest = self.0.contest(Claim::Exclusive, entry);
        let directory = path::parent(&self.0.path).unwrap_or("/").into();
        let entrance = self.0.start(operation, SimpleContender::new(contest), directory);
        async { entrance.held().await.map(SimpleGuard) }
    }

    limited!("acquire": acquire_until, acquire_timeout: acquire() by enter() -> SimpleGuard);

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// How many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.0.call(operation)
    }
}

guard! {
    /// A [`SimpleLock`] that is held. Dropped, it is released in the background.
    SimpleGuard
}
