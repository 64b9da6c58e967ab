//! Several locks at once.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::iter;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, Error, Transaction};

use crate::error::{LockError, Loss};
use crate::face::held::{self, Held, Holding};
use crate::face::part::{Entering, Part};
use crate::face::queue;
use crate::machine::{Happening, Mismatch, Together, Wanted, in_order};

type Releasing = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send + Sync>>;

/// Why locks were not acquired together, or not released.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiLockError {
    /// The lock that was to blame.
    pub path: String,
    /// What was wrong with it.
    pub error: LockError,
}

/// Which of several locks is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MultiLoss {
    /// The path of the lock.
    pub path: String,
    /// Why it is not held any more.
    pub loss: Loss,
}

/// Several locks, taken together: all, or none.
///
/// They are taken one after another in the order of their paths, whatever the order in which they
/// were given, so that two who want the same locks never wait for each other. A lock that was given
/// more than once is taken once; for writing, if any of them says so. Of a semaphore that was given
/// more than once as many permits are taken as all of them want.
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
/// one is lost, [`MultiGuard::lost`] says which, and no [transaction](MultiGuard::transaction) is
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
    /// In the order in which they are taken.
    parts: Vec<Part>,
}

impl MultiLock {
    /// All these locks. Nothing is sent yet. Where a lock is given twice, the options of the first
    /// count.
    ///
    /// # Errors
    ///
    /// [`Mismatch`].
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, Mismatch> {
        let given: Vec<_> = parts.into_iter().collect();
        let members: Vec<_> = given.iter().map(Part::member).collect();
        let part = |(place, demand): (usize, _)| given[place].with(demand);
        let parts: Vec<_> = in_order(&members)?.into_iter().map(part).collect();
        let client = parts.first().ok_or(Mismatch::Empty)?.queue.client.clone();
        Ok(Self { client, parts })
    }

    /// Waits for all the locks.
    ///
    /// # Errors
    ///
    /// The first lock that cannot be had, or was lost while another was waited for. Those that
    /// were acquired are released in the background.
    ///
    /// # Ordering
    ///
    /// As for [`Mutex::acquire`](crate::Mutex::acquire), for the first of the locks. The place in
    /// the queue of each of the others is taken when the one before it was acquired.
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
        // The first place is taken at once, the next when this one is ours.
        let locks = Locks::new(self.parts.clone());
        let client = self.client.clone();
        async move { locks.acquire(deadline).await.map(|locks| MultiGuard { client, locks }) }
    }
}

/// Locks that are held, or being taken: does what the machine wants.
struct Locks {
    together: Together,
    parts: Vec<Part>,
    held: Vec<Held>,
    /// The next one.
    entering: Option<Entering>,
    /// Those that were let go, the last one first.
    releasing: Vec<(String, Releasing)>,
}

impl fmt::Debug for Locks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.held).finish()
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        let _ = self.handle(Happening::LetGo);
    }
}

impl Locks {
    fn new(parts: Vec<Part>) -> Self {
        let together = Together::new(parts.len());
        let (held, releasing) = (Vec::new(), Vec::new());
        let mut locks = Self { together, parts, held, entering: None, releasing };
        locks.perform();
        locks
    }

    async fn acquire(mut self, deadline: Option<Instant>) -> Result<Self, MultiLockError> {
        let mut too_late: Timeout = match deadline {
            Some(deadline) => Box::pin(tokio::time::sleep_until(deadline)),
            None => Box::pin(core::future::pending()),
        };
        loop {
            let mut losing = self.losing();
            let happening = poll_fn(|cx| self.poll_next(&mut losing, &mut too_late, cx)).await;
            match self.handle(happening) {
                Some(Ok(())) => return Ok(self),
                Some(Err(error)) => return Err(error),
                None => {}
            }
        }
    }

    fn poll_next(
        &mut self,
        losing: &mut Losing,
        too_late: &mut Timeout,
        cx: &mut Context<'_>,
    ) -> Poll<Happening> {
        if let Poll::Ready((place, loss)) = losing.poll(cx) {
            return Poll::Ready(Happening::Lost(place, loss));
        }
        let entering = self.entering.as_mut().map(|entering| entering.as_mut().poll(cx));
        if let Some(Poll::Ready(entered)) = entering {
            return Poll::Ready(match entered {
                Ok(held) => {
                    self.held.push(held);
                    Happening::Acquired
                }
                Err(error) => Happening::Failed(error),
            });
        }
        too_late.as_mut().poll(cx).map(|()| Happening::TooLate)
    }

    /// How the attempt has ended, if it has.
    fn handle(&mut self, happening: Happening) -> Option<Result<(), MultiLockError>> {
        self.together.handle(happening);
        self.perform()
    }

    fn perform(&mut self) -> Option<Result<(), MultiLockError>> {
        let mut end = None;
        while let Some(wanted) = self.together.poll_output() {
            match wanted {
                Wanted::Enter(place) => self.entering = Some(self.parts[place].enter()),
                Wanted::LetGo(place) => self.let_go(place),
                Wanted::Acquired => end = Some(Ok(())),
                Wanted::Failed(place, error) => {
                    end = Some(Err(MultiLockError { path: self.path(place), error }));
                }
            }
        }
        end
    }

    fn let_go(&mut self, place: usize) {
        self.entering = None;
        if place < self.held.len()
            && let Some(held) = self.held.pop()
        {
            self.releasing.push((self.path(place), Box::pin(held.release())));
        }
    }

    fn path(&self, place: usize) -> String {
        self.parts[place].queue.path.clone()
    }

    /// Waits until one is lost; of several, the first.
    fn losing(&self) -> Losing {
        Losing(self.held.iter().map(|held| Box::pin(held.lost()) as _).collect())
    }
}

type Timeout = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The locks that may be lost, by their place.
struct Losing(Vec<Pin<Box<dyn Future<Output = Loss> + Send>>>);

impl Losing {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<(usize, Loss)> {
        let mut losing = self.0.iter_mut().enumerate();
        let lost = losing.find_map(|(place, losing)| match losing.as_mut().poll(cx) {
            Poll::Ready(loss) => Some((place, loss)),
            Poll::Pending => None,
        });
        lost.map_or(Poll::Pending, Poll::Ready)
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
        &self.locks.held
    }

    /// The lock at `path`.
    pub fn lock(&self, path: &str) -> Option<&Held> {
        let mut locks = self.locks.parts.iter().zip(self.locks());
        locks.find(|(part, _)| part.queue.path == path).map(|(_, held)| held)
    }

    /// How things stand: the worst of what the locks say.
    pub fn state(&self) -> Holding {
        let states = || self.locks().iter().map(Held::state);
        let lost = states().find(|state| matches!(state, Holding::Lost(_)));
        let suspended = || states().find(|state| *state == Holding::Suspended);
        lost.or_else(suspended).unwrap_or(Holding::Held)
    }

    /// Waits until any of the locks is lost, and tells which; see [`Held::lost`]. The end of the
    /// session, which takes all of them, it tells of one.
    pub fn lost(&self) -> impl Future<Output = MultiLoss> + Send + use<> {
        let mut losing = self.locks.losing();
        let paths = self.locks.parts.iter().map(|part| part.queue.path.clone());
        let mut paths: Vec<_> = paths.collect();
        async move {
            let (place, loss) = poll_fn(|cx| losing.poll(cx)).await;
            MultiLoss { path: paths.swap_remove(place), loss }
        }
    }

    /// Several writes that are applied only if all the lock nodes are still there. The first
    /// operations of the transaction are those checks, one for each of the
    /// [locks](Self::locks), and for each of several permits; see [`Held::transaction`].
    pub fn transaction(&self) -> Transaction<'_, Client> {
        self.locks().iter().fold(self.client.transaction(), |checks, held| held.check(checks))
    }

    /// Asks the ensemble whether all the locks are still held; see [`Held::validate`].
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the first that is not; anything else leaves it open, and names the
    /// first of all if it is not about one of them.
    ///
    /// # Cancellation
    ///
    /// Nothing happens.
    pub async fn validate(&self) -> Result<(), MultiLockError> {
        let Err(error) = self.transaction().commit().await else { return Ok(()) };
        let place = match error {
            Error::Transaction { index, .. } => self.checked(index),
            _ => 0,
        };
        Err(MultiLockError { path: self.locks.path(place), error: held::not_validated(error) })
    }

    /// The place of the lock that this operation of a transaction checks.
    fn checked(&self, index: usize) -> usize {
        let checks = self.locks().iter().enumerate();
        let mut checks = checks.flat_map(|(place, held)| iter::repeat_n(place, held.checks()));
        checks.nth(index).unwrap_or_default()
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
        let _ = self.locks.handle(Happening::LetGo);
        let releasing = core::mem::take(&mut self.locks.releasing);
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

impl fmt::Display for MultiLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.error)
    }
}

impl fmt::Display for MultiLoss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.loss)
    }
}

impl core::error::Error for MultiLoss {}

impl core::error::Error for MultiLockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        Some(&self.error)
    }
}
