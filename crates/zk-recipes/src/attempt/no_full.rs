//! Without the feature `full`, these types have no values, so the compiler drops the code that uses
//! them.

use core::marker::PhantomData;

#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {}

#[derive(Clone, Debug)]
pub(crate) struct OfFull<T>(Full, PhantomData<T>);

impl<T> OfFull<T> {
    pub(crate) fn new(full: Full, _: T) -> Self {
        match full {}
    }

    pub(crate) const fn get(&self) -> &T {
        match self.0 {}
    }

    pub(crate) const fn get_mut(&mut self) -> &mut T {
        match self.0 {}
    }
}
