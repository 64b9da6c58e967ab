//! An answer that is still to come.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::time::Duration;
use std::time::Instant;

use zk_proto::OpCode;

use super::reading::Wait;
use super::shared::Shared;
use crate::chroot::Chroot;
use crate::error::{Error, Outcome, RequestError};
use crate::face::{Part, Read, Receiver, Subject};
use crate::session::{End, Reply};

/// The answer to a request, once it arrives. The request is under way, whether or not this is
/// waited for; dropping it drops the answer.
#[must_use = "the request is under way; only its answer is still to be waited for"]
pub struct Answer<T = Reply> {
    state: Result<Waiting<T>, RequestError>,
}

struct Waiting<T> {
    receiver: RefCell<Receiver<Result<Reply, Error>>>,
    read: Box<dyn Read<T>>,
    chroot: Chroot,
    shared: Arc<Shared>,
    subject: Subject,
}

/// The session's thread is gone.
pub(super) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: Receiver<Result<Reply, Error>>,
        read: Box<dyn Read<T>>,
        chroot: Chroot,
        shared: Arc<Shared>,
        operation: OpCode,
    ) -> Self {
        let (receiver, subject) = (RefCell::new(receiver), Subject::new(operation));
        Self { state: Ok(Waiting { receiver, read, chroot, shared, subject }) }
    }

    /// The answer to a request, or why none was sent.
    pub(super) fn of(answer: Result<Self, RequestError>) -> Self {
        answer.unwrap_or_else(|error| Self { state: Err(error) })
    }

    pub(super) fn with_parts(mut self, parts: Vec<Part>) -> Self {
        if let Ok(waiting) = &mut self.state {
            waiting.subject.parts = parts;
        }
        self
    }

    /// Waits for it.
    ///
    /// # Errors
    ///
    /// When the request has failed.
    pub fn wait(self) -> Result<T, RequestError> {
        let waiting = self.state.as_ref().map_err(RequestError::clone)?;
        waiting.read(waiting.answer(None).unwrap_or(Err(GONE)))
    }

    /// Waits for the answer to a request that was about this node.
    pub(super) fn wait_at(self, path: &str) -> Result<T, RequestError> {
        self.wait().map_err(|error| error.at(path))
    }

    /// As [`wait`](Self::wait), but no longer than this, or without waiting at all if it is zero;
    /// `None` if it has not arrived.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait), and when it has arrived and was told before.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<T>, RequestError> {
        let waiting = self.state.as_ref().map_err(RequestError::clone)?;
        waiting.answer(Some(timeout)).map(|answer| waiting.read(answer)).transpose()
    }
}

impl<T> Waiting<T> {
    fn read(&self, answer: Result<Reply, Error>) -> Result<T, RequestError> {
        (self.read)(answer, &self.chroot)
            .map_err(|reason| self.subject.failed(reason, &self.chroot))
    }

    /// The answer, if it comes in time.
    fn answer(&self, timeout: Option<Duration>) -> Option<Result<Reply, Error>> {
        let mut receiver = self.receiver.borrow_mut();
        let answer = match receiver.take() {
            Some(answer) => Some(answer),
            None => {
                let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
                self.shared.wait(Wait::Reading, end, |_, waker| receiver.poll(waker))
            }
        };
        answer.map(|answer| answer.unwrap_or(Err(GONE)))
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}
