//! The queue of callers that wait for room.

use alloc::collections::VecDeque;
use core::task::Waker;

use crate::dispatch::effects::Wakers;

/// The maximum number of waiters woken at once. There may be room for fewer: the size of a request
/// is not known before it is made.
const WOKEN_AT_ONCE: usize = 32;

/// Wakes waiters in the order of their arrival, as many as there is room for.
///
/// If a caller that did not wait takes the room of a woken waiter, the waiter keeps its place
/// in the queue.
#[derive(Debug, Default)]
pub(crate) struct RoomQueue {
    last: u64,
    /// By their numbers. A tree would let a waiter in the middle leave sooner, and takes 5 kB of code.
    waiting: VecDeque<(u64, Waker)>,
    /// The number of waiters that were woken and have not looked yet.
    woken: usize,
}

/// A place in a [`RoomQueue`], the same until its owner stops trying.
#[derive(Debug, Default)]
pub(crate) struct RoomTicket {
    number: Option<u64>,
    is_queued: bool,
}

impl RoomTicket {
    /// Returns whether it must [leave](RoomQueue::leave) the queue before it is dropped.
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued
    }
}

impl RoomQueue {
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether `ticket` may enter, given room for this many requests.
    pub(crate) fn try_enter(&mut self, ticket: &mut RoomTicket, room: usize) -> bool {
        let was_woken = self.looks(ticket);
        let is_ahead = |(first, _): &_| ticket.number.is_some_and(|number| number < *first);
        let is_first = !ticket.is_queued && self.waiting.front().is_none_or(is_ahead);
        let enters = was_woken && room > 0 || is_first && room > self.woken;
        if enters {
            ticket.is_queued = false;
        }
        enters
    }

    /// Queues `ticket`, or renews its waker. Returns the waker it had, to be dropped without the
    /// session's lock.
    pub(crate) fn wait(&mut self, ticket: &mut RoomTicket, waker: Waker) -> Option<Waker> {
        let last = &mut self.last;
        let number = *ticket.number.get_or_insert_with(|| {
            *last += 1;
            *last
        });
        ticket.is_queued = true;
        match place(&self.waiting, number) {
            Ok(place) => Some(core::mem::replace(&mut self.waiting[place].1, waker)),
            Err(place) => {
                self.waiting.insert(place, (number, waker));
                None
            }
        }
    }

    /// Takes `ticket` out of the queue. Returns its waker, to be dropped without the session's lock.
    pub(crate) fn leave(&mut self, ticket: &mut RoomTicket) -> Option<Waker> {
        self.looks(ticket);
        ticket.is_queued = false;
        let place = place(&self.waiting, ticket.number?).ok()?;
        self.waiting.remove(place).map(|(_, waker)| waker)
    }

    /// Wakes as many waiters as there is room for.
    pub(crate) fn admit(&mut self, room: usize, wakers: &mut Wakers) {
        while self.woken < room.min(WOKEN_AT_ONCE)
            && let Some((_, waker)) = self.waiting.pop_front()
        {
            self.woken += 1;
            wakers.push(waker);
        }
    }

    /// Wakes all waiters, since there will never be room.
    pub(crate) fn dismiss(&mut self, wakers: &mut Wakers) {
        while let Some((_, waker)) = self.waiting.pop_front() {
            self.woken += 1;
            wakers.push(waker);
        }
        self.waiting = VecDeque::new();
    }

    /// Records that the owner of `ticket` looks. Returns whether it was woken for that.
    fn looks(&mut self, ticket: &RoomTicket) -> bool {
        let was_woken = ticket.is_queued
            && ticket.number.is_some_and(|number| place(&self.waiting, number).is_err());
        self.woken -= usize::from(was_woken);
        was_woken
    }
}

/// Returns the place of a waiter by its number, or the place where to insert it.
pub(crate) fn place(waiting: &VecDeque<(u64, Waker)>, number: u64) -> Result<usize, usize> {
    waiting.binary_search_by_key(&number, |(number, _)| *number)
}

#[cfg(test)]
mod tests;
