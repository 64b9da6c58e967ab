//! The textbook lock with a queue and a herd effect.

use super::client::Limit;
use super::macros::{guard, methods, new, queue_methods};
use super::queue::Queue;
use super::{Options, SessionClient};
use crate::error::RecipeError;
use crate::machine::{Contender, LockMode, Scheme};

/// An exclusive, fair lock with a herd effect, to be compared with [`Mutex`](super::Mutex).
///
/// It differs in one point: a waiter watches the *parent* of all nodes, not the node before its
/// own.
///
/// # Guarantee
///
/// That of [`Mutex`](super::Mutex).
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Whenever a contender
/// enters or leaves, *all* waiters are woken, and each lists all nodes. With n waiters, that is n
/// notifications and n lists of n names.
#[derive(Clone, Debug)]
pub struct HerdMutex<C>(Queue<C>);

new!(HerdMutex);
queue_methods!(HerdMutex, 0);

impl<C: SessionClient> HerdMutex<C> {
    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "herd_mutex", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    fn enter(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<HerdGuard<C>, RecipeError>> + Send + use<C> {
        let contender = Contender::herd(self.0.config(LockMode::Exclusive, limit.wait_policy));
        let pending = self.0.start("acquire", contender, self.0.path.clone());
        async move { pending.held(limit.end).await.map(HerdGuard) }
    }
}

methods! { HerdMutex:
    /// Waits for the lock. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError).
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<HerdGuard<C>, RecipeError>
    {
        self.enter(limit)
    }
}

guard! {
    /// A [`HerdMutex`] that is held. Dropped, it is released in the background.
    HerdGuard
}
