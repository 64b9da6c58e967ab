//! How threads wait for recipes.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Threads;
use zk_session::driver;
use zk_session::threads::thread::{self, Thread};

use crate::client::SessionClient;
use crate::client::lookout::Lookout;

impl SessionClient for driver::Client<Threads> {
    fn now() -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, end: Instant) -> impl Future<Output = ()> + Send + 'static {
        let (client, mut timer, mut session_ended) = (self.clone(), None, false);
        poll_fn(move |cx| match end.saturating_duration_since(Instant::now()) {
            Duration::ZERO => Poll::Ready(()),
            left => {
                let timer = timer.get_or_insert_with(|| Lookout::timer(&client, left));
                let is_over = Pin::new(timer).poll(cx).is_ready();
                if is_over && !core::mem::replace(&mut session_ended, true) {
                    // What is waited for has learnt of the end, too. So it comes first.
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                if is_over { Poll::Ready(()) } else { Poll::Pending }
            }
        })
    }

    async fn wait_for_others<F: Future + Send>(
        &self,
        end: Option<Instant>,
        future: F,
    ) -> Option<F::Output> {
        let mut future = pin!(future);
        poll_fn(|cx| match self.is_in_block_on() {
            true => Poll::Ready(park_until(end, future.as_mut())),
            false => future.as_mut().poll(cx).map(Some),
        })
        .await
    }

    fn lease_end(&self) -> Option<Instant> {
        self.lease()
    }
}

/// Waits in this thread. Meanwhile it must not read from the connection: no message would end the
/// read.
fn park_until<F: Future>(end: Option<Instant>, mut future: Pin<&mut F>) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return Some(output);
        }
        match end.map(|end| end.saturating_duration_since(Instant::now())) {
            None => thread::park(),
            Some(Duration::ZERO) => return None,
            Some(left) => thread::park_timeout(left),
        }
    }
}

/// Unparks a thread.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
