#![doc = include_str!("../README.md")]
#![no_std]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::std_instead_of_core, clippy::std_instead_of_alloc, clippy::alloc_instead_of_core)]

// Here, since the library is built first: this is then the only error.
#[cfg(all(feature = "cli", not(unix)))]
compile_error!("`zk-lock` runs on Unix only: leave the feature `cli` out");

extern crate alloc;
#[cfg(any(test, feature = "blocking"))]
extern crate std;

mod attempt;
mod barrier;
mod cache;
#[cfg(feature = "blocking")]
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
#[cfg(all(feature = "metrics", feature = "blocking"))]
pub mod metrics;
mod multi_lock;
mod numbered;
#[cfg(feature = "blocking")]
mod options;
#[cfg(all(feature = "full", feature = "blocking"))]
pub mod recording;
#[cfg(feature = "full")]
mod semaphore;
#[cfg(test)]
mod tests;
mod textbook;

pub use bytes;
pub use uuid;
pub use zk_session as session;
#[doc(inline)]
pub use zk_session::Fault;

pub use self::error::{
    CacheError, LeaveError, LockError, Loss, ModeError, Reason, RecipeError, SemaphoreError,
    Unconfirmed,
};
#[cfg(feature = "blocking")]
pub use self::{
    attempt::{DisconnectPolicy, Event, LockMode, NodeName, Parents, Scheme, UnknownNodePolicy},
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
#[cfg(all(feature = "full", feature = "blocking"))]
pub use self::{
    cache::recipe::{Cache, CacheChange, CacheChanges, CacheOptions},
    client::deadlocks::{Deadlock, Deadlocks},
    double_barrier::recipe::{BarrierGuard, DoubleBarrier},
    lock::{cohort::HandOver, recipe::conversion::NotConverted},
    semaphore::recipe::Semaphore,
};

#[cfg(feature = "blocking")]
use self::client::Client;
