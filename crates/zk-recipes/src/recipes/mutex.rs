//! The exclusive lock.

use alloc::vec::Vec;

use super::client::Limit;
use super::macros::{contender_methods, guard, methods, new, queue_methods};
use super::{Options, SessionClient};
use crate::error::RecipeError;
use crate::machine::{LockMode, Scheme};
use crate::recipes::queue::Queue;

/// An exclusive, fair lock without a herd effect.
///
/// Contenders are ephemeral nodes below the lock path, in the order of their creation. Each watches
/// only the one before it. Names follow Apache Curator's `InterProcessMutex` unless
/// [`Options::scheme`] is set, so Java, Go and Rust can contend for one lock. Missing parents are
/// created as containers, which the server removes when they are no longer used.
///
/// If the session expires while an attempt waits, the attempt fails. With a client that
/// [renews](zk_session::ClientBuilder::renew) its session, the attempt queues again, at the end, on
/// the next session. It also does so if its node is deleted. Its time limit still applies. A lock
/// that is held is lost in both cases: its guard reports that once, and nothing acquires it again.
///
/// A holder that acquires the lock again waits for itself. Use
/// [`ReentrantMutex`](super::ReentrantMutex) for that.
///
/// # Guarantee
///
/// At most one contender holds the lock, as the ensemble sees it. A holder that is cut off cannot
/// know at once that the ensemble has passed its lock on.
///
/// * [`HeldLock::state`](super::HeldLock::state) and
///   [`HeldLock::on_lost`](super::HeldLock::on_lost) report the loss as early as possible.
/// * With [`HeldLock::fencing_token`](super::HeldLock::fencing_token), a resource can refuse a late
///   write.
/// * For data in ZooKeeper itself, [`HeldLock::transaction`](super::HeldLock::transaction) does
///   that.
///
/// Locks of different kinds at one path, such as a mutex and a read/write lock, do not exclude each
/// other. An attempt that finds a contender of another kind fails with
/// [`LockError::OtherLock`](crate::LockError::OtherLock).
/// [`UnknownNodePolicy`](crate::UnknownNodePolicy) offers other policies. The later contender must
/// make this check, and kazoo's does not.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. A release wakes exactly
/// one waiter, however many there are.
///
/// Keep this value if you acquire the lock again: it remembers the last attempt. After several
/// attempts without another contender, it omits the list of contenders. If another contender comes
/// after all, that costs one more round trip, once.
#[doc(alias = "InterProcessMutex")]
#[derive(Clone, Debug)]
pub struct Mutex<C>(pub(super) Queue<C>);

new!(Mutex);
queue_methods!(Mutex, 0);
contender_methods!(Mutex, 0);

impl<C: SessionClient> Mutex<C> {
    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "mutex", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    fn enter(
        &self,
        operation: &'static str,
        limit: Limit,
    ) -> impl Future<Output = Result<MutexGuard<C>, RecipeError>> + Send + use<C> {
        let pending = self.0.enter(operation, LockMode::Exclusive, limit.wait_policy);
        async move { pending.held(limit.end).await.map(MutexGuard) }
    }
}

methods! { Mutex:
    /// Waits for the lock. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error: the place in the
    /// queue is kept as long as the session lives. With a client that renews its session, neither is
    /// the end of a session.
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<MutexGuard<C>, RecipeError>
    {
        self.enter("acquire", limit)
    }

    /// Acquires the lock if no contender holds it or waits for it.
    ///
    /// It lists the queue first, and enters it only if it is empty. That takes one round trip if
    /// the lock is held, two if it is free. Of several attempts at once, all may see each other and
    /// fail.
    ///
    /// It waits for the server's reply, but neither for other contenders nor for a connection. A
    /// brief reconnect to another server makes it fail, and a read-only server is no connection. To
    /// wait for a connection, use [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`](crate::LockError::Busy) if the lock is held.
    /// [`LockError::NoConnection`](crate::LockError::NoConnection) if there is no connection to a
    /// quorum, or if it is lost before the reply.
    attempt fn try_acquire [] (&self) -> Result<MutexGuard<C>, RecipeError> {
        self.enter("try_acquire", Limit::TRY)
    }
}

guard! {
    /// A [`Mutex`] that is held. Dropped, it is released in the background.
    MutexGuard
}
