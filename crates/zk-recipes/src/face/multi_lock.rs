//! Several locks at once.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry as MapEntry;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;
use core::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, Transaction};

use crate::error::{LockError, Loss};
use crate::face::held::{self, Held, Holding};
use crate::face::mutex::Mutex;
use crate::face::queue::{self, Queue};
use crate::face::rw_lock::RwLock;
use crate::machine::{Claim, Entry};

/// One of the locks that a [`MultiLock`] takes: a [`Mutex`], or one side of an [`RwLock`].
#[derive(Clone, Debug)]
pub struct Part {
    queue: Queue,
    claim: Claim,
}

impl Part {
    /// A read/write lock, for reading.
    pub fn read(lock: &RwLock) -> Self {
        Self { queue: lock.0.clone(), claim: Claim::Shared }
    }

    /// A read/write lock, for writing.
    pub fn write(lock: &RwLock) -> Self {
        Self { queue: lock.0.clone(), claim: Claim::Exclusive }
    }
}

impl From<&Mutex> for Part {
    fn from(mutex: &Mutex) -> Self {
        Self { queue: mutex.0.clone(), claim: Claim::Exclusive }
    }
}

/// Why locks cannot be taken together.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mismatch {
    /// There are none.
    Empty,
    /// They belong to more than one session.
    Sessions,
    /// Their clients have different [chroots](Client::chroot), so that a path of one means something
    /// else to another, and there is none for [`MultiGuard::transaction`].
    Chroots,
    /// Two at one path name their nodes in different ways, and would not see each other.
    Schemes {
        /// The path.
        path: String,
    },
}

/// Why locks were not acquired together, or not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiLockError {
    /// The lock that was to blame.
    pub path: String,
    /// What was wrong with it.
    pub error: LockError,
}

/// Several locks, taken together: all, or none.
///
/// They are taken one after another in the order of their paths, whatever the order in which they
/// were given, so that two who want the same locks never wait for each other. A lock that was given
/// more than once is taken once; for writing, if any of them says so.
///
/// ```no_run
/// use zk_recipes::{MultiLock, Mutex, Part, RwLock, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let printer = Mutex::new(&client, "/locks/printer")?;
/// let paper = RwLock::new(&client, "/locks/paper")?;
/// let both = MultiLock::new([Part::from(&printer), Part::read(&paper)])?;
/// let guard = both.acquire_timeout(std::time::Duration::from_secs(5)).await?;
/// guard.transaction().set_data("/pages", "17", None).commit().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// That of each of the locks, for all of them from the moment in which the last was acquired. If
/// one is lost, [`MultiGuard::lost`] says so, and no [transaction](MultiGuard::transaction) is
/// applied any more; the others are held until they are released. They are locks of one session,
/// so its end takes all of them; and of one chroot, so each path means the same to all of them.
///
/// # Cost
///
/// That of each of the locks, one after another: as many round trips to acquire as there are locks,
/// if all are free. One round trip releases all. Whoever waits for one holds those before it, which
/// keeps others waiting; so take few, and not for long.
#[derive(Clone, Debug)]
pub struct MultiLock {
    client: Client,
    /// By path.
    parts: BTreeMap<String, Part>,
}

impl MultiLock {
    /// All these locks. Nothing is sent yet. Where a lock is given twice, the options of the first
    /// count.
    ///
    /// # Errors
    ///
    /// [`Mismatch`].
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, Mismatch> {
        let mut by_path = BTreeMap::<String, Part>::new();
        let mut client: Option<Client> = None;
        for part in parts {
            let of = &part.queue.client;
            let first = client.get_or_insert_with(|| of.clone());
            if first.session_id() != of.session_id() {
                return Err(Mismatch::Sessions);
            }
            if first.chroot() != of.chroot() {
                return Err(Mismatch::Chroots);
            }
            match by_path.entry(part.queue.path.clone()) {
                MapEntry::Vacant(vacant) => drop(vacant.insert(part)),
                MapEntry::Occupied(other) if other.get().queue.scheme != part.queue.scheme => {
                    return Err(Mismatch::Schemes { path: part.queue.path });
                }
                MapEntry::Occupied(same) => {
                    let same = same.into_mut();
                    same.claim = same.claim.max(part.claim);
                }
            }
        }
        Ok(Self { client: client.ok_or(Mismatch::Empty)?, parts: by_path })
    }

    /// Waits for all the locks.
    ///
    /// # Panics
    ///
    /// As for [`Mutex::acquire`].
    ///
    /// # Errors
    ///
    /// The first lock that cannot be had, or was lost while another was waited for. Those that
    /// were acquired are released in the background.
    ///
    /// # Ordering
    ///
    /// As for [`Mutex::acquire`], for the first of the locks. The place in the queue of each of the
    /// others is taken when the one before it was acquired.
    ///
    /// # Cancellation
    ///
    /// Dropping the future releases what was acquired, in the background.
    pub fn acquire(
        &self,
    ) -> impl Future<Output = Result<MultiGuard, MultiLockError>> + Send + use<> {
        self.acquire_by(None)
    }

    /// As [`acquire`](Self::acquire), but waits no longer than until `deadline`, for all of them
    /// together and whatever happens.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], with the lock that it was waiting for.
    pub fn acquire_until(
        &self,
        deadline: Instant,
    ) -> impl Future<Output = Result<MultiGuard, MultiLockError>> + Send + use<> {
        self.acquire_by(Some(deadline))
    }

    /// As [`acquire_until`](Self::acquire_until), for so long from now.
    ///
    /// # Errors
    ///
    /// As for [`acquire_until`](Self::acquire_until).
    pub fn acquire_timeout(
        &self,
        timeout: Duration,
    ) -> impl Future<Output = Result<MultiGuard, MultiLockError>> + Send + use<> {
        self.acquire_by(queue::after(timeout))
    }

    fn acquire_by(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<MultiGuard, MultiLockError>> + Send + use<> {
        let client = self.client.clone();
        let mut parts = self.parts.clone().into_values();
        // The first place is taken at once, the next when this one is ours.
        let mut next = parts.next().map(Part::enter);
        async move {
            let mut locks = Locks(Vec::new());
            while let Some((path, entering)) = next {
                let entering = queue::before(deadline, entering);
                match unless_lost(&locks, entering).await {
                    Ok(held) => locks.0.push(held.map_err(|error| MultiLockError { path, error })?),
                    Err(loss) => return Err(loss),
                }
                next = parts.next().map(Part::enter);
            }
            Ok(MultiGuard { client, locks })
        }
    }
}

impl Part {
    fn enter(self) -> (String, impl Future<Output = Result<Held, LockError>> + Send) {
        let entering = self.queue.enter(self.claim, Entry::Queue);
        (self.queue.path, entering)
    }
}

/// What comes of `future`, unless one of the locks is lost before.
async fn unless_lost<T>(
    locks: &Locks,
    future: impl Future<Output = T>,
) -> Result<T, MultiLockError> {
    let (mut losing, mut future) = (pin!(locks.lost()), pin!(future));
    poll_fn(|cx| {
        if let Poll::Ready((path, loss)) = losing.as_mut().poll(cx) {
            return Poll::Ready(Err(MultiLockError { path, error: LockError::Lost(loss) }));
        }
        future.as_mut().poll(cx).map(Ok)
    })
    .await
}

/// Locks that are held. The last one goes first.
#[derive(Debug)]
struct Locks(Vec<Held>);

impl Drop for Locks {
    fn drop(&mut self) {
        while self.0.pop().is_some() {}
    }
}

impl Locks {
    /// Waits until one is lost; of several, the first.
    fn lost(&self) -> impl Future<Output = (String, Loss)> + Send + use<> {
        let lost = |held: &Held| (held.directory().to_string(), held.lost());
        let losing = self.0.iter().map(lost).map(|(path, loss)| async { (path, loss.await) });
        let mut losing: Vec<Pin<Box<dyn Future<Output = _> + Send>>> =
            losing.map(|losing| Box::pin(losing) as _).collect();
        async move {
            let any = poll_fn(|cx| {
                let mut polls = losing.iter_mut().map(|losing| losing.as_mut().poll(cx));
                polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
            });
            any.await
        }
    }
}

/// Several locks that are held together. Dropped, they are released in the background.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its locks"]
pub struct MultiGuard {
    client: Client,
    locks: Locks,
}

impl MultiGuard {
    /// The locks, in the order of their paths; each with a fencing token of its own.
    pub fn locks(&self) -> &[Held] {
        &self.locks.0
    }

    /// The lock at `path`.
    pub fn lock(&self, path: &str) -> Option<&Held> {
        self.locks().iter().find(|held| held.directory() == path)
    }

    /// How things stand: the worst of what the locks say.
    pub fn state(&self) -> Holding {
        let states = || self.locks().iter().map(Held::state);
        let lost = states().find(|state| matches!(state, Holding::Lost(_)));
        let suspended = || states().find(|state| *state == Holding::Suspended);
        lost.or_else(suspended).unwrap_or(Holding::Held)
    }

    /// Waits until any of the locks is lost; see [`Held::lost`].
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let losing = self.locks.lost();
        async { losing.await.1 }
    }

    /// Several writes that are applied only if all the lock nodes are still there. The first
    /// operations of the transaction are those checks, one for each of the
    /// [locks](Self::locks); see [`Held::transaction`].
    pub fn transaction(&self) -> Transaction<'_, Client> {
        let mut transaction = self.client.transaction();
        for held in self.locks() {
            transaction = transaction.check(&held.node_path(), None);
        }
        transaction
    }

    /// Asks the ensemble whether all the locks are still held; see [`Held::validate`].
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when one is not; anything else leaves it open.
    ///
    /// # Cancellation
    ///
    /// Nothing happens.
    pub async fn validate(&self) -> Result<(), LockError> {
        held::validate(self.transaction()).await
    }

    /// Releases all the locks, the last one first, and waits until others can have them.
    ///
    /// # Errors
    ///
    /// The first that could not be released, or had been lost before; all others are released all
    /// the same.
    ///
    /// # Cancellation
    ///
    /// The locks are released when this method is called; dropping its future changes nothing.
    pub fn release(mut self) -> impl Future<Output = Result<(), MultiLockError>> + Send + use<> {
        let mut releasing = Vec::new();
        while let Some(held) = self.locks.0.pop() {
            releasing.push((held.directory().to_string(), held.release()));
        }
        async move {
            let mut result = Ok(());
            for (path, releasing) in releasing {
                let released = releasing.await.map_err(|error| MultiLockError { path, error });
                result = result.and(released);
            }
            result
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("there are no locks to take"),
            Self::Sessions => f.write_str("the locks belong to more than one session"),
            Self::Chroots => f.write_str("the locks belong to clients with different chroots"),
            Self::Schemes { path } => {
                write!(f, "two locks at '{path}' name their nodes in different ways")
            }
        }
    }
}

impl core::error::Error for Mismatch {}

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.error)
    }
}

impl core::error::Error for MultiLockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}
