//! User code that runs after the session is unlocked.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;

use super::attached::Attached;

/// Wakers to run after unlocking. The first one needs no allocation.
#[derive(Debug, Default)]
#[cfg_attr(not(feature = "blocking"), allow(unreachable_pub, reason = "drivers name it"))]
pub struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    #[inline]
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.is_empty() {
            self.first = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn take(&mut self) -> impl Iterator<Item = Waker> + use<> {
        self.first.take().into_iter().chain(core::mem::take(&mut self.others))
    }
}

impl Extend<Waker> for Wakers {
    fn extend<I: IntoIterator<Item = Waker>>(&mut self, wakers: I) {
        wakers.into_iter().for_each(|waker| self.push(waker));
    }
}

/// User code that is deferred until the session is unlocked.
pub(crate) enum Deferred {
    Run(Box<dyn FnOnce() + Send>),
    /// The machine may own values with a `Drop` of the user.
    Drop(Box<dyn Attached>),
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run(_) => "Run",
            Self::Drop(_) => "Drop",
        })
    }
}

impl Deferred {
    pub(crate) fn run(self) {
        match self {
            Self::Run(run) => run(),
            Self::Drop(machine) => drop(machine),
        }
    }
}

/// Deferred code that runs in order, in one thread at a time.
#[derive(Debug, Default)]
pub(crate) struct EffectsQueue {
    pub(crate) deferred: Vec<Deferred>,
    /// Whether a thread is running what was in this queue.
    pub(crate) is_running: bool,
}

impl EffectsQueue {
    /// Returns whether the thread that has locked the session runs it after the unlock.
    #[inline]
    pub(crate) fn is_ready(&self) -> bool {
        !self.deferred.is_empty() && !self.is_running
    }

    /// Returns whether this thread is to run it. Then no other thread does until it is empty.
    #[inline]
    pub(crate) fn claim(&mut self) -> bool {
        let is_ready = self.is_ready();
        if is_ready {
            self.is_running = true;
        }
        is_ready
    }

    fn run(mut self) {
        if self.claim() {
            self.deferred.into_iter().for_each(Deferred::run);
        }
    }
}

/// User code to run after a drain: wakers, deferred closures, and the drop of finished machines.
///
/// [Run](Self::run) it after each drain, without a lock on the dispatcher, because the code may use
/// the session. A loop that does not share its dispatcher runs it in place. If this is dropped
/// instead, closures do not run and tasks are not woken.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) wakers: Wakers,
    /// Closures of machines. They may wait for the session.
    pub(crate) callbacks: EffectsQueue,
    /// The drop of finished machines, and reports to observers of the process. They must not wait.
    pub(crate) others: EffectsQueue,
}

impl Effects {
    /// Runs the wakers, then the [reports](super::Port::report) and the drops of finished machines,
    /// then the [deferred](super::Port::defer) closures, each in order.
    pub fn run(mut self) {
        self.wakers.take().for_each(Waker::wake);
        self.others.run();
        self.callbacks.run();
    }
}
