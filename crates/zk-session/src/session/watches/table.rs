//! The watches of a session, by class and path: a hash table with chains.

use crate::sync::Arc;
use alloc::vec::Vec;

use super::super::hasher::{self, Hasher};
use super::Class;
use super::slab::{NOWHERE, Slab, WatchPlace};
use super::slot::{WatchSlot, visits};

#[derive(Clone, Debug)]
pub(super) struct Table {
    slots: Slab<WatchSlot>,
    /// The first slot of each chain. Their number is a power of two, or zero.
    chains: Vec<WatchPlace>,
    /// How many slots each class has.
    counts: [usize; 4],
    /// Secret, so that nobody can choose names of nodes that share one chain.
    seed: u64,
}

impl Table {
    pub(super) const fn new(seed: u64) -> Self {
        Self { slots: Slab::new(), chains: Vec::new(), counts: [0; 4], seed }
    }

    /// Removes all slots.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.seed);
    }

    /// Returns the chain of a hash, if there are chains.
    fn chain(&mut self, hash: u32) -> Option<&mut WatchPlace> {
        let mask = self.chains.len().wrapping_sub(1);
        self.chains.get_mut(hash as usize & mask)
    }

    pub(super) fn get(&self, place: WatchPlace) -> Option<&WatchSlot> {
        self.slots.get(place)
    }

    pub(super) fn get_mut(&mut self, place: WatchPlace) -> Option<&mut WatchSlot> {
        self.slots.get_mut(place)
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    pub(super) fn count(&self, class: Class) -> usize {
        self.counts[class as usize]
    }

    pub(super) fn find(&self, class: Class, path: &str) -> Option<WatchPlace> {
        if self.count(class) == 0 {
            return None;
        }
        self.find_hashed(class, path, self.hash(path))
    }

    fn hash(&self, path: &str) -> u32 {
        hasher::hash(path.as_bytes(), self.seed) as u32
    }

    /// Calls `found` with the slots of a class on the root, on each other ancestor of a path, and on
    /// the path itself, in this order.
    pub(super) fn lineage(&self, class: Class, path: &str, found: &mut dyn FnMut(&WatchSlot)) {
        let mut hasher = Hasher::new(path, self.seed);
        for end in 1..=path.len() {
            let is_whole = path.as_bytes().get(end).is_none_or(|next| *next == b'/');
            if (is_whole || end == 1)
                && let Some((path, hash)) = hasher.prefix(end)
                && let Some(place) = self.find_hashed(class, path, hash as u32)
                && let Some(slot) = self.slots.get(place)
            {
                found(slot);
            }
        }
    }

    fn find_hashed(&self, class: Class, path: &str, hash: u32) -> Option<WatchPlace> {
        let mask = self.chains.len().wrapping_sub(1);
        let mut place = *self.chains.get(hash as usize & mask)?;
        while let Some(slot) = self.slots.get(place) {
            visits::count();
            if slot.hash == hash && slot.class == class && *slot.path == *path {
                return Some(place);
            }
            place = slot.next;
        }
        None
    }

    /// Returns the slot of a class and a path, which may be a new one.
    pub(super) fn find_or_insert(&mut self, class: Class, path: &str) -> WatchPlace {
        let hash = self.hash(path);
        if let Some(place) = self.find_hashed(class, path, hash) {
            return place;
        }
        if self.slots.len() == self.chains.len() {
            self.grow();
        }
        self.counts[class as usize] += 1;
        let place = self.slots.insert(WatchSlot::new(class, Arc::from(path), hash));
        self.link(place, hash);
        place
    }

    fn grow(&mut self) {
        let len = (2 * self.chains.len()).max(1);
        self.chains = Vec::new();
        self.chains.resize(len, NOWHERE);
        for place in self.slots.places() {
            visits::count();
            if let Some(hash) = self.slots.get(place).map(|slot| slot.hash) {
                self.link(place, hash);
            }
        }
    }

    fn link(&mut self, place: WatchPlace, hash: u32) {
        let next = self.chain(hash).map(|first| core::mem::replace(first, place));
        if let Some(slot) = self.slots.get_mut(place) {
            slot.next = next.unwrap_or(NOWHERE);
        }
    }

    pub(super) fn remove(&mut self, place: WatchPlace) -> Option<WatchSlot> {
        let removed = self.slots.remove(place)?;
        self.counts[removed.class as usize] -= 1;
        if self.slots.len() == 0 {
            self.chains = Vec::new();
            return Some(removed);
        }
        let first = self.chain(removed.hash)?;
        if *first == place {
            *first = removed.next;
            return Some(removed);
        }
        let mut before = *first;
        while let Some(slot) = self.slots.get_mut(before) {
            visits::count();
            if slot.next == place {
                slot.next = removed.next;
                break;
            }
            before = slot.next;
        }
        Some(removed)
    }

    /// Returns the slots of a class, in an order that depends on the past alone.
    pub(super) fn of_class(&self, class: Class) -> impl Iterator<Item = &WatchSlot> {
        let left = if self.count(class) > 0 { usize::MAX } else { 0 };
        self.slots.values().take(left).filter(move |slot| slot.class == class)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut WatchSlot> {
        self.slots.values_mut()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }
}

#[cfg(test)]
mod tests;
