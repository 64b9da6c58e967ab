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
