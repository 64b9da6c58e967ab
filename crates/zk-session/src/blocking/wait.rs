//! How threads wait for answers and watches.

use core::future::poll_fn;
use core::task::Poll;
use core::time::Duration;
use std::time::Instant;

use zk_proto::OpCode;

use super::Threads;
use super::driver::Wait;
use crate::client::answer::{AnswerState, GONE, SentAnswer};
use crate::client::{Answer, Ready, Watch};
use crate::dispatch::attachment::Commands as _;
use crate::error::{Error, Outcome, RequestError};
use crate::session::{End, WatchedEvent};

pub(super) const CLOSED: Error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };

/// # Waiting in threads
impl<T> Answer<T, Threads> {
    /// Waits for the answer.
    ///
    /// # Errors
    ///
    /// If the request has failed.
    pub fn wait(self) -> Result<T, RequestError> {
        const LATE: Error = Error::DeadlinePassed { outcome: Outcome::Unknown };
        match self.state {
            AnswerState::Sent(mut sent) => {
                let end = sent.end_of_wait();
                sent.wait_until(|| end).unwrap_or_else(|| {
                    let reason = if end.is_some() { LATE } else { GONE };
                    sent.receive(Some(Err(reason))).unwrap_or_else(|| sent.gone())
                })
            }
            AnswerState::Several(steps, driver) => driver.block_on(None, steps),
            AnswerState::Failed(error) => Err(error),
        }
    }

    /// Waits for the answer, at most for `timeout`; zero does not wait. Returns `None` if the
    /// answer has not arrived.
    ///
    /// # Errors
    ///
    /// If the request has failed, or the answer was returned before.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<T>, RequestError> {
        let end = || Instant::now().checked_add(timeout);
        match &mut self.state {
            AnswerState::Sent(sent) => sent.wait_until(end).transpose(),
            AnswerState::Several(steps, driver) => {
                let end = end();
                let answer = poll_fn(|cx| match steps.as_mut().poll(cx) {
                    Poll::Ready(answer) => Poll::Ready(Some(answer)),
                    Poll::Pending if end.is_some_and(|end| end <= Instant::now()) => {
                        Poll::Ready(None)
                    }
                    Poll::Pending => Poll::Pending,
                });
                driver.block_on(end, answer).transpose()
            }
            AnswerState::Failed(error) => Err(error.clone()),
        }
    }
}

impl<T> SentAnswer<T, Threads> {
    /// Returns when to stop waiting, if the session does not limit the request itself.
    fn end_of_wait(&self) -> Option<Instant> {
        let end = self.request.end.filter(|_| self.request.operation == OpCode::AUTH)?;
        Some(self.request.driven.driver.clock.local_instant(end))
    }

    /// Returns the answer if it arrives before `end`, which is evaluated only if it has not arrived
    /// yet.
    fn wait_until(&mut self, end: impl Fn() -> Option<Instant>) -> Option<Result<T, RequestError>> {
        const FORKED: Error = Error::Ended { end: End::Forked, outcome: Outcome::Unknown };
        loop {
            let (reply, driver) = (&mut self.request.reply, &self.request.driven.driver);
            let answer = match reply.take() {
                Some(answer) => answer,
                None => match driver.wait(Wait::Reading, end(), |_, waker| reply.poll(waker)) {
                    Some(answer) => answer,
                    None if driver.is_forked() => Some(Err(FORKED)),
                    None => return None,
                },
            };
            if let Some(result) = self.receive(answer) {
                return Some(result);
            }
        }
    }
}

/// # Waiting in threads
impl Watch<Threads> {
    /// Waits until it fires, and returns the event.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session ends before it fires.
    pub fn wait(mut self) -> Result<WatchedEvent, Error> {
        self.wait_until(None)?.ok_or(CLOSED)
    }

    /// Waits until it fires, at most for `timeout`. Returns `None` if it has not fired.
    ///
    /// # Errors
    ///
    /// Those of [`wait`](Self::wait). Also if the event was returned before.
    pub fn wait_timeout(&mut self, timeout: Duration) -> Result<Option<WatchedEvent>, Error> {
        self.wait_until(Instant::now().checked_add(timeout))
    }

    fn wait_until(&mut self, end: Option<Instant>) -> Result<Option<WatchedEvent>, Error> {
        let (event, driver) = (&mut self.event, &self.driven.driver);
        let fired = driver.wait(Wait::Reading, end, |_, waker| event.poll(waker));
        fired.map(|event| self.receive(event)).transpose()
    }
}

/// # Waiting in threads
impl Ready<Threads> {
    /// Waits for room.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`] when the session has ended.
    pub fn wait(self) -> Result<(), Error> {
        let driver = self.driven.driver.clone();
        driver.block_on(None, self)
    }
}
