//! The exclusive lock.

use alloc::vec::Vec;

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::contenders;
use crate::client::contenders::QueueEntry;
use crate::client::guard::Guard;
use crate::client::pending::Pending;
use crate::client::queue::Queue;
use crate::error::RecipeError;
use crate::options::Options;

/// An exclusive, fair lock without a herd effect.
///
/// ```no_run
/// use zk_recipes::{Mutex, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = Mutex::new(&client, "/locks/printer")?.acquire().await?;
/// println!("we print, with token {}", guard.fencing_token().0);
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// In a thread, with a client that blocks:
///
/// ```no_run
/// use zk_recipes::{Mutex, session::blocking::Client};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let guard = Mutex::new(&client, "/locks/printer")?.acquire().wait()?;
/// println!("we print, with token {}", guard.fencing_token().0);
/// guard.release().wait()?;
/// # Ok(())
/// # }
/// ```
///
/// Contenders are ephemeral nodes below the lock path, in the order of their creation. Each watches
/// only the one before it. Names follow Apache Curator's `InterProcessMutex` unless
/// [`Options::scheme`] is set, so Java, Go and Rust can contend for one lock. Missing parents are
/// created as containers, which the server removes when they are no longer used.
///
/// If the session expires while an attempt waits, the attempt fails. With the feature `full` and a
/// client that [renews](zk_session::ClientBuilder::renew) its session, the attempt queues again, at
/// the end, on the next session. It also does so if its node is deleted. Its time limit still
/// applies. A lock that is held is lost in both cases: its guard reports that once, and nothing
/// acquires it again.
///
/// A holder that acquires the lock again waits for itself. Use
/// [`ReentrantMutex`](crate::ReentrantMutex) for that.
///
/// # Guarantee
///
/// At most one contender holds the lock, as the ensemble sees it. A holder that is cut off cannot
/// know at once that the ensemble has passed its lock on.
///
/// * [`Guard::state`] and [`Guard::lost`] report the loss as early as possible.
/// * With [`Guard::fencing_token`], a resource can refuse a late write.
/// * For data in ZooKeeper itself, [`Guard::transaction`] does that.
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
pub struct Mutex<C = Client>(pub(crate) Queue<C>);

impl<C: SessionClient> Mutex<C> {
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
        Queue::new(client, "mutex", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Waits for the lock. Contenders are served in the order in which their nodes reach the
    /// server.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error: the place in the
    /// queue is kept as long as the session lives. With the feature `full` and a client that renews
    /// its session, neither is the end of a session.
    pub fn acquire(&self) -> Pending<Guard<C>, C> {
        Pending::enter(&self.0, "acquire", LockMode::Exclusive, WaitPolicy::Queue, |held| {
            held.map(Guard::new)
        })
    }

    /// Acquires the lock if no contender holds it or waits for it.
    ///
    /// It lists the queue first, and enters it only if it is empty. That takes one round trip if
    /// the lock is held, two if it is free. Of several attempts at once, all may see each other and
    /// fail.
    ///
    /// It waits for the server's reply, but neither for other contenders nor for a connection. A
    /// brief reconnect to another server makes it fail, and a read-only server is no connection. To
    /// wait for a connection, use [`acquire`](Self::acquire) with a
    /// [time limit](Pending::timeout).
    ///
    /// # Errors
    ///
    /// [`Busy`](crate::LockError::Busy) if the lock is held.
    /// [`NoConnection`](crate::LockError::NoConnection) if there is no connection to a quorum, or if
    /// it is lost before the reply.
    #[cfg(feature = "full")]
    pub fn try_acquire(&self) -> Pending<Guard<C>, C> {
        Pending::enter(
            &self.0,
            "try_acquire",
            LockMode::Exclusive,
            WaitPolicy::OnlyIfFree,
            |held| held.map(Guard::new),
        )
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
    /// [`LockError::Request`](crate::LockError::Request). A lock path that does not exist has no
    /// contenders. Without a connection it waits for one, as all requests do: give it a
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
    /// [`LockError::Request`](crate::LockError::Request), with `NO_NODE` when the node does not
    /// exist. Without a connection it waits for one, as [`contenders`](Self::contenders) does.
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
