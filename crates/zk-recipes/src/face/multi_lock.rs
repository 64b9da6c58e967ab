//! Several locks at once.

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt;
use core::future::{Future, poll_fn};
use core::iter;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use core::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, Error, Transaction};

use crate::error::{LockError, Loss, RecipeError, Unconfirmed};
use crate::face::Call;
use crate::face::Held;
use crate::face::MultiLoss;
use crate::face::held::{Holding, not_validated};
use crate::face::part::{Entering, Part};
use crate::face::waiting::{self, after};
use crate::machine::{Entry, Happening, Mismatch, Together, Wanted, in_order};

type Releasing = Pin<Box<dyn Future<Output = Result<(), RecipeError>> + Send + Sync>>;

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
/// guard.transaction().set_data("/pages", b"17", None).commit().await?;
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
    pub fn acquire(&self) -> impl Future<Output = Result<MultiGuard, RecipeError>> + Send + use<> {
        self.acquire_by(None)
    }

    /// As [`acquire`](Self::acquire), but waits no longer than until `deadline`, for all of them
    /// together and whatever happens. With a deadline that has passed at the call, one after the other
    /// is asked for in their order, and none is waited for: nor a connection, as for
    /// [`Mutex::acquire_until`](crate::Mutex::acquire_until).
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], or [`LockError::NoConnection`] if there is none when the time is
    /// over, with the lock that it was waiting for.
    pub fn acquire_until(
        &self,
        deadline: Instant,
    ) -> impl Future<Output = Result<MultiGuard, RecipeError>> + Send + use<> {
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
    ) -> impl Future<Output = Result<MultiGuard, RecipeError>> + Send + use<> {
        self.acquire_by(after(timeout))
    }

    fn acquire_by(
        &self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<MultiGuard, RecipeError>> + Send + use<> {
        // The first place is taken at once, the next when this one is ours.
        let (entry, deadline) = waiting::entry(deadline);
        let locks = Locks::new(self.parts.clone(), entry);
        let client = self.client.clone();
        async move { locks.acquire(deadline).await.map(|locks| MultiGuard { client, locks }) }
    }
}

/// Locks that are held, or being taken: does what the machine wants.
struct Locks {
    together: Together,
    parts: Vec<Part>,
    entry: Entry,
    held: Vec<Held>,
    /// The next one.
    entering: Option<Entering>,
    /// Those that were let go, the last one first.
    releasing: Vec<(Call, Releasing)>,
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
    fn new(parts: Vec<Part>, entry: Entry) -> Self {
        let together = Together::new(parts.len());
        let (held, releasing) = (Vec::new(), Vec::new());
        let mut locks = Self { together, parts, entry, held, entering: None, releasing };
        locks.perform();
        locks
    }

    async fn acquire(mut self, deadline: Option<Instant>) -> Result<Self, RecipeError> {
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
                Err(error) => Happening::Failed(error.reason),
            });
        }
        too_late.as_mut().poll(cx).map(|()| Happening::TooLate)
    }

    /// How the attempt has ended, if it has.
    fn handle(&mut self, happening: Happening) -> Option<Result<(), RecipeError>> {
        self.together.handle(happening);
        self.perform()
    }

    fn perform(&mut self) -> Option<Result<(), RecipeError>> {
        let mut end = None;
        while let Some(wanted) = self.together.poll_output() {
            match wanted {
                Wanted::Enter(place) => self.entering = Some(self.parts[place].enter(self.entry)),
                Wanted::LetGo(place) => self.let_go(place),
                Wanted::Acquired => end = Some(Ok(())),
                Wanted::Failed(place, error) => {
                    end = Some(Err(self.parts[place].queue.call("acquire").failed(error)));
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
            self.releasing.push((held.call("release"), Box::pin(held.release())));
        }
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
        locks.find(|(part, _)| *part.queue.path == *path).map(|(_, held)| held)
    }

    /// How things stand: the worst of what the locks say.
    pub fn state(&self) -> Holding {
        let states = || self.locks().iter().map(Held::state);
        let lost = states().find(|state| matches!(state, Holding::Lost(_)));
        let suspended = || states().find(|state| *state == Holding::Suspended);
        lost.or_else(suspended).unwrap_or(Holding::Held)
    }

    /// Waits until any of the locks is lost, and tells which; see [`Held::lost`](crate::Held::lost). The end of the
    /// session, which takes all of them, it tells of one.
    pub fn lost(&self) -> impl Future<Output = MultiLoss> + Send + use<> {
        let mut losing = self.locks.losing();
        let paths = self.locks.parts.iter().map(|part| part.queue.path.to_string());
        let mut paths: Vec<_> = paths.collect();
        async move {
            let (place, loss) = poll_fn(|cx| losing.poll(cx)).await;
            MultiLoss { path: paths.swap_remove(place), loss }
        }
    }

    /// Several writes that are applied only if all the lock nodes are still there. The first
    /// operations of the transaction are those checks, one for each of the
    /// [locks](Self::locks), and for each of several permits; see [`Held::transaction`](crate::Held::transaction).
    pub fn transaction(&self) -> Transaction<'_, Client> {
        self.locks().iter().fold(self.client.transaction(), |checks, held| held.check(checks))
    }

    /// Asks the ensemble whether all the locks are still held; see [`Held::validate`](crate::Held::validate).
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the first that is not, or is not to be trusted any more: without a
    /// server that is at the end of the lease. Anything else leaves it open, and names the first of all
    /// if it is not about one of them.
    ///
    /// # Cancellation
    ///
    /// Nothing happens.
    pub async fn validate(&self) -> Result<(), RecipeError> {
        let mut lost = pin!(self.lost());
        let mut checked = pin!(self.transaction().commit());
        let checked = poll_fn(|cx| match checked.as_mut().poll(cx) {
            Poll::Ready(checked) => Poll::Ready(Ok(checked)),
            Poll::Pending => lost.as_mut().poll(cx).map(Err),
        });
        let error = match checked.await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(MultiLoss { path, loss }) => {
                return Err(RecipeError::new("validate", &path, LockError::Lost(loss)));
            }
        };
        let place = match error.reason {
            Error::Transaction { index, .. } => self.checked(index),
            _ => 0,
        };
        Err(self.locks.held[place].call("validate").failed(not_validated(error)))
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
    /// The first that could not be released, had been lost before, or was not
    /// [confirmed](LockError::NotConfirmed) to be released; all others are released all the same.
    ///
    /// # Cancellation
    ///
    /// The locks are released when this method is called; dropping its future changes nothing.
    pub fn release(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        self.release_by(None)
    }

    /// As [`release`](Self::release), but waits for its confirmation no longer than until `deadline`.
    /// The rest is done in the background.
    ///
    /// # Panics
    ///
    /// When the future is polled outside of a tokio runtime, whose timer it uses.
    ///
    /// # Errors
    ///
    /// As for [`release`](Self::release); [`LockError::NotConfirmed`], with the first lock that is not
    /// known to be released by then.
    ///
    /// # Cancellation
    ///
    /// As for [`release`](Self::release).
    pub fn release_until(
        self,
        deadline: Instant,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        self.release_by(Some(deadline))
    }

    /// As [`release_until`](Self::release_until), for so long from now.
    ///
    /// # Errors
    ///
    /// As for [`release_until`](Self::release_until).
    pub fn release_timeout(
        self,
        timeout: Duration,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        self.release_by(after(timeout))
    }

    fn release_by(
        mut self,
        deadline: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        let _ = self.locks.handle(Happening::LetGo);
        let releasing = core::mem::take(&mut self.locks.releasing);
        async move {
            let mut result = Ok(());
            for (call, releasing) in releasing {
                let late = LockError::NotConfirmed(Unconfirmed::TimedOut);
                result = result.and(call.before(deadline, late, releasing).await);
            }
            result
        }
    }
}
