//! A conversion that did not take place.

use core::fmt;

use crate::error::RecipeError;

/// A failed conversion, with the guard. Dropped, it releases the lock in the background.
#[derive(Debug)]
#[non_exhaustive]
pub struct NotConverted<G> {
    /// The guard, as it was.
    pub guard: G,
    /// Why it was not converted. After [`LockError::Lost`](crate::LockError::Lost) nothing is held any more.
    pub error: RecipeError,
}

impl<G> NotConverted<G> {
    /// Returns the guard, as it was.
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
