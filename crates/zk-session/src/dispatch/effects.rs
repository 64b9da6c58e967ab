//! User code that runs after the session is unlocked.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;

use super::Attached;

/// Wakers to run after unlocking. The first one needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Wakers {
    first: Option<Waker>,
    others: Vec<Waker>,
}

impl Wakers {
    #[inline]
    pub(crate) fn push(&mut self, waker: Waker) {
        if self.first.is_none() {
            self.first = Some(waker);
        } else {
            self.others.push(waker);
        }
    }

    #[inline]
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    #[inline]
    pub(crate) fn wake(&mut self) {
        if let Some(first) = self.first.take() {
            first.wake();
            core::mem::take(&mut self.others).into_iter().for_each(Waker::wake);
        }
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
    /// A report to an observer of the process, which must not wait for the session.
    #[cfg(any(feature = "tracing", feature = "metrics"))]
    #[cfg_attr(not(any(feature = "tokio", feature = "blocking")), allow(dead_code))]
    Report(Box<dyn FnOnce() + Send>),
    /// The machine may own values with a `Drop` of the user.
    Drop(Box<dyn Attached>),
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Run(_) => "Run",
            #[cfg(any(feature = "tracing", feature = "metrics"))]
            Self::Report(_) => "Report",
            Self::Drop(_) => "Drop",
        })
    }
}

impl Deferred {
    pub(crate) fn run(self) {
        match self {
            Self::Run(run) => run(),
            #[cfg(any(feature = "tracing", feature = "metrics"))]
            Self::Report(run) => run(),
            Self::Drop(machine) => drop(machine),
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
    pub(crate) deferred: VecDeque<Deferred>,
    /// Whether a thread is running deferred code.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) is_running: bool,
}

impl Effects {
    /// Runs the wakers, then everything else in the order in which it was deferred.
    pub fn run(mut self) {
        self.wakers.wake();
        self.deferred.into_iter().for_each(Deferred::run);
    }

    /// Returns whether the next thread that unlocks the session runs deferred code.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn has_deferred(&self) -> bool {
        !self.deferred.is_empty() && !self.is_running
    }

    /// Returns whether the next thread that unlocks the session runs wakers.
    #[cfg(feature = "blocking")]
    pub(crate) fn has_wakers(&self) -> bool {
        !self.wakers.is_empty()
    }

    /// Returns whether callbacks are among the deferred code to run.
    #[cfg(feature = "blocking")]
    pub(crate) fn has_callbacks(&self) -> bool {
        let is_callback = |deferred: &Deferred| matches!(deferred, Deferred::Run(_));
        self.has_deferred() && self.deferred.iter().any(is_callback)
    }
}
