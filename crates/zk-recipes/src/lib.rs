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

#[cfg(all(test, any(feature = "tokio", feature = "blocking")))]
mod auto_traits;
#[cfg(feature = "blocking")]
mod blocking;
mod error;
#[cfg(all(feature = "defmt", target_os = "none"))]
mod formats;
pub mod machine;
#[cfg(all(feature = "metrics", any(feature = "tokio", feature = "blocking")))]
pub mod metrics;
#[cfg(any(feature = "tokio", feature = "blocking"))]
mod recipes;
#[cfg(feature = "tokio")]
mod tokio;

pub use bytes;
pub use uuid;
pub use zk_session as session;

pub use self::error::{
    CacheError, Fault, LeaveError, LockError, Loss, ModeError, Reason, RecipeError, SemaphoreError,
    Unconfirmed,
};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::machine::multi_lock::MultiLockError;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::machine::{
    CacheState, CachedNode, DisconnectPolicy, Event, Leadership, LockMode, Parents, Presence, Scheme,
    Term, UnknownNodePolicy,
};
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub use self::recipes::*;

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
