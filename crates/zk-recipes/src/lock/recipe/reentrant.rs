//! The re-entrant exclusive lock.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::ops::Deref;
use core::task::{Poll, Waker};
use std::time::Instant;

use zk_session::blocking::Client as Threads;
use zk_session::threads::Mutex as StdMutex;
use zk_session::threads::thread::{self, ThreadId};

use super::local_queue::{HoldNumber, LocalQueue};
use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::contenders;
use crate::client::contenders::QueueEntry;
use crate::client::count;
use crate::client::guard::Guard;
use crate::client::known::lock;
use crate::client::lookout::Lookout;
use crate::client::once::Once;
use crate::client::pending::{Hold, Pending, Signal};
use crate::client::queue::{Patience, Queue};
use crate::client::session_client::{before, unless};
use crate::client::status::SharedStatus;
use crate::error::{LockError, RecipeError};
use crate::multi_lock::recipe::loss::MultiLoss;
use crate::options::Options;

/// The owner of a [`ReentrantMutex`], which can acquire it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(OwnerId);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum OwnerId {
    Thread(ThreadId),
    Unique(u64),
}

impl Owner {
    /// Returns the current thread.
    pub fn current_thread() -> Self {
        Self(OwnerId::Thread(thread::current().id()))
    }

    /// Returns an owner that equals no other in this process, except its copies.
    pub fn unique() -> Self {
        Self(OwnerId::Unique(count::next()))
    }
}

/// A [`Mutex`](crate::Mutex) that its owner can acquire again while it holds it.
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
/// Owners that share this value or its clones wait in a local queue first. Only the owner at its
/// head enters the queue in ZooKeeper. So all clones together have at most one node. They hold the
/// lock as often as any other process, however many owners wait.
///
/// In threads, [`acquire`](Self::acquire) takes the thread as the owner, even if the guard is moved to
/// another. Tasks name their [`Owner`]: futures that one task polls side by side would be the same
/// owner, and would all hold the lock at once.
///
/// # Guarantee
///
/// That of [`Mutex`](crate::Mutex), between owners rather than guards. All guards of an owner
/// report the same node and fencing token. If the lock is lost, each of them reports the loss, and
/// no owner of this process can acquire the lock until all of them are dropped.
///
/// # Cost
///
/// That of [`Mutex`](crate::Mutex) for the first and the last guard of an owner, and nothing for
/// those in between. Between owners of one process, the lock is released and acquired again, so
/// that other processes are served as well: two round trips.
#[doc(alias = "InterProcessMutex")]
#[derive(Clone)]
pub struct ReentrantMutex<C = Client> {
    queue: Queue<C>,
    local: Arc<StdMutex<Local<C>>>,
}

/// The state of the lock in this process.
struct Local<C> {
    queue: LocalQueue<Owner, Waker>,
    /// The held lock of the current owner.
    turn: Option<Arc<LocalLock<C>>>,
    /// The status of the last contender in ZooKeeper's queue.
    last: Option<Arc<SharedStatus>>,
}

/// The lock, shared by the guards of an owner.
type LocalLock<C> = Once<Guard<C>>;

impl<C> fmt::Debug for ReentrantMutex<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("queue", &self.queue).finish_non_exhaustive()
    }
}

impl<C: SessionClient> ReentrantMutex<C> {
    /// Returns the lock at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the lock at `path`, with options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, "reentrant_mutex", path, Scheme::CURATOR_MUTEX, options)?;
        let local = Local { queue: LocalQueue::default(), turn: None, last: None };
        Ok(Self { queue, local: Arc::new(StdMutex::new(local)) })
    }

    /// Waits for the lock, or acquires it again, for `owner`. Owners are served in the order in
    /// which their attempts begin.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if `owner` held the lock and has lost it. It can acquire the lock again
    /// when all its guards are dropped. See [`LockError`] for others.
    pub fn acquire_as(&self, owner: Owner) -> Pending<ReentrantGuard<C>, C> {
        self.enter("acquire_as", Some(owner), WaitPolicy::Queue)
    }

    /// Acquires the lock again, or acquires it if no owner in any process holds it or waits for it.
    ///
    /// It waits only until the node of a lock that this process has just released is deleted.
    /// Without a connection it fails at once, unless `owner` holds the lock already.
    ///
    /// # Errors
    ///
    /// [`LockError::Busy`], also while `owner` waits for the lock already, and
    /// [`LockError::NoConnection`], which it does not wait for. Otherwise those of
    /// [`acquire_as`](Self::acquire_as).
    #[cfg(feature = "full")]
    pub fn try_acquire_as(&self, owner: Owner) -> Pending<ReentrantGuard<C>, C> {
        self.enter("try_acquire_as", Some(owner), WaitPolicy::OnlyIfFree)
    }

    /// Returns the holders of the lock and the contenders that wait for it; see
    /// [`Mutex::contenders`](crate::Mutex::contenders).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. A lock path that does not exist has no contenders.
    pub fn contenders(&self) -> Pending<Vec<QueueEntry>, C> {
        contenders::list(&self.queue, "contenders")
    }

    /// Asks the owner of `node` to release the lock; see [`Mutex::revoke`](crate::Mutex::revoke).
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], with `NO_NODE` when the node does not exist.
    pub fn revoke(&self, node: &str) -> Pending<(), C> {
        contenders::revoke(&self.queue.client, self.queue.below(node))
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Returns how many nodes of this value and its clones are no longer wanted and not yet known
    /// to be deleted. A deletion that the ensemble refuses is not pending any more:
    /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes of this value and its clones the ensemble has refused to delete; see
    /// [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    /// Enters for an owner, or for the thread that begins the attempt.
    fn enter(
        &self,
        operation: &'static str,
        owner: Option<Owner>,
        wait_policy: WaitPolicy,
    ) -> Pending<ReentrantGuard<C>, C> {
        let this = self.clone();
        Pending::new(&self.queue.client, move |end| async move {
            let owner = owner.unwrap_or_else(Owner::current_thread);
            let held = match this.enter_local(owner, wait_policy) {
                Ok(entered) => this.hold(operation, wait_policy, end, entered).await,
                Err(error) => Err(error),
            };
            held.map_err(|error| this.queue.call(operation).failed(error))
        })
    }

    /// Enters the local queue. Returns whether this entry is the first of a hold that begins at
    /// once.
    fn enter_local(
        &self,
        owner: Owner,
        wait_policy: WaitPolicy,
    ) -> Result<(bool, LocalHold<C>), LockError> {
        let mut local = lock(&self.local);
        let is_first = match (local.queue.admits(owner), wait_policy.refusal()) {
            (None, Some(refusal)) => return Err(refusal),
            (admitted, _) => admitted == Some(true),
        };
        if is_first {
            local.turn = Some(Arc::default());
        }
        let ticket = local.queue.enter(owner);
        Ok((is_first, LocalHold { local: self.local.clone(), ticket }))
    }

    /// Acquires the lock, once this owner is the current one.
    async fn hold(
        &self,
        operation: &'static str,
        wait_policy: WaitPolicy,
        end: Option<Instant>,
        (is_first, hold): (bool, LocalHold<C>),
    ) -> Result<ReentrantGuard<C>, LockError> {
        let client = &self.queue.client;
        let came = poll_fn(|cx| {
            let waker = cx.waker().clone();
            let (has_come, _unused) = lock(&self.local).queue.wait(hold.ticket, waker);
            if has_come { Poll::Ready(()) } else { Poll::Pending }
        });
        let came = before(client, end, client.wait_for_others(end, came)).await.flatten();
        came.ok_or(LockError::TimedOut)?;
        let turn = lock(&self.local).turn.clone().ok_or(LockError::TimedOut)?;
        if let Some(refusal) = wait_policy.refusal()
            && !is_first
            && turn.get().is_none()
        {
            return Err(refusal);
        }
        let fetched =
            turn.get_or_make(client, end, self.fetch(operation, wait_policy, end)).await?;
        match fetched.state().loss() {
            Some(loss) => Err(LockError::Lost(loss)),
            None => Ok(ReentrantGuard { turn, hold }),
        }
    }

    /// Acquires the lock from ZooKeeper, once the previous owner's node is deleted.
    async fn fetch(
        &self,
        operation: &'static str,
        wait_policy: WaitPolicy,
        end: Option<Instant>,
    ) -> Result<Guard<C>, LockError> {
        let last = lock(&self.local).last.clone();
        if let Some(last) = last {
            let waits = wait_policy == WaitPolicy::Queue;
            let is_late = !waits || before(&self.queue.client, end, last.gone()).await.is_none();
            // Then it waits for the server, but not for a connection. Without one, the attempt
            // fails by itself. So it does if a silent server has exhausted its patience.
            if is_late {
                let longest = waits.then_some(Patience::FOR_AN_ANSWER);
                let _ = unless(Lookout::new(&self.queue.client, longest), last.gone()).await;
            }
        }
        let attempted = self.queue.enter(operation, LockMode::Exclusive, wait_policy);
        let last = core::mem::replace(&mut lock(&self.local).last, attempted.status());
        // May drop user code, so only after `local` is unlocked.
        drop(last);
        Ok(Guard::new(attempted.held(end).await?))
    }
}

// `inline`, so that only programs that call these methods compile them.
impl ReentrantMutex<Threads> {
    /// Waits for the lock, or acquires it again, for the thread that waits.
    ///
    /// A guard that is moved to another thread does not let that thread acquire the lock again: it
    /// waits for the guard instead. To await attempts of this client, use
    /// [`acquire_as`](Self::acquire_as): those that one thread polls do not exclude each other.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_as`](Self::acquire_as).
    #[inline]
    pub fn acquire(&self) -> Pending<ReentrantGuard<Threads>, Threads> {
        self.enter("acquire", None, WaitPolicy::Queue)
    }

    /// Does the same as [`try_acquire_as`](Self::try_acquire_as), for the thread that waits.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_as`](Self::try_acquire_as).
    #[cfg(feature = "full")]
    #[inline]
    pub fn try_acquire(&self) -> Pending<ReentrantGuard<Threads>, Threads> {
        self.enter("try_acquire", None, WaitPolicy::OnlyIfFree)
    }
}

/// An entry in the local queue, until it is dropped.
struct LocalHold<C> {
    local: Arc<StdMutex<Local<C>>>,
    ticket: HoldNumber,
}

impl<C> Drop for LocalHold<C> {
    fn drop(&mut self) {
        let mut local = lock(&self.local);
        let (_unused, next) = local.queue.leave(self.ticket);
        let Some(next) = next else { return drop(local) };
        let turn = local.queue.has_owner().then(Arc::default);
        let over = core::mem::replace(&mut local.turn, turn);
        drop(local);
        // Releases the lock in ZooKeeper, unless a guard is still being released.
        drop(over);
        next.into_iter().for_each(Waker::wake);
    }
}

/// A [`ReentrantMutex`] that is held. The last guard of its owner releases the lock. Dropping that
/// guard releases it in the background.
#[must_use = "a guard that is dropped releases its lock"]
pub struct ReentrantGuard<C = Client> {
    turn: Arc<LocalLock<C>>,
    hold: LocalHold<C>,
}

impl<C: SessionClient> Hold<C> for ReentrantGuard<C> {
    fn until_lost(&self) -> Signal<MultiLoss, C> {
        (**self).until_lost()
    }

    fn end(self) -> Pending<(), C> {
        self.release()
    }
}

impl<C: SessionClient> fmt::Debug for ReentrantGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReentrantGuard").field(&**self).finish()
    }
}

impl<C: SessionClient> Deref for ReentrantGuard<C> {
    type Target = Guard<C>;

    fn deref(&self) -> &Guard<C> {
        self.turn.get().expect("guards are made of turns that have the lock")
    }
}

impl<C: SessionClient> ReentrantGuard<C> {
    /// Releases one level. The last guard of the owner releases the lock, and waits until the next
    /// contender can acquire it.
    ///
    /// The release begins at the call. Dropping the returned value changes nothing.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before, on every level.
    /// [`LockError::NotConfirmed`] for the last guard, if no server has confirmed the release.
    pub fn release(self) -> Pending<(), C> {
        let (state, call) = (self.state(), self.held.call("release"));
        let Self { turn, hold } = self;
        drop(hold);
        match (Arc::into_inner(turn).and_then(Once::into_inner), state) {
            (Some(last), _) => last.release(),
            (None, state) => Pending::done(call, state.loss()),
        }
    }
}
