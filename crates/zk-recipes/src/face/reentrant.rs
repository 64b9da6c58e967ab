//! The exclusive lock that its owner may acquire again.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex as StdMutex, MutexGuard as StdMutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use tokio::sync::{OnceCell, oneshot};
use tokio::task;
use zk_session::{Client, End};

use crate::error::{LockError, RecipeError};
use crate::face::Call;
use crate::face::Held;
use crate::face::contenders::Entrant;
use crate::face::held::Holding;
use crate::face::limited::{limited, limited_release};
use crate::face::listing;
use crate::face::options::Options;
use crate::face::status::SharedStatus;
use crate::face::turns::{Ticket, Turns};
use crate::face::{Queue, waiting};
use crate::machine::{Claim, Entry, Scheme};

/// Whoever may acquire a [`ReentrantMutex`] again that it holds already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Task(task::Id),
    Thread(ThreadId),
    Unique(u64),
}

impl Owner {
    /// The tokio task that asks; outside of one, as in `block_on`, the thread.
    ///
    /// Futures that one task polls side by side are one owner. An identity that is to outlive its
    /// task, or to be handed from one to another, is better [unique](Self::unique).
    pub fn current() -> Self {
        Self(task::try_id().map_or_else(|| Kind::Thread(thread::current().id()), Kind::Task))
    }

    /// An owner that is equal to no other, but its copies, in this process.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(Kind::Unique(LAST.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A [`Mutex`](crate::Mutex) that its owner may acquire again while it holds it.
///
/// Those who share this value or its clones stand in a queue of their own first; only the one
/// whose turn it is enters the queue in ZooKeeper. So a process has at most one node per lock, and
/// its turns there come as often as those of any other process, however many it has waiting.
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
///
/// # Guarantee
///
/// As for [`Mutex`](crate::Mutex), between owners rather than guards. Every guard of an owner tells
/// of the same node, with the same fencing token. A lock that is lost is lost on all levels: each
/// guard says so, and it cannot be acquired again before all of them are gone; nor can others of
/// this process acquire it until then.
///
/// # Cost
///
/// As for [`Mutex`](crate::Mutex), for the first guard of an owner and the last; nothing for those
/// in between. Within a process a lock is passed on by giving it up first and entering again, so
/// that other processes get their turn: two round trips.
#[derive(Clone)]
pub struct ReentrantMutex {
    queue: Queue,
    local: Arc<StdMutex<Local>>,
}

/// What is known of the lock in this process.
#[derive(Default)]
struct Local {
    turns: Turns<Owner, oneshot::Sender<Arc<Turn>>>,
    current: Option<Arc<Turn>>,
    /// Ends with the contender that was last in ZooKeeper's queue.
    last: Option<Arc<SharedStatus>>,
}

/// What the guards of an owner share.
#[derive(Debug, Default)]
struct Turn {
    held: OnceCell<Held>,
}

impl fmt::Debug for ReentrantMutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl ReentrantMutex {
    /// The lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The lock at `path`, taken in this way.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, path, Scheme::CURATOR_MUTEX, options)?;
        Ok(Self { queue, local: Arc::default() })
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// As [`acquire_as`](Self::acquire_as), for the [current](Owner::current) task: the one that
    /// awaits it first, not the one that calls this method.
    ///
    /// Two of these that one task awaits side by side, joined or selected, do not exclude each
    /// other: the task holds the lock twice. The owner stays the task that acquired: a guard that
    /// is moved to another task does not let that one acquire again, which waits for the guard
    /// instead, for ever if it keeps it. For both there are [unique](Owner::unique) owners.
    ///
    /// # Errors
    ///
    /// As for [`acquire_as`](Self::acquire_as).
    ///
    /// # Cancellation
    ///
    /// As for [`acquire_as`](Self::acquire_as).
    pub fn acquire(
        &self,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        self.enter_current("acquire", Entry::Queue)
    }

    /// Waits for the lock, or acquires it again.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when `owner` had the lock and has lost it; it can acquire the lock anew
    /// as soon as it has let go of all its guards. Otherwise as for
    /// [`Mutex::acquire`](crate::Mutex::acquire).
    ///
    /// # Ordering
    ///
    /// Owners are served in the order in which this method is called.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the place up, in this process and in ZooKeeper; what another
    /// future of the same owner waits for, it goes on to wait for.
    pub fn acquire_as(
        &self,
        owner: Owner,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        self.enter_as("acquire_as", owner, Entry::Queue)
    }

    /// As [`try_acquire_as`](Self::try_acquire_as), for the [current](Owner::current) task: the one
    /// that awaits it first. Without a connection it fails at once.
    ///
    /// # Errors
    ///
    /// As for [`try_acquire_as`](Self::try_acquire_as).
    pub fn try_acquire(
        &self,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        self.enter_current("try_acquire", Entry::OnlyIfFree)
    }

    /// Acquires the lock again, or acquires it if nobody holds it or waits for it, here or
    /// elsewhere. While connected, it waits until the node of a lock that this process has let go is
    /// deleted; it waits neither for other owners nor for a connection. Without a connection it fails
    /// at once, unless `owner` holds the lock already.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], also while `owner` waits for the lock already;
    /// [`LockError::NoConnection`], as for [`Mutex::try_acquire`](crate::Mutex::try_acquire).
    /// Otherwise as for [`acquire_as`](Self::acquire_as).
    ///
    /// # Cancellation
    ///
    /// As for [`acquire_as`](Self::acquire_as).
    pub fn try_acquire_as(
        &self,
        owner: Owner,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        self.enter_as("try_acquire_as", owner, Entry::OnlyIfFree)
    }

    limited!("acquire": acquire_until, acquire_timeout: acquire() by enter_current() -> ReentrantGuard);
    limited!(
        "acquire_as": acquire_as_until, acquire_as_timeout:
        acquire_as(owner: Owner) by enter_as(owner) -> ReentrantGuard
    );

    /// Who holds the lock and who waits for it in ZooKeeper, each for its process.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::contenders`](crate::Mutex::contenders).
    pub async fn contenders(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.queue, "contenders").await
    }

    /// Asks whoever owns `node` to let go, on all levels; see
    /// [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// As for [`Mutex::revoke`](crate::Mutex::revoke).
    pub async fn revoke(&self, node: &str) -> Result<(), RecipeError> {
        listing::revoke(&self.queue.client, &self.queue.below(node)).await
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// How many nodes were abandoned; see [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.queue.call(operation)
    }

    fn enter_current(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        let this = self.clone();
        async move { this.enter_as(operation, Owner::current(), entry).await }
    }

    fn enter_as(
        &self,
        operation: &'static str,
        owner: Owner,
        entry: Entry,
    ) -> impl Future<Output = Result<ReentrantGuard, RecipeError>> + Send + use<> {
        let refusal = entry.refusal();
        let entered = match &refusal {
            None => Ok((true, self.enter(owner))),
            Some(refusal) => self.try_enter(owner).ok_or_else(|| refusal.clone()),
        };
        let this = self.clone();
        async move {
            let failed = |error| this.call(operation).failed(error);
            let (is_first, (place, turn)) = entered.map_err(failed)?;
            // Only a place that has gone hears nothing.
            let turn = task::unconstrained(turn).await;
            let turn = turn.map_err(|_| failed(LockError::Ended(End::Closed)))?;
            if let Some(refusal) = refusal
                && !is_first
                && !turn.held.initialized()
            {
                return Err(failed(refusal));
            }
            turn.held.get_or_try_init(|| this.fetch(operation, entry)).await?;
            ReentrantGuard::of(turn, place).map_err(failed)
        }
    }

    fn enter(&self, owner: Owner) -> Visit {
        self.enter_local(&mut lock(&self.local), owner)
    }

    fn enter_local(&self, local: &mut Local, owner: Owner) -> Visit {
        let (waiter, turn) = oneshot::channel();
        let (ticket, comes_in) = local.turns.enter(owner, waiter);
        if let Some(waiter) = comes_in {
            let current = local.current.get_or_insert_default();
            waiter.send(Arc::clone(current)).expect("the other end is below");
        }
        (Place { local: Arc::clone(&self.local), ticket }, turn)
    }

    /// Comes in if it can at once, and tells whether as the first of its turn.
    fn try_enter(&self, owner: Owner) -> Option<(bool, Visit)> {
        let mut local = lock(&self.local);
        let is_first = local.turns.admits(owner)?;
        Some((is_first, self.enter_local(&mut local, owner)))
    }

    /// Gets the lock from ZooKeeper, once nothing is left there of whoever of us was there before.
    async fn fetch(&self, operation: &'static str, entry: Entry) -> Result<Held, RecipeError> {
        let last = lock(&self.local).last.clone();
        match (last, entry) {
            // Without a connection the attempt fails by itself.
            (Some(last), Entry::OnlyIfFirst | Entry::OnlyIfFree) => {
                waiting::while_connected(&self.queue.client, last.gone()).await;
            }
            (Some(last), Entry::Queue) => last.gone().await,
            (None, _) => {}
        }
        let entrance = self.queue.enter(operation, Claim::Exclusive, entry);
        lock(&self.local).last = Some(entrance.handle.status.clone());
        entrance.held().await
    }
}

fn lock(local: &StdMutex<Local>) -> StdMutexGuard<'_, Local> {
    local.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Goes when it is dropped.
struct Place {
    local: Arc<StdMutex<Local>>,
    ticket: Ticket,
}

/// A place, and what its turn is told to.
type Visit = (Place, oneshot::Receiver<Arc<Turn>>);

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Place").field(&self.ticket).finish()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut local = lock(&self.local);
        let Some(waiters) = local.turns.leave(self.ticket) else { return };
        let next = (!waiters.is_empty()).then(Arc::<Turn>::default);
        let over = core::mem::replace(&mut local.current, next.clone());
        drop(local);
        // Lets go of the lock in ZooKeeper, unless a guard is still being released.
        drop(over);
        for (waiter, turn) in waiters.into_iter().zip(core::iter::repeat_with(|| next.clone())) {
            // Whoever has given up meanwhile is about to leave its place.
            let _ = turn.map(|turn| waiter.send(turn));
        }
    }
}

/// A [`ReentrantMutex`] that is held. The last one of its owner releases the lock, in the
/// background if it is dropped.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct ReentrantGuard {
    turn: Arc<Turn>,
    place: Place,
}

impl Deref for ReentrantGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        self.turn.held.get().expect("guards are made of turns that have the lock")
    }
}

impl ReentrantGuard {
    /// That of a turn that has the lock.
    fn of(turn: Arc<Turn>, place: Place) -> Result<Self, LockError> {
        match turn.held.get().map(Held::state) {
            Some(Holding::Lost(loss)) => Err(LockError::Lost(loss)),
            _ => Ok(Self { turn, place }),
        }
    }

    /// Lets go. The last guard of the owner releases the lock and waits until the next in line can
    /// have it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when the lock had been lost before, on every level;
    /// [`LockError::NotConfirmed`] for the last guard, as for a [`MutexGuard`](crate::MutexGuard).
    ///
    /// # Cancellation
    ///
    /// The guard is gone when this method is called; dropping its future changes nothing.
    pub fn release(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        let (state, call) = (self.state(), self.call("release"));
        let Self { turn, place } = self;
        drop(place);
        let last = Arc::into_inner(turn).and_then(|turn| turn.held.into_inner());
        let releasing = last.map(Held::release);
        async move {
            match (releasing, state) {
                (Some(releasing), _) => releasing.await,
                (None, Holding::Lost(loss)) => Err(call.failed(LockError::Lost(loss))),
                (None, Holding::Held | Holding::Suspended) => Ok(()),
            }
        }
    }

    limited_release!("release": release_until, release_timeout: release);
}
