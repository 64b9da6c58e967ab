//! Runs futures on a thread that reads from the connection meanwhile.

use alloc::sync::Arc;
use alloc::task::Wake;
use core::cell::Cell;
use core::pin::pin;
use core::sync::atomic::Ordering;
use core::task::{Context, Poll, Waker};
use std::time::Instant;

use super::driver::Wait;
use super::{Client, Threads};
use crate::client::HasEffects as _;
use crate::threads::thread::{self, Thread};
use crate::threads::{AtomicBool, thread_local};

/// # Futures
impl Client {
    /// Runs a future until it is ready. Like [`wait_for`](Self::wait_for), the thread may read from
    /// the connection, and then does not notice what other threads do. The future may use the
    /// client.
    ///
    /// The future is also polled at `wake_at`, for its own time limits.
    pub fn block_on<F: Future>(&self, wake_at: Option<Instant>, future: F) -> F::Output {
        self.driver().block_on(wake_at, future)
    }

    /// Returns whether this thread polls in [`block_on`](Self::block_on). For recipes.
    #[doc(hidden)]
    pub fn is_in_block_on(&self) -> bool {
        is_in_block_on(self.driver())
    }
}

impl Threads {
    pub(super) fn block_on<F: Future>(
        self: &Arc<Self>,
        mut wake_at: Option<Instant>,
        future: F,
    ) -> F::Output {
        let mut future = pin!(future);
        let woken =
            Arc::new(WakeRecord { thread: thread::current(), is_woken: AtomicBool::new(false) });
        let waker = Waker::from(woken.clone());
        loop {
            let wakes = self.wakes();
            let polls = Polls::begin(self);
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            drop(polls);
            if let Poll::Ready(output) = polled {
                return output;
            }
            let in_time = self.wait(Wait::Reading, wake_at, |inner, _| {
                // Wakers run once the session is unlocked: those that were just collected, and those
                // of another thread, which this one would not notice while it reads.
                let is_awaited = inner.effects().has_wakers() || self.wakes() != wakes;
                match woken.is_woken.swap(false, Ordering::AcqRel) || is_awaited {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            });
            wake_at = wake_at.filter(|_| in_time.is_some());
        }
    }
}

thread_local! {
    /// The address of the session whose `block_on` polls on this thread, or 0.
    static POLLS: Cell<usize> = const { Cell::new(0) };
}

/// Returns whether this thread polls in the `block_on` of this session, and so reads for the future.
pub(super) fn is_in_block_on(session: &Arc<Threads>) -> bool {
    POLLS.try_with(|polls| polls.get() == Arc::as_ptr(session).addr()).unwrap_or(false)
}

/// Marks this thread until it is dropped.
struct Polls(usize);

impl Polls {
    fn begin(session: &Arc<Threads>) -> Self {
        let session = Arc::as_ptr(session).addr();
        Self(POLLS.try_with(|polls| polls.replace(session)).unwrap_or(0))
    }
}

impl Drop for Polls {
    fn drop(&mut self) {
        let _ = POLLS.try_with(|polls| polls.set(self.0));
    }
}

/// Records that the thread was woken, and unparks it.
struct WakeRecord {
    thread: Thread,
    is_woken: AtomicBool,
}

impl Wake for WakeRecord {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::Release);
        self.thread.unpark();
    }
}
