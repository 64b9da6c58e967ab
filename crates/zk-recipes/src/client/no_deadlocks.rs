//! Without the feature `full`, nobody looks for deadlocks.

use core::convert::Infallible;

use super::queue::Entrance;

pub(crate) struct Mark(Infallible);

impl Mark {
    pub(crate) const fn holds(self) -> Self {
        match self.0 {}
    }
}

impl<C> Entrance<C> {
    pub(crate) const fn mark(&self) -> Option<Mark> {
        None
    }
}
