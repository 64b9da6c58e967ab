//! Queues that take little memory while they are short.

use alloc::collections::{VecDeque, vec_deque};
use core::ops::{Deref, DerefMut};

use super::growth::room_for_growth;

#[derive(Clone, Debug)]
pub(super) struct ShortQueue<E>(VecDeque<E>);

impl<E> ShortQueue<E> {
    pub(super) const fn new() -> Self {
        Self(VecDeque::new())
    }

    pub(super) fn push_back(&mut self, entry: E) {
        // `VecDeque` begins with room for four. Boards rarely have more than one entry.
        if !cfg!(feature = "full") && self.len() == self.capacity() {
            let room = room_for_growth(self.len());
            self.0.reserve_exact(room);
        }
        self.0.push_back(entry);
    }

    /// Removes an entry, which is among the first ones. Moving those before it is less code than
    /// `VecDeque::remove`.
    pub(super) fn remove(&mut self, place: usize) -> Option<E> {
        let mut removed = self.pop_front()?;
        for entry in self.iter_mut().take(place) {
            core::mem::swap(entry, &mut removed);
        }
        Some(removed)
    }

    /// Frees the capacity of an empty queue, if it takes more than `max_kept` bytes.
    pub(super) fn shrink(&mut self, max_kept: usize) {
        if self.is_empty() && self.capacity() * size_of::<E>() > max_kept {
            *self = Self::new();
        }
    }
}

impl<E> Default for ShortQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Deref for ShortQueue<E> {
    type Target = VecDeque<E>;

    fn deref(&self) -> &VecDeque<E> {
        &self.0
    }
}

impl<E> DerefMut for ShortQueue<E> {
    fn deref_mut(&mut self) -> &mut VecDeque<E> {
        &mut self.0
    }
}

impl<E> IntoIterator for ShortQueue<E> {
    type Item = E;
    type IntoIter = vec_deque::IntoIter<E>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
