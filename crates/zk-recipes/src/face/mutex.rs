//! The exclusive lock.

use alloc::vec::Vec;
use core::future::Future;

use zk_session::Client;

use crate::error::RecipeError;
use crate::face::Call;
use crate::face::Queue;
use crate::face::contenders::Entrant;
use crate::face::limited::limited;
use crate::face::listing;
use crate::face::options::Options;
use crate::face::waiting::guard;
use crate::machine::{Claim, Entry, Scheme};

/// An exclusive, fair lock without a herd.
///
/// The lock is a directory of the tree; its contenders stand in it as ephemeral nodes, in the
/// order of their arrival, each watching only the one before it. Names follow Apache Curator's
/// `InterProcessMutex` unless [`Options::scheme`] says otherwise, so Java, Go and Rust can contend
/// for one lock. Missing directories are created, as containers, which the server removes when
/// they are no longer used. Whoever holds the lock and waits for it again waits for itself: that is
/// what [`ReentrantMutex`](crate::ReentrantMutex) is for.
///
/// # Guarantee
///
/// At most one contender holds the lock, as the ensemble sees it. A holder that is cut off cannot
/// know at once that the ensemble has given its lock to another; [`Held::lost`](crate::Held::lost) and
/// [`Held::state`](crate::Held::state) tell as early as can be, and [`Held::fencing_token`](crate::Held::fencing_token) lets others refuse what
/// comes too late. For what is kept in ZooKeeper itself, [`Held::transaction`](crate::Held::transaction) does that.
///
/// A contender is known by the name of its node, so a mutex and a lock of another kind, such as a
/// read/write lock or a mutex of kazoo, do not exclude each other at one path. An attempt that
/// finds a contender of another kind fails with
/// [`LockError::OtherLock`](crate::LockError::OtherLock); [`Foreign`](crate::machine::Foreign)
/// offers other policies. The later contender must make this check: one of kazoo does not.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. A lock that is passed on
/// wakes exactly one waiter, however many there are.
///
/// Keep this value if you take the lock again: it remembers its last number. Where nobody else has
/// come many times in a row it spares the list of contenders, and when somebody comes after all, one
/// round trip more is needed, once.
#[derive(Clone, Debug)]
pub struct Mutex(pub(crate) Queue);

impl Mutex {
    /// The lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The lock at `path`, taken in this way.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Waits for the lock.
    ///
    /// # Errors
    ///
    /// See [`LockError`](crate::LockError). A lost connection is not an error: the place in the
    /// queue is kept as long as the session lives.
    ///
    /// # Ordering
    ///
    /// Contenders are served in the order in which their nodes reach the server. The request is
    /// on its way when this method returns, before its future is awaited.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the place up: the node is deleted in the background, also when
    /// nobody knows yet whether it exists, and also after a lost connection.
    pub fn acquire(&self) -> impl Future<Output = Result<MutexGuard, RecipeError>> + Send + use<> {
        self.enter("acquire", Entry::Queue)
    }

    limited!("acquire": acquire_until, acquire_timeout: acquire() by enter() -> MutexGuard);

    fn enter(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<MutexGuard, RecipeError>> + Send + use<> {
        let entering = self.0.enter(operation, Claim::Exclusive, entry);
        async { entering.held().await.map(MutexGuard) }
    }

    /// Acquires the lock if nobody holds it or waits for it. It looks first, and enters the queue
    /// only if there is nobody; so it costs one round trip if the lock is taken, two if it is
    /// free. Of several that try at once, all may see each other and fail.
    ///
    /// It waits for the servers' answer, but neither for other contenders nor for a connection. Without
    /// a connection to a quorum it fails at once, and also when the connection is lost before the
    /// answer. A brief reconnect to another server is enough for that; a connection to a server that
    /// can only read counts as none. If a server does not answer, the attempt fails when the client
    /// takes the connection for dead. A client is connected when
    /// [`Client::connect`](zk_session::Client::connect) returns. To wait for a later connection, use
    /// [`acquire_timeout`](Self::acquire_timeout).
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`](crate::LockError::Busy) when the lock is taken, and
    /// [`LockError::NoConnection`](crate::LockError::NoConnection); a node that was created by then is
    /// deleted in the background.
    ///
    /// # Cancellation
    ///
    /// As for [`acquire`](Self::acquire).
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<MutexGuard, RecipeError>> + Send + use<> {
        self.enter("try_acquire", Entry::OnlyIfFree)
    }

    /// Who holds the lock and who waits for it, in the order in which they are served. It may be
    /// out of date when it arrives.
    ///
    /// Nodes are read in batches of 1,000, with as many requests under way as the session takes, so
    /// any number of contenders can be listed. One that may not be read is listed without its data.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`](crate::LockError::Request). Where there is no directory there are no
    /// contenders. Without a connection it waits for one, as all requests do: limit that with
    /// [`Client::with_request_timeout`](zk_session::Client::with_request_timeout) before the lock is
    /// made, or with `tokio::time::timeout`.
    pub async fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "contenders").await
    }

    /// Asks whoever owns `node` to let go, as Apache Curator does: by its data. The owner hears
    /// it if it is [revocable](Options::revocable), and does what it likes.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`](crate::LockError::Request), with `NO_NODE` when it is gone already.
    /// Without a connection it waits for one, as [`contenders`](Self::contenders) does.
    pub async fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.0.client, &self.0.below(node)).await
    }

    /// How many contenders of this lock, made by this value and its clones, are no longer wanted
    /// and not yet known to be gone from the server. A deletion that was refused for good is not
    /// pending any more: [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// How many nodes of this lock, made by this value and its clones, the ensemble has refused to
    /// delete, mostly because the access control list of the lock's path does not let this client
    /// delete. They stay until the session ends or another client deletes them, and block the
    /// contenders behind them. An attempt of this process that would wait for one fails with
    /// [`LockError::Abandoned`](crate::LockError::Abandoned); an [observer](Options::observer)
    /// receives an event for each ([`Event::Abandoned`](crate::Event::Abandoned)).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.0.call(operation)
    }
}

guard! {
    /// A [`Mutex`] that is held. Dropped, it is released in the background.
    MutexGuard
}
