//! Orders this process's owners of one lock.

use alloc::vec::Vec;

use crate::numbered::Numbered;

/// Identifies a hold of the lock, or a caller that waits for one.
pub(crate) type HoldNumber = u64;

/// Owners hold the lock one after another, in the order in which they first entered.
///
/// The current owner may enter again at any time, ahead of all others. Its hold ends when it has
/// left as often as it has entered.
///
/// `W` wakes a caller that waits.
#[derive(Debug)]
pub(crate) struct LocalQueue<O, W> {
    /// All entries that have not left, with the wakers of those that wait.
    entries: Numbered<(O, Option<W>)>,
    /// The current owner, and the number of its entries.
    current: Option<(O, usize)>,
}

impl<O, W> Default for LocalQueue<O, W> {
    fn default() -> Self {
        Self { entries: Numbered::new(), current: None }
    }
}

impl<O: Copy + PartialEq, W> LocalQueue<O, W> {
    /// Enters the queue.
    pub(crate) fn enter(&mut self, owner: O) -> HoldNumber {
        let (current, levels) = self.current.get_or_insert((owner, 0));
        if *current == owner {
            *levels += 1;
        }
        self.entries.push((owner, None))
    }

    /// Returns whether `owner` would hold the lock at once, and if so, whether with the first entry
    /// of its hold.
    pub(crate) fn admits(&self, owner: O) -> Option<bool> {
        match self.current {
            None => Some(true),
            Some((current, _)) => (current == owner).then_some(false),
        }
    }

    /// Returns whether this entry holds the lock. If not, `waker` replaces its waker. The caller
    /// must drop the waker that is returned.
    pub(crate) fn wait(&mut self, ticket: HoldNumber, waker: W) -> (bool, Option<W>) {
        let current = self.current.map(|(owner, _)| owner);
        match self.entries.get_mut(ticket) {
            Some((owner, waiter)) if Some(*owner) != current => (false, waiter.replace(waker)),
            _ => (true, Some(waker)),
        }
    }

    /// Leaves the queue, at any time. Returns the waker of this entry. If that ends a hold, also
    /// returns the wakers of the next owner's entries.
    pub(crate) fn leave(&mut self, ticket: HoldNumber) -> (Option<W>, Option<Vec<W>>) {
        let Some((owner, waker)) = self.entries.remove(ticket) else { return (None, None) };
        let Some((_, levels)) = self.current.as_mut().filter(|(current, _)| *current == owner)
        else {
            return (waker, None);
        };
        *levels -= 1;
        if *levels > 0 {
            return (waker, None);
        }
        let next = self.entries.iter().next().map(|(_, (next, _))| *next);
        let is_next = |(owner, _): &&mut (O, _)| Some(*owner) == next;
        let (mut levels, mut wakers) = (0, Vec::new());
        for (_, waker) in self.entries.values_mut().filter(is_next) {
            levels += 1;
            wakers.extend(waker.take());
        }
        self.current = next.map(|next| (next, levels));
        (waker, Some(wakers))
    }

    /// Returns whether an owner holds the lock.
    pub(crate) const fn has_owner(&self) -> bool {
        self.current.is_some()
    }
}

#[cfg(test)]
mod tests;
