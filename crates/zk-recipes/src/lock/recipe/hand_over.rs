//! Attempts of one process that share a node, and pass the lock on without a request.

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker, ready};
use std::sync::{OnceLock, PoisonError};
use std::time::Instant;

use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};

use super::cohort::{After, Cohort, Next, Ticket, Turn};
use crate::attempt::{Command, LockMode, WaitPolicy};
use crate::client::SessionClient;
use crate::client::guard::{Guard, Holding, holding};
use crate::client::queue::{Attempted, Entrance};
use crate::client::session_client::TimeLimit;
use crate::client::status::{Handle, HeldNode, OnLoss, Report, SharedStatus};
use crate::error::{LockError, RecipeError};
use crate::options::Options;

/// A node with which the lock is held. The last share deletes it.
struct SharedNode {
    node: HeldNode,
    handle: Handle,
}

type Share = Arc<SharedNode>;

impl SharedNode {
    /// Returns whether the lock is held for sure, and nobody has asked for it.
    fn may_be_passed(self: &Arc<Self>) -> bool {
        self.handle.status.read(|report| holding(report) == Holding::Held && !report.revoked)
    }
}

/// What the clones of a lock share.
pub(crate) struct LocalLock<C> {
    state: StdMutex<State<C>>,
    /// Wakes the attempt at the front.
    front: Waker,
    now: fn() -> Instant,
}

struct State<C> {
    cohort: Cohort<Share, Waker>,
    /// A front that has given up leaves its place in ZooKeeper's queue to the next one.
    passing: Option<(LockMode, Attempted<C>)>,
}

/// What is left to do once the state is unlocked.
type Rest = After<Share, Waker>;

fn finish(rest: Rest) {
    let After { wake, unused, unused_wakers } = rest;
    // Deletes nodes first: a front that is woken enters the queue behind others.
    drop((unused, unused_wakers));
    wake.into_iter().for_each(Waker::wake);
}

/// Wakes the attempt at the front, when the lock is lost.
struct WakeFront<C>(Weak<LocalLock<C>>);

impl<C: SessionClient> Wake for WakeFront<C> {
    fn wake(self: Arc<Self>) {
        let Some(local) = self.0.upgrade() else { return };
        let waker = local.state().cohort.front_waker();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<C: SessionClient> LocalLock<C> {
    /// Returns what attempts share, if they share a node.
    pub(crate) fn of(options: &Options) -> Option<Arc<Self>> {
        let cohort = Cohort::new(options.hand_over?);
        Some(Arc::new_cyclic(|this: &Weak<Self>| Self {
            state: StdMutex::new(State { cohort, passing: None }),
            front: Waker::from(Arc::new(WakeFront(this.clone()))),
            now: C::now,
        }))
    }
}

impl<C> LocalLock<C> {
    fn state(&self) -> StdMutexGuard<'_, State<C>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns how many attempts wait here.
    pub(crate) fn waiting(&self) -> usize {
        self.state().cohort.waiting()
    }
}

impl<C> State<C> {
    /// Notices that the lock is lost.
    fn refresh(&mut self) -> Option<Rest> {
        let state = |share: &Share| share.handle.status.read(holding);
        let is_lost = self.cohort.held().map(state).is_some_and(|state| !state.is_open());
        is_lost.then(|| self.cohort.lose())
    }

    /// Takes the attempt that is passed on, unless the front can use it.
    fn take_useless(&mut self) -> Option<(LockMode, Attempted<C>)> {
        let front = self.cohort.front_mode();
        self.passing.take_if(|(mode, _)| Some(*mode) != front)
    }
}

/// An attempt that takes turns with others of this process. Dropping it gives up.
pub(crate) struct LocalAttempt<C> {
    entrance: Entrance<C>,
    local: Arc<LocalLock<C>>,
    phase: Phase<C>,
}

enum Phase<C> {
    Waiting(Ticket),
    /// It is the front, and gets a node.
    Front(Ticket),
    Attempting(Ticket, Attempted<C>),
    Holding(LocalTurn<C>),
    Over,
}

impl<C: SessionClient> LocalAttempt<C> {
    /// Enters, at once. Fails if the attempt must not wait, and would.
    pub(crate) fn enter(
        entrance: Entrance<C>,
        local: Arc<LocalLock<C>>,
    ) -> Result<Self, RecipeError> {
        let mut state = local.state();
        let rest = state.refresh();
        let admitted = match entrance.wait_policy.refusal() {
            Some(refusal) if !state.cohort.admits(entrance.mode) => Err(refusal),
            _ => Ok(state.cohort.enter(entrance.mode)),
        };
        drop(state);
        rest.into_iter().for_each(finish);
        match admitted {
            Ok(ticket) => Ok(Self { entrance, local, phase: Phase::Waiting(ticket) }),
            Err(refusal) => Err(entrance.call().failed(refusal)),
        }
    }

    /// Returns the status of its node, if it has one of its own.
    pub(crate) fn status(&self) -> Option<Arc<SharedStatus>> {
        match &self.phase {
            Phase::Attempting(_, attempted) => attempted.status(),
            _ => None,
        }
    }

    /// Waits for others of this process.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Phase::Waiting(ticket) = self.phase else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        let mut state = self.local.state();
        let lost = state.refresh();
        let (next, rest) = state.cohort.poll(ticket, C::now(), waker);
        drop(state);
        self.phase = match next {
            Next::Hold(turn) => Phase::Holding(LocalTurn::new(&self.local, turn)),
            Next::Attempt => Phase::Front(ticket),
            Next::Wait => Phase::Waiting(ticket),
        };
        lost.into_iter().for_each(finish);
        finish(rest);
        if let Phase::Waiting(_) = self.phase { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Waits until the lock is held, or the attempt has failed.
    pub(crate) fn poll_held(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Guard<C>, RecipeError>> {
        if self.poll_turn(cx).is_pending() {
            ready!(limit.poll(&self.entrance.queue.client, cx));
            return Poll::Ready(Err(self.entrance.call().failed(LockError::TimedOut)));
        }
        if let Phase::Front(ticket) = self.phase {
            let passed = self.local.state().passing.take();
            let attempted = match passed {
                Some((mode, attempted)) if mode == self.entrance.mode => attempted,
                _ => self.entrance.clone().enter(),
            };
            self.phase = Phase::Attempting(ticket, attempted);
        }
        if let Phase::Attempting(ticket, attempted) = &mut self.phase {
            let (node, handle) = match ready!(attempted.poll_held(limit, cx)) {
                Ok(guard) => guard.into_node(),
                Err(error) => return Poll::Ready(Err(error)),
            };
            if let (ticket, Some(handle)) = (*ticket, handle) {
                self.phase = Phase::Holding(self.acquired(ticket, SharedNode { node, handle }));
            }
        }
        match core::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Holding(turn) => Poll::Ready(Ok(self.guard(turn))),
            _ => Poll::Pending,
        }
    }

    /// The node is there, for all.
    fn acquired(&self, ticket: Ticket, node: SharedNode) -> LocalTurn<C> {
        let share = Arc::new(node);
        share.handle.status.follow(self.local.front.clone());
        let mut state = self.local.state();
        let (turn, rest) = state.cohort.acquired(ticket, C::now(), share);
        // It may be lost since before the front was to be woken.
        let lost = state.refresh();
        drop(state);
        let turn = LocalTurn::new(&self.local, turn);
        lost.into_iter().for_each(finish);
        finish(rest);
        turn
    }

    fn guard(&self, turn: LocalTurn<C>) -> Guard<C> {
        let queue = &self.entrance.queue;
        let node = turn.share().node.clone();
        Guard::of_turn(queue.client.clone(), queue.path.clone(), node, turn)
    }
}

impl<C> Drop for LocalAttempt<C> {
    fn drop(&mut self) {
        let phase = core::mem::replace(&mut self.phase, Phase::Over);
        let (ticket, attempted) = match phase {
            Phase::Waiting(ticket) | Phase::Front(ticket) => (ticket, None),
            Phase::Attempting(ticket, attempted) => (ticket, Some(attempted)),
            // A turn that is dropped is passed on.
            Phase::Holding(_) | Phase::Over => return,
        };
        let waits = self.entrance.wait_policy == WaitPolicy::Queue;
        let (passed, unused) = match attempted {
            Some(attempted) if waits && attempted.is_open() => (Some(attempted.anew()), None),
            attempted => (None, attempted),
        };
        let mut state = self.local.state();
        if let Some(passed) = passed {
            state.passing = Some((self.entrance.mode, passed));
        }
        let may = state.cohort.held().is_some_and(SharedNode::may_be_passed);
        let rest = state.cohort.withdraw(ticket, (self.local.now)(), may);
        let useless = state.take_useless();
        drop(state);
        drop((unused, useless));
        finish(rest);
    }
}

/// A turn with a node that others of this process may share. Dropped, it ends.
pub(crate) struct LocalTurn<C> {
    /// `None` once the node belongs to this turn alone.
    local: Option<Arc<LocalLock<C>>>,
    node: u64,
    number: u32,
    /// `None` once the turn has ended.
    share: Option<Share>,
    signals: OnceLock<Arc<AtomicBool>>,
    callbacks: StdMutex<Vec<Callback>>,
}

/// A callback for the loss of the lock, until it runs or the turn ends.
type Callback = Arc<StdMutex<Option<OnLoss>>>;

impl<C> Deref for LocalTurn<C> {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        &self.share().handle
    }
}

impl<C> LocalTurn<C> {
    fn new(local: &Arc<LocalLock<C>>, turn: Turn<Share>) -> Self {
        Self {
            local: Some(local.clone()),
            node: turn.node(),
            number: turn.number,
            share: Some(turn.held),
            signals: OnceLock::new(),
            callbacks: StdMutex::default(),
        }
    }

    fn share(&self) -> &Share {
        self.share.as_ref().expect("until the turn ends")
    }

    /// Returns the number of this turn of the node.
    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    /// Ends the turn. Returns the node if others of this process have no use for it.
    pub(crate) fn end(mut self) -> Option<Handle> {
        Arc::into_inner(self.leave()?).map(|share| share.handle)
    }

    /// Returns the share if the node is no longer used, or is this turn's alone.
    fn leave(&mut self) -> Option<Share> {
        let share = self.share.take()?;
        share.handle.command(Command::CheckLease);
        let may = share.may_be_passed();
        self.silence(&share.handle.status);
        let Some(local) = &self.local else { return Some(share) };
        let mut state = local.state();
        let (is_kept, rest) = state.cohort.leave(self.node, (local.now)(), may);
        // Not the last one, and gone before another holder can have the node.
        let share = (!is_kept).then_some(share);
        drop(state);
        finish(rest);
        share
    }

    /// Keeps the node for this turn. Returns whether no other turn has it.
    pub(crate) fn keep(&mut self) -> bool {
        if let Some(local) = &self.local {
            let rest = local.state().cohort.take_away(self.node);
            finish(rest);
        }
        let is_alone = self.share.as_mut().is_some_and(|share| Arc::get_mut(share).is_some());
        if is_alone {
            self.local = None;
        }
        is_alone
    }

    /// Returns what is set when the turn ends.
    pub(crate) fn signal(&self) -> Arc<AtomicBool> {
        self.signals.get_or_init(Arc::default).clone()
    }

    /// Returns a callback that does not run after the turn.
    pub(crate) fn until_end(&self, run: OnLoss) -> OnLoss {
        let callback: Callback = Arc::new(StdMutex::new(Some(run)));
        lock(&self.callbacks).push(callback.clone());
        Box::new(move |loss| {
            let run = lock(&callback).take();
            if let Some(run) = run {
                run(loss);
            }
        })
    }

    /// Wakes those that wait for the end of this turn, and drops its callbacks.
    fn silence(&self, status: &SharedStatus) {
        let is_open = status.read(holding).is_open();
        let callbacks = core::mem::take(&mut *lock(&self.callbacks));
        for callback in callbacks.into_iter().filter(|_| is_open) {
            let unused = lock(&callback).take();
            drop(unused);
        }
        if let Some(signal) = self.signals.get() {
            signal.store(true, Ordering::Release);
            let (waiters, callbacks) = status.change(|_: &mut Report| {});
            waiters.wakers().for_each(Waker::wake);
            callbacks.into_iter().for_each(crate::client::status::LossCallbacks::finish);
        }
    }
}

impl<C> Drop for LocalTurn<C> {
    fn drop(&mut self) {
        drop(self.leave());
    }
}

fn lock<T>(mutex: &StdMutex<T>) -> StdMutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
