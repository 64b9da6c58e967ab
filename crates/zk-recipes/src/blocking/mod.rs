//! Distributed locks for threads that block, without an async runtime.
//!
//! The same [machines](crate::machine) drive the async locks, so options, node names, guarantees
//! and cost are the same. [`Options`](crate::Options) and the errors are at the root of the crate.
//! A client has one thread, and a lock has none: a thread that waits for a lock reads from the
//! connection itself if no other thread does.
//!
//! ```no_run
//! use core::time::Duration;
//! use zk_recipes::blocking::Mutex;
//! use zk_recipes::session::blocking::Client;
//!
//! # fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect("zk1:2181,zk2:2181,zk3:2181/app")?;
//! let mutex = Mutex::new(&client, "/locks/printer")?;
//!
//! let guard = mutex.acquire()?;
//! // Give this to the resource that the lock protects, and have it refuse smaller ones.
//! let token = guard.fencing_token();
//! guard.release()?;
//!
//! if let Ok(guard) = mutex.acquire_timeout(Duration::from_secs(1)) {
//!     guard.on_lost(|loss| eprintln!("stop: {loss}"));
//!     // A guard that is dropped releases the lock in the background.
//! }
//! // Waits until the session has ended. If the process exits without this, the servers may keep
//! // what is held until the session times out.
//! client.close();
//! # Ok(())
//! # }
//! ```
//!
//! # Waiting
//!
//! A thread that waits for a lock stops waiting when it gets the lock, when its time limit has
//! passed, or when the session ends. To stop all waiting threads of a client,
//! [close](Client::close) a clone of it. Guards are `Send` and `Sync`.
//!
//! A thread that waits for another owner of the same [`ReentrantMutex`] does not see the end of the
//! session: it stops when the guards of that owner are gone, or at its time limit.
//!
//! # Callbacks
//!
//! An [observer](crate::Options::observer) and an [`on_lost`](Held::on_lost) callback run in a
//! thread of their own. They may use the client, and wait for it or for other threads. They run one
//! at a time, so a callback that waits delays the others, and nothing else: start a thread for what
//! takes long. If one panics, the others still run. They may still run when the method that has
//! caused them returns.

mod client;
mod method;

use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;

pub(crate) use self::method::method;
use crate::error::Loss;
use crate::machine::Leadership;
use crate::recipes::client::{after, before};
use crate::recipes::{self, HeldLock, MultiLoss};

/// An exclusive, fair lock without a herd effect. [`recipes::Mutex`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::Mutex;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let mutex = Mutex::new(&client, "/locks/printer")?;
/// let guard = mutex.acquire()?;
/// println!("we print, with token {}", guard.fencing_token().0);
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
pub type Mutex = recipes::Mutex<Client>;

/// A [`Mutex`] that is held; see [`recipes::MutexGuard`].
pub type MutexGuard = recipes::MutexGuard<Client>;

/// A lock for many readers, or one writer. [`recipes::RwLock`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::RwLock;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let writer = RwLock::new(&client, "/locks/index")?.write()?;
/// // No writer gets in between.
/// let reader = writer.downgrade().map_err(|refused| refused.error)?;
/// reader.release()?;
/// # Ok(())
/// # }
/// ```
pub type RwLock = recipes::RwLock<Client>;

/// An [`RwLock`] that is held for reading; see [`recipes::ReadGuard`].
pub type ReadGuard = recipes::ReadGuard<Client>;

/// An [`RwLock`] that is held for writing; see [`recipes::WriteGuard`].
pub type WriteGuard = recipes::WriteGuard<Client>;

/// A number of permits. [`recipes::Semaphore`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::Semaphore;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let downloads = Semaphore::new(&client, "/downloads", 4)?;
/// let permits = downloads.acquire_many(2)?;
/// permits.release()?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "semaphore")]
pub type Semaphore = recipes::Semaphore<Client>;

/// Permits of a [`Semaphore`] that are held; see [`recipes::PermitGuard`].
#[cfg(feature = "semaphore")]
pub type PermitGuard = recipes::PermitGuard<Client>;

/// A [`Mutex`] that its owner can acquire again. [`recipes::ReentrantMutex`] has its guarantee and
/// cost.
///
/// ```no_run
/// use zk_recipes::blocking::ReentrantMutex;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let mutex = ReentrantMutex::new(&client, "/locks/printer")?;
/// let outer = mutex.acquire()?;
/// let inner = mutex.acquire()?; // at once, in the same thread
/// inner.release()?;
/// outer.release()?; // only now others can have it
/// # Ok(())
/// # }
/// ```
pub type ReentrantMutex = recipes::ReentrantMutex<Client>;

/// A [`ReentrantMutex`] that is held; see [`recipes::ReentrantGuard`].
pub type ReentrantGuard = recipes::ReentrantGuard<Client>;

/// Several locks that are acquired together. [`recipes::MultiLock`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::{LockRequest, MultiLock, Mutex, Semaphore};
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let printer = Mutex::new(&client, "/locks/printer")?;
/// let paper = Semaphore::open(&client, "/paper")?;
/// let both = MultiLock::new([LockRequest::from(&printer), LockRequest::permits(&paper, 17)])?;
/// let guard = both.acquire()?;
/// guard.on_lost(|lost| eprintln!("stop: {lost}"));
/// guard.release()?;
/// # Ok(())
/// # }
/// ```
pub type MultiLock = recipes::MultiLock<Client>;

/// Several locks that are held together; see [`recipes::MultiGuard`].
pub type MultiGuard = recipes::MultiGuard<Client>;

/// One of the locks that a [`MultiLock`] takes; see [`recipes::LockRequest`].
pub type LockRequest = recipes::LockRequest<Client>;

/// The election of one leader among candidates. [`recipes::LeaderElection`] has its guarantee and
/// cost.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::blocking::LeaderElection;
/// use zk_recipes::session::blocking::Client;
/// use zk_recipes::{Leadership, Options};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let election = LeaderElection::with(&client, "/leader", Options::new().data("host-7"))?;
/// let candidate = election.stand();
/// let mut seen = candidate.leadership();
/// loop {
///     match &seen {
///         Leadership::Leader(term) => println!("we lead, with token {}", term.token.0),
///         Leadership::Suspended(_) => println!("the connection is lost: the leader is unknown"),
///         Leadership::Follower => println!("we do not lead"),
///         ended => return Err(format!("{ended:?}").into()),
///     }
///     if let Some(now) = candidate.wait_changed(&seen, Duration::MAX) {
///         seen = now;
///     }
/// }
/// # }
/// ```
pub type LeaderElection = recipes::LeaderElection<Client>;

/// A candidate that stands for election; see [`recipes::Candidate`].
pub type Candidate = recipes::Candidate<Client>;

/// A barrier that clients close and open. [`recipes::Barrier`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::Barrier;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// migration.close()?;
/// // ... and everybody else:
/// migration.wait()?;
/// # Ok(())
/// # }
/// ```
pub type Barrier = recipes::Barrier<Client>;

/// A barrier that participants enter together and leave together. [`recipes::DoubleBarrier`] has
/// its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::DoubleBarrier;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let barrier = DoubleBarrier::new(&client, "/barriers/sort", 3)?;
/// let inside = barrier.enter()?; // all three are there
/// inside.leave()?; // all three are done
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "semaphore")]
pub type DoubleBarrier = recipes::DoubleBarrier<Client>;

/// A participant that has entered a [`DoubleBarrier`]; see [`recipes::BarrierGuard`].
#[cfg(feature = "semaphore")]
pub type BarrierGuard = recipes::BarrierGuard<Client>;

/// An ephemeral node that is kept alive. [`recipes::Ephemeral`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::blocking::Ephemeral;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("127.0.0.1:2181").renew(true).connect()?;
/// let here = Ephemeral::new(&client, "/services/printer/host-7", "10.0.0.7:631")?;
/// here.created()?;
/// // ... until the process ends, or:
/// here.close()?;
/// # Ok(())
/// # }
/// ```
pub type Ephemeral = recipes::Ephemeral<Client>;

/// A copy of a node and everything below it, kept up to date. [`recipes::Cache`] has its guarantee
/// and cost.
///
/// ```no_run
/// use zk_recipes::CacheChange;
/// use zk_recipes::blocking::Cache;
/// use zk_recipes::session::blocking::Client;
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("127.0.0.1:2181").renew(true).connect()?;
/// let config = Cache::new(&client, "/config")?;
/// config.ready()?;
/// println!("{:?}", config.get("/config/printer"));
/// let changes = config.changes();
/// loop {
///     match changes.next()? {
///         CacheChange::Ready => println!("all: {:?}", config.snapshot()),
///         CacheChange::Changed { path, node } => println!("{path} is now {:?}", node.data),
///         change => println!("{change:?}"),
///     }
/// }
/// # }
/// ```
#[cfg(feature = "persistent-watches")]
pub type Cache = recipes::Cache<Client>;

/// The changes of a [`Cache`]; see [`recipes::CacheChanges`].
#[cfg(feature = "persistent-watches")]
pub type CacheChanges = recipes::CacheChanges<Client>;

/// A held lock, with everything that all guards have in common; see [`recipes::HeldLock`].
pub type Held = HeldLock<Client>;

/// An exclusive lock with a herd effect, to be compared with [`Mutex`]; see [`recipes::HerdMutex`].
#[cfg(feature = "study")]
pub type HerdMutex = recipes::HerdMutex<Client>;

/// A [`HerdMutex`] that is held.
#[cfg(feature = "study")]
pub type HerdGuard = recipes::HerdGuard<Client>;

/// The textbook lock, to be compared with [`Mutex`]; see [`recipes::SimpleLock`].
#[cfg(feature = "study")]
pub type SimpleLock = recipes::SimpleLock<Client>;

/// A [`SimpleLock`] that is held.
#[cfg(feature = "study")]
pub type SimpleGuard = recipes::SimpleGuard<Client>;

/// # Waiting in threads
impl HeldLock<Client> {
    /// Waits until the lock is lost, for `timeout` at most. Returns why it was lost, or `None` if
    /// the time has passed and no loss is known.
    pub fn wait_lost(&self, timeout: Duration) -> Option<Loss> {
        let end = after::<Client>(timeout);
        self.client().block_on(end, before::<Client, _>(end, self.losing()))
    }

    /// Waits until another client asks for the lock, for `timeout` at most. Returns whether one
    /// has; always `false` for locks that are not [revocable](crate::Options::revocable).
    pub fn wait_revoked(&self, timeout: Duration) -> bool {
        let end = after::<Client>(timeout);
        self.client().block_on(end, before::<Client, _>(end, self.revoking())).unwrap_or(false)
    }

    /// Returns the end of the session's lease: until then the ensemble must keep the session, and
    /// with it the lock. See [`Client::lease`]. `None` if the lock is lost.
    ///
    /// Call this again each time: after a suspension of the machine, earlier results are too late.
    pub fn lease(&self) -> Option<Instant> {
        self.client().lease().filter(|_| !self.is_lost())
    }
}

/// # Waiting in threads
impl recipes::MultiGuard<Client> {
    /// Waits until any of the locks is lost, for `timeout` at most. Returns which one, or `None` if
    /// the time has passed and no loss is known.
    pub fn wait_lost(&self, timeout: Duration) -> Option<MultiLoss> {
        let end = after::<Client>(timeout);
        let lost = self.client().block_on(end, before::<Client, _>(end, self.losing()));
        lost.map(|(place, loss)| self.loss_of(place, loss))
    }
}

/// # Waiting in threads
impl recipes::Candidate<Client> {
    /// Waits until the leadership differs from `seen`, for `timeout` at most. Returns it, or `None`
    /// if it has not changed.
    ///
    /// Changes in between may be missed. A term that ended and another that began differ in
    /// [`Term::token`](crate::Term::token).
    pub fn wait_changed(&self, seen: &Leadership, timeout: Duration) -> Option<Leadership> {
        let end = after::<Client>(timeout);
        let changed = |leadership| (leadership != *seen).then_some(leadership);
        self.client().block_on(end, self.wait(end, changed)).flatten()
    }
}
