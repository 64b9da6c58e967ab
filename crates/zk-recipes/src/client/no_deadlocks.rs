//! Without the feature `full`, nobody looks for deadlocks.

use core::convert::Infallible;

pub(crate) struct Mark(Infallible);

impl Mark {
    pub(crate) const fn holds(self) -> Self {
        match self.0 {}
    }
}
