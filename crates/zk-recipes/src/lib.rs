#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
// What only the machines and modes of a feature use. The linker drops it.
#![cfg_attr(not(feature = "full"), allow(dead_code))]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

// Here, since the library is built first: this is then the only error.
#[cfg(all(feature = "cli", not(unix)))]
compile_error!("`zk-lock` runs on Unix only: leave the feature `cli` out");

extern crate alloc;
#[cfg(any(test, feature = "tokio", feature = "blocking"))]
extern crate std;

mod attempt;
#[cfg(all(test, any(feature = "tokio", feature = "blocking")))]
mod auto_traits;
mod barrier;
mod cache;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod client;
#[cfg(feature = "full")]
mod double_barrier;
mod election;
mod ephemeral;
mod error;
#[cfg(all(feature = "defmt", target_os = "none"))]
mod formats;
mod lock;
pub mod machine;
#[cfg(all(feature = "metrics", any(feature = "tokio", feature = "blocking")))]
pub mod metrics;
mod multi_lock;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod options;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub mod recording;
#[cfg(feature = "full")]
mod semaphore;
#[cfg(test)]
mod tests;
mod textbook;

pub use bytes;
pub use uuid;
pub use zk_session as session;

pub use self::error::{
    CacheError, Fault, LeaveError, LockError, Loss, ModeError, Reason, RecipeError, SemaphoreError,
    Unconfirmed,
};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::{
    attempt::{DisconnectPolicy, Event, LockMode, Parents, Scheme, UnknownNodePolicy},
    barrier::recipe::Barrier,
    cache::{CacheState, CachedNode},
    client::{
        FencingToken, Guard, Holding, NextPlace, Pending, Place, QueueEntry, RunError,
        SessionClient, Signal,
    },
    election::{
        Leadership, Term,
        recipe::{Candidate, LeaderElection},
    },
    ephemeral::{Presence, recipe::Ephemeral},
    lock::recipe::{Mutex, Owner, ReadGuard, ReentrantGuard, ReentrantMutex, RwLock, WriteGuard},
    multi_lock::{
        MultiLockError,
        recipe::{LockRequest, MultiGuard, MultiLock, MultiLoss},
    },
    options::{Attempt, Options},
    textbook::recipe::{HerdMutex, SimpleLock},
};
#[cfg(all(feature = "full", any(feature = "tokio", feature = "blocking")))]
pub use self::{
    cache::recipe::{Cache, CacheChange, CacheChanges, CacheOptions},
    client::{Deadlock, Deadlocks},
    double_barrier::recipe::{BarrierGuard, DoubleBarrier},
    lock::{cohort::HandOver, recipe::NotConverted},
    semaphore::recipe::Semaphore,
};

#[cfg(all(feature = "blocking", not(feature = "tokio")))]
use self::no_default::Client;
#[cfg(feature = "tokio")]
use zk_session::Client;

/// The default client without the feature `tokio`. It is none, so programs name their client, and
/// their types stay the same when another crate enables that feature.
#[cfg(all(feature = "blocking", not(feature = "tokio")))]
mod no_default {
    #[derive(Debug)]
    pub enum Client {}
}
