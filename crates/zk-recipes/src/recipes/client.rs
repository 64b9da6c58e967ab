//! What the recipes need of a client: requests, a clock, and ways to wait.

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
/// It cannot be implemented elsewhere.
pub trait SessionClient: AnyClient {
    /// What reports the changes of a candidate's leadership.
    #[doc(hidden)]
    type Leaderships: fmt::Debug + Send + Sync;

    /// The present time, by the clock that time limits are measured with.
    #[doc(hidden)]
    fn now() -> Instant;

    /// Waits until `end`. The blocking client polls this once more at the end of each wait.
    #[doc(hidden)]
    fn sleep_until(end: Instant) -> impl Future<Output = ()> + Send;

    /// Waits for what another caller of this process does, rather than for the connection. Returns
    /// `None` at `end` if this client must not wait longer; others leave that to their caller.
    #[doc(hidden)]
    fn wait_for_others<F: Future + Send>(
        end: Option<Instant>,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + Send;

    /// The task or thread that calls this.
    #[doc(hidden)]
    fn current_owner() -> Owner;

    /// Returns what publishes the `current` leadership of a candidate, and what reports the changes.
    #[doc(hidden)]
    fn leaderships(current: SharedLeadership) -> (Option<Publish>, Self::Leaderships);
}

/// How long an attempt may wait, and for what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limit {
    pub(crate) wait_policy: WaitPolicy,
    pub(crate) end: Option<Instant>,
}

impl Limit {
    pub(crate) const NONE: Self = Self { wait_policy: WaitPolicy::Queue, end: None };
    pub(crate) const TRY: Self = Self { wait_policy: WaitPolicy::OnlyIfFree, end: None };

    /// Waits until `end`. An attempt that begins too late asks once, and ends by itself.
    pub(crate) fn until<C: SessionClient>(end: Instant) -> Self {
        if end <= C::now() {
            Self { wait_policy: WaitPolicy::OnlyIfFirst, end: None }
        } else {
            Self { end: Some(end), ..Self::NONE }
        }
    }

    /// Waits for `timeout` from now.
    pub(crate) fn after<C: SessionClient>(timeout: Duration) -> Self {
        after::<C>(timeout).map_or(Self::NONE, Self::until::<C>)
    }
}

/// When `timeout` from now is; never, if that is later than the clock can express.
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
