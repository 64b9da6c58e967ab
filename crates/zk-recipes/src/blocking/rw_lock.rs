//! The read/write lock.

use alloc::vec::Vec;
use std::time::Instant;

use zk_session::blocking::Client;

use super::Queue;
use super::held::guard;
use super::listing;
use super::waiting::limited;
use crate::error::{LockError, RecipeError};
use crate::face::{Entrant, NotConverted, Options};
use crate::machine::{Claim, Entry, Scheme};

/// A lock for many readers, or one writer, with the names of Apache Curator's
/// `InterProcessReadWriteLock`.
///
/// All contenders stand in one queue. A reader waits for the last writer before it, a writer for
/// the contender immediately before it. No contender overtakes another, so no writer waits for
/// ever. The lock is not re-entrant: a thread that holds it and acquires it again may wait for
/// itself.
///
/// # Guarantee
///
/// A writer holds the lock alone, as the ensemble sees it. Tokens of readers that hold the lock at
/// the same time are in no order.
///
/// # Cost
///
/// One round trip to acquire the lock when it is free, and one to release it.
#[derive(Clone, Debug)]
pub struct RwLock(pub(super) Queue);

impl RwLock {
    /// Returns the lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the lock at `path`, taken with these options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid, and [`LockError::NoReaders`] for a
    /// [scheme](Options::scheme) without shared nodes.
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

    /// Waits until no writer is ahead, and holds the lock for reading.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn read(&self) -> Result<ReadGuard, RecipeError> {
        self.enter_read("read", Entry::Queue, None)
    }

    /// Waits until nobody is ahead, and holds the lock for writing.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    pub fn write(&self) -> Result<WriteGuard, RecipeError> {
        self.enter_write("write", Entry::Queue, None)
    }

    limited!("read": read_timeout: read() by enter_read() -> ReadGuard);
    limited!("write": write_timeout: write() by enter_write() -> WriteGuard);

    /// Acquires the lock for reading if no writer holds it or waits for it.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_read(&self) -> Result<ReadGuard, RecipeError> {
        self.enter_read("try_read", Entry::OnlyIfFree, None)
    }

    /// Acquires the lock for writing if nobody holds it or waits for it.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_write(&self) -> Result<WriteGuard, RecipeError> {
        self.enter_write("try_write", Entry::OnlyIfFree, None)
    }

    fn enter_read(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<ReadGuard, RecipeError> {
        self.0.enter(operation, Claim::Shared, entry).held(end).map(ReadGuard)
    }

    fn enter_write(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<WriteGuard, RecipeError> {
        self.0.enter(operation, Claim::Exclusive, entry).held(end).map(WriteGuard)
    }

    /// Returns who holds the lock and who waits for it, in the order in which they came; see
    /// [`Mutex::contenders`](super::Mutex::contenders).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "contenders")
    }

    /// Asks the owner of `node` to release the lock; see [`Mutex::revoke`](super::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when it is gone already.
    pub fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.0.client, &self.0.below(node))
    }

    /// Returns how many contenders are still to be cleaned up; see
    /// [`Mutex::pending_cleanups`](super::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// Returns how many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](super::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

guard! {
    /// An [`RwLock`] that is held for reading. Dropped, it is released in the background.
    ReadGuard
}

impl ReadGuard {
    /// Turns the read lock into a write lock, if nobody else holds the lock or waits for it. It
    /// does not wait, since two readers that did would wait for each other for ever.
    ///
    /// # Errors
    ///
    /// [`LockError::NotAlone`], or why the attempt failed, with the guard. The lock is still held
    /// for reading, unless the reason is its loss. Without a server it fails at the end of the
    /// [lease](super::Held::lease).
    #[expect(clippy::result_large_err, reason = "the guard comes back as it was")]
    pub fn try_upgrade(mut self) -> Result<WriteGuard, NotConverted<Self>> {
        match self.0.convert("try_upgrade", Claim::Exclusive) {
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
    /// Turns the write lock into a read lock, by one transaction. No writer gets the lock in
    /// between, and readers that wait directly behind it get it too. The fencing token stays the
    /// same: a new one would be greater than those of writers that wait already.
    ///
    /// # Errors
    ///
    /// Why it failed, with the guard. The lock is still held for writing, unless the reason is its
    /// loss. Without a server it fails at the end of the [lease](super::Held::lease).
    #[expect(clippy::result_large_err, reason = "the guard comes back as it was")]
    pub fn downgrade(mut self) -> Result<ReadGuard, NotConverted<Self>> {
        match self.0.convert("downgrade", Claim::Shared) {
            Ok(()) => Ok(ReadGuard(self.0)),
            Err(error) => Err(NotConverted { guard: self, error }),
        }
    }
}
