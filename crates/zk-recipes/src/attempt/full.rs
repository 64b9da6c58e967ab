//! Types that have values only with the feature `full`.

/// Shows that the feature is on.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    On,
}

/// A value that exists only with the feature.
#[derive(Clone, Debug)]
pub(crate) struct OfFull<T>(T);

impl<T> OfFull<T> {
    pub(crate) const fn new(_: Full, value: T) -> Self {
        Self(value)
    }

    pub(crate) const fn get(&self) -> &T {
        &self.0
    }

    pub(crate) const fn get_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
