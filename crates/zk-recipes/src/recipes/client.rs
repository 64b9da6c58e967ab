//! The client that recipes need: requests, a clock, and ways to wait.

use core::fmt;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::time::Instant;

use zk_session::AnyClient;

use super::leader::{Publish, SharedLeadership};
use super::reentrant::Owner;
use crate::machine::WaitPolicy;

/// A client that recipes can use: `session::Client` or `session::blocking::Client`.
///
/// It is sealed: no other type can implement it.
pub trait SessionClient: AnyClient {
    /// Reports the changes of a candidate's leadership.
    #[doc(hidden)]
    type Leaderships: fmt::Debug + Send + Sync;

    /// An instant of the clock that measures time limits.
    #[doc(hidden)]
    fn now() -> Instant;

    /// Waits until `end`. The blocking client polls this once more at the end of each wait.
    #[doc(hidden)]
    fn sleep_until(end: Instant) -> impl Future<Output = ()> + Send;

    /// Waits for another caller of this process, not for the connection. Returns `None` at `end` if
    /// this client must not wait longer; other clients leave the time limit to their caller.
    #[doc(hidden)]
    fn wait_for_others<F: Future + Send>(
        end: Option<Instant>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// Returns the task or thread of the caller.
    #[doc(hidden)]
    fn current_owner() -> Owner;

    /// Returns the publisher of a candidate's leadership and its observer, beginning with
    /// `current`.
    #[doc(hidden)]
    fn leaderships(current: SharedLeadership) -> (Option<Publish>, Self::Leaderships);
}

/// How long an attempt waits, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) end: Option<Instant>,
}

impl Limit {
    pub(crate) const NONE: Self = Self { wait_policy: WaitPolicy::Queue, end: None };
    #[cfg(feature = "try-lock")]
    pub(crate) const TRY: Self = Self { wait_policy: WaitPolicy::OnlyIfFree, end: None };

    /// Limits the wait to `end`. An attempt that begins too late tries once, and does not wait.
    pub(crate) fn until<C: SessionClient>(end: Instant) -> Self {
        match end <= C::now() {
            #[cfg(feature = "try-lock")]
            true => Self { wait_policy: WaitPolicy::OnlyIfFirst, end: None },
            _ => Self { end: Some(end), ..Self::NONE },
        }
    }

    /// Waits for `timeout` from now.
    pub(crate) fn after<C: SessionClient>(timeout: Duration) -> Self {
        after::<C>(timeout).map_or(Self::NONE, Self::until::<C>)
    }
}

/// Returns the instant after `timeout`. `None` if the clock cannot express it: wait for ever.
pub(crate) fn after<C: SessionClient>(timeout: Duration) -> Option<Instant> {
    C::now().checked_add(timeout)
}

/// Waits for `work` until `end`.
pub(crate) async fn before<C: SessionClient, F: Future>(
    end: Option<Instant>,
    work: F,
) -> Option<F::Output> {
    match end {
        Some(end) => unless(C::sleep_until(end), work).await.ok(),
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
