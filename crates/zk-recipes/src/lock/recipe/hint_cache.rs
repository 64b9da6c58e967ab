//! The hint of one contender for the next one of the same lock.

use crate::client::known::Known;
use crate::lock::hint::{FastPathHint, HintCell};

/// The latest hint. The clones of a lock share it.
pub(crate) type HintCache = Known<Option<FastPathHint>>;

impl HintCell for HintCache {
    fn get(&self) -> Option<FastPathHint> {
        self.read()
    }

    fn set(&self, hint: Option<FastPathHint>) {
        self.update(|_| hint);
    }
}
