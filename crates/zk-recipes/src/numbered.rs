//! Values in the order in which they came.

use alloc::collections::VecDeque;

#[cfg(test)]
mod tests;

/// The room for values that is kept without any.
const MAX_KEPT: usize = 8;

/// Values with ascending numbers. Any one is found in logarithmic time. To remove one moves the values
/// on one side of it, so the first one costs nothing more.
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

    /// Adds a value with this number, which is greater than all before.
    pub(crate) fn insert(&mut self, number: u64, value: T) {
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
        if self.values.is_empty() {
            self.values.shrink_to(MAX_KEPT);
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

    pub(crate) fn clear(&mut self) {
        self.values.clear();
    }
}
