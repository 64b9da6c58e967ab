//! Functions of the program that threads of this library call.

use std::cell::Cell;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use crate::error::{Failure, argument};

thread_local! {
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

/// A function with the value that it gets. It is not called any more after [`end`](Self::end).
pub(crate) struct Callback<F>(Arc<Mutex<Option<(F, Context)>>>);

struct Context(*mut c_void);

// SAFETY: the documentation asks for a context that other threads may use.
unsafe impl Send for Context {}

impl<F> Clone for Callback<F> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<F: Copy> Callback<F> {
    pub(crate) fn new(function: F, context: *mut c_void) -> Self {
        Self(Arc::new(Mutex::new(Some((function, Context(context))))))
    }

    pub(crate) fn call(&self, with: impl FnOnce(F, *mut c_void)) {
        let slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((function, context)) = &*slot {
            IS_CALLING.set(true);
            with(*function, context.0);
            IS_CALLING.set(false);
        }
    }

    /// Waits until it is not running, and prevents further calls.
    pub(crate) fn end(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Refuses what would wait for the end of the callback that it is called in.
pub(crate) fn refuse_in_callback() -> Result<(), Failure> {
    match IS_CALLING.get() {
        true => Err(argument("a callback cannot close, stop or release anything")),
        false => Ok(()),
    }
}
