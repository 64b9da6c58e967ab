//! The state that the driver shares with the handles of its client.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::task::{Context, Waker};

use tokio::runtime;
use tokio::sync::watch;
use zk_proto::Request;

use super::task_connection::TaskConnection;
use crate::client::{
    ClientProcess, Clock, Driver, EffectsGuard, EffectsMutex, HasEffects, Receiver, Router,
};
use crate::dispatch::attachment::{Attachment, Commands};
use crate::dispatch::watchers::Watcher;
use crate::dispatch::{Attached, Effects, Key};
use crate::error::{Error, Outcome};
use crate::session::{End, Reply, RequestId, State};
use crate::threads::thread::{self, ThreadId};
use crate::time::Instant;

/// The driver on tokio: a task of the runtime in which the client was connected.
pub struct Tokio {
    inner: EffectsMutex<TokioState>,
    process: ClientProcess<EffectsMutex<TokioState>>,
    pub(crate) clock: Clock,
    pub(crate) states: watch::Sender<State>,
    pub(crate) runtime: runtime::Handle,
}

pub(crate) struct TokioState {
    pub(crate) router: Router,
    pub(crate) clock: Clock,
    /// The connection, while there is one.
    pub(super) connection: Option<TaskConnection>,
    /// Wakes the driver.
    driver: Waker,
    /// Whether the driver is going to look at the session.
    is_driver_awake: bool,
    /// Whether no other request was pending when the latest one was submitted.
    is_alone: bool,
    /// The thread in [`Client::batch`](crate::Client::batch), if any.
    cork: Option<ThreadId>,
    /// Whether the batch has requests, and if so, whether the first one was alone.
    corked: Option<bool>,
    /// When the driver wakes by itself.
    pub(super) alarm: Option<Instant>,
    /// Whether it then wakes so early that it notices a suspension in time.
    pub(super) has_short_alarm: bool,
}

impl HasEffects for TokioState {
    fn effects(&mut self) -> &mut Effects {
        self.router.dispatcher.effects()
    }
}

impl fmt::Debug for Tokio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokio").field("state", &*self.states.borrow()).finish_non_exhaustive()
    }
}

impl Tokio {
    pub(crate) fn new(clock: Clock, runtime: runtime::Handle, router: Router) -> Self {
        Self {
            states: watch::Sender::new(router.session().state()),
            inner: TokioState::new(router, clock.clone()),
            process: ClientProcess::new(),
            clock,
            runtime,
        }
    }

    /// Locks the session, or in a forked process one that has ended.
    pub(crate) fn lock(&self) -> EffectsGuard<'_, TokioState> {
        self.session().lock()
    }

    /// Returns the session, or in a forked process one that has ended. Costs a system call.
    pub(super) fn session(&self) -> &EffectsMutex<TokioState> {
        self.process.state(&self.inner, |ended| TokioState::new(ended, self.clock.clone()))
    }

    /// Holds back the requests of this thread until the result is dropped. Returns `None` if a
    /// batch is open already.
    pub(crate) fn cork(&self) -> Option<Cork<'_>> {
        let mut inner = self.lock();
        let is_free = inner.cork.is_none();
        inner.cork.get_or_insert_with(|| thread::current().id());
        is_free.then(|| Cork(self))
    }

    /// Calls `submit`, and sends the request that it submits, unless it fails. Also returns whether
    /// it has checked that this process is not a fork.
    ///
    /// The check takes a system call. So it comes only before a write or a wake of the task, and if
    /// another thread has the lock: that thread may not exist in this process.
    fn send_submitted<R>(
        &self,
        submit: impl FnOnce(&mut Router) -> Result<R, Error>,
    ) -> Result<(R, bool), Error> {
        let mut inner = self.inner.try_lock().unwrap_or_else(|| self.lock());
        let alone = inner.router.session().pending() == 0;
        let submitted = submit(&mut inner.router)?;
        let acts = !inner.is_driver_awake;
        if acts && self.is_forked() {
            // `submitted` may hold user code, which is dropped without the lock.
            drop(inner);
            return Err(Error::Ended { end: End::Forked, outcome: Outcome::NotApplied });
        }
        inner.send(alone, None);
        Ok((submitted, acts))
    }

    /// Calls `act` with the attached machines, and sends the requests that they submit.
    pub(crate) fn with_machines<R>(&self, act: impl FnOnce(&mut TokioState, Instant) -> R) -> R {
        let mut inner = self.lock();
        let alone = inner.router.session().pending() == 0;
        let now = inner.clock.now();
        let before = inner.router.dispatcher.attached();
        let acted = act(&mut inner, now);
        let dispatcher = &inner.router.dispatcher;
        // Detaching the last machine can end the session.
        let is_last = dispatcher.attached() == 0 && before > 0;
        if is_last || dispatcher.is_unsettled() {
            inner.wake_driver();
        }
        if !inner.router.session().output().is_empty() {
            inner.send(alone, Some(now));
        } else if inner.due_before_alarm().is_some() {
            inner.wake_driver();
        }
        acted
    }
}

impl Driver for Tokio {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn look(&self, look: &mut dyn FnMut(&mut Router)) {
        look(&mut self.lock().router);
    }

    fn act(self: &Arc<Self>, act: &mut dyn FnMut(&mut Router, Instant)) {
        let mut inner = self.lock();
        act(&mut inner.router, self.now());
        inner.wake_driver();
    }

    fn submit(
        self: &Arc<Self>,
        request: &Request<'_>,
        reply: &Receiver<Result<Reply, Error>>,
        end: Option<Instant>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<(RequestId, bool), Error> {
        self.send_submitted(|router| router.submit(request, reply, end, watcher))
    }

    fn unwatch(self: &Arc<Self>, request: RequestId) -> Option<Arc<dyn Watcher>> {
        self.send_submitted(|router| router.dispatcher.unwatch(request))
            .ok()
            .map(|(watcher, _)| watcher)
    }

    fn attach(self: &Arc<Self>, machine: Box<dyn Attached>) -> Attachment {
        let key = self.with_machines(|inner, now| inner.router.dispatcher.attach(now, machine));
        Attachment::new(self.clone(), key)
    }

    /// The driver's task always reads, so futures need not be counted.
    #[inline]
    fn future_waits(self: &Arc<Self>) -> bool {
        false
    }

    fn future_ends(&self) {}
}

impl Commands for Tokio {
    fn command(self: Arc<Self>, key: Key, message: &mut dyn Any) -> bool {
        self.with_machines(|inner, now| inner.router.dispatcher.command(now, key, message))
    }

    fn is_forked(&self) -> bool {
        self.process.is_forked()
    }
}

/// Writes the requests of a batch when it is dropped.
pub(crate) struct Cork<'a>(&'a Tokio);

impl Drop for Cork<'_> {
    fn drop(&mut self) {
        let mut inner = self.0.lock();
        inner.cork = None;
        if let Some(alone) = inner.corked.take() {
            inner.send(alone, None);
        }
    }
}

impl TokioState {
    fn new(router: Router, clock: Clock) -> EffectsMutex<Self> {
        EffectsMutex::new(Self {
            router,
            clock,
            connection: None,
            driver: Waker::noop().clone(),
            is_driver_awake: true,
            is_alone: true,
            cork: None,
            corked: None,
            alarm: None,
            has_short_alarm: false,
        })
    }

    /// Wakes the driver after a command.
    pub(crate) fn wake_driver(&mut self) {
        if !self.is_driver_awake {
            self.is_driver_awake = true;
            let driver = core::mem::replace(&mut self.driver, Waker::noop().clone());
            self.router.dispatcher.effects().wakers.push(driver);
        }
    }

    /// Records that the driver sleeps until `waker` wakes it.
    pub(super) fn driver_sleeps(&mut self, waker: &Waker) {
        self.is_driver_awake = false;
        self.driver.clone_from(waker);
    }

    /// Sends the request that was just submitted. `alone` means that no other request is pending.
    /// `now` spares a look at the clock.
    ///
    /// The driver writes together all requests that arrive before its turn. A request that is
    /// alone, like the one before it, probably stays alone: it is written here, without a turn of
    /// the driver.
    pub(crate) fn send(&mut self, alone: bool, now: Option<Instant>) {
        if self.cork.is_some_and(|holds| holds == thread::current().id()) {
            self.corked.get_or_insert(alone);
            return;
        }
        let was_alone = core::mem::replace(&mut self.is_alone, alone);
        if !(alone && was_alone) || self.is_driver_awake || !self.write_all(now) {
            self.wake_driver();
        }
    }

    /// Writes in place of the driver. Returns whether the driver then has nothing to do.
    fn write_all(&mut self, now: Option<Instant>) -> bool {
        let Some(connection) = &mut self.connection else {
            return false;
        };
        let now = now.unwrap_or_else(|| self.clock.now());
        let mut cx = Context::from_waker(&self.driver);
        connection.write(self.router.session_mut(), now, &mut cx);
        self.router.session().output().is_empty()
            && connection.failure.is_none()
            && self.due_before_alarm().is_none()
    }

    /// Returns when to call the session's `handle_timeout`, if the driver would sleep longer.
    ///
    /// Deadlines usually move into the future. The driver notices that when it wakes too early, so
    /// its timer is not reset for each frame.
    pub(super) fn due_before_alarm(&self) -> Option<Instant> {
        let due = self.router.dispatcher.next_deadline()?;
        let is_due = self.alarm.is_none_or(|alarm| due < alarm);
        (is_due || self.has_lease() && !self.has_short_alarm).then_some(due)
    }

    /// Returns whether there is a lease to guard.
    pub(super) fn has_lease(&self) -> bool {
        self.router.session().lease().is_some()
    }
}
