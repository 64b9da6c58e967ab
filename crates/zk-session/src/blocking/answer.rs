//! The handle of an answer.

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::RefCell;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::time::Instant;

use zk_proto::OpCode;

use super::driver::{Shared, Wait};
use crate::chroot::Chroot;
use crate::client::{DecodeAnswer, MultiOperation, Receiver, Subject};
use crate::error::{Error, Outcome, RequestError};
use crate::session::{End, Reply};

/// The answer to a request, once it arrives. [Wait](Self::wait) for it, or run it by
/// [`Client::block_on`](super::Client::block_on). The request is sent in any case. Dropping this
/// drops the answer.
#[must_use = "the request is sent anyway, and its answer is dropped"]
pub struct Answer<T = Reply> {
    state: Result<Waiting<T>, RequestError>,
}

struct Waiting<T> {
    receiver: RefCell<Receiver<Result<Reply, Error>>>,
    decode: Box<dyn DecodeAnswer<T>>,
    chroot: Chroot,
    shared: Arc<Shared>,
    subject: Subject,
    /// The time limit of [`Answer::wait`], if the session does not limit the request itself.
    end: Option<Instant>,
}

/// The error after the session's thread has ended.
pub(super) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: Receiver<Result<Reply, Error>>,
        decode: Box<dyn DecodeAnswer<T>>,
        chroot: Chroot,
        shared: Arc<Shared>,
        operation: OpCode,
    ) -> Self {
        let (receiver, subject) = (RefCell::new(receiver), Subject::new(operation));
        Self { state: Ok(Waiting { receiver, decode, chroot, shared, subject, end: None }) }
    }

    /// Returns the answer to a request, or one that fails because no request was sent.
    pub(crate) fn of(answer: Result<Self, RequestError>) -> Self {
        answer.unwrap_or_else(|error| Self { state: Err(error) })
    }

    pub(super) fn with_operations(mut self, operations: Vec<MultiOperation>) -> Self {
        if let Ok(waiting) = &mut self.state {
            waiting.subject.operations = operations;
        }
        self
    }

    /// Limits [`wait`](Self::wait).
    pub(super) fn until(mut self, end: Option<Instant>) -> Self {
        if let Ok(waiting) = &mut self.state {
            waiting.end = end;
        }
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// If the request has failed.
    pub fn wait(self) -> Result<T, RequestError> {
        const LATE: Error = Error::DeadlinePassed { outcome: Outcome::Unknown };
        let waiting = self.state.as_ref().map_err(RequestError::clone)?;
        let answer = waiting.answer(|| waiting.end);
        waiting.read(answer.unwrap_or(Err(if waiting.end.is_some() { LATE } else { GONE })))
    }

    /// Waits for the answer, at most for `timeout`; zero does not wait. Returns `None` if the
    /// answer has not arrived.
    ///
    /// # Errors
    ///
    /// If the request has failed, or the answer was returned before.
    pub fn wait_timeout(&self, timeout: Duration) -> Result<Option<T>, RequestError> {
        let waiting = self.state.as_ref().map_err(RequestError::clone)?;
        let answer = waiting.answer(|| Instant::now().checked_add(timeout));
        answer.map(|answer| waiting.read(answer)).transpose()
    }
}

/// For [`Client::block_on`](super::Client::block_on).
impl<T> Future for Answer<T> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let waiting = match &mut self.state {
            Ok(waiting) => waiting,
            Err(error) => return Poll::Ready(Err(error.clone())),
        };
        let answer = waiting.receiver.get_mut().poll(cx.waker());
        answer.map(|answer| waiting.read(answer.unwrap_or(Err(GONE))))
    }
}

impl<T> Waiting<T> {
    fn read(&self, answer: Result<Reply, Error>) -> Result<T, RequestError> {
        (self.decode)(answer, &self.chroot)
            .map_err(|reason| self.subject.failed(reason, &self.chroot))
    }

    /// Returns the answer if it arrives before `end`, which is evaluated only if it has not arrived
    /// yet.
    fn answer(&self, end: impl FnOnce() -> Option<Instant>) -> Option<Result<Reply, Error>> {
        let mut receiver = self.receiver.borrow_mut();
        let answer = match receiver.take() {
            Some(answer) => Some(answer),
            None => self.shared.wait(Wait::Reading, end(), |_, waker| receiver.poll(waker)),
        };
        if answer.is_none() && self.shared.is_forked() {
            return Some(Err(Error::Ended { end: End::Forked, outcome: Outcome::Unknown }));
        }
        answer.map(|answer| answer.unwrap_or(Err(GONE)))
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}
