//! The latest report of a machine, for the owner of the lock, and those that wait for it.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::sync::atomic::AtomicUsize;
use core::task::{Context, Poll, Waker};
use std::io;
use std::panic::catch_unwind;
use std::sync::PoisonError;

use zk_session::dispatch::Port;
use zk_session::threads::{Mutex, MutexGuard, spawn};
use zk_session::{Attachment, End};

use super::report::{MachineReport, Place, Status};
use crate::attempt::Command;
use crate::client::tokio::in_context;
use crate::error::{LockError, Loss};

/// The report, and the tasks that wait for it to change.
///
/// The machine writes it while the session is locked. So code that holds the report's lock must not
/// lock the session, and must neither run nor drop a waker.
pub(crate) struct SharedStatus {
    content: Mutex<Content>,
    /// The process of the machine. In a forked one nothing is reported any more.
    process: u32,
}

struct Content {
    report: MachineReport,
    waiters: Waiters,
    last: u64,
    on_loss: Vec<OnLoss>,
    /// Woken when the lock is asked for, and once it is no longer held. It belongs to the recipe.
    follower: Option<Waker>,
}

impl Content {
    /// Returns why the lock was lost. `None` if it was released.
    fn loss(&self) -> Option<Loss> {
        self.report.holding().loss().filter(|loss| *loss != Loss::Released)
    }

    /// Returns the effects of a change, if any. Compiled once, and not for each kind of change.
    #[inline(never)]
    fn changed(&mut self) -> Option<ChangeEffects> {
        if self.waiters.is_empty() && self.on_loss.is_empty() && self.follower.is_none() {
            return None;
        }
        let mut waiters = core::mem::take(&mut self.waiters);
        let loss = self.loss();
        let is_over = self.report.holding().loss().is_some();
        let callbacks = (is_over && !self.on_loss.is_empty())
            .then(|| LossCallbacks(loss, core::mem::take(&mut self.on_loss)));
        match self.report.revoked {
            _ if is_over || self.report.is_final => {
                self.follower.take().into_iter().for_each(|it| waiters.push(0, it));
            }
            true => self.follower.iter().for_each(|it| waiters.push(0, it.clone())),
            false => {}
        }
        Some(ChangeEffects { waiters, callbacks })
    }
}

/// The waiters to wake and the callbacks to run after a change, once the report is unlocked.
pub(crate) struct ChangeEffects {
    waiters: Waiters,
    /// `None` while the lock is held, or without callbacks.
    callbacks: Option<LossCallbacks>,
}

impl ChangeEffects {
    /// Wakes the waiters and finishes the callbacks, which runs user code.
    pub(crate) fn run(self) {
        self.waiters.take_each(&mut Waker::wake);
        self.callbacks.into_iter().for_each(LossCallbacks::finish);
    }

    /// Does the same once the session is unlocked. Compiled once, and not for each kind of change.
    #[inline(never)]
    pub(crate) fn defer(self, port: &mut Port<'_>) {
        self.waiters.take_each(&mut |waker| port.wake(waker));
        if let Some(callbacks) = self.callbacks {
            port.defer(move || callbacks.finish());
        }
    }
}

/// Wakers by ticket. The first one needs no allocation.
#[derive(Default)]
struct Waiters {
    first: Option<(u64, Waker)>,
    others: Vec<(u64, Waker)>,
}

impl Waiters {
    const fn is_empty(&self) -> bool {
        self.first.is_none() && self.others.is_empty()
    }

    fn push(&mut self, ticket: u64, waker: Waker) {
        if self.first.is_none() {
            self.first = Some((ticket, waker));
        } else {
            self.others.push((ticket, waker));
        }
    }

    fn remove(&mut self, ticket: u64) -> Option<Waker> {
        let is_same = |waiter: &(u64, Waker)| waiter.0 == ticket;
        let removed = self.first.take_if(|first| is_same(first)).or_else(|| {
            let place = self.others.iter().position(is_same)?;
            Some(self.others.swap_remove(place))
        });
        removed.map(|(_, waker)| waker)
    }

    fn take_each(self, wake: &mut dyn FnMut(Waker)) {
        if let Some((_, waker)) = self.first {
            wake(waker);
        }
        for (_, waker) in self.others {
            wake(waker);
        }
    }
}

/// A callback for the loss of the lock.
pub(crate) type OnLoss = Box<dyn FnOnce(Loss) + Send>;

/// The callbacks of a lock that is no longer held, with the loss if it was lost.
struct LossCallbacks(Option<Loss>, Vec<OnLoss>);

impl LossCallbacks {
    /// Runs the callbacks in a thread of their own, which they may block, or drops them if the lock
    /// was not lost. Both run user code.
    fn finish(self) {
        self.finish_in(|run| spawn("zookeeper-loss", run));
    }

    /// Runs them in this thread if there can be no other.
    fn finish_in(self, start: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>) {
        let Self(Some(loss), callbacks) = self else { return };
        let callbacks = Arc::new(Mutex::new(callbacks));
        let theirs = callbacks.clone();
        let started = start(Box::new(in_context(move || run_all(&theirs, loss))));
        if started.is_err() {
            run_all(&callbacks, loss);
        }
    }
}

fn run_all(callbacks: &Mutex<Vec<OnLoss>>, loss: Loss) {
    let callbacks = core::mem::take(&mut *callbacks.lock().unwrap_or_else(PoisonError::into_inner));
    for run in callbacks {
        // The panic hook has reported it, and the other callbacks still run.
        let _ = catch_unwind(AssertUnwindSafe(|| run(loss)));
    }
}

impl fmt::Debug for SharedStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SharedStatus").field(&self.content().report).finish()
    }
}

impl SharedStatus {
    pub(crate) fn new(cleanups: Arc<AtomicUsize>) -> Self {
        let content = Content {
            report: MachineReport::new(cleanups),
            waiters: Waiters::default(),
            last: 0,
            on_loss: Vec::new(),
            follower: None,
        };
        Self { content: Mutex::new(content), process: std::process::id() }
    }

    #[inline(never)]
    fn content(&self) -> MutexGuard<'_, Content> {
        // Every single assignment leaves the report consistent, so a poisoned lock is usable.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a value read from the report.
    pub(crate) fn read<T>(&self, read: impl FnOnce(&MachineReport) -> T) -> T {
        read(&self.content().report)
    }

    /// Returns the place in the queue, if it has changed since the last call.
    pub(crate) fn take_place(&self) -> Option<Place> {
        self.content().report.take_place()
    }

    /// Returns whether a server has said that others are ahead.
    pub(crate) fn is_waiting(&self) -> bool {
        self.read(|report| report.is_waiting)
    }

    /// Returns the error of an attempt whose time limit has passed.
    pub(crate) fn late(&self) -> LockError {
        if self.is_waiting() { LockError::TimedOut } else { LockError::NoAnswer }
    }

    /// Changes the report without waking its waiters.
    pub(crate) fn note(&self, change: impl FnOnce(&mut MachineReport)) {
        change(&mut self.content().report);
    }

    /// Changes the report. Returns the effects, if any.
    #[must_use = "a waiter that is not woken waits for ever"]
    pub(crate) fn change(&self, change: impl FnOnce(&mut MachineReport)) -> Option<ChangeEffects> {
        let mut content = self.content();
        change(&mut content.report);
        content.changed()
    }

    /// Adds a callback for the loss of the lock. If it is lost already, returns the callback with
    /// the loss.
    pub(crate) fn on_loss(&self, run: OnLoss) -> Option<(OnLoss, Loss)> {
        let mut content = self.content();
        match content.loss() {
            Some(loss) => Some((run, loss)),
            None => {
                content.on_loss.push(run);
                None
            }
        }
    }

    /// Wakes `follower`, of the recipe, when the lock is asked for, and once it is no longer held.
    #[cfg(feature = "full")]
    pub(crate) fn follow(&self, follower: Waker) {
        let unused = self.content().follower.replace(follower);
        drop(unused);
    }

    /// Waits until `find` returns a value. `None` if the machine ends before.
    pub(crate) fn wait<T, F: FnMut(&mut MachineReport) -> Option<T>>(
        self: &Arc<Self>,
        find: F,
    ) -> WaitFor<F> {
        WaitFor { status: Arc::clone(self), find, ticket: None }
    }

    /// Waits until no node of the contender is left on the server, or the session has ended.
    pub(crate) async fn gone(self: &Arc<Self>) {
        self.wait(|_| None::<()>).await;
    }
}

/// Waits for a report in which `find` returns a value.
pub(crate) struct WaitFor<F> {
    status: Arc<SharedStatus>,
    find: F,
    ticket: Option<u64>,
}

impl<F> WaitFor<F> {
    /// Takes the waker out, so that it is dropped after unlocking.
    fn leave(&mut self) -> Option<Waker> {
        let ticket = self.ticket.take()?;
        self.status.content().waiters.remove(ticket)
    }
}

impl<T, F: FnMut(&mut MachineReport) -> Option<T> + Unpin> Future for WaitFor<F> {
    type Output = Option<T>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = self.get_mut();
        let waker = cx.waker().clone();
        let mut content = this.status.content();
        let earlier = this.ticket.take().and_then(|ticket| content.waiters.remove(ticket));
        let found = (this.find)(&mut content.report);
        let is_over = found.is_some() || content.report.is_final;
        let waits = !is_over && this.status.process == std::process::id();
        if waits {
            content.last += 1;
            let ticket = content.last;
            content.waiters.push(ticket, waker);
            this.ticket = Some(ticket);
        }
        // A waker is user code, so it is dropped after unlocking.
        drop(content);
        drop(earlier);
        if waits { Poll::Pending } else { Poll::Ready(found) }
    }
}

impl<F> Drop for WaitFor<F> {
    fn drop(&mut self) {
        self.leave();
    }
}

/// The owner's side of a machine. Dropping it releases the lock.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) status: Arc<SharedStatus>,
    pub(crate) attachment: Attachment,
}

impl Handle {
    pub(crate) fn command(&self, mut command: Command) {
        if !self.attachment.command(&mut command) {
            self.check_process();
        }
    }

    /// In a forked process, the lock stays with the parent, and nothing is reported any more.
    pub(crate) fn check_process(&self) {
        if self.attachment.is_forked() {
            self.status.note(|report| {
                report.set_status(Status::Lost(Loss::Ended(End::Forked)));
                report.finish();
            });
        }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.attachment.is_forked() {
            return;
        }
        self.status.note(MachineReport::disown);
        self.command(Command::Release);
    }
}

#[cfg(test)]
mod tests;
