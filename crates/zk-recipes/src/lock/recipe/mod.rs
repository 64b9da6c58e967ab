//! The locks, for any [`SessionClient`](crate::SessionClient).

#[cfg(feature = "full")]
pub(crate) mod conversion;
#[cfg(feature = "full")]
pub(crate) mod hand_over;
mod local_queue;
mod mutex;
mod reentrant;
mod rw_lock;

pub use self::mutex::Mutex;
pub use self::reentrant::{Owner, ReentrantGuard, ReentrantMutex};
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
