//! An answer that is still to come.

use alloc::boxed::Box;
use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use tokio::sync::oneshot;

use crate::chroot::Chroot;
use crate::error::{Error, Outcome};
use crate::face::Read;
use crate::session::{End, Reply};

/// The answer to a request, once it arrives. The request is under way, whether or not this is
/// awaited; dropping it drops the answer.
#[must_use = "the request is under way; only its answer is still to be awaited"]
pub struct Answer<T = Reply> {
    state: Result<Waiting<T>, Error>,
}

struct Waiting<T> {
    receiver: oneshot::Receiver<Result<Reply, Error>>,
    read: Box<dyn Read<T>>,
    chroot: Chroot,
}

/// The runtime was shut down under the session.
const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl<T> Answer<T> {
    pub(super) fn new(
        receiver: oneshot::Receiver<Result<Reply, Error>>,
        read: Box<dyn Read<T>>,
        chroot: Chroot,
    ) -> Self {
        Self { state: Ok(Waiting { receiver, read, chroot }) }
    }

    /// The answer to a request, or why none was sent.
    pub(super) fn of(answer: Result<Self, Error>) -> Self {
        answer.unwrap_or_else(|error| Self { state: Err(error) })
    }
}

impl<T> fmt::Debug for Answer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state.as_ref().map(|_| "under way");
        f.debug_tuple("Answer").field(&state).finish()
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            Ok(Waiting { receiver, read, chroot }) => {
                Pin::new(receiver).poll(cx).map(|answer| read(answer.unwrap_or(Err(GONE)), chroot))
            }
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}
