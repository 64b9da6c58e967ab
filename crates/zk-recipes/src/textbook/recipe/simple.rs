//! The textbook lock.

use zk_session::proto::path;

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::guard::Guard;
use crate::client::pending::Pending;
use crate::client::queue::Queue;
use crate::error::RecipeError;
use crate::options::Options;
use crate::textbook::simple::SimpleContender;

/// The textbook lock: one ephemeral node, owned by the client that creates it. It exists to be
/// compared with [`Mutex`](crate::Mutex), not to be used.
///
/// Waiters watch the node. When it is deleted, all of them are woken and try to create it; the
/// fastest succeeds.
///
/// # Guarantee
///
/// That of [`Mutex`](crate::Mutex), as long as no other client deletes the node: all owners use one
/// name, so a release could then hit the next one's. It is not fair: a waiter may wait for ever.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Each waiter has one watch.
/// A release with n waiters costs n notifications and 2n - 1 requests, all but one of them in vain.
#[derive(Clone, Debug)]
pub struct SimpleLock<C = Client>(Queue<C>);

impl<C: SessionClient> SimpleLock<C> {
    /// Returns the lock at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

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

    /// Waits for the lock, in no order.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error.
    pub fn acquire(&self) -> Pending<Guard<C>, C> {
        let enter = |queue: &Queue<C>| {
            let config = queue.config(LockMode::Exclusive, WaitPolicy::Queue);
            let parent = path::parent(&queue.path).unwrap_or("/").into();
            queue.start("acquire", || SimpleContender::new(config), parent)
        };
        Pending::attempt(&self.0, enter, Guard::new)
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns how many nodes of this value and its clones are no longer wanted and not yet known
    /// to be deleted. A deletion that the ensemble refuses is not pending any more:
    /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// Returns how many nodes of this value and its clones the ensemble has refused to delete,
    /// mostly because the access control list of their parent denies it.
    ///
    /// They stay until the session ends or another client deletes them, and block the contenders
    /// behind them. An attempt of this process that would wait for one fails with
    /// [`LockError::Abandoned`](crate::LockError::Abandoned). An [observer](Options::observer) receives
    /// [`Event::Abandoned`](crate::Event::Abandoned) for each.
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}
