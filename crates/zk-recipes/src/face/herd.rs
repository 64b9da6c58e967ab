//! The exclusive lock as it is taught before the improvement.

use core::future::Future;

use zk_session::Client;

use crate::error::RecipeError;
use crate::face::Queue;
use crate::face::options::Options;
use crate::face::waiting::guard;
use crate::machine::{Claim, Contender, Entry, Scheme};

/// An exclusive, fair lock with a herd. It is here to be compared with
/// [`Mutex`](crate::Mutex), which is the same in all but one thing.
///
/// Contenders queue by the numbers of their nodes, and those who wait watch the *directory*, not
/// the one before them.
///
/// ```no_run
/// use zk_recipes::{HerdMutex, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = HerdMutex::new(&client, "/locks/printer")?.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// As for [`Mutex`](crate::Mutex).
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Whenever somebody comes or
/// goes, *all* who wait are woken, and each lists the whole directory: with n waiters, n
/// notifications and n lists of n names.
#[derive(Clone, Debug)]
pub struct HerdMutex(Queue);

impl HerdMutex {
    /// The lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The lock at `path`, taken in this way.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Waits for the lock. Errors, order and cancellation as for
    /// [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError).
    pub fn acquire(&self) -> impl Future<Output = Result<HerdGuard, RecipeError>> + Send + use<> {
        let contender = Contender::herd(self.0.contest(Claim::Exclusive, Entry::Queue));
        let entrance = self.0.start("acquire", contender, self.0.path.clone());
        async { entrance.held().await.map(HerdGuard) }
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// How many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

guard! {
    /// A [`HerdMutex`] that is held. Dropped, it is released in the background.
    HerdGuard
}
