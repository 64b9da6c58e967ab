//! A set of nodes, known by hashes.

use alloc::vec::Vec;

/// A hash table with open addressing. A `BTreeSet` takes as much memory, and ten times the code.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeSet {
    /// The hashes, or 0 at free places. The number of places is a power of two, or zero.
    places: Vec<u64>,
    len: usize,
}

impl NodeSet {
    /// Returns the place of a hash, or else the free place for it.
    fn place(&mut self, hash: u64) -> Option<&mut u64> {
        let at = self.find(hash);
        self.places.get_mut(at)
    }

    fn find(&self, hash: u64) -> usize {
        let mut at = hash as usize & self.mask();
        while self.places.get(at).is_some_and(|other| *other != 0 && *other != hash) {
            at = (at + 1) & self.mask();
        }
        at
    }

    fn mask(&self) -> usize {
        self.places.len().wrapping_sub(1)
    }

    /// Adds a hash, which is not 0. Returns whether it is new.
    pub(super) fn insert(&mut self, hash: u64) -> bool {
        if self.len >= self.places.len() / 4 * 3 {
            let more = alloc::vec![0; (2 * self.places.len()).max(8)];
            core::mem::replace(&mut self.places, more).into_iter().for_each(|hash| self.put(hash));
        }
        let is_new = self.place(hash).is_some_and(|place| *place == 0);
        self.len += usize::from(is_new);
        self.put(hash);
        is_new
    }

    fn put(&mut self, hash: u64) {
        if let Some(place) = self.place(hash) {
            *place = hash;
        }
    }

    /// Removes a hash, which is not 0. Returns whether the set has had it.
    pub(super) fn remove(&mut self, hash: u64) -> bool {
        let mut at = self.find(hash);
        if self.places.get(at).is_none_or(|place| *place == 0) {
            return false;
        }
        self.len -= 1;
        if self.len == 0 {
            *self = Self::default();
            return true;
        }
        // Those behind it, up to the next free place, may belong to places before theirs.
        while let Some(place) = self.places.get_mut(at)
            && *place != 0
        {
            let moved = core::mem::take(place);
            if moved != hash {
                self.put(moved);
            }
            at = (at + 1) & self.mask();
        }
        true
    }
}

#[cfg(test)]
mod tests;
