//! Without the feature `full`, nobody looks for deadlocks.

use alloc::boxed::Box;
use core::convert::Infallible;

use super::local::SpecialHolder;
use super::queue::Entrance;
use super::status::Handle;

pub(crate) struct Mark(Infallible);

impl Mark {
    pub(crate) const fn hold(self, _: Handle) -> Box<SpecialHolder> {
        match self.0 {}
    }
}

impl<C> Entrance<C> {
    pub(crate) const fn mark(&self) -> Option<Mark> {
        None
    }
}
