//! The textbook lock.

use zk_session::proto::path;

use super::client::Limit;
use super::macros::{guard, methods, new, queue_methods};
use super::queue::Queue;
use super::{Options, SessionClient};
use crate::error::RecipeError;
use crate::machine::{LockMode, Scheme, SimpleContender};

/// The textbook lock: one ephemeral node, owned by the client that creates it. It exists to be
/// compared with [`Mutex`](super::Mutex), not to be used.
///
/// Waiters watch the node. When it is deleted, all of them are woken and try to create it; the
/// fastest succeeds.
///
/// # Guarantee
///
/// That of [`Mutex`](super::Mutex), as long as no other client deletes the node: all owners use one
/// name, so a release could then hit the next one's. It is not fair: a waiter may wait for ever.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Each waiter has one watch.
/// A release with n waiters costs n notifications and 2n - 1 requests, all but one of them in vain.
#[derive(Clone, Debug)]
pub struct SimpleLock<C>(Queue<C>);

new!(SimpleLock);
queue_methods!(SimpleLock, 0);

impl<C: SessionClient> SimpleLock<C> {
    /// Returns the lock whose node is at `path`, with options; the scheme has no effect. Sends
    /// nothing yet.
    ///
    /// A persistent node at the path may be the parent of another lock. It is refused with
    /// [`LockError::UnknownNode`](crate::LockError::UnknownNode), unless the policy is
    /// [`UnknownNodePolicy::Ignore`](crate::UnknownNodePolicy::Ignore).
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "simple_lock", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    fn enter(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<SimpleGuard<C>, RecipeError>> + Send + use<C> {
        let config = self.0.config(LockMode::Exclusive, limit.wait_policy);
        let parent = path::parent(&self.0.path).unwrap_or("/").into();
        let pending = self.0.start("acquire", SimpleContender::new(config), parent);
        async move { pending.held(limit.end).await.map(SimpleGuard) }
    }
}

methods! { SimpleLock:
    /// Waits for the lock, in no order.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error.
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<SimpleGuard<C>, RecipeError>
    {
        self.enter(limit)
    }
}

guard! {
    /// A [`SimpleLock`] that is held. Dropped, it is released in the background.
    SimpleGuard
}
