//! Mutexes and threads: those of the standard library.
//!
//! With `--cfg shuttle` they are those of the crate `shuttle`, by which tests try the orders in
//! which threads can run (`tests/orders`).

#[cfg(not(shuttle))]
pub use core::sync::atomic::AtomicBool;
#[cfg(not(shuttle))]
pub use std::{
    sync::{Mutex, MutexGuard},
    thread, thread_local,
};

#[cfg(shuttle)]
pub use shuttle::{
    sync::{Mutex, MutexGuard, atomic::AtomicBool},
    thread_local,
};

#[cfg(all(feature = "tokio", not(shuttle)))]
pub(crate) use tokio::time::{Sleep, sleep};

#[cfg(all(feature = "tokio", shuttle))]
pub(crate) use self::sleeping::{Sleep, sleep};

use alloc::boxed::Box;
use alloc::string::ToString as _;
#[cfg(any(feature = "blocking", shuttle))]
use core::time::Duration;
use std::io;
#[cfg(feature = "blocking")]
use std::time::Instant;

/// Starts a thread. Fails if the system has none, where `tokio::task::spawn_blocking` panics. Boxed,
/// since each type of closure would bring the code of threads once more.
///
/// # Errors
///
/// Why the system has not started it.
pub fn spawn(name: &str, run: Box<dyn FnOnce() + Send>) -> io::Result<()> {
    #[cfg(test)]
    if REFUSES.get() {
        return Err(io::ErrorKind::WouldBlock.into());
    }
    thread::Builder::new().name(name.to_string()).spawn(run).map(drop)
}

#[cfg(test)]
std::thread_local! {
    /// Whether the system refuses new threads to this one.
    pub(crate) static REFUSES: core::cell::Cell<bool> = const { core::cell::Cell::new(false) };
}

/// Returns whether less time than this has passed since then.
#[cfg(all(feature = "blocking", not(shuttle)))]
pub(crate) fn is_within(since: Instant, time: Duration) -> bool {
    since.elapsed() < time
}

/// Returns either, as if any time could have passed.
#[cfg(all(feature = "blocking", shuttle))]
pub(crate) fn is_within(_: Instant, _: Duration) -> bool {
    use shuttle::rand::Rng as _;
    shuttle::rand::thread_rng().r#gen()
}

/// The longest time that passes by itself. `shuttle` has no time: a thread that only the end of a
/// longer wait would wake is found to wait for ever.
#[cfg(shuttle)]
const SHORT: Duration = Duration::from_millis(500);

/// Threads, and what they wait for.
#[cfg(shuttle)]
pub mod thread {
    pub use shuttle::thread::*;

    use core::time::Duration;

    use super::SHORT;

    /// Parks, or lets others run if the time is short.
    pub fn park_timeout(timeout: Duration) {
        if timeout <= SHORT { yield_now() } else { park() }
    }
}

/// The timer of a task.
#[cfg(all(feature = "tokio", shuttle))]
mod sleeping {
    use core::pin::Pin;
    use core::task::{Context, Poll};
    use core::time::Duration;

    use tokio::time::Instant;

    use super::SHORT;

    #[derive(Debug)]
    pub(crate) struct Sleep {
        until: Instant,
        has_yielded: bool,
    }

    pub(crate) fn sleep(time: Duration) -> Sleep {
        Sleep { until: Instant::now() + time, has_yielded: false }
    }

    impl Sleep {
        pub(crate) fn reset(mut self: Pin<&mut Self>, until: Instant) {
            *self = Self { until, has_yielded: false };
        }

        pub(crate) fn is_elapsed(&self) -> bool {
            self.until <= Instant::now()
        }
    }

    impl Future for Sleep {
        type Output = ();

        /// Lets others run once if the time is short. A longer time never ends.
        fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
            if self.until > Instant::now() + SHORT {
                return Poll::Pending;
            }
            if core::mem::replace(&mut self.has_yielded, true) {
                return Poll::Ready(());
            }
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    }
}
