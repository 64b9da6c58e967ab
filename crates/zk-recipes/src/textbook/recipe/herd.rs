//! The textbook lock with a queue and a herd effect.

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::guard::Guard;
use crate::client::pending::Pending;
use crate::client::queue::Queue;
use crate::error::RecipeError;
use crate::options::Options;
use crate::textbook::HerdContender;

/// An exclusive, fair lock with a herd effect, to be compared with [`Mutex`](crate::Mutex).
///
/// It differs in one point: a waiter watches the *parent* of all nodes, not the node before its
/// own.
///
/// # Guarantee
///
/// That of [`Mutex`](crate::Mutex).
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. Whenever a contender
/// enters or leaves, *all* waiters are woken, and each lists all nodes. With n waiters, that is n
/// notifications and n lists of n names.
#[derive(Clone, Debug)]
pub struct HerdMutex<C = Client>(Queue<C>);

impl<C: SessionClient> HerdMutex<C> {
    /// Returns the lock at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "herd_mutex", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Waits for the lock. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError).
    pub fn acquire(&self) -> Pending<Guard<C>, C> {
        let enter = |queue: &Queue<C>| {
            let config = queue.config(LockMode::Exclusive, WaitPolicy::Queue);
            queue.start("acquire", || HerdContender::new(config), queue.path.clone())
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
