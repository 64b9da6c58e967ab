#![doc = include_str!("../README.md")]
#![no_std]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

extern crate alloc;
#[cfg(any(test, feature = "tokio"))]
extern crate std;

mod error;
pub mod machine;

#[cfg(feature = "tokio")]
mod barrier;
#[cfg(feature = "tokio")]
mod contenders;
#[cfg(feature = "tokio")]
mod double_barrier;
#[cfg(feature = "tokio")]
mod held;
#[cfg(all(feature = "study", feature = "tokio"))]
mod herd;
#[cfg(feature = "tokio")]
mod leader;
#[cfg(feature = "tokio")]
mod multi_lock;
#[cfg(feature = "tokio")]
mod mutex;
#[cfg(feature = "tokio")]
mod options;
#[cfg(feature = "tokio")]
mod queue;
#[cfg(feature = "tokio")]
mod reentrant;
#[cfg(feature = "tokio")]
mod runner;
#[cfg(feature = "tokio")]
mod rw_lock;
#[cfg(feature = "tokio")]
mod semaphore;
#[cfg(all(feature = "study", feature = "tokio"))]
mod simple;
#[cfg(feature = "tokio")]
mod turns;

pub use error::{LockError, Loss};
pub use zk_session as session;

#[cfg(feature = "tokio")]
pub use {
    barrier::Barrier,
    contenders::Entrant,
    double_barrier::{BarrierGuard, DoubleBarrier},
    held::{Held, Holding},
    leader::{Candidate, LeaderElection, Leadership, Term},
    multi_lock::{Mismatch, MultiGuard, MultiLock, MultiLockError, Part},
    mutex::{Mutex, MutexGuard},
    options::Options,
    reentrant::{Owner, ReentrantGuard, ReentrantMutex},
    rw_lock::{ReadGuard, RwLock, WriteGuard},
    semaphore::{PermitGuard, Semaphore},
};
#[cfg(all(feature = "study", feature = "tokio"))]
pub use {
    herd::{HerdGuard, HerdMutex},
    simple::{SimpleGuard, SimpleLock},
};
