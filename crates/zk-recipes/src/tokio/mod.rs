//! The recipes for tasks, on the async client.

mod client;
mod method;

use tokio::sync::watch;
use tokio::time::Instant;
use zk_session::Client;

pub(crate) use self::method::method;
use crate::error::Loss;
use crate::machine::Leadership;
use crate::recipes::{self, HeldLock, MultiLoss};

/// An exclusive, fair lock without a herd effect. [`recipes::Mutex`] has its guarantee and cost.
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
pub type Mutex = recipes::Mutex<Client>;

/// A [`Mutex`] that is held; see [`recipes::MutexGuard`].
pub type MutexGuard = recipes::MutexGuard<Client>;

/// A lock for many readers, or one writer. [`recipes::RwLock`] has its guarantee and cost.
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
pub type RwLock = recipes::RwLock<Client>;

/// An [`RwLock`] that is held for reading; see [`recipes::ReadGuard`].
pub type ReadGuard = recipes::ReadGuard<Client>;

/// An [`RwLock`] that is held for writing; see [`recipes::WriteGuard`].
pub type WriteGuard = recipes::WriteGuard<Client>;

/// A number of permits. [`recipes::Semaphore`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::{Semaphore, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let downloads = Semaphore::new(&client, "/downloads", 4)?;
/// let one = downloads.acquire().await?;
/// let two_more = downloads.acquire_many(2).await?;
/// two_more.release().await?;
/// one.release().await?;
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
/// use zk_recipes::{Owner, ReentrantMutex, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let mutex = ReentrantMutex::new(&client, "/locks/printer")?;
/// let owner = Owner::unique();
/// let outer = mutex.acquire_as(owner).await?;
/// let inner = mutex.acquire_as(owner).await?; // at once
/// inner.release().await?;
/// outer.release().await?; // only now others can have it
/// # Ok(())
/// # }
/// ```
pub type ReentrantMutex = recipes::ReentrantMutex<Client>;

/// A [`ReentrantMutex`] that is held; see [`recipes::ReentrantGuard`].
pub type ReentrantGuard = recipes::ReentrantGuard<Client>;

/// Several locks that are acquired together. [`recipes::MultiLock`] has its guarantee and cost.
///
/// ```no_run
/// use std::time::Duration;
/// use zk_recipes::{LockRequest, MultiLock, Mutex, RwLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let printer = Mutex::new(&client, "/locks/printer")?;
/// let paper = RwLock::new(&client, "/locks/paper")?;
/// let both = MultiLock::new([LockRequest::from(&printer), LockRequest::read(&paper)])?;
/// let guard = both.acquire_timeout(Duration::from_secs(5)).await?;
/// guard.transaction().set_data("/pages", b"17", None).commit().await?;
/// guard.release().await?;
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
/// use zk_recipes::{LeaderElection, Leadership, Options, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let election = LeaderElection::with(&client, "/leader", Options::new().data("host-7"))?;
/// let candidate = election.stand();
/// let mut states = candidate.states();
/// while states.changed().await.is_ok() {
///     match &*states.borrow_and_update() {
///         Leadership::Leader(term) => println!("we lead, with token {}", term.token.0),
///         Leadership::Suspended(_) => println!("the connection is lost: the leader is unknown"),
///         Leadership::Follower => println!("we do not lead"),
///         ended => println!("{ended:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub type LeaderElection = recipes::LeaderElection<Client>;

/// A candidate that stands for election; see [`recipes::Candidate`].
pub type Candidate = recipes::Candidate<Client>;

/// A barrier that clients close and open. [`recipes::Barrier`] has its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::{Barrier, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let migration = Barrier::new(&client, "/barriers/migration")?;
/// migration.close().await?;
/// // ... and everybody else:
/// migration.wait().await?;
/// # Ok(())
/// # }
/// ```
pub type Barrier = recipes::Barrier<Client>;

/// A barrier that participants enter together and leave together. [`recipes::DoubleBarrier`] has
/// its guarantee and cost.
///
/// ```no_run
/// use zk_recipes::{DoubleBarrier, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let barrier = DoubleBarrier::new(&client, "/barriers/sort", 3)?;
/// let inside = barrier.enter().await?; // all three are there
/// inside.leave().await?; // all three are done
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
/// use zk_recipes::{Ephemeral, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("127.0.0.1:2181").renew(true).connect().await?;
/// let here = Ephemeral::new(&client, "/services/printer/host-7", "10.0.0.7:631")?;
/// here.created().await?;
/// // ... until the process ends, or:
/// here.close().await?;
/// # Ok(())
/// # }
/// ```
pub type Ephemeral = recipes::Ephemeral<Client>;

/// A copy of a node and everything below it, kept up to date. [`recipes::Cache`] has its guarantee
/// and cost.
///
/// ```no_run
/// use zk_recipes::{Cache, CacheChange, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("zk1,zk2,zk3").renew(true).connect().await?;
/// client.ensure_path("/config/printer").await?;
/// let config = Cache::new(&client, "/config")?;
/// config.ready().await?;
/// assert_eq!(config.children("/config"), ["printer"]);
///
/// let changes = config.changes();
/// client.set_data("/config/printer", b"on", None).await?;
/// loop {
///     match changes.next().await? {
///         CacheChange::Ready => println!("all nodes: {:?}", config.snapshot()),
///         CacheChange::Changed { path, node } => {
///             assert_eq!((&*path, &*node.data), ("/config/printer", &b"on"[..]));
///             break;
///         }
///         change => println!("{change:?}"),
///     }
/// }
/// # Ok(())
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
///
/// ```no_run
/// use zk_recipes::{HerdMutex, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = HerdMutex::new(&client, "/locks/printer")?.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "study")]
pub type HerdMutex = recipes::HerdMutex<Client>;

/// A [`HerdMutex`] that is held.
#[cfg(feature = "study")]
pub type HerdGuard = recipes::HerdGuard<Client>;

/// The textbook lock, to be compared with [`Mutex`]; see [`recipes::SimpleLock`].
///
/// ```no_run
/// use zk_recipes::{SimpleLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let guard = SimpleLock::new(&client, "/locks/printer")?.acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[cfg(feature = "study")]
pub type SimpleLock = recipes::SimpleLock<Client>;

/// A [`SimpleLock`] that is held.
#[cfg(feature = "study")]
pub type SimpleGuard = recipes::SimpleGuard<Client>;

/// # Waiting in tasks
impl HeldLock<Client> {
    /// Waits until the lock is lost, and returns why. If the lock is released, it returns
    /// [`Loss::Released`], before the servers know of the release.
    ///
    /// The lock is lost when its session ends, when its node is deleted, or when the
    /// [policy](crate::Options::disconnect_policy) says so. With
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports), it never returns while
    /// there is no connection.
    ///
    /// The runtime of the session wakes it. While that runtime is blocked, [`state`](Self::state)
    /// reports the loss sooner.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        self.losing()
    }

    /// Waits until another client asks for the lock. Never returns for locks that are not
    /// [revocable](crate::Options::revocable).
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let revoking = self.revoking();
        async {
            if !revoking.await {
                core::future::pending::<()>().await;
            }
        }
    }

    /// Returns the end of the session's lease: until then the ensemble must keep the session, and
    /// with it the lock. See [`Client::lease`]. `None` if the lock is lost.
    ///
    /// Call this again each time: after a suspension of the machine, earlier results are too late.
    pub fn lease(&self) -> Option<Instant> {
        self.client().lease().filter(|_| !self.is_lost())
    }
}

/// # Waiting in tasks
impl recipes::MultiGuard<Client> {
    /// Waits until any of the locks is lost, and returns which one; see [`Held::lost`]. The end of
    /// the session, which loses all of them, is reported for one.
    pub fn lost(&self) -> impl Future<Output = MultiLoss> + Send + use<> {
        let (losing, paths) = (self.losing(), self.paths());
        async move {
            let (place, loss) = losing.await;
            MultiLoss { path: paths[place].as_ref().into(), loss }
        }
    }
}

/// # Waiting in tasks
impl recipes::Candidate<Client> {
    /// Returns a receiver of the leadership and its changes. It ends with the candidate.
    ///
    /// It holds the latest change only. A receiver that looks rarely may miss that the candidate
    /// did not lead in between. Compare [`Term::token`](crate::Term::token): a different token is a
    /// different term. A leader that resigns counts as leader until it has resigned.
    ///
    /// The end of the lease is reported when the session's runtime notices it.
    /// [`leadership`](Self::leadership) reads the clock.
    pub fn states(&self) -> watch::Receiver<Leadership> {
        self.leaderships.clone()
    }
}
