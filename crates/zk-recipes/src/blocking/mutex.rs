//! The exclusive lock.

use alloc::vec::Vec;
use std::time::Instant;

use zk_session::blocking::Client;

use super::Queue;
use super::held::guard;
use super::listing;
use super::waiting::limited;
use crate::error::RecipeError;
use crate::face::{Entrant, Options};
use crate::machine::{Claim, Entry, Scheme};

/// An exclusive, fair lock without a herd.
///
/// Contenders are ephemeral nodes below the lock's path, in the order of their arrival. Each
/// watches only the one before it. Names follow Apache Curator's `InterProcessMutex` unless
/// [`Options::scheme`] says otherwise, so Java, Go and Rust can contend for one lock. Missing
/// parents are created as containers, which the server removes when they are no longer used.
///
/// A thread that holds the lock and acquires it again waits for itself. Use
/// [`ReentrantMutex`](super::ReentrantMutex) for that.
///
/// # Guarantee
///
/// At most one contender holds the lock, as the ensemble sees it. A holder that is cut off cannot
/// know at once that the ensemble has given its lock to another.
/// [`Held::state`](super::Held::state) and [`Held::on_lost`](super::Held::on_lost) report the loss
/// as early as it can be known. With [`Held::fencing_token`](super::Held::fencing_token) a resource
/// can refuse a late write; for data in ZooKeeper itself,
/// [`Held::transaction`](super::Held::transaction) does that.
///
/// Locks of different kinds at one path do not exclude each other. An attempt that finds a
/// contender of another kind fails with [`LockError::OtherLock`](crate::LockError::OtherLock);
/// [`Foreign`](crate::Foreign) offers other policies.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. A lock that is passed on
/// wakes exactly one waiter, however many there are. Keep this value if you take the lock again: it
/// remembers the last attempt, and may skip the list of contenders.
#[derive(Clone, Debug)]
pub struct Mutex(pub(super) Queue);

impl Mutex {
    /// Returns the lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the lock at `path`, taken with these options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Waits for the lock. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error: the place in the
    /// queue is kept as long as the session lives.
    pub fn acquire(&self) -> Result<MutexGuard, RecipeError> {
        self.enter("acquire", Entry::Queue, None)
    }

    limited!("acquire": acquire_timeout: acquire() by enter() -> MutexGuard);

    /// Acquires the lock if nobody holds it or waits for it.
    ///
    /// It lists the queue first, and enters it only if it is empty: one round trip if the lock is
    /// taken, two if it is free. Of several that try at once, all may see each other and fail. It
    /// waits for the server's answer, but not for a connection;
    /// [`acquire_timeout`](Self::acquire_timeout) does.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`](crate::LockError::Busy) when the lock is taken, and
    /// [`LockError::NoConnection`](crate::LockError::NoConnection) when there is no connection to a
    /// quorum or it is lost before the answer.
    pub fn try_acquire(&self) -> Result<MutexGuard, RecipeError> {
        self.enter("try_acquire", Entry::OnlyIfFree, None)
    }

    fn enter(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<MutexGuard, RecipeError> {
        self.0.enter(operation, Claim::Exclusive, entry).held(end).map(MutexGuard)
    }

    /// Returns who holds the lock and who waits for it, in the order in which they are served. It
    /// may be out of date when it arrives. It costs a round trip, and another for each contender.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`](crate::LockError::Request). Without a connection it waits for one, as
    /// all requests do: limit that with [`with_request_timeout`](Client::with_request_timeout)
    /// before the lock is made.
    pub fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "contenders")
    }

    /// Asks the owner of `node` to release the lock, by the node's data, as Apache Curator does. An
    /// owner that is [revocable](Options::revocable) is notified; nothing forces it to release.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`](crate::LockError::Request), with `NO_NODE` when it is gone already.
    pub fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.0.client, &self.0.below(node))
    }

    /// Returns how many contenders of this lock, made by this value and its clones, are no longer
    /// wanted and not yet known to be gone from the server.
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// Returns how many nodes of this lock, made by this value and its clones, the ensemble has
    /// refused to delete; see [`LockError::Abandoned`](crate::LockError::Abandoned).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

guard! {
    /// A [`Mutex`] that is held. Dropped, it is released in the background.
    MutexGuard
}
