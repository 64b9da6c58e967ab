//! Upgrades and downgrades.

use core::fmt;

use super::{ReadGuard, WriteGuard};
use crate::attempt::LockMode;
use crate::client::{Pending, SessionClient};
use crate::error::{ModeError, RecipeError};

impl<C: SessionClient> ReadGuard<C> {
    /// Turns the read lock into a write lock, if no other contender holds the lock or waits for it.
    ///
    /// It does not wait: two readers that did would wait for each other for ever.
    ///
    /// It fails if the session expires, even if the client
    /// [renews](zk_session::ClientBuilder::renew) its session: the read lock is lost, and others
    /// may have written meanwhile. Acquire the write lock on the next session, and read again.
    ///
    /// Dropping the returned value releases the lock in the background.
    ///
    /// # Errors
    ///
    /// [`ModeError::NotAlone`], or why the attempt failed, with the guard. The lock is still held
    /// for reading, unless the reason is its loss. Without a server the attempt fails at the end of
    /// the session's lease. By the policy
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports), it waits for a server
    /// or the end of the session.
    pub fn try_upgrade(self) -> Pending<WriteGuard<C>, C, NotConverted<Self>> {
        Pending::new(&self.client().clone(), |_| async {
            let mut guard = self;
            match guard.0.convert("try_upgrade", LockMode::Exclusive).await {
                Ok(()) => Ok(WriteGuard(guard.0)),
                Err(error) => Err(NotConverted { guard, error }),
            }
        })
    }
}

impl<C: SessionClient> WriteGuard<C> {
    /// Turns the write lock into a read lock, by one transaction. No writer gets the lock in
    /// between, and readers that wait directly behind it get it too. The fencing token stays the
    /// same: a new one would be greater than those of writers that wait already.
    ///
    /// Dropping the returned value releases the lock in the background.
    ///
    /// # Errors
    ///
    /// Why it failed, with the guard. The lock is still held for writing, unless the reason is its
    /// loss. Without a server it fails as [`ReadGuard::try_upgrade`] does.
    pub fn downgrade(self) -> Pending<ReadGuard<C>, C, NotConverted<Self>> {
        Pending::new(&self.client().clone(), |_| async {
            let mut guard = self;
            match guard.0.convert("downgrade", LockMode::Shared).await {
                Ok(()) => Ok(ReadGuard(guard.0)),
                Err(error) => Err(NotConverted { guard, error }),
            }
        })
    }
}

/// A failed conversion, with the guard. Dropping it releases the lock in the background.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotConverted<G> {
    /// The unchanged guard.
    pub guard: G,
    /// The reason of the failure. After [`LockError::Lost`](crate::LockError::Lost), the lock is no
    /// longer held.
    pub error: RecipeError<ModeError>,
}

impl<G> NotConverted<G> {
    /// Returns the name of the [reason](crate::LockError::name).
    pub fn name(&self) -> &'static str {
        self.error.name()
    }

    /// Returns the unchanged guard.
    pub fn into_guard(self) -> G {
        self.guard
    }
}

impl<G> fmt::Display for NotConverted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl<G: fmt::Debug> core::error::Error for NotConverted<G> {}
