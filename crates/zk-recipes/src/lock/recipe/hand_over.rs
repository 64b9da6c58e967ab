//! Attempts of one process that share a node, and pass the lock on without a request.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant as StdInstant;

use zk_session::Attachment;
use zk_session::dispatch::Port;
use zk_session::threads::Mutex as StdMutex;
use zk_session::time::Instant;

use crate::attempt::{Command, Event, Observer, OnSession, WaitPolicy};
use crate::client::SessionClient;
use crate::client::deadlocks::Deadlocks;
use crate::client::guard::{Guard, Holding, holding};
use crate::client::known::lock;
use crate::client::queue::{Attempted, Entrance};
use crate::client::session_client::TimeLimit;
use crate::client::status::{Handle, HeldNode, MachineReport, OnLoss, SharedStatus};
use crate::error::{LockError, RecipeError};
use crate::lock::cohort::{After, Cohort, HandOver, Next, Standing, Ticket, Turn};
use crate::lock::idle_watch::IdleWatch;
use crate::options::Options;

/// The [`Options`] for attempts of one process.
#[derive(Clone, Debug, Default)]
pub(crate) struct LocalOptions {
    pub(crate) hand_over: Option<HandOver>,
    pub(crate) keep_idle: Option<Duration>,
    pub(crate) deadlocks: Option<Deadlocks>,
}

/// A node with which the lock is held. The last share deletes it.
struct SharedNode {
    /// If idle locks are kept. It ends before the node does.
    kept: Option<Kept>,
    node: HeldNode,
    handle: Handle,
}

type Share = Arc<SharedNode>;

impl SharedNode {
    fn standing(&self) -> Standing {
        let is_late = self.kept.as_ref().is_some_and(|kept| kept.signs.take_late());
        let is_contended = || self.kept.as_ref().is_some_and(|kept| kept.signs.is_contended());
        self.handle.status.read(|report| match holding(report) {
            Holding::Held if report.revoked => Standing::Withheld,
            Holding::Held if is_contended() => Standing::Contended,
            Holding::Held if is_late => Standing::Late,
            Holding::Held => Standing::Held,
            Holding::Suspended => Standing::Withheld,
            Holding::Lost(_) => Standing::Lost,
        })
    }
}

/// Watches for others, and for the end of the idle time.
struct Kept {
    signs: Arc<Signs>,
    watch: Attachment,
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.watch.command(&mut Command::Release);
    }
}

/// What an [`IdleWatch`] has reported.
#[derive(Default)]
struct Signs {
    is_contended: AtomicBool,
    is_late: AtomicBool,
}

impl Signs {
    fn is_contended(&self) -> bool {
        self.is_contended.load(Ordering::Acquire)
    }

    fn take_late(&self) -> bool {
        self.is_late.swap(false, Ordering::AcqRel)
    }
}

struct WatchObserver {
    signs: Arc<Signs>,
    waker: Waker,
}

impl Observer for WatchObserver {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        let sign = match event {
            Event::Revoked => &self.signs.is_contended,
            Event::Released => &self.signs.is_late,
            _ => return,
        };
        sign.store(true, Ordering::Release);
        port.wake(self.waker.clone());
    }
}

type LocalCohort<C> = Cohort<Share, Waker, Attempted<C>>;

/// What is left to do once the cohort is unlocked.
type Rest<C> = After<Share, Waker, Attempted<C>>;

fn finish<C>(rest: Rest<C>) {
    let After { unused, unused_attempt, unused_wakers, wake, .. } = rest;
    drop((unused, unused_attempt, unused_wakers));
    wake.into_iter().for_each(Waker::wake);
}

/// What the clones of a lock share.
pub(crate) struct LocalLock<C> {
    cohort: StdMutex<LocalCohort<C>>,
    /// Notices a change of the node.
    observer: Waker,
    clock: fn() -> StdInstant,
    start: StdInstant,
}

/// Notices that the lock is lost, asked for, contended or idle for too long.
struct Notice<C>(Weak<LocalLock<C>>);

impl<C: SessionClient> Wake for Notice<C> {
    fn wake(self: Arc<Self>) {
        if let Some(local) = self.0.upgrade() {
            local.with(|_, _| ());
        }
    }
}

impl<C: SessionClient> LocalLock<C> {
    /// Returns what attempts share, if they share a node.
    pub(crate) fn of(options: &Options) -> Option<Arc<Self>> {
        let bound = match options.local.keep_idle {
            // Nobody is overtaken who is known to wait.
            Some(_) => options.local.hand_over.unwrap_or(HandOver::DEFAULT.turns(1)),
            None => options.local.hand_over?,
        };
        let cohort = Cohort::new(bound, options.local.keep_idle.is_some());
        Some(Arc::new_cyclic(|this: &Weak<Self>| Self {
            cohort: StdMutex::new(cohort),
            observer: Waker::from(Arc::new(Notice(this.clone()))),
            clock: C::now,
            start: C::now(),
        }))
    }
}

impl<C> LocalLock<C> {
    /// Acts on the cohort as of now.
    fn with<R>(&self, act: impl FnOnce(&mut LocalCohort<C>, Instant) -> R) -> R {
        let now = Instant::after_start((self.clock)().saturating_duration_since(self.start));
        let mut cohort = lock(&self.cohort);
        let was_idle = cohort.idle().is_some();
        let standing = cohort.held().map(|share| share.standing());
        let rest = standing.map(|standing| cohort.update(now, standing));
        let result = act(&mut cohort, now);
        let idle = cohort.idle().filter(|_| !was_idle).cloned();
        drop(cohort);
        rest.into_iter().for_each(finish);
        if let Some(kept) = idle.as_ref().and_then(|share| share.kept.as_ref()) {
            // Starts the time to keep it.
            kept.watch.command(&mut Command::Leave);
        }
        result
    }

    /// Looks whether a lock that is kept is still held.
    fn check_idle(&self) {
        let idle = lock(&self.cohort).idle().cloned();
        if let Some(share) = idle {
            share.handle.command(Command::CheckLease);
        }
    }

    /// Returns the node that is shared, and how many attempts wait for it here.
    pub(crate) fn held(&self) -> Option<(String, usize)> {
        let cohort = lock(&self.cohort);
        cohort.held().map(|share| (share.node.name.clone(), cohort.waiting()))
    }

    /// Returns how many attempts wait here.
    pub(crate) fn waiting(&self) -> usize {
        lock(&self.cohort).waiting()
    }
}

/// An attempt that takes turns with others of this process. Dropping it gives up.
pub(crate) struct LocalAttempt<C> {
    entrance: Entrance<C>,
    local: Arc<LocalLock<C>>,
    phase: LocalPhase<C>,
}

enum LocalPhase<C> {
    Waiting(Ticket),
    /// It is the front, and gets a node: by the attempt that another front has left, if any.
    Front(Ticket, Option<Attempted<C>>),
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
        local.check_idle();
        let admitted = local.with(|cohort, _| match entrance.wait_policy.refusal() {
            Some(refusal) if !cohort.admits(entrance.mode) => Err(refusal),
            _ => Ok(cohort.enter(entrance.mode)),
        });
        match admitted {
            Ok(ticket) => Ok(Self { entrance, local, phase: LocalPhase::Waiting(ticket) }),
            Err(refusal) => Err(entrance.queue.call(entrance.operation).failed(refusal)),
        }
    }

    /// Returns the status of its node, if it has one of its own.
    pub(crate) fn status(&self) -> Option<Arc<SharedStatus>> {
        match &self.phase {
            LocalPhase::Attempting(_, attempted) => attempted.status(),
            _ => None,
        }
    }

    /// Waits for others of this process.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let LocalPhase::Waiting(ticket) = self.phase else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        self.local.check_idle();
        let (next, rest) = self.local.with(|cohort, now| cohort.poll(ticket, now, waker));
        self.phase = match next {
            Next::Hold(turn) => LocalPhase::Holding(LocalTurn::new(&self.local, turn)),
            Next::Attempt(left) => LocalPhase::Front(ticket, left),
            Next::Wait => LocalPhase::Waiting(ticket),
        };
        finish(rest);
        if let LocalPhase::Waiting(_) = self.phase { Poll::Pending } else { Poll::Ready(()) }
    }

    /// Waits until the lock is held, or the attempt has failed.
    pub(crate) fn poll_held(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Guard<C>, RecipeError>> {
        if self.poll_turn(cx).is_pending() {
            ready!(limit.poll(&self.entrance.queue.client, cx));
            let Entrance { queue, operation, .. } = &self.entrance;
            return Poll::Ready(Err(queue.call(operation).failed(LockError::TimedOut)));
        }
        if let LocalPhase::Front(ticket, left) = &mut self.phase {
            let attempted = left.take().unwrap_or_else(|| self.entrance.clone().enter());
            self.phase = LocalPhase::Attempting(*ticket, attempted);
        }
        if let LocalPhase::Attempting(ticket, attempted) = &mut self.phase {
            let (node, handle) = match ready!(attempted.poll_held(limit, cx)) {
                Ok(guard) => guard.into_node(),
                Err(error) => return Poll::Ready(Err(error)),
            };
            if let (ticket, Some(handle)) = (*ticket, handle) {
                self.phase = LocalPhase::Holding(self.acquired(ticket, node, handle));
            }
        }
        match core::mem::replace(&mut self.phase, LocalPhase::Over) {
            LocalPhase::Holding(turn) => Poll::Ready(Ok(self.guard(turn))),
            _ => Poll::Pending,
        }
    }

    /// The node is there, for all.
    fn acquired(&self, ticket: Ticket, node: HeldNode, handle: Handle) -> LocalTurn<C> {
        let kept = self.entrance.queue.options.local.keep_idle.map(|keep| self.watch(&node, keep));
        let share = Arc::new(SharedNode { kept, node, handle });
        share.handle.status.follow(self.local.observer.clone());
        let (turn, rest) = self.local.with(|cohort, now| cohort.acquired(ticket, now, share));
        let turn = LocalTurn::new(&self.local, turn);
        finish(rest);
        // It may be lost since before it was followed.
        self.local.with(|_, _| ());
        turn
    }

    fn watch(&self, node: &HeldNode, keep: Duration) -> Kept {
        let queue = &self.entrance.queue;
        let signs = Arc::<Signs>::default();
        let observer = WatchObserver { signs: signs.clone(), waker: self.local.observer.clone() };
        let watch = IdleWatch::new(queue.server_path(), node.name.clone(), keep);
        let seed = node.token.0.cast_unsigned();
        let watch = queue.client.attach(Box::new(OnSession::new(watch, observer, seed)));
        Kept { signs, watch }
    }

    fn guard(&self, turn: LocalTurn<C>) -> Guard<C> {
        let queue = &self.entrance.queue;
        let node = turn.share().node.clone();
        Guard::of_turn(queue.client.clone(), queue.path.clone(), node, turn)
    }
}

impl<C> Drop for LocalAttempt<C> {
    fn drop(&mut self) {
        let phase = core::mem::replace(&mut self.phase, LocalPhase::Over);
        let (ticket, attempted) = match phase {
            LocalPhase::Waiting(ticket) => (ticket, None),
            LocalPhase::Front(ticket, left) => (ticket, left),
            LocalPhase::Attempting(ticket, attempted) => (ticket, Some(attempted)),
            // A turn that is dropped is passed on.
            LocalPhase::Holding(_) | LocalPhase::Over => return,
        };
        let waits = self.entrance.wait_policy == WaitPolicy::Queue;
        let (left, unused) = match attempted {
            Some(attempted) if waits && attempted.is_open() => (Some(attempted.anew()), None),
            attempted => (None, attempted),
        };
        let rest = self.local.with(|cohort, now| cohort.withdraw(ticket, now, left));
        drop(unused);
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
            node: turn.node,
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
        self.silence(&share.handle.status);
        let Some(local) = &self.local else { return Some(share) };
        let (share, rest) = local.with(|cohort, now| {
            let (is_kept, rest) = cohort.leave(self.node, now);
            // Not the last one, and gone before another holder can have the node.
            ((!is_kept).then_some(share), rest)
        });
        finish(rest);
        share
    }

    /// Keeps the node for this turn. Returns whether no other turn has it.
    pub(crate) fn keep(&mut self) -> bool {
        if let Some(local) = &self.local {
            finish(local.with(|cohort, _| cohort.take_away(self.node)));
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
        let is_open = !matches!(status.read(holding), Holding::Lost(_));
        let callbacks = core::mem::take(&mut *lock(&self.callbacks));
        for callback in callbacks.into_iter().filter(|_| is_open) {
            let unused = lock(&callback).take();
            drop(unused);
        }
        if let Some(signal) = self.signals.get() {
            signal.store(true, Ordering::Release);
            let (waiters, callbacks) = status.change(|_: &mut MachineReport| {});
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
