//! The read/write lock.

use alloc::vec::Vec;
use core::future::Future;

use zk_session::Client;

use crate::error::{LockError, RecipeError};
use crate::face::Call;
use crate::face::NotConverted;
use crate::face::Queue;
use crate::face::contenders::Entrant;
use crate::face::limited::limited;
use crate::face::listing;
use crate::face::options::Options;
use crate::face::waiting::guard;
use crate::machine::{Claim, Entry, Scheme};

/// A lock for many readers, or one writer.
///
/// All stand in one queue. A reader waits for the last writer before it, a writer for whoever is
/// immediately before it. Nobody overtakes: readers that come after a writer wait for it even while
/// other readers hold the lock, so that no writer waits for ever. So whoever holds it and waits for
/// it again may wait for itself, a reader as soon as a writer has come in between: it is not
/// re-entrant. Names follow Apache Curator's `InterProcessReadWriteLock`.
///
/// # Guarantee
///
/// As for [`Mutex`](crate::Mutex): a writer never holds the lock beside anybody else, as the
/// ensemble sees it. Tokens of readers that hold it together say nothing about each other. As for
/// a mutex, too, contenders of another kind of lock at the same path are refused.
///
/// # Cost
///
/// One round trip to acquire the lock when it can be had, and one to release it. A writer that
/// leaves wakes the next writer, or all readers up to it; a reader that leaves wakes the writer
/// behind it, if there is one. As for a mutex, keep this value if you take the lock again.
#[derive(Clone, Debug)]
pub struct RwLock(pub(crate) Queue);

impl RwLock {
    /// The lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The lock at `path`, taken in this way.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new); and [`LockError::NoReaders`] for a [scheme](Options::scheme)
    /// without shared nodes.
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, path, Scheme::CURATOR_READ_WRITE, options)?;
        if !queue.scheme.has_readers() {
            return Err(queue.call("new").failed(LockError::NoReaders));
        }
        Ok(Self(queue))
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Waits until no writer is before us. Errors, panics, order and cancellation as for
    /// [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn read(&self) -> impl Future<Output = Result<ReadGuard, RecipeError>> + Send + use<> {
        self.enter_read("read", Entry::Queue)
    }

    /// Waits until nobody is before us. Errors, panics, order and cancellation as for
    /// [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn write(&self) -> impl Future<Output = Result<WriteGuard, RecipeError>> + Send + use<> {
        self.enter_write("write", Entry::Queue)
    }

    limited!("read": read_until, read_timeout: read() by enter_read() -> ReadGuard);

    limited!("write": write_until, write_timeout: write() by enter_write() -> WriteGuard);

    fn enter_read(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<ReadGuard, RecipeError>> + Send + use<> {
        let entering = self.0.enter(operation, Claim::Shared, entry);
        async { entering.held().await.map(ReadGuard) }
    }

    fn enter_write(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<WriteGuard, RecipeError>> + Send + use<> {
        let entering = self.0.enter(operation, Claim::Exclusive, entry);
        async { entering.held().await.map(WriteGuard) }
    }

    /// Acquires the lock for reading if no writer holds it or waits for it: it overtakes nobody. It
    /// does not wait for a connection either: without one it fails at once.
    /// Cost as for [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`]; [`LockError::NoConnection`], as for
    /// [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    pub fn try_read(&self) -> impl Future<Output = Result<ReadGuard, RecipeError>> + Send + use<> {
        self.enter_read("try_read", Entry::OnlyIfFree)
    }

    /// Acquires the lock for writing if nobody holds it or waits for it. It does not wait for a
    /// connection either: without one it fails at once.
    /// Cost as for [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`]; [`LockError::NoConnection`], as for
    /// [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    pub fn try_write(
        &self,
    ) -> impl Future<Output = Result<WriteGuard, RecipeError>> + Send + use<> {
        self.enter_write("try_write", Entry::OnlyIfFree)
    }

    /// Who holds the lock and who waits for it, in the order in which they came.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::contenders`](crate::Mutex::contenders).
    pub async fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "contenders").await
    }

    /// Asks whoever owns `node` to let go; see [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// As for [`Mutex::revoke`](crate::Mutex::revoke).
    pub async fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.0.client, &self.0.below(node)).await
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// How many nodes were abandoned; see [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.0.call(operation)
    }
}

guard! {
    /// An [`RwLock`] that is held for reading. Dropped, it is released in the background.
    ReadGuard
}

impl ReadGuard {
    /// Makes a writer of the only contender: if nobody else holds the lock or waits for it.
    /// It does not wait, since two readers that did would wait for each other for ever.
    ///
    /// # Errors
    ///
    /// The guard comes back with the reason: [`LockError::NotAlone`], or whatever kept us from
    /// finding out; the lock is held for reading then, unless the reason is its loss. Without a server
    /// that is at the end of the [lease](crate::Held::lease); a lock that is held
    /// [until told otherwise](crate::machine::Trust::UntilTold) waits for the server, or the end of the
    /// session.
    ///
    /// # Cancellation
    ///
    /// The lock is released in the background.
    pub async fn try_upgrade(mut self) -> Result<WriteGuard, NotConverted<Self>> {
        match self.0.convert("try_upgrade", Claim::Exclusive).await {
            Ok(()) => Ok(WriteGuard(self.0)),
            Err(error) => Err(NotConverted { guard: self, error }),
        }
    }
}

guard! {
    /// An [`RwLock`] that is held for writing. Dropped, it is released in the background.
    WriteGuard
}

impl WriteGuard {
    /// Makes a reader of the writer without letting a writer in between; readers that wait behind
    /// it are let in. One transaction. The fencing token stays: a new one would be greater than
    /// those of writers that wait already.
    ///
    /// # Errors
    ///
    /// The guard comes back with the reason; the lock is held for writing then, unless the reason
    /// is its loss. Without a server it ends as [`try_upgrade`](ReadGuard::try_upgrade) does.
    ///
    /// # Cancellation
    ///
    /// The lock is released in the background.
    pub async fn downgrade(mut self) -> Result<ReadGuard, NotConverted<Self>> {
        match self.0.convert("downgrade", Claim::Shared).await {
            Ok(()) => Ok(ReadGuard(self.0)),
            Err(error) => Err(NotConverted { guard: self, error }),
        }
    }
}
