//! Runs futures on a thread that reads from the connection meanwhile.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};
use std::time::Instant;

use super::Client;
use super::driver::Wait;
use crate::client::HasEffects as _;
use crate::threads::AtomicBool;
use crate::threads::thread::{self, Thread};

/// # Futures
impl Client {
    /// Runs a future until it is ready. Like [`wait_for`](Self::wait_for), the thread may read from
    /// the connection, and then does not notice what other threads do. The future may use the
    /// client.
    ///
    /// The future is also polled at `wake_at`, for its own time limits.
    pub fn block_on<F: Future>(&self, mut wake_at: Option<Instant>, future: F) -> F::Output {
        let mut future = pin!(future);
        let woken = Arc::new(Woken { thread: thread::current(), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(woken.clone());
        loop {
            let wakes = self.shared().wakes();
            if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                return output;
            }
            let in_time = self.shared().wait(Wait::Reading, wake_at, |inner, _| {
                // Wakers run once the session is unlocked: those that were just collected, and those
                // of another thread, which this one would not notice while it reads.
                let is_awaited = inner.effects().has_wakers() || self.shared().wakes() != wakes;
                match woken.is_woken.swap(false, Ordering::AcqRel) || is_awaited {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            });
            wake_at = wake_at.filter(|_| in_time.is_some());
        }
    }
}

/// Records that the thread was woken, and unparks it.
struct Woken {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
