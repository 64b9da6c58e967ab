//! The hint of one contender for the next one of the same lock.

use zk_session::threads::Mutex;

use crate::client::known::lock;
use crate::lock::{FastPathHint, HintCell};

/// The latest hint. The clones of a lock share it.
pub(crate) type HintCache = Mutex<Option<FastPathHint>>;

impl HintCell for HintCache {
    fn get(&self) -> Option<FastPathHint> {
        *lock(self)
    }

    fn set(&self, hint: Option<FastPathHint>) {
        *lock(self) = hint;
    }
}
