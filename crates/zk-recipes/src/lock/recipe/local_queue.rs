//! Orders this process's owners of one lock.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

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
    entries: BTreeMap<HoldNumber, (O, Option<W>)>,
    /// The current owner, and the number of its entries.
    current: Option<(O, usize)>,
    last: HoldNumber,
}

impl<O, W> Default for LocalQueue<O, W> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), current: None, last: 0 }
    }
}

impl<O: Copy + PartialEq, W> LocalQueue<O, W> {
    /// Enters the queue.
    pub(crate) fn enter(&mut self, owner: O) -> HoldNumber {
        self.last += 1;
        let (current, levels) = self.current.get_or_insert((owner, 0));
        if *current == owner {
            *levels += 1;
        }
        self.entries.insert(self.last, (owner, None));
        self.last
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
        match self.entries.get_mut(&ticket) {
            Some((owner, waiter)) if Some(*owner) != current => (false, waiter.replace(waker)),
            _ => (true, Some(waker)),
        }
    }

    /// Leaves the queue, at any time. Returns the waker of this entry. If that ends a hold, also
    /// returns the wakers of the next owner's entries.
    pub(crate) fn leave(&mut self, ticket: HoldNumber) -> (Option<W>, Option<Vec<W>>) {
        let Some((owner, waker)) = self.entries.remove(&ticket) else { return (None, None) };
        let Some((_, levels)) = self.current.as_mut().filter(|(current, _)| *current == owner)
        else {
            return (waker, None);
        };
        *levels -= 1;
        if *levels > 0 {
            return (waker, None);
        }
        let next = self.entries.values().next().map(|(next, _)| *next);
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
mod tests {
    use alloc::vec;

    use super::*;

    type Queue = LocalQueue<char, char>;

    /// Enters, and waits if necessary. Owners and wakers are letters.
    fn enter(queue: &mut Queue, owner: char) -> (HoldNumber, bool) {
        let ticket = queue.enter(owner);
        (ticket, queue.wait(ticket, owner).0)
    }

    /// Leaves, and returns the wakers of the next owner if that ends a hold.
    fn leave(queue: &mut Queue, ticket: HoldNumber) -> Option<Vec<char>> {
        queue.leave(ticket).1
    }

    #[test]
    fn owners_hold_in_the_order_in_which_they_entered() {
        let mut queue = Queue::default();
        let tickets = ['a', 'b', 'c'].map(|owner| enter(&mut queue, owner));
        assert_eq!(tickets.map(|(_, is_in)| is_in), [true, false, false]);
        assert_eq!(leave(&mut queue, tickets[0].0), Some(vec!['b']));
        assert_eq!(leave(&mut queue, tickets[1].0), Some(vec!['c']));
        assert!(queue.has_owner());
        assert_eq!(leave(&mut queue, tickets[2].0), Some(vec![]));
        assert!(!queue.has_owner());
        assert!(enter(&mut queue, 'b').1, "nobody is there");
    }

    #[test]
    fn a_hold_lasts_until_its_owner_has_left_as_often_as_it_entered() {
        let mut queue = Queue::default();
        let (outer, _) = enter(&mut queue, 'a');
        assert!(!enter(&mut queue, 'b').1);
        let (inner, is_in) = enter(&mut queue, 'a');
        assert!(is_in, "past all others, or it would wait for itself");
        // In any order.
        assert_eq!(leave(&mut queue, outer), None);
        let (innermost, is_in) = enter(&mut queue, 'a');
        assert!(is_in);
        assert_eq!(leave(&mut queue, innermost), None);
        assert_eq!(leave(&mut queue, inner), Some(vec!['b']));
    }

    #[test]
    fn a_try_admits_an_owner_only_if_it_need_not_wait() {
        let mut queue = Queue::default();
        assert_eq!(queue.admits('a'), Some(true));
        let (ticket, _) = enter(&mut queue, 'a');
        assert_eq!((queue.admits('a'), queue.admits('b')), (Some(false), None));
        leave(&mut queue, ticket);
        assert_eq!(queue.admits('b'), Some(true));
    }

    #[test]
    fn all_entries_of_an_owner_are_admitted_together() {
        let mut queue = Queue::default();
        let (first, _) = enter(&mut queue, 'a');
        let waiting = ['b', 'c', 'b'].map(|owner| enter(&mut queue, owner));
        assert!(waiting.iter().all(|(_, is_in)| !is_in));
        // An entry that has no waker yet is admitted all the same.
        let late = queue.enter('b');
        assert_eq!(leave(&mut queue, first), Some(vec!['b', 'b']));
        assert!(queue.wait(late, 'b').0);
        assert_eq!(leave(&mut queue, waiting[0].0), None);
        assert_eq!(leave(&mut queue, waiting[2].0), None);
        assert_eq!(leave(&mut queue, late), Some(vec!['c']));
    }

    #[test]
    fn an_entry_that_leaves_the_queue_is_skipped() {
        let mut queue = Queue::default();
        let (first, _) = enter(&mut queue, 'a');
        let (impatient, _) = enter(&mut queue, 'b');
        enter(&mut queue, 'c');
        assert_eq!(queue.leave(impatient), (Some('b'), None));
        assert_eq!(queue.leave(impatient), (None, None), "it is gone");
        assert_eq!(leave(&mut queue, first), Some(vec!['c']));
        assert_eq!(queue.entries.len(), 1, "nothing is kept of those that have left");
    }
}
