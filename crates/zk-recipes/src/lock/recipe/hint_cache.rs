//! The hint of one contender for the next one of the same lock.

use alloc::sync::Arc;
use std::sync::PoisonError;

use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};

use crate::lock::hint::{FastPathHint, HintCell};

/// The latest hint. The clones of a lock share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct HintCache(Arc<StdMutex<Option<FastPathHint>>>);

impl HintCache {
    fn hint(&self) -> StdMutexGuard<'_, Option<FastPathHint>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HintCell for HintCache {
    fn get(&self) -> Option<FastPathHint> {
        *self.hint()
    }

    fn set(&self, hint: Option<FastPathHint>) {
        *self.hint() = hint;
    }
}
