//! Attempts of one process that share a node, and pass the lock on without a request.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::{Arc, Weak};
use alloc::task::Wake;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, Waker, ready};
use core::time::Duration;
use std::sync::OnceLock;
use std::time::Instant as StdInstant;

use zk_session::Attachment;
use zk_session::dispatch::Port;
use zk_session::threads::{Mutex as StdMutex, MutexGuard};
use zk_session::time::Instant;

use crate::attempt::{Command, Event, LockMode, Observer, OnSession, WaitPolicy};
use crate::client::deadlocks::Mark;
use crate::client::held_lock::{HoldNode, SpecialHolder};
use crate::client::known::lock;
use crate::client::local::{Enter, LocalAttempt, LocalLock, LocalOptions, NodeAttempt};
use crate::client::local::{ShareNode, TakeTurns};
use crate::client::report::{HeldNode, Holding, MachineReport};
use crate::client::session_client::TimeLimit;
use crate::client::status::{ChangeEffects, Handle, OnLoss, SharedStatus};
use crate::error::{LockError, RecipeError};
use crate::lock::cohort::{After, Cohort, HandOver, Next, Standing, Ticket, Turn};
use crate::lock::idle_watch::IdleWatch;

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
        self.handle.status.read(|report| match report.holding() {
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

type LocalCohort = Cohort<Share, Waker, Box<dyn NodeAttempt>>;

/// What is left to do once the cohort is unlocked.
type Rest = After<Share, Waker, Box<dyn NodeAttempt>>;

fn finish(rest: Rest) {
    let After { unused, unused_attempt, unused_wakers, wake, .. } = rest;
    drop((unused, unused_attempt, unused_wakers));
    wake.into_iter().for_each(Waker::wake);
}

/// A lock whose attempts share a node.
pub(crate) struct SharingLock {
    cohort: StdMutex<LocalCohort>,
    keep_idle: Option<Duration>,
    /// Notices a change of the node.
    observer: Waker,
    clock: fn() -> StdInstant,
    start: StdInstant,
}

/// Notices that the lock is lost, asked for, contended or idle for too long.
struct Notice(Weak<SharingLock>);

impl Wake for Notice {
    fn wake(self: Arc<Self>) {
        if let Some(local) = self.0.upgrade() {
            local.with(|_, _| ());
        }
    }
}

impl SharingLock {
    pub(crate) fn start(options: &LocalOptions, clock: fn() -> StdInstant) -> Arc<LocalLock> {
        let keep_idle = options.keep_idle;
        // If idle locks are kept, nobody is overtaken who is known to wait.
        let default = HandOver::DEFAULT.turns(1);
        let cohort = Cohort::new(options.hand_over.unwrap_or(default), keep_idle.is_some());
        Arc::new_cyclic(|this: &Weak<Self>| Self {
            cohort: StdMutex::new(cohort),
            keep_idle,
            observer: Waker::from(Arc::new(Notice(this.clone()))),
            clock,
            start: clock(),
        })
    }

    /// Acts on the cohort as of now.
    fn with<R>(&self, act: impl FnOnce(&mut LocalCohort, Instant) -> R) -> R {
        let now = Instant::after_start((self.clock)().saturating_duration_since(self.start));
        let mut before = self.updated(now);
        let result = act(&mut before.0, now);
        Self::unlock(before);
        result
    }

    /// Locks and updates the cohort. Also returns whether it was idle before, and what is left to do
    /// after unlocking.
    fn updated(&self, now: Instant) -> (MutexGuard<'_, LocalCohort>, bool, Option<Rest>) {
        let mut cohort = lock(&self.cohort);
        let was_idle = cohort.idle().is_some();
        let standing = cohort.held().map(|share| share.standing());
        let rest = standing.map(|standing| cohort.update(now, standing));
        (cohort, was_idle, rest)
    }

    /// Unlocks the cohort, then does what is left to do.
    fn unlock((cohort, was_idle, rest): (MutexGuard<'_, LocalCohort>, bool, Option<Rest>)) {
        let idle = cohort.idle().filter(|_| !was_idle).cloned();
        drop(cohort);
        rest.into_iter().for_each(finish);
        if let Some(kept) = idle.as_ref().and_then(|share| share.kept.as_ref()) {
            // Starts the time to keep it.
            kept.watch.command(&mut Command::Leave);
        }
    }

    /// Looks whether a lock that is kept is still held.
    fn check_idle(&self) {
        let idle = lock(&self.cohort).idle().cloned();
        if let Some(share) = idle {
            share.handle.command(Command::CheckLease);
        }
    }
}

impl ShareNode for SharingLock {
    fn enter(
        self: Arc<Self>,
        mode: LockMode,
        wait_policy: WaitPolicy,
        mark: Option<Mark>,
    ) -> Result<Box<LocalAttempt>, LockError> {
        self.check_idle();
        let ticket = self.with(|cohort, _| match wait_policy.refusal() {
            Some(refusal) if !cohort.admits(mode) => Err(refusal),
            _ => Ok(cohort.enter(mode)),
        })?;
        let phase = LocalPhase::Waiting(ticket);
        Ok(Box::new(SharingAttempt { local: self, wait_policy, phase, mark }))
    }

    fn held(&self) -> Option<(String, usize)> {
        let cohort = lock(&self.cohort);
        cohort.held().map(|share| (share.node.name.to_string(), cohort.waiting()))
    }

    fn waiting(&self) -> usize {
        lock(&self.cohort).waiting()
    }
}

struct SharingAttempt {
    local: Arc<SharingLock>,
    wait_policy: WaitPolicy,
    phase: LocalPhase,
    mark: Option<Mark>,
}

enum LocalPhase {
    Waiting(Ticket),
    /// It is the front, and gets a node: by the attempt that another front has left, if any.
    Front(Ticket, Option<Box<dyn NodeAttempt>>),
    Attempting(Ticket, Box<dyn NodeAttempt>),
    Holding(SharingHolder),
    Over,
}

impl TakeTurns for SharingAttempt {
    fn status(&self) -> Option<Arc<SharedStatus>> {
        match &self.phase {
            LocalPhase::Attempting(_, attempt) => attempt.status(),
            _ => None,
        }
    }

    fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let LocalPhase::Waiting(ticket) = self.phase else { return Poll::Ready(()) };
        let waker = cx.waker().clone();
        self.local.check_idle();
        let (next, rest) = self.local.with(|cohort, now| cohort.poll(ticket, now, waker));
        self.phase = match next {
            Next::Hold(turn) => LocalPhase::Holding(SharingHolder::new(&self.local, turn)),
            Next::Attempt(left) => LocalPhase::Front(ticket, left),
            Next::Wait => LocalPhase::Waiting(ticket),
        };
        finish(rest);
        if let LocalPhase::Waiting(_) = self.phase { Poll::Pending } else { Poll::Ready(()) }
    }

    fn poll_held(
        &mut self,
        entrance: &dyn Enter,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(HeldNode, Box<SpecialHolder>), RecipeError>> {
        if let LocalPhase::Front(ticket, left) = &mut self.phase {
            let attempt = left.take().unwrap_or_else(|| entrance.enter());
            self.phase = LocalPhase::Attempting(*ticket, attempt);
        }
        if let LocalPhase::Attempting(ticket, attempt) = &mut self.phase {
            let held = ready!(attempt.poll_node(limit, cx))?;
            if let (ticket, (node, Some(handle))) = (*ticket, held) {
                self.phase = LocalPhase::Holding(self.acquired(entrance, ticket, node, handle));
            }
        }
        match core::mem::replace(&mut self.phase, LocalPhase::Over) {
            LocalPhase::Holding(mut holder) => {
                holder.mark = self.mark.take().map(Mark::holds);
                Poll::Ready(Ok((holder.share().node.clone(), Box::new(holder))))
            }
            _ => Poll::Pending,
        }
    }
}

impl SharingAttempt {
    /// The node is there, for all.
    fn acquired(
        &self,
        entrance: &dyn Enter,
        ticket: Ticket,
        node: HeldNode,
        handle: Handle,
    ) -> SharingHolder {
        let kept = self.local.keep_idle.map(|keep| self.watch(entrance, &node, keep));
        let share = Arc::new(SharedNode { kept, node, handle });
        share.handle.status.follow(self.local.observer.clone());
        let (turn, rest) = self.local.with(|cohort, now| cohort.acquired(ticket, now, share));
        let holder = SharingHolder::new(&self.local, turn);
        finish(rest);
        // It may be lost since before it was followed.
        self.local.with(|_, _| ());
        holder
    }

    fn watch(&self, entrance: &dyn Enter, node: &HeldNode, keep: Duration) -> Kept {
        let signs = Arc::<Signs>::default();
        let observer = WatchObserver { signs: signs.clone(), waker: self.local.observer.clone() };
        let watch = IdleWatch::new(entrance.server_path(), node.name.to_string(), keep);
        let seed = node.token.0.cast_unsigned();
        let watch = entrance.attach(Box::new(OnSession::new(watch, observer, seed)));
        Kept { signs, watch }
    }
}

impl Drop for SharingAttempt {
    fn drop(&mut self) {
        let phase = core::mem::replace(&mut self.phase, LocalPhase::Over);
        let (ticket, mut attempt) = match phase {
            LocalPhase::Waiting(ticket) => (ticket, None),
            LocalPhase::Front(ticket, left) => (ticket, left),
            LocalPhase::Attempting(ticket, attempt) => (ticket, Some(attempt)),
            // A turn that is dropped is passed on.
            LocalPhase::Holding(_) | LocalPhase::Over => return,
        };
        let waits = self.wait_policy == WaitPolicy::Queue;
        let left = attempt.take_if(|attempt| waits && attempt.renew());
        let rest = self.local.with(|cohort, now| cohort.withdraw(ticket, now, left));
        drop(attempt);
        finish(rest);
    }
}

/// A turn with a node that others of this process may share. Dropped, it ends.
struct SharingHolder {
    /// `None` once the node belongs to this turn alone.
    local: Option<Arc<SharingLock>>,
    node: u64,
    number: u32,
    /// `None` once the turn has ended.
    share: Option<Share>,
    signals: OnceLock<Arc<AtomicBool>>,
    callbacks: StdMutex<Vec<Callback>>,
    mark: Option<Mark>,
}

/// A callback for the loss of the lock, until it runs or the turn ends.
type Callback = Arc<StdMutex<Option<OnLoss>>>;

impl HoldNode for SharingHolder {
    fn handle(&self) -> &Handle {
        &self.share().handle
    }

    fn end(mut self: Box<Self>) -> Option<Handle> {
        Arc::into_inner(self.leave()?).map(|share| share.handle)
    }

    fn turn(&self) -> u32 {
        self.number
    }

    fn signal(&self) -> Option<Arc<AtomicBool>> {
        Some(self.signals.get_or_init(Arc::default).clone())
    }

    fn until_end(&self, run: OnLoss) -> OnLoss {
        let callback: Callback = Arc::new(StdMutex::new(Some(run)));
        lock(&self.callbacks).push(callback.clone());
        Box::new(move |loss| {
            let run = lock(&callback).take();
            if let Some(run) = run {
                run(loss);
            }
        })
    }

    fn keep(&mut self) -> bool {
        if let Some(local) = &self.local {
            finish(local.with(|cohort, _| cohort.take_away(self.node)));
        }
        let is_alone = self.share.as_mut().is_some_and(|share| Arc::get_mut(share).is_some());
        if is_alone {
            self.local = None;
        }
        is_alone
    }
}

impl SharingHolder {
    fn new(local: &Arc<SharingLock>, turn: Turn<Share>) -> Self {
        Self {
            local: Some(local.clone()),
            node: turn.node,
            number: turn.number,
            share: Some(turn.held),
            signals: OnceLock::new(),
            callbacks: StdMutex::default(),
            mark: None,
        }
    }

    fn share(&self) -> &Share {
        self.share.as_ref().expect("until the turn ends")
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

    /// Wakes those that wait for the end of this turn, and drops its callbacks.
    fn silence(&self, status: &SharedStatus) {
        let is_open = status.read(MachineReport::holding).loss().is_none();
        let callbacks = core::mem::take(&mut *lock(&self.callbacks));
        for callback in callbacks.into_iter().filter(|_| is_open) {
            let unused = lock(&callback).take();
            drop(unused);
        }
        if let Some(signal) = self.signals.get() {
            signal.store(true, Ordering::Release);
            status.change(|_: &mut MachineReport| {}).into_iter().for_each(ChangeEffects::run);
        }
    }
}

impl Drop for SharingHolder {
    fn drop(&mut self) {
        drop(self.leave());
    }
}
