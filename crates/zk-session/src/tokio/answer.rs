//! The handle of an answer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use zk_proto::OpCode;

use crate::chroot::Chroot;
use crate::client::{DecodeAnswer, MultiOperation, Receiver, Subject};
use crate::error::{Error, Outcome, RequestError};
use crate::session::{End, Reply};

/// The answer to a request, once it arrives. The request is sent whether or not this is awaited.
/// Dropping this drops the answer.
#[must_use = "the request is sent anyway, and its answer is dropped"]
pub struct Answer<T = Reply> {
    state: Result<Waiting<T>, RequestError>,
}

struct Waiting<T> {
    receiver: Receiver<Result<Reply, Error>>,
    decode: Box<dyn DecodeAnswer<T>>,
    chroot: Chroot,
    subject: Subject,
}

/// The error after the runtime of the session was shut down.
const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: Receiver<Result<Reply, Error>>,
        decode: Box<dyn DecodeAnswer<T>>,
        chroot: Chroot,
        operation: OpCode,
    ) -> Self {
        let subject = Subject::new(operation);
        Self { state: Ok(Waiting { receiver, decode, chroot, subject }) }
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
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            Ok(Waiting { receiver, decode, chroot, subject }) => {
                receiver.poll(cx.waker()).map(|answer| {
                    decode(answer.unwrap_or(Err(GONE)), chroot)
                        .map_err(|reason| subject.failed(reason, chroot))
                })
            }
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
