//! An exclusive lock that a thread can acquire several times.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Deref;
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use zk_session::End;
use zk_session::blocking::Client;

use super::listing;
use super::waiting::{after, limited, wait};
use super::{Held, Queue};
use crate::error::{LockError, RecipeError};
use crate::face::status::SharedStatus;
use crate::face::turns::{Ticket, Turns};
use crate::face::{Entrant, Holding, Options};
use crate::machine::{Claim, Entry, Scheme};

/// A [`Mutex`](super::Mutex) that a thread can acquire again while it holds it, as Apache Curator's
/// `InterProcessMutex`.
///
/// Threads that share this value or its clones wait in a local queue first. Only the thread at its
/// head enters the queue in ZooKeeper. So all clones together have at most one node, and their turn
/// comes as often as that of any other process, however many threads wait.
///
/// # Guarantee
///
/// That of [`Mutex`](super::Mutex), between threads rather than guards. All guards of a thread
/// report the same node and fencing token. If the lock is lost, each of them reports the loss, and
/// the thread cannot acquire the lock again until all of them are dropped.
///
/// The owner is the thread that acquired the lock, even if a guard is moved to another thread.
#[derive(Clone)]
pub struct ReentrantMutex {
    queue: Queue,
    local: Arc<StdMutex<Local>>,
}

/// What is known of the lock in this process.
#[derive(Default)]
struct Local {
    turns: Turns<ThreadId, Sender<()>>,
    /// The lock, while the thread whose turn it is holds it.
    held: Option<Arc<Held>>,
    /// Of the contender that was last in ZooKeeper's queue.
    last: Option<Arc<SharedStatus>>,
}

impl fmt::Debug for ReentrantMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl ReentrantMutex {
    /// Returns the lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the lock at `path`, taken with these options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, path, Scheme::CURATOR_MUTEX, options)?;
        Ok(Self { queue, local: Arc::default() })
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits for the lock, or acquires it again. Threads are served in the order in which they
    /// call.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when this thread had the lock and has lost it; it can acquire the lock
    /// anew as soon as all its guards are gone. See [`LockError`] for others.
    pub fn acquire(&self) -> Result<ReentrantGuard, RecipeError> {
        self.enter("acquire", Entry::Queue, None)
    }

    limited!("acquire": acquire_timeout: acquire() by enter() -> ReentrantGuard);

    /// Acquires the lock again, or acquires it if nobody holds it or waits for it, in this process
    /// or another. It waits only until the node of a lock that this process has just released is
    /// gone.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], and [`LockError::NoConnection`], which it does not wait for.
    pub fn try_acquire(&self) -> Result<ReentrantGuard, RecipeError> {
        self.enter("try_acquire", Entry::OnlyIfFree, None)
    }

    fn enter(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<ReentrantGuard, RecipeError> {
        let failed = |error| self.queue.call(operation).failed(error);
        let (level, turn) = self.take_place(entry).map_err(failed)?;
        wait_for_turn(&turn, end).map_err(failed)?;
        let held = self.local().held.clone();
        let held = match held {
            Some(held) => held,
            None => self.fetch(operation, entry, end)?,
        };
        match held.state() {
            Holding::Lost(loss) => Err(failed(LockError::Lost(loss))),
            _ => Ok(ReentrantGuard { held, level }),
        }
    }

    /// Takes a place among the threads of this process.
    fn take_place(&self, entry: Entry) -> Result<(Level, Receiver<()>), LockError> {
        let thread = thread::current().id();
        let mut local = self.local();
        if let Some(refusal) = entry.refusal()
            && local.turns.admits(thread).is_none()
        {
            return Err(refusal);
        }
        let (sender, turn) = channel();
        let (ticket, comes_in) = local.turns.enter(thread, sender);
        // The other end is in our hands.
        let _ = comes_in.map(|comes_in| comes_in.send(()));
        Ok((Level { local: self.local.clone(), ticket }, turn))
    }

    /// Acquires the lock from ZooKeeper, once nothing is left there of the thread before.
    fn fetch(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<Arc<Held>, RecipeError> {
        let Queue { client, .. } = &self.queue;
        let failed = |error| self.queue.call(operation).failed(error);
        let last = self.local().last.clone();
        // Without a connection the attempt fails by itself.
        if let Some(last) = last.filter(|_| entry == Entry::Queue || is_connected(client)) {
            let gone = wait(client, &last, end, |_| None::<()>);
            gone.ok_or_else(|| failed(LockError::TimedOut))?;
        }
        let entrance = self.queue.enter(operation, Claim::Exclusive, entry);
        self.local().last = Some(entrance.handle.status.clone());
        let held = Arc::new(entrance.held(end)?);
        self.local().held = Some(held.clone());
        Ok(held)
    }

    /// Returns who holds the lock and who waits for it in ZooKeeper, each for its process; see
    /// [`Mutex::contenders`](super::Mutex::contenders).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.queue, "contenders")
    }

    /// Asks the owner of `node` to release the lock, on all levels; see
    /// [`Mutex::revoke`](super::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when it is gone already.
    pub fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.queue.client, &self.queue.below(node))
    }

    /// Returns how many contenders are still to be cleaned up; see
    /// [`Mutex::pending_cleanups`](super::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](super::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    fn local(&self) -> StdMutexGuard<'_, Local> {
        lock(&self.local)
    }
}

fn lock(local: &StdMutex<Local>) -> StdMutexGuard<'_, Local> {
    local.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_connected(client: &Client) -> bool {
    matches!(client.state(), zk_session::State::Connected { .. })
}

/// Waits until it is the thread's turn in this process.
fn wait_for_turn(turn: &Receiver<()>, end: Option<Instant>) -> Result<(), LockError> {
    let came = match end {
        None => turn.recv().map_err(|_| RecvTimeoutError::Disconnected),
        Some(end) => turn.recv_timeout(end.saturating_duration_since(Instant::now())),
    };
    came.map_err(|error| match error {
        RecvTimeoutError::Timeout => LockError::TimedOut,
        // The sender is dropped only when the place is left.
        RecvTimeoutError::Disconnected => LockError::Ended(End::Closed),
    })
}

/// A place among the threads of this process, until it is dropped.
struct Level {
    local: Arc<StdMutex<Local>>,
    ticket: Ticket,
}

impl fmt::Debug for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Level").field(&self.ticket).finish()
    }
}

impl Drop for Level {
    fn drop(&mut self) {
        let mut local = lock(&self.local);
        let Some(next) = local.turns.leave(self.ticket) else { return };
        let held = local.held.take();
        drop(local);
        // Releases the lock in ZooKeeper, unless a guard is still being released.
        drop(held);
        // A thread that has given up meanwhile is about to leave its place.
        for turn in next {
            let _ = turn.send(());
        }
    }
}

/// A [`ReentrantMutex`] that is held. The last guard of its thread releases the lock; if it is
/// dropped, in the background.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct ReentrantGuard {
    held: Arc<Held>,
    level: Level,
}

impl Deref for ReentrantGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl ReentrantGuard {
    /// Releases one level. The last guard of the thread releases the lock and waits until the next
    /// contender can have it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock had been lost before, on every level;
    /// [`LockError::NotConfirmed`] for the last guard, when no server has confirmed the release.
    pub fn release(self) -> Result<(), RecipeError> {
        self.release_by(None)
    }

    /// Releases one level like [`release`](Self::release), but waits for the confirmation no longer
    /// than `timeout`. The rest is done in the background.
    ///
    /// # Errors
    ///
    /// Those of [`release`](Self::release); when it is too late, [`LockError::NotConfirmed`] with
    /// [`TimedOut`](crate::Unconfirmed::TimedOut).
    pub fn release_timeout(self, timeout: Duration) -> Result<(), RecipeError> {
        self.release_by(after(timeout))
    }

    fn release_by(self, end: Option<Instant>) -> Result<(), RecipeError> {
        let (state, call) = (self.state(), self.call("release"));
        let Self { held, level } = self;
        drop(level);
        match (Arc::into_inner(held), state) {
            (Some(last), _) => last.release(end),
            (None, Holding::Lost(loss)) => Err(call.failed(LockError::Lost(loss))),
            (None, Holding::Held | Holding::Suspended) => Ok(()),
        }
    }
}
