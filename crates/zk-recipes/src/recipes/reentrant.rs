//! The re-entrant exclusive lock.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::ops::Deref;
use core::sync::atomic::{AtomicU64, Ordering};
use core::task::{Poll, Waker};
use std::sync::PoisonError;
use std::time::Instant;

use zk_session::threads::thread::{self, ThreadId};
use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};

#[cfg(feature = "try-lock")]
use super::client::unless;
use super::client::{Limit, before};
#[cfg(feature = "try-lock")]
use super::connection::Disconnected;
use super::held::{HeldLock, Holding};
use super::local_queue::{LocalQueue, Ticket};
use super::macros::{contender_methods, methods, new, queue_methods};
use super::once::Once;
use super::queue::Queue;
use super::status::SharedStatus;
use super::{Options, SessionClient};
use crate::error::{LockError, RecipeError};
use crate::machine::{LockMode, Scheme, WaitPolicy};

/// The owner of a [`ReentrantMutex`], which can acquire it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner(Kind);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    #[cfg(feature = "tokio")]
    Task(tokio::task::Id),
    Thread(ThreadId),
    Unique(u64),
}

impl Owner {
    /// Returns the current tokio task, or the current thread outside of a task, as in `block_on`.
    ///
    /// Futures that one task polls side by side are one owner. Use a [unique](Self::unique) owner
    /// if it outlives its task, or is passed to another task.
    #[cfg(feature = "tokio")]
    pub fn current() -> Self {
        tokio::task::try_id().map_or_else(Self::current_thread, |task| Self(Kind::Task(task)))
    }

    /// Returns the current thread.
    pub fn current_thread() -> Self {
        Self(Kind::Thread(thread::current().id()))
    }

    /// Returns an owner that equals no other in this process, except its copies.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(Kind::Unique(LAST.fetch_add(1, Ordering::Relaxed)))
    }
}

/// A [`Mutex`](super::Mutex) that its owner can acquire again while it holds it.
///
/// Owners that share this value or its clones wait in a local queue first. Only the owner at its
/// head enters the queue in ZooKeeper. So all clones together have at most one node. They hold the
/// lock as often as any other process, however many owners wait.
///
/// The owner is the task or thread that acquires the lock, even if a guard is moved to another. The
/// methods that end in `_as` take an [`Owner`] of your choice.
///
/// # Guarantee
///
/// That of [`Mutex`](super::Mutex), between owners rather than guards. All guards of an owner
/// report the same node and fencing token. If the lock is lost, each of them reports the loss, and
/// no owner of this process can acquire the lock until all of them are dropped.
///
/// # Cost
///
/// That of [`Mutex`](super::Mutex) for the first and the last guard of an owner, and nothing for
/// those in between. Between owners of one process, the lock is released and acquired again, so
/// that other processes are served as well: two round trips.
#[doc(alias = "InterProcessMutex")]
#[derive(Clone)]
pub struct ReentrantMutex<C> {
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
type LocalLock<C> = Once<HeldLock<C>>;

impl<C> fmt::Debug for ReentrantMutex<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReentrantMutex").field("queue", &self.queue).finish_non_exhaustive()
    }
}

new!(ReentrantMutex);
queue_methods!(ReentrantMutex, queue);
contender_methods!(ReentrantMutex, queue);

impl<C: SessionClient> ReentrantMutex<C> {
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

    /// Enters for the task or thread that runs the future.
    fn enter_current(
        &self,
        operation: &'static str,
        limit: Limit,
    ) -> impl Future<Output = Result<ReentrantGuard<C>, RecipeError>> + Send + use<C> {
        let this = self.clone();
        async move { this.enter_as(operation, C::current_owner(), limit).await }
    }

    fn enter_as(
        &self,
        operation: &'static str,
        owner: Owner,
        limit: Limit,
    ) -> impl Future<Output = Result<ReentrantGuard<C>, RecipeError>> + Send + use<C> {
        let entered = self.enter_local(owner, limit.wait_policy);
        let this = self.clone();
        async move {
            let entered = async { this.hold(operation, limit, entered?).await };
            let held = before::<C, _>(limit.end, entered).await;
            let held = held.unwrap_or(Err(LockError::TimedOut));
            held.map_err(|error| this.queue.call(operation).failed(error))
        }
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
        limit: Limit,
        (is_first, hold): (bool, LocalHold<C>),
    ) -> Result<ReentrantGuard<C>, LockError> {
        let came = poll_fn(|cx| {
            let waker = cx.waker().clone();
            let (has_come, _unused) = lock(&self.local).queue.wait(hold.ticket, waker);
            if has_come { Poll::Ready(()) } else { Poll::Pending }
        });
        C::wait_for_others(limit.end, came).await.ok_or(LockError::TimedOut)?;
        let turn = lock(&self.local).turn.clone().ok_or(LockError::TimedOut)?;
        if let Some(refusal) = limit.wait_policy.refusal()
            && !is_first
            && turn.get().is_none()
        {
            return Err(refusal);
        }
        let fetched =
            turn.get_or_make::<C>(limit.end, self.fetch(operation, limit.wait_policy)).await?;
        match fetched.state() {
            Holding::Lost(loss) => Err(LockError::Lost(loss)),
            Holding::Held | Holding::Suspended => Ok(ReentrantGuard { turn, hold }),
        }
    }

    /// Acquires the lock from ZooKeeper, once the previous owner's node is deleted.
    async fn fetch(
        &self,
        operation: &'static str,
        wait_policy: WaitPolicy,
    ) -> Result<HeldLock<C>, LockError> {
        let last = lock(&self.local).last.clone();
        match (last, wait_policy) {
            // Without a connection the attempt fails by itself.
            #[cfg(feature = "try-lock")]
            (Some(last), WaitPolicy::OnlyIfFirst | WaitPolicy::OnlyIfFree) => {
                let _ = unless(Disconnected::new(&self.queue.client), last.gone()).await;
            }
            (Some(last), WaitPolicy::Queue) => last.gone().await,
            (None, _) => {}
        }
        let pending = self.queue.enter(operation, LockMode::Exclusive, wait_policy);
        let last = lock(&self.local).last.replace(pending.handle.status.clone());
        // May drop user code, so only after `local` is unlocked.
        drop(last);
        Ok(pending.held(None).await?)
    }
}

methods! { ReentrantMutex:
    /// Waits for the lock, or acquires it again.
    ///
    /// The owner is the current task or thread. For the async client that is the task that first
    /// polls the future, not the one that calls this method. Futures of one task, joined or
    /// selected, do not exclude each other.
    ///
    /// A guard that is moved to another task does not let that task acquire the lock again: it
    /// waits for the guard instead. [Unique](Owner::unique) owners avoid both.
    ///
    /// # Errors
    ///
    /// Those of [`acquire_as`](Self::acquire_as).
    enter fn acquire [acquire_until, acquire_timeout] (&self; limit)
        -> Result<ReentrantGuard<C>, RecipeError>
    {
        self.enter_current("acquire", limit)
    }

    /// Waits for the lock, or acquires it again, for `owner`. Owners are served in the order in
    /// which they call this.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if `owner` held the lock and has lost it. It can acquire the lock again
    /// when all its guards are dropped. See [`LockError`] for others.
    enter fn acquire_as [acquire_as_until, acquire_as_timeout] (&self, owner: Owner; limit)
        -> Result<ReentrantGuard<C>, RecipeError>
    {
        self.enter_as("acquire_as", owner, limit)
    }

    /// Does the same as [`try_acquire_as`](Self::try_acquire_as), for the current task or thread.
    ///
    /// # Errors
    ///
    /// Those of [`try_acquire_as`](Self::try_acquire_as).
    attempt fn try_acquire [] (&self) -> Result<ReentrantGuard<C>, RecipeError> {
        self.enter_current("try_acquire", Limit::TRY)
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
    attempt fn try_acquire_as [] (&self, owner: Owner) -> Result<ReentrantGuard<C>, RecipeError> {
        self.enter_as("try_acquire_as", owner, Limit::TRY)
    }
}

fn lock<C>(local: &StdMutex<Local<C>>) -> StdMutexGuard<'_, Local<C>> {
    local.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An entry in the local queue, until it is dropped.
struct LocalHold<C> {
    local: Arc<StdMutex<Local<C>>>,
    ticket: Ticket,
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
pub struct ReentrantGuard<C> {
    turn: Arc<LocalLock<C>>,
    hold: LocalHold<C>,
}

impl<C: SessionClient> fmt::Debug for ReentrantGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReentrantGuard").field(&**self).finish()
    }
}

impl<C: SessionClient> Deref for ReentrantGuard<C> {
    type Target = HeldLock<C>;

    fn deref(&self) -> &HeldLock<C> {
        self.turn.get().expect("guards are made of turns that have the lock")
    }
}

impl<C: SessionClient> ReentrantGuard<C> {
    fn release_level(
        self,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        let (state, call) = (self.state(), self.call("release"));
        let Self { turn, hold } = self;
        drop(hold);
        let last = Arc::into_inner(turn).and_then(Once::into_inner);
        let releasing = last.map(|held| held.release(end));
        async move {
            match (releasing, state) {
                (Some(releasing), _) => releasing.await,
                (None, Holding::Lost(loss)) => Err(call.failed(LockError::Lost(loss))),
                (None, Holding::Held | Holding::Suspended) => Ok(()),
            }
        }
    }
}

methods! { ReentrantGuard:
    /// Releases one level. The last guard of the owner releases the lock, and waits until the next
    /// contender can acquire it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock was lost before, on every level. [`LockError::NotConfirmed`]
    /// for the last guard, if no server has confirmed the release.
    release fn release [release_until, release_timeout] (self; end) -> Result<(), RecipeError> {
        self.release_level(end)
    }
}
