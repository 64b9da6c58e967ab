//! An answer that is still to come.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::sync::mpsc::{Receiver, RecvTimeoutError};

use super::shared::Shared;
use crate::chroot::Chroot;
use crate::error::{Error, Outcome};
use crate::face::Read;
use crate::session::{End, Reply};
use crate::time::Instant;

/// The answer to a request, once it arrives. The request is under way, whether or not this is
/// waited for; dropping it drops the answer.
#[must_use = "the request is under way; only its answer is still to be waited for"]
pub struct Answer<T = Reply> {
    state: Result<Waiting<T>, Error>,
}

struct Waiting<T> {
    receiver: Receiver<Result<Reply, Error>>,
    read: Box<dyn Read<T>>,
    chroot: Chroot,
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

/// The session's thread is gone.
pub(super) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: Receiver<Result<Reply, Error>>,
        read: Box<dyn Read<T>>,
        chroot: Chroot,
        shared: Arc<Shared>,
        deadline: Option<Instant>,
    ) -> Self {
        Self { state: Ok(Waiting { receiver, read, chroot, shared, deadline }) }
    }

    /// The answer to a request, or why none was sent.
    pub(super) fn of(answer: Result<Self, Error>) -> Self {
        answer.unwrap_or_else(|error| Self { state: Err(error) })
    }

    /// Waits for it.
    ///
    /// # Errors
    ///
    /// When the request has failed.
    pub fn wait(self) -> Result<T, Error> {
        self.wait_until(Instant::END)?.ok_or(GONE)
    }

    /// As [`wait`](Self::wait), but no longer than this, or without waiting at all if it is zero;
    /// `None` if it has not arrived.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), and when it has arrived and was told before.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<T>, Error> {
        let now = self.state.as_ref().map_or(Instant::START, |waiting| waiting.shared.now());
        self.wait_until(now + timeout)
    }

    fn wait_until(&self, end: Instant) -> Result<Option<T>, Error> {
        let waiting = self.state.as_ref().map_err(Error::clone)?;
        let answer = waiting.answer(end);
        answer.map(|answer| (waiting.read)(answer, &waiting.chroot)).transpose()
    }
}

impl<T> Waiting<T> {
    /// The answer, if it comes until then. The session's thread sleeps until something arrives, so
    /// whoever has a deadline sees to it that it is kept.
    fn answer(&self, end: Instant) -> Option<Result<Reply, Error>> {
        loop {
            let now = self.shared.now();
            let mut next = end;
            match self.deadline {
                // It has failed by then.
                Some(deadline) if deadline <= now => {
                    self.shared.command(|session, now| session.handle_timeout(now));
                }
                Some(deadline) => next = end.min(deadline),
                None => {}
            }
            match self.receiver.recv_timeout(next - now) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Disconnected) => return Some(Err(GONE)),
                Err(RecvTimeoutError::Timeout) if self.shared.now() >= end => return None,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}
