//! The locks of textbooks, which wake all who wait: to be compared with the others, not used.

#[cfg(any(feature = "tokio", feature = "blocking"))]
pub(crate) mod recipe;
pub(crate) mod simple;

pub use self::simple::SimpleContender;
