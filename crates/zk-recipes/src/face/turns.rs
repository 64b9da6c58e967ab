//! Who of one process comes to one lock when.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// A place among those who want the lock, or have it.
pub(crate) type Ticket = u64;

/// Owners take turns, in the order in which they came. While it is an owner's turn it may come in
/// as often as it likes, past all others; the turn is over when it has gone as often.
///
/// `W` is whatever wakes somebody who waits.
#[derive(Debug)]
pub(crate) struct Turns<O, W> {
    /// Everybody who has come and not gone. Those who wait have something to wake them.
    places: BTreeMap<Ticket, (O, Option<W>)>,
    /// Whose turn it is, and how many of the places are its own.
    current: Option<(O, usize)>,
    last: Ticket,
}

impl<O, W> Default for Turns<O, W> {
    fn default() -> Self {
        Self { places: BTreeMap::new(), current: None, last: 0 }
    }
}

impl<O: Copy + PartialEq, W> Turns<O, W> {
    /// `owner` comes. If it is its turn, it gets back what would have woken it.
    pub(crate) fn enter(&mut self, owner: O, waiter: W) -> (Ticket, Option<W>) {
        self.last += 1;
        let (current, levels) = self.current.get_or_insert((owner, 0));
        let (waits, comes_in) = if *current == owner {
            *levels += 1;
            (None, Some(waiter))
        } else {
            (Some(waiter), None)
        };
        self.places.insert(self.last, (owner, waits));
        (self.last, comes_in)
    }

    /// Whether `owner` would come in at once; and if so, whether as the first of its turn.
    pub(crate) fn admits(&self, owner: O) -> Option<bool> {
        match self.current {
            None => Some(true),
            Some((current, _)) => (current == owner).then_some(false),
        }
    }

    /// Somebody goes, whether it had its turn or not. If that ends a turn, these come in next;
    /// there are none when nobody waits.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> Option<Vec<W>> {
        let (owner, _) = self.places.remove(&ticket)?;
        let (_, levels) = self.current.as_mut().filter(|(current, _)| *current == owner)?;
        *levels -= 1;
        if *levels > 0 {
            return None;
        }
        self.current = None;
        let Some((next, _)) = self.places.values().next() else { return Some(Vec::new()) };
        let next = *next;
        let its = self.places.values_mut().filter(|(owner, _)| *owner == next);
        let woken: Vec<_> = its.filter_map(|(_, waiter)| waiter.take()).collect();
        self.current = Some((next, woken.len()));
        Some(woken)
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// Owners are letters, waiters numbers.
    fn enter(turns: &mut Turns<char, u32>, owner: char, waiter: u32) -> (Ticket, bool) {
        let (ticket, comes_in) = turns.enter(owner, waiter);
        assert!(comes_in.is_none_or(|came| came == waiter));
        (ticket, comes_in.is_some())
    }

    #[test]
    fn owners_take_turns_in_the_order_in_which_they_came() {
        let mut turns = Turns::default();
        let tickets = ['a', 'b', 'c'].map(|owner| enter(&mut turns, owner, owner as u32));
        assert_eq!(tickets.map(|(_, comes_in)| comes_in), [true, false, false]);
        assert_eq!(turns.leave(tickets[0].0), Some(vec!['b' as u32]));
        assert_eq!(turns.leave(tickets[1].0), Some(vec!['c' as u32]));
        assert_eq!(turns.leave(tickets[2].0), Some(vec![]));
        assert!(enter(&mut turns, 'b', 1).1, "nobody is there");
    }

    #[test]
    fn a_turn_lasts_until_its_owner_has_gone_as_often_as_it_came() {
        let mut turns = Turns::default();
        let (outer, _) = enter(&mut turns, 'a', 1);
        assert!(!enter(&mut turns, 'b', 2).1);
        let (inner, comes_in) = enter(&mut turns, 'a', 3);
        assert!(comes_in, "past all others, or it would wait for itself");
        // In any order.
        assert_eq!(turns.leave(outer), None);
        let (innermost, comes_in) = enter(&mut turns, 'a', 4);
        assert!(comes_in);
        assert_eq!(turns.leave(innermost), None);
        assert_eq!(turns.leave(inner), Some(vec![2]));
    }

    #[test]
    fn who_would_not_come_in_at_once_is_told_so() {
        let mut turns = Turns::default();
        assert_eq!(turns.admits('a'), Some(true));
        let (ticket, _) = enter(&mut turns, 'a', 1);
        assert_eq!((turns.admits('a'), turns.admits('b')), (Some(false), None));
        turns.leave(ticket);
        assert_eq!(turns.admits('b'), Some(true));
    }

    #[test]
    fn all_places_of_an_owner_come_in_together() {
        let mut turns = Turns::default();
        let (first, _) = enter(&mut turns, 'a', 1);
        for (owner, waiter) in [('b', 2), ('c', 3), ('b', 4)] {
            assert!(!enter(&mut turns, owner, waiter).1);
        }
        assert_eq!(turns.leave(first), Some(vec![2, 4]));
    }

    #[test]
    fn whoever_goes_before_its_turn_is_passed_over() {
        let mut turns = Turns::default();
        let (first, _) = enter(&mut turns, 'a', 1);
        let (impatient, _) = enter(&mut turns, 'b', 2);
        enter(&mut turns, 'c', 3);
        assert_eq!(turns.leave(impatient), None);
        assert_eq!(turns.leave(impatient), None, "it is gone");
        assert_eq!(turns.leave(first), Some(vec![3]));
        assert_eq!(turns.places.len(), 1, "nothing is kept of those who have gone");
    }
}
