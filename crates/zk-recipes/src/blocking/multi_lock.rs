//! Several locks, taken together.

use alloc::string::ToString as _;
use alloc::vec::Vec;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;
use zk_session::{Error, Transaction};

use super::waiting::{after, entry};
use super::{Entrance, Held, Mutex, Queue, RwLock, Semaphore};
use crate::error::{LockError, RecipeError, Unconfirmed};
use crate::face::held::{self, not_validated};
use crate::face::status::Report;
use crate::face::{Holding, MultiLoss};
use crate::machine::{
    Claim, Demand, Entry, Happening, Member, Mismatch, Together, Wanted, in_order,
};

/// One of the locks that a [`MultiLock`] takes: a [`Mutex`], one side of an [`RwLock`], or permits
/// of a [`Semaphore`].
#[derive(Clone, Debug)]
pub struct Part {
    queue: Queue,
    /// If they are permits, how many the semaphore is to have.
    maximum: Option<u32>,
    demand: Demand,
}

impl Part {
    /// A read/write lock, for reading.
    pub fn read(lock: &RwLock) -> Self {
        Self::node(&lock.0, Claim::Shared)
    }

    /// A read/write lock, for writing.
    pub fn write(lock: &RwLock) -> Self {
        Self::node(&lock.0, Claim::Exclusive)
    }

    /// So many permits of a semaphore.
    pub fn permits(semaphore: &Semaphore, permits: u32) -> Self {
        let Semaphore { queue, maximum } = semaphore.clone();
        Self { queue, maximum, demand: Demand::Permits(permits) }
    }

    fn node(queue: &Queue, claim: Claim) -> Self {
        let demand = Demand::Place { scheme: queue.scheme, claim };
        Self { queue: queue.clone(), maximum: None, demand }
    }

    fn member(&self) -> Member {
        let Queue { client, path, .. } = &self.queue;
        Member {
            session: client.session_id(),
            root: client.chroot().apply("/").into_owned(),
            path: path.to_string(),
            demand: self.demand,
        }
    }

    fn enter(&self, entry: Entry) -> Entrance {
        let (queue, maximum) = (self.queue.clone(), self.maximum);
        match self.demand {
            Demand::Place { claim, .. } => queue.enter("acquire", claim, entry),
            Demand::Permits(permits) => {
                Semaphore { queue, maximum }.begin("acquire", permits, entry)
            }
        }
    }
}

impl From<&Mutex> for Part {
    fn from(mutex: &Mutex) -> Self {
        Self::node(&mutex.0, Claim::Exclusive)
    }
}

/// Several locks, taken together: all of them or none, in the order of their paths, so that two
/// that take the same locks do not wait for each other for ever.
///
/// # Guarantee
///
/// That of each of the locks. A lock that is lost while another is waited for ends the attempt.
/// Once all are held, the loss of one does not release the others: [`MultiGuard::state`] reports
/// the worst, and no [transaction](MultiGuard::transaction) is applied any more. To be notified of
/// a loss, call [`Held::on_lost`] of each of [`MultiGuard::locks`]. All are locks of one session
/// and of one chroot.
///
/// # Cost
///
/// That of each of the locks, one after another. A contender that waits for one holds those before
/// it, which keeps others waiting; so take few, and not for long.
#[derive(Clone, Debug)]
pub struct MultiLock {
    client: Client,
    /// In the order in which they are taken.
    parts: Vec<Part>,
}

impl MultiLock {
    /// Returns all these locks as one. Nothing is sent yet. Where a lock is given twice, the
    /// options of the first count.
    ///
    /// # Errors
    ///
    /// [`Mismatch`].
    pub fn new(parts: impl IntoIterator<Item = Part>) -> Result<Self, Mismatch> {
        let given: Vec<_> = parts.into_iter().collect();
        let members: Vec<_> = given.iter().map(Part::member).collect();
        let part = |(place, demand): (usize, _)| Part { demand, ..given[place].clone() };
        let parts: Vec<_> = in_order(&members)?.into_iter().map(part).collect();
        let client = parts.first().ok_or(Mismatch::Empty)?.queue.client.clone();
        Ok(Self { client, parts })
    }

    /// Waits for all the locks.
    ///
    /// # Errors
    ///
    /// That of the first lock that cannot be acquired, or was lost while another was waited for.
    /// Those that were acquired are released in the background.
    pub fn acquire(&self) -> Result<MultiGuard, RecipeError> {
        self.acquire_by(Entry::Queue, None)
    }

    /// Waits for all the locks like [`acquire`](Self::acquire), but no longer than `timeout` for
    /// all of them together. With [`Duration::ZERO`], each is asked for once, in their order.
    ///
    /// # Errors
    ///
    /// [`LockError::TimedOut`], or [`LockError::NoConnection`] if there is none when the time is
    /// over, with the lock that it was waiting for.
    pub fn acquire_timeout(&self, timeout: Duration) -> Result<MultiGuard, RecipeError> {
        let (entry, end) = entry(timeout);
        self.acquire_by(entry, end)
    }

    fn acquire_by(&self, entry: Entry, end: Option<Instant>) -> Result<MultiGuard, RecipeError> {
        let Self { client, parts } = self.clone();
        let together = Together::new(parts.len());
        let mut guard = MultiGuard { client, parts, together, held: Vec::new() };
        let mut entering = None;
        loop {
            while let Some(wanted) = guard.together.poll_output() {
                match wanted {
                    Wanted::Enter(place) => entering = Some(guard.parts[place].enter(entry)),
                    // The last one first; what is not held yet gives up.
                    Wanted::LetGo(place) if place < guard.held.len() => drop(guard.held.pop()),
                    Wanted::LetGo(_) => entering = None,
                    Wanted::Acquired => return Ok(guard),
                    Wanted::Failed(place, error) => {
                        return Err(guard.parts[place].queue.call("acquire").failed(error));
                    }
                }
            }
            // The machine wants a lock until it has all of them, or fails.
            let Some(entrance) = entering.take() else {
                return Err(guard.parts[0].queue.call("acquire").failed(LockError::TimedOut));
            };
            let happening = guard.wait(entrance, end);
            guard.together.handle(happening);
        }
    }
}

/// Several locks that are held together. Dropped, they are released in the background.
#[must_use = "a guard that is dropped releases its locks"]
pub struct MultiGuard {
    client: Client,
    parts: Vec<Part>,
    together: Together,
    held: Vec<Held>,
}

impl fmt::Debug for MultiGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("MultiGuard").field(&self.held).finish()
    }
}

impl MultiGuard {
    /// Waits for the next lock, unless one that is held is lost.
    fn wait(&mut self, entrance: Entrance, end: Option<Instant>) -> Happening {
        let losing = |held: &Held| held.handle().status.wait(held::loss);
        let mut losing: Vec<_> = self.held.iter().map(losing).collect();
        let mut entering = entrance.handle.status.wait(|report: &mut Report| report.place.take());
        let happened = self.client.wait_for(end, |waker| {
            let cx = &mut Context::from_waker(waker);
            for (place, losing) in losing.iter_mut().enumerate() {
                if let Poll::Ready(loss) = Pin::new(losing).poll(cx) {
                    return Poll::Ready(Err((place, loss.unwrap_or(held::CLOSED))));
                }
            }
            Pin::new(&mut entering).poll(cx).map(Ok)
        });
        match happened {
            Some(Ok(acquired)) => match entrance.finish(acquired) {
                Ok(held) => {
                    self.held.push(held);
                    Happening::Acquired
                }
                Err(error) => Happening::Failed(error.reason),
            },
            Some(Err((place, loss))) => Happening::Lost(place, loss),
            None => Happening::TooLate,
        }
    }

    /// The locks, in the order of their paths; each with a fencing token of its own.
    pub fn locks(&self) -> &[Held] {
        &self.held
    }

    /// The lock at `path`.
    pub fn lock(&self, path: &str) -> Option<&Held> {
        let mut locks = self.parts.iter().zip(&self.held);
        locks.find(|(part, _)| *part.queue.path == *path).map(|(_, held)| held)
    }

    /// Returns how things stand: the worst of what the locks report.
    pub fn state(&self) -> Holding {
        let states: Vec<_> = self.held.iter().map(Held::state).collect();
        let lost = states.iter().find(|state| matches!(state, Holding::Lost(_)));
        let suspended = || states.iter().find(|state| **state == Holding::Suspended);
        lost.or_else(suspended).copied().unwrap_or(Holding::Held)
    }

    /// Returns the first of the locks that is lost, if any is.
    pub fn loss(&self) -> Option<MultiLoss> {
        self.parts.iter().zip(&self.held).find_map(|(part, held)| match held.state() {
            Holding::Lost(loss) => Some(MultiLoss { path: part.queue.path.to_string(), loss }),
            Holding::Held | Holding::Suspended => None,
        })
    }

    /// Returns several writes that are applied only if all the lock nodes are still there. The
    /// first operations of the transaction are those checks, one for each of the
    /// [locks](Self::locks), and for each of several permits.
    pub fn transaction(&self) -> Transaction<'_, Client> {
        self.check(self.client.transaction())
    }

    /// Adds the checks that all the locks are still held.
    fn check<'a>(&self, transaction: Transaction<'a, Client>) -> Transaction<'a, Client> {
        self.held.iter().fold(transaction, |checks, held| held.check(checks))
    }

    /// Asks the ensemble whether all the locks are still held.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`], with the first lock that is not, or is not to be trusted any more. Without
    /// a server it fails at the end of the lease, unless all locks are held [until
    /// told](crate::machine::Trust::UntilTold) otherwise. After any other error it is unknown; an
    /// error that is not about one of the locks names the first of them.
    pub fn validate(&self) -> Result<(), RecipeError> {
        let lease = self.client.lease().map(|end| end.saturating_duration_since(Instant::now()));
        let in_time = self.client.with_request_timeout(lease);
        let Err(mut error) = self.check(in_time.transaction()).commit() else { return Ok(()) };
        if let Some(MultiLoss { path, loss }) = self.loss() {
            return Err(RecipeError::new("validate", &path, LockError::Lost(loss)));
        }
        // They are trusted for longer than the lease lasts.
        if lease.is_some() && self.client.lease_has_ended() {
            match self.transaction().commit() {
                Ok(_) => return Ok(()),
                Err(checked) => error = checked,
            }
        }
        let place = match error.reason {
            Error::Transaction { index, .. } => self.place_of_check(index),
            _ => 0,
        };
        Err(RecipeError::new("validate", &self.parts[place].queue.path, not_validated(error)))
    }

    /// The lock to which a check of the transaction belongs.
    fn place_of_check(&self, index: usize) -> usize {
        let mut last = 0;
        let ends = self.held.iter().map(|held| {
            last += held.checks();
            last
        });
        ends.take_while(|end| *end <= index).count().min(self.parts.len() - 1)
    }

    /// Releases all the locks, the last one first, and waits until all are released; without a
    /// server, no longer than to the end of the lease.
    ///
    /// # Errors
    ///
    /// The first of any: [`LockError::Lost`] when a lock had been lost before,
    /// [`LockError::NotConfirmed`] when no server has confirmed its end. All are released in any
    /// case.
    pub fn release(self) -> Result<(), RecipeError> {
        self.release_by(None)
    }

    /// Releases all the locks like [`release`](Self::release), but waits for the confirmation no
    /// longer than `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release); when it is too late, [`LockError::NotConfirmed`] with
    /// [`TimedOut`](Unconfirmed::TimedOut).
    pub fn release_timeout(self, timeout: Duration) -> Result<(), RecipeError> {
        self.release_by(after(timeout))
    }

    fn release_by(mut self, end: Option<Instant>) -> Result<(), RecipeError> {
        let (client, held) = (self.client.clone(), core::mem::take(&mut self.held));
        // All are on their way before the first is waited for.
        let releasing: Vec<_> = held.into_iter().rev().map(Held::begin_release).collect();
        let mut released = Ok(());
        for (path, status) in releasing {
            let over = match super::waiting::wait(&client, &status, end, held::over) {
                Some(over) => held::released(over),
                None => Err(LockError::NotConfirmed(Unconfirmed::TimedOut)),
            };
            let over = over.map_err(|error| RecipeError::new("release", &path, error));
            released = released.and(over);
        }
        released
    }
}

impl Drop for MultiGuard {
    /// Releases the last lock first: a contender that waits for it holds none of those behind it.
    fn drop(&mut self) {
        while self.held.pop().is_some() {}
    }
}
