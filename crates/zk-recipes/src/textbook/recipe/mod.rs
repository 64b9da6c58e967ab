//! The locks of textbooks, for any [`SessionClient`](crate::SessionClient).

mod herd;
mod simple;

pub use self::herd::HerdMutex;
pub use self::simple::SimpleLock;
