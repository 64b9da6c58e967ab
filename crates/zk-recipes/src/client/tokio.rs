//! How tasks wait for recipes.

use std::time::Instant;

pub(crate) use zk_session::Client;
use zk_session::{Tokio, driver};

use crate::client::SessionClient;

// Named without its alias: rustdoc would show both clients as `Client`.
impl SessionClient for driver::Client<Tokio> {
    fn now() -> Instant {
        tokio::time::Instant::now().into_std()
    }

    #[allow(clippy::manual_async_fn, reason = "the future does not borrow the client")]
    fn sleep_until(&self, end: Instant) -> impl Future<Output = ()> + Send + 'static {
        async move {
            // A time that has passed needs no timer, nor its runtime.
            if Self::now() < end {
                tokio::time::sleep_until(end.into()).await;
            }
        }
    }

    async fn wait_for_others<F: Future + Send>(
        &self,
        _: Option<Instant>,
        future: F,
    ) -> Option<F::Output> {
        Some(future.await)
    }

    fn lease_end(&self) -> Option<Instant> {
        self.lease().map(Into::into)
    }
}

/// Returns a function that runs `run` in the runtime of this call, if there is one.
pub(crate) fn in_context(run: impl FnOnce()) -> impl FnOnce() {
    let runtime = tokio::runtime::Handle::try_current().ok();
    move || {
        let _context = runtime.as_ref().map(tokio::runtime::Handle::enter);
        run();
    }
}
