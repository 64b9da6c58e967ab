//! Values in the order in which they came.

use alloc::collections::VecDeque;

#[cfg(test)]
mod tests;

/// The capacity that an empty queue keeps, in values.
const MAX_KEPT: usize = 8;

/// Values with ascending numbers. A value is found in logarithmic time. Removal moves the values on
/// the shorter side, so removing the first or the last moves none.
#[derive(Clone, Debug)]
pub(crate) struct Numbered<T> {
    values: VecDeque<(u64, T)>,
    last: u64,
}

impl<T> Default for Numbered<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg_attr(
    not(any(feature = "blocking", feature = "full")),
    expect(dead_code, reason = "a cache needs less")
)]
impl<T> Numbered<T> {
    pub(crate) const fn new() -> Self {
        Self { values: VecDeque::new(), last: 0 }
    }

    /// Adds a value at the end. Returns its number.
    pub(crate) fn push(&mut self, value: T) -> u64 {
        self.insert(self.last + 1, value);
        self.last
    }

    /// Adds a value with this number, which must be greater than all earlier ones.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
        debug_assert!(number > self.last, "numbers ascend");
        self.last = number;
        self.values.push_back((number, value));
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let place = self.place(number)?;
        self.values.get_mut(place).map(|(_, value)| value)
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<T> {
        let place = self.place(number)?;
        let removed = self.values.remove(place);
        // Also frees the room of a burst while some values stay.
        if self.values.len() < self.values.capacity() / 4 {
            self.values.shrink_to(MAX_KEPT.max(2 * self.values.len()));
        }
        removed.map(|(_, value)| value)
    }

    fn place(&self, number: u64) -> Option<usize> {
        self.values.binary_search_by_key(&number, |(number, _)| *number).ok()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(u64, T)> {
        self.values.iter()
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.values.iter_mut().map(|(_, value)| value)
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }
}
