//! Values with small numbers.

use alloc::vec::Vec;

use crate::session::growth::reserve;

/// The number of a value in a [`Slab`].
pub(crate) type WatchPlace = u32;

/// No place. A slab never has as many values.
pub(in crate::session) const NOWHERE: WatchPlace = WatchPlace::MAX;

#[derive(Clone, Debug)]
enum SlabEntry<T> {
    Used(T),
    /// Free, like the next one.
    Free(WatchPlace),
}

/// Values at places that do not change. Places of removed values are reused.
///
/// The memory is freed when the last value is removed.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<SlabEntry<T>>,
    first_free: WatchPlace,
    len: usize,
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { entries: Vec::new(), first_free: NOWHERE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn get(&self, place: WatchPlace) -> Option<&T> {
        match self.entries.get(place as usize)? {
            SlabEntry::Used(value) => Some(value),
            SlabEntry::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, place: WatchPlace) -> Option<&mut T> {
        match self.entries.get_mut(place as usize)? {
            SlabEntry::Used(value) => Some(value),
            SlabEntry::Free(_) => None,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> WatchPlace {
        self.len += 1;
        if let Some(entry) = self.entries.get_mut(self.first_free as usize)
            && let SlabEntry::Free(next) = *entry
        {
            *entry = SlabEntry::Used(value);
            return core::mem::replace(&mut self.first_free, next);
        }
        reserve(&mut self.entries, 1);
        self.entries.push(SlabEntry::Used(value));
        // No memory has room for more values than a place can count.
        (self.entries.len() - 1) as WatchPlace
    }

    pub(crate) fn remove(&mut self, place: WatchPlace) -> Option<T> {
        let entry = self.entries.get_mut(place as usize)?;
        if let SlabEntry::Free(_) = entry {
            return None;
        }
        let SlabEntry::Used(value) = core::mem::replace(entry, SlabEntry::Free(self.first_free))
        else {
            return None;
        };
        self.first_free = place;
        self.len -= 1;
        if self.len == 0 {
            *self = Self::new();
        }
        Some(value)
    }

    /// Returns all values, in the order of their places.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().filter_map(|entry| match entry {
            SlabEntry::Used(value) => Some(value),
            SlabEntry::Free(_) => None,
        })
    }

    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().filter_map(|entry| match entry {
            SlabEntry::Used(value) => Some(value),
            SlabEntry::Free(_) => None,
        })
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = WatchPlace> + use<T> {
        0..self.entries.len() as WatchPlace
    }
}
