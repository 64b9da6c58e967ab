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

use alloc::boxed::Box;
use alloc::string::ToString as _;
#[cfg(shuttle)]
use core::time::Duration;
use std::io;

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

/// The longest time that passes by itself. `shuttle` has no time: a thread that only the end of a
/// longer wait would wake is found to wait for ever.
#[cfg(shuttle)]
pub(crate) const SHORT: Duration = Duration::from_millis(500);

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
