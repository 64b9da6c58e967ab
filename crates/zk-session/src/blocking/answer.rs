//! An answer that is still to come.

use alloc::sync::Arc;
use core::fmt;
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
    read: Read<T>,
    chroot: Chroot,
    shared: Arc<Shared>,
    deadline: Option<Instant>,
}

/// The session's thread is gone.
pub(super) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: Receiver<Result<Reply, Error>>,
        read: Read<T>,
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
        let waiting = self.state?;
        (waiting.read)(waiting.answer(), &waiting.chroot)
    }
}

impl<T> Waiting<T> {
    /// The session's thread sleeps until something arrives, so whoever has a deadline sees to it
    /// that it is kept.
    fn answer(&self) -> Result<Reply, Error> {
        if let Some(deadline) = self.deadline {
            loop {
                let now = self.shared.now();
                if now >= deadline {
                    self.shared.command(|session, now| session.handle_timeout(now));
                    break;
                }
                match self.receiver.recv_timeout(deadline - now) {
                    Ok(answer) => return answer,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return Err(GONE),
                }
            }
        }
        self.receiver.recv().unwrap_or(Err(GONE))
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}
