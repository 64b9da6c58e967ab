//! The locks, for any [`SessionClient`](crate::SessionClient).

#[cfg(feature = "full")]
pub(crate) mod conversion;
#[cfg(feature = "full")]
pub(crate) mod hand_over;
mod local_queue;
mod mutex;
mod reentrant;
mod rw_lock;

use zk_session::threads::Mutex as StdMutex;

pub use self::mutex::Mutex;
pub use self::reentrant::{Owner, ReentrantGuard, ReentrantMutex};
pub use self::rw_lock::{ReadGuard, RwLock, WriteGuard};
use crate::client::known::lock;
use crate::lock::{FastPathHint, HintCell};

/// The latest hint of a lock.
impl HintCell for StdMutex<Option<FastPathHint>> {
    fn get(&self) -> Option<FastPathHint> {
        *lock(self)
    }

    fn set(&self, hint: Option<FastPathHint>) {
        *lock(self) = hint;
    }
}
