//! Without the feature `full`, nobody looks for deadlocks.

use core::convert::Infallible;

use super::held_lock::Holder;

pub(crate) struct Mark(Infallible);

impl Mark {
    pub(crate) fn hold(self, _: Holder) -> Holder {
        match self.0 {}
    }
}
