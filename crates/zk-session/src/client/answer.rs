//! The answers to requests.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};

use zk_proto::{Multi, OpCode, Request};

use super::decode::Arrived;
use super::driver::{Driven, Driver};
#[cfg(feature = "full")]
use super::full::persistent_watch::PersistentWatch;
use super::read::{Read, read_operations};
use super::{Receiver, Watch, not_sent, stripped, watch_slot};
use crate::chroot::Chroot;
use crate::dispatch::watchers::Watcher;
use crate::error::{Error, Outcome, RequestError};
use crate::session::{End, Reply, RequestId};
use crate::time::Instant;

/// The error after the driver of the session has ended, or after the answer was returned.
pub(crate) const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

/// The answer to a request, once it arrives: `.await` it in a task, on any runtime, or `.wait()` for
/// it in a thread. The request is sent when its method is called, whether or not anyone waits.
///
/// The answer of `blocking::Threads` is a future, too, which needs no runtime:
/// threads of the session wake its task.
///
/// A method that sends several requests sends the first ones at the call, and the others while the
/// answer is awaited.
///
/// # Cancellation
///
/// Dropping it discards the answer; the request may still be applied. Of several requests, the
/// remaining ones are not sent.
///
/// # Errors
///
/// [`RequestError`] names the operation, the path, and the reason.
#[must_use = "the request is sent anyway, and its answer is dropped"]
pub struct Answer<T, D: Driver> {
    pub(crate) state: AnswerState<T, D>,
}

pub(crate) enum AnswerState<T, D: Driver> {
    /// One request was sent.
    Sent(SentAnswer<T, D>),
    /// Several requests, one after the other.
    #[allow(dead_code, reason = "only threads need the driver, to wait")]
    Several(Steps<T>, Arc<D>),
    /// No request was sent.
    Failed(RequestError),
}

type Steps<T> = Pin<Box<dyn Future<Output = Result<T, RequestError>> + Send>>;

/// A request and how to decode its answer.
pub(crate) struct SentAnswer<T, D: Driver> {
    pub(crate) request: PendingAnswer<D>,
    /// `None` once the answer was returned.
    decode: Option<Decoder<T, D>>,
}

/// How to decode an answer, and what it returns along with the reply.
pub(super) enum Decoder<T, D: Driver> {
    Reply(fn(Arrived<'_>) -> Result<T, Error>),
    // Boxed, since an answer is moved several times, and most have no watch.
    WithWatch(fn(Arrived<'_>, Watch<D>) -> Result<T, Error>, Box<Watch<D>>),
    #[cfg(feature = "full")]
    Watch(Box<PersistentWatch<D>>, fn(PersistentWatch<D>) -> T),
}

/// An answer that has not arrived yet.
pub(crate) struct PendingAnswer<D: Driver> {
    pub(crate) reply: Receiver<Result<Reply, Error>>,
    pub(crate) driven: Driven<D>,
    pub(super) chroot: Chroot,
    pub(crate) operation: OpCode,
    /// The time limit.
    pub(crate) end: Option<Instant>,
    /// What to send again if the connection is lost: a read, or a multi of reads.
    pub(super) repeats: Option<Option<Read>>,
    /// Whether the driver has checked that this process is not a fork. Before that, it writes
    /// nothing.
    pub(super) is_in_process: bool,
}

impl<T, D: Driver> Answer<T, D> {
    pub(super) fn new(request: PendingAnswer<D>, decode: Decoder<T, D>) -> Self {
        Self { state: AnswerState::Sent(SentAnswer { request, decode: Some(decode) }) }
    }

    /// Returns the answer to a request, or one that fails because the request was not `sent`.
    pub(super) fn of_sent(
        mut request: PendingAnswer<D>,
        sent: Result<(RequestId, bool), RequestError>,
        decode: Decoder<T, D>,
    ) -> Self {
        match sent {
            Ok((_, is_in_process)) => request.is_in_process = is_in_process,
            Err(error) => return Self { state: AnswerState::Failed(error) },
        }
        Self::new(request, decode)
    }

    /// Returns the answer to a request, or one that fails because no request was sent.
    pub(super) fn of(send: impl FnOnce() -> Result<Self, RequestError>) -> Self {
        send().unwrap_or_else(|error| Self { state: AnswerState::Failed(error) })
    }

    /// Returns this, or the error if no request was sent.
    pub(super) fn sent(self) -> Result<Self, RequestError> {
        match self.state {
            AnswerState::Failed(error) => Err(error),
            state => Ok(Self { state }),
        }
    }
}

impl<T: Send + 'static, D: Driver> Answer<T, D> {
    /// Returns the result of several requests, and sends the first ones.
    pub(super) fn of_several(
        driver: Arc<D>,
        steps: impl Future<Output = Result<T, RequestError>> + Send + 'static,
    ) -> Self {
        let mut steps: Steps<T> = Box::pin(steps);
        Self {
            state: match steps.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(Err(error)) => AnswerState::Failed(error),
                Poll::Ready(done) => {
                    AnswerState::Several(Box::pin(core::future::ready(done)), driver)
                }
                Poll::Pending => AnswerState::Several(steps, driver),
            },
        }
    }
}

impl<T, D: Driver> Future for Answer<T, D> {
    type Output = Result<T, RequestError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            AnswerState::Sent(sent) => loop {
                let request = &mut sent.request;
                let answer = match request.reply.poll(cx.waker()) {
                    Poll::Ready(answer) => answer,
                    Poll::Pending
                        if !request.is_in_process && request.driven.driver.is_forked() =>
                    {
                        Some(Err(Error::Ended { end: End::Forked, outcome: Outcome::Unknown }))
                    }
                    Poll::Pending => {
                        request.is_in_process = true;
                        request.driven.waits();
                        return Poll::Pending;
                    }
                };
                if let Some(result) = sent.receive(answer) {
                    return Poll::Ready(result);
                }
            },
            AnswerState::Several(steps, _) => steps.as_mut().poll(cx),
            AnswerState::Failed(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

impl<T, D: Driver> fmt::Debug for Answer<T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.state {
            AnswerState::Failed(error) => Err(error),
            _ => Ok("under way"),
        };
        f.debug_tuple("Answer").field(&state).finish()
    }
}

impl<T, D: Driver> SentAnswer<T, D> {
    /// Returns that no answer will come.
    pub(crate) fn gone(&self) -> Result<T, RequestError> {
        Err(self.request.failed(GONE))
    }

    /// Returns the result of the request, unless it has failed and is sent again.
    pub(crate) fn receive(
        &mut self,
        answer: Option<Result<Reply, Error>>,
    ) -> Option<Result<T, RequestError>> {
        if let Some(Err(Error::ConnectionLost)) = answer {
            let watch = match &mut self.decode {
                Some(Decoder::WithWatch(_, watch)) => Some(&mut **watch),
                _ => None,
            };
            if self.request.send_again(watch) {
                return None;
            }
        }
        self.request.driven.ends();
        let answer = answer.unwrap_or(Err(GONE));
        let PendingAnswer { chroot, reply, .. } = &self.request;
        let arrived = Arrived { answer, chroot, subject: reply.subject() };
        let result = match self.decode.take() {
            Some(Decoder::Reply(decode)) => decode(arrived),
            Some(Decoder::WithWatch(decode, watch)) => decode(arrived, *watch),
            #[cfg(feature = "full")]
            Some(Decoder::Watch(watch, output)) => arrived.answer.map(|_| output(*watch)),
            None => Err(GONE),
        };
        Some(result.map_err(|reason| self.request.failed(reason)))
    }
}

impl<D: Driver> PendingAnswer<D> {
    /// Sends the request. Returns its id, and whether the driver has checked that this
    /// process is not a fork.
    pub(super) fn submit(
        &self,
        request: &Request<'_>,
        watcher: Option<Arc<dyn Watcher>>,
    ) -> Result<(RequestId, bool), RequestError> {
        let sent = self.driven.driver.submit(request, &self.reply, self.end, watcher);
        sent.map_err(|reason| not_sent(request, &self.chroot, reason))
    }

    fn failed(&self, reason: Error) -> RequestError {
        let subject = self.reply.subject();
        let failed = match reason {
            Error::Transaction { index, .. } => subject.operations().get(index),
            _ => None,
        };
        let path = Some(subject.path()).filter(|path| !path.is_empty());
        let (operation, path) = match failed {
            Some((operation, path)) => (*operation, Some(path.as_str())),
            None => (self.operation, path),
        };
        RequestError::new(operation, path.map(|path| stripped(&self.chroot, path)), reason)
    }

    /// Sends a read once more, with its watch if it sets one. Returns whether it was sent.
    fn send_again(&mut self, watch: Option<&mut Watch<D>>) -> bool {
        let Some(read) = self.repeats else { return false };
        let subject = self.reply.subject();
        let operations = read_operations(subject.operations());
        let request = match read {
            Some(read) => read.request(subject.path(), watch.is_some()),
            None => Request::MultiRead(Multi::new(&operations)),
        };
        self.reply.reopen();
        let (watcher, event) = watch.is_some().then(watch_slot).unzip();
        let Ok((id, _)) = self.submit(&request, watcher) else { return false };
        if let (Some(watch), Some(event)) = (watch, event) {
            *watch = Watch::new(id, event, &self.driven.driver, self.chroot.clone());
        }
        true
    }
}
