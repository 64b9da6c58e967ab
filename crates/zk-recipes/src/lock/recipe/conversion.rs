//! A failed conversion of a lock.

use core::fmt;

use crate::error::{ModeError, RecipeError};

/// A failed conversion, with the guard. Dropping it releases the lock in the background.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotConverted<G> {
    /// The unchanged guard.
    pub guard: G,
    /// The reason of the failure. After [`LockError::Lost`](crate::LockError::Lost), the lock is no
    /// longer held.
    pub error: RecipeError<ModeError>,
}

impl<G> NotConverted<G> {
    /// Returns the name of the [reason](crate::LockError::name).
    pub fn name(&self) -> &'static str {
        self.error.name()
    }

    /// Returns the unchanged guard.
    pub fn into_guard(self) -> G {
        self.guard
    }
}

impl<G> fmt::Display for NotConverted<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.error)
    }
}

impl<G: fmt::Debug> core::error::Error for NotConverted<G> {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The error is printed with this one.
        self.error.source()
    }
}
