//! The mutex, the read/write lock and the reentrant mutex.

#[cfg(feature = "full")]
pub mod cohort;
pub(crate) mod contender;
pub(crate) mod hint;
pub(crate) mod hint_cell;
#[cfg(feature = "full")]
pub(crate) mod idle_watch;
#[cfg(feature = "blocking")]
pub(crate) mod recipe;

pub use self::contender::Contender;
pub use self::hint_cell::{FastPathHint, HintCell};
