#![doc = include_str!("../README.md")]
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "tokio"))]
extern crate std;

mod error;
pub mod machine;

#[cfg(feature = "tokio")]
mod contenders;
#[cfg(feature = "tokio")]
mod held;
#[cfg(feature = "tokio")]
mod mutex;
#[cfg(feature = "tokio")]
mod options;
#[cfg(feature = "tokio")]
mod queue;
#[cfg(feature = "tokio")]
mod runner;
#[cfg(feature = "tokio")]
mod rw_lock;
#[cfg(feature = "tokio")]
mod semaphore;

pub use error::{LockError, Loss};
pub use zk_session as session;

#[cfg(feature = "tokio")]
pub use {
    contenders::Entrant,
    held::{Held, Holding},
    mutex::{Mutex, MutexGuard},
    options::Options,
    rw_lock::{ReadGuard, RwLock, WriteGuard},
    semaphore::{PermitGuard, Semaphore},
};
