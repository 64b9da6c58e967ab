//! The read/write lock.

use alloc::vec::Vec;

#[cfg(feature = "conversions")]
use super::NotConverted;
use super::client::Limit;
use super::macros::{contender_methods, guard, methods, new, queue_methods};
use super::queue::Queue;
use super::{Options, SessionClient};
use crate::error::{LockError, RecipeError};
use crate::machine::{LockMode, Scheme};

/// A lock for many readers, or one writer.
///
/// All contenders stand in one queue. A reader waits for the last writer before it, a writer for
/// the contender immediately before it. No contender overtakes another, so no writer waits for
/// ever. Names follow Apache Curator's `InterProcessReadWriteLock`.
///
/// The lock is not re-entrant. A holder that acquires it again may wait for itself: a reader does as
/// soon as a writer has come in between.
///
/// # Guarantee
///
/// A writer holds the lock alone, as the ensemble sees it. Tokens of readers that hold the lock at
/// the same time are in no order. Contenders of another kind of lock at the same path are refused,
/// as for a [`Mutex`](super::Mutex).
///
/// # Cost
///
/// One round trip to acquire the lock when it is free, and one to release it. A writer that leaves
/// wakes the next writer, or all readers up to it. A reader that leaves wakes the writer behind it,
/// if there is one. Keep this value if you take the lock again.
#[doc(alias = "InterProcessReadWriteLock")]
#[derive(Clone, Debug)]
pub struct RwLock<C>(pub(super) Queue<C>);

new!(RwLock);
queue_methods!(RwLock, 0);
contender_methods!(RwLock, 0);

impl<C: SessionClient> RwLock<C> {
    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid, and [`LockError::NoReaders`] for a
    /// [scheme](Options::scheme) without shared nodes.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, "rw_lock", path, Scheme::CURATOR_READ_WRITE, options)?;
        if !queue.scheme.has_readers() {
            return Err(queue.call("new").failed(LockError::NoReaders));
        }
        Ok(Self(queue))
    }

    fn enter_read(
        &self,
        operation: &'static str,
        limit: Limit,
    ) -> impl Future<Output = Result<ReadGuard<C>, RecipeError>> + Send + use<C> {
        let pending = self.0.enter(operation, LockMode::Shared, limit.wait_policy);
        async move { pending.held(limit.end).await.map(ReadGuard) }
    }

    fn enter_write(
        &self,
        operation: &'static str,
        limit: Limit,
    ) -> impl Future<Output = Result<WriteGuard<C>, RecipeError>> + Send + use<C> {
        let pending = self.0.enter(operation, LockMode::Exclusive, limit.wait_policy);
        async move { pending.held(limit.end).await.map(WriteGuard) }
    }
}

methods! { RwLock:
    /// Waits until no writer is ahead, and holds the lock for reading.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    enter fn read [read_until, read_timeout] (&self; limit) -> Result<ReadGuard<C>, RecipeError> {
        self.enter_read("read", limit)
    }

    /// Waits until no contender is ahead, and holds the lock for writing.
    ///
    /// # Errors
    ///
    /// See [`LockError`].
    enter fn write [write_until, write_timeout] (&self; limit)
        -> Result<WriteGuard<C>, RecipeError>
    {
        self.enter_write("write", limit)
    }

    /// Acquires the lock for reading if no writer holds it or waits for it. The rules are those of
    /// [`Mutex::try_acquire`](super::Mutex).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    attempt fn try_read [] (&self) -> Result<ReadGuard<C>, RecipeError> {
        self.enter_read("try_read", Limit::TRY)
    }

    /// Acquires the lock for writing if no contender holds it or waits for it. The rules are those
    /// of [`Mutex::try_acquire`](super::Mutex).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    attempt fn try_write [] (&self) -> Result<WriteGuard<C>, RecipeError> {
        self.enter_write("try_write", Limit::TRY)
    }
}

guard! {
    /// An [`RwLock`] that is held for reading. Dropped, it is released in the background.
    ReadGuard
}

#[cfg(feature = "conversions")]
methods! { ReadGuard:
    /// Turns the read lock into a write lock, if no other contender holds the lock or waits for it.
    ///
    /// It does not wait: two readers that did would wait for each other for ever.
    ///
    /// It fails if the session expires, even if the client
    /// [renews](zk_session::ClientBuilder::renew) its session: the read lock is lost, and others may
    /// have written meanwhile. Acquire the write lock on the next session, and read again.
    ///
    /// # Errors
    ///
    /// [`LockError::NotAlone`], or why the attempt failed, with the guard. The lock is still held
    /// for reading, unless the reason is its loss. Without a server the attempt fails at the end of
    /// the session's lease. By the policy
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports), it waits for a server
    /// or the end of the session.
    convert fn try_upgrade [] (self) -> Result<WriteGuard<C>, NotConverted<Self>> {
        async move {
            let mut guard = self;
            match guard.0.convert("try_upgrade", LockMode::Exclusive).await {
                Ok(()) => Ok(WriteGuard(guard.0)),
                Err(error) => Err(NotConverted { guard, error }),
            }
        }
    }
}

guard! {
    /// An [`RwLock`] that is held for writing. Dropped, it is released in the background.
    WriteGuard
}

#[cfg(feature = "conversions")]
methods! { WriteGuard:
    /// Turns the write lock into a read lock, by one transaction. No writer gets the lock in
    /// between, and readers that wait directly behind it get it too. The fencing token stays the
    /// same: a new one would be greater than those of writers that wait already.
    ///
    /// # Errors
    ///
    /// Why it failed, with the guard. The lock is still held for writing, unless the reason is its
    /// loss. Without a server it fails as [`ReadGuard::try_upgrade`] does.
    convert fn downgrade [] (self) -> Result<ReadGuard<C>, NotConverted<Self>> {
        async move {
            let mut guard = self;
            match guard.0.convert("downgrade", LockMode::Shared).await {
                Ok(()) => Ok(ReadGuard(guard.0)),
                Err(error) => Err(NotConverted { guard, error }),
            }
        }
    }
}
