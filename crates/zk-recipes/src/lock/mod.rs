//! The mutex, the read/write lock and the reentrant mutex.

pub(crate) mod contender;
pub(crate) mod hint;
#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod recipe;

pub use self::contender::Contender;
pub use self::hint::{FastPathHint, HintCell, HintingContender};
