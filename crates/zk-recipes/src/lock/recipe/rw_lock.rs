//! The read/write lock.

use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::contenders;
use crate::client::contenders::QueueEntry;
use crate::client::guard::Guard;
use crate::client::pending::{Hold, Pending, Signal};
use crate::client::queue::Queue;
use crate::error::{ModeError, RecipeError};
use crate::multi_lock::recipe::loss::MultiLoss;
use crate::options::Options;

/// A lock for many readers, or one writer.
///
/// ```no_run
/// use zk_recipes::{RwLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let index = RwLock::new(&client, "/locks/index")?;
/// let writer = index.write().await?;
/// // No writer gets in between.
/// let reader = writer.downgrade().await.map_err(|refused| refused.error)?;
/// reader.release().await?;
/// # Ok(())
/// # }
/// ```
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
/// as for a [`Mutex`](crate::Mutex).
///
/// # Cost
///
/// One round trip to acquire the lock when it is free, and one to release it. A writer that leaves
/// wakes the next writer, or all readers up to it. A reader that leaves wakes the writer behind it,
/// if there is one. Keep this value if you take the lock again.
#[doc(alias = "InterProcessReadWriteLock")]
#[derive(Clone, Debug)]
pub struct RwLock<C = Client>(pub(crate) Queue<C>);

impl<C: SessionClient> RwLock<C> {
    /// Returns the lock at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::of(client, path, Options::new())
    }

    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid, and
    /// [`ModeError::NoReaders`] for a [scheme](Options::scheme) without shared nodes.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError<ModeError>> {
        let lock = Self::of(client, path, options)?;
        match lock.0.scheme.has_readers() {
            true => Ok(lock),
            false => Err(lock.0.call("new").failed(ModeError::NoReaders)),
        }
    }

    fn of(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "rw_lock", path, Scheme::CURATOR_READ_WRITE, options).map(Self)
    }

    /// Waits until no writer is ahead, and holds the lock for reading.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError).
    pub fn read(&self) -> Pending<ReadGuard<C>, C> {
        self.enter_read("read", WaitPolicy::Queue)
    }

    /// Waits until no contender is ahead, and holds the lock for writing.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError).
    pub fn write(&self) -> Pending<WriteGuard<C>, C> {
        self.enter_write("write", WaitPolicy::Queue)
    }

    fn enter_read(
        &self,
        operation: &'static str,
        wait_policy: WaitPolicy,
    ) -> Pending<ReadGuard<C>, C> {
        Pending::enter(&self.0, operation, LockMode::Shared, wait_policy, |held| {
            held.map(|held| ReadGuard(Guard::new(held)))
        })
    }

    fn enter_write(
        &self,
        operation: &'static str,
        wait_policy: WaitPolicy,
    ) -> Pending<WriteGuard<C>, C> {
        Pending::enter(&self.0, operation, LockMode::Exclusive, wait_policy, |held| {
            held.map(|held| WriteGuard(Guard::new(held)))
        })
    }

    /// Returns the holders of the lock and the contenders that wait for it, in the order in which
    /// their nodes were created. The list may be out of date when it arrives.
    ///
    /// Nodes are read in batches of 1,000, with as many requests under way as the session accepts,
    /// so it can list any number of contenders. A node that cannot be read is listed without its
    /// data.
    ///
    /// # Errors
    ///
    /// [`Request`](crate::LockError::Request). A lock path that does not exist has no contenders.
    /// Without a connection it waits for one, as all requests do: give it a
    /// [time limit](Pending::timeout), or set `with_request_timeout` of the client before the lock
    /// is made.
    pub fn contenders(&self) -> Pending<Vec<QueueEntry>, C> {
        contenders::list(&self.0, "contenders")
    }

    /// Asks the owner of `node` to release the lock, by the node's data, as Apache Curator does. An
    /// owner that is [revocable](Options::revocable) is notified; nothing forces it to release.
    ///
    /// # Errors
    ///
    /// [`Request`](crate::LockError::Request), with `NO_NODE` when the node does not exist. Without
    /// a connection it waits for one, as [`contenders`](Self::contenders) does.
    pub fn revoke(&self, node: &str) -> Pending<(), C> {
        contenders::revoke(&self.0.client, self.0.below(node))
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns how many attempts of this value and its clones wait for another one of them, and have
    /// no node. Without [local hand-over](Options::local_hand_over), each attempt has one.
    pub fn local_waiters(&self) -> usize {
        self.0.local_waiters()
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

/// # Attempts that do not wait
#[cfg(feature = "full")]
impl<C: SessionClient> RwLock<C> {
    /// Acquires the lock for reading if no writer holds it or waits for it. The rules are those of
    /// [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::LockError::Busy), and [`NoConnection`](crate::LockError::NoConnection),
    /// which it does not wait for.
    pub fn try_read(&self) -> Pending<ReadGuard<C>, C> {
        self.enter_read("try_read", WaitPolicy::OnlyIfFree)
    }

    /// Acquires the lock for writing if no contender holds it or waits for it. The rules are those
    /// of [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::LockError::Busy), and [`NoConnection`](crate::LockError::NoConnection),
    /// which it does not wait for.
    pub fn try_write(&self) -> Pending<WriteGuard<C>, C> {
        self.enter_write("try_write", WaitPolicy::OnlyIfFree)
    }
}

/// An [`RwLock`] that is held for reading. Dropped, it is released in the background.
///
/// It has all methods of a [`Guard`].
#[must_use = "a guard that is dropped releases its lock"]
pub struct ReadGuard<C = Client>(pub(super) Guard<C>);

impl<C: SessionClient> Hold<C> for ReadGuard<C> {
    fn until_lost(&self) -> Signal<MultiLoss, C> {
        (**self).until_lost()
    }

    fn end(self) -> Pending<(), C> {
        self.release()
    }
}

impl<C: SessionClient> fmt::Debug for ReadGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReadGuard").field(&self.0).finish()
    }
}

impl<C> Deref for ReadGuard<C> {
    type Target = Guard<C>;

    fn deref(&self) -> &Guard<C> {
        &self.0
    }
}

impl<C: SessionClient> ReadGuard<C> {
    /// Releases the lock and waits until the next contender can have it; see [`Guard::release`].
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
    pub fn release(self) -> Pending<(), C> {
        self.0.release()
    }
}

/// An [`RwLock`] that is held for writing. Dropped, it is released in the background.
///
/// It has all methods of a [`Guard`].
#[must_use = "a guard that is dropped releases its lock"]
pub struct WriteGuard<C = Client>(pub(super) Guard<C>);

impl<C: SessionClient> Hold<C> for WriteGuard<C> {
    fn until_lost(&self) -> Signal<MultiLoss, C> {
        (**self).until_lost()
    }

    fn end(self) -> Pending<(), C> {
        self.release()
    }
}

impl<C: SessionClient> fmt::Debug for WriteGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WriteGuard").field(&self.0).finish()
    }
}

impl<C> Deref for WriteGuard<C> {
    type Target = Guard<C>;

    fn deref(&self) -> &Guard<C> {
        &self.0
    }
}

impl<C: SessionClient> WriteGuard<C> {
    /// Releases the lock and waits until the next contender can have it; see [`Guard::release`].
    ///
    /// # Errors
    ///
    /// Those of [`Guard::release`].
    pub fn release(self) -> Pending<(), C> {
        self.0.release()
    }
}
