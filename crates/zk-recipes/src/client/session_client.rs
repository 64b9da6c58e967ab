//! The client that recipes need: requests, a clock, and ways to wait.

use alloc::boxed::Box;
use core::fmt;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::time::Instant;

use zk_session::AnyClient;

/// A client that recipes can use: `session::Client` or `session::blocking::Client`.
///
/// It is sealed: no other type can implement it.
pub trait SessionClient: AnyClient {
    /// An instant of the clock that measures time limits.
    #[doc(hidden)]
    fn now() -> Instant;

    /// Waits until `end`.
    #[doc(hidden)]
    fn sleep_until(&self, end: Instant) -> impl Future<Output = ()> + Send + 'static;

    /// Waits for another caller of this process, not for the connection. Returns `None` at `end` if
    /// a thread waits; tasks leave the time limit to their caller.
    #[doc(hidden)]
    fn wait_for_others<F: Future + Send>(
        &self,
        end: Option<Instant>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// Returns the end of the session's lease.
    #[doc(hidden)]
    fn lease_end(&self) -> Option<Instant>;
}

/// When a wait ends.
#[derive(Default)]
pub(crate) struct TimeLimit {
    pub(crate) end: Option<Instant>,
    timer: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl fmt::Debug for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TimeLimit").field(&self.end).finish()
    }
}

impl TimeLimit {
    pub(crate) const fn new(end: Option<Instant>) -> Self {
        Self { end, timer: None }
    }

    /// Ends the wait after `timeout`, or never if the clock cannot express that.
    pub(crate) fn after<C: SessionClient>(timeout: Duration) -> Self {
        Self::new(C::now().checked_add(timeout))
    }

    /// Is ready once the time has passed, at every later poll as well.
    pub(crate) fn poll<C: SessionClient>(&mut self, client: &C, cx: &mut Context<'_>) -> Poll<()> {
        match self.end {
            None => return Poll::Pending,
            Some(end) if C::now() < end => {
                let timer = self.timer.get_or_insert_with(|| Box::pin(client.sleep_until(end)));
                ready!(timer.as_mut().poll(cx));
                // The clock that was asked may be behind the timer.
                self.end = Some(C::now());
            }
            Some(_) => {}
        }
        self.timer = None;
        Poll::Ready(())
    }
}

/// Waits for `work` until `end`.
pub(crate) async fn before<C: SessionClient, F: Future>(
    client: &C,
    end: Option<Instant>,
    work: F,
) -> Option<F::Output> {
    match end {
        Some(end) => unless(client.sleep_until(end), work).await.ok(),
        None => Some(work.await),
    }
}

/// Waits for `work`, unless `stop` is ready first.
pub(crate) async fn unless<S: Future, F: Future>(stop: S, work: F) -> Result<F::Output, S::Output> {
    let (mut stop, mut work) = (pin!(stop), pin!(work));
    poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(output) => Poll::Ready(Ok(output)),
        Poll::Pending => stop.as_mut().poll(cx).map(Err),
    })
    .await
}
