//! State that the clones of a recipe share.

use alloc::sync::Arc;
use std::sync::PoisonError;

use zk_session::threads::{Mutex, MutexGuard};

/// The shared state, written while the session is locked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known<T>(Arc<Mutex<T>>);

impl<T: Clone> Known<T> {
    pub(crate) fn new(state: T) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }

    pub(crate) fn read(&self) -> T {
        lock(&self.0).clone()
    }

    pub(crate) fn update(&self, next: impl FnOnce(&T) -> T) {
        let mut state = lock(&self.0);
        *state = next(&state);
    }
}

/// Locks a mutex, also after a panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
