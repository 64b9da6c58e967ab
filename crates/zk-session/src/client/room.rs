//! The queue of callers that wait for room.

use alloc::collections::VecDeque;
use core::task::Waker;

use crate::dispatch::Wakers;

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
        match self.place(number) {
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
        let place = self.place(ticket.number?).ok()?;
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
        self.woken += self.waiting.len();
        wakers.extend(core::mem::take(&mut self.waiting).into_iter().map(|(_, waker)| waker));
    }

    /// Records that the owner of `ticket` looks. Returns whether it was woken for that.
    fn looks(&mut self, ticket: &RoomTicket) -> bool {
        let was_woken =
            ticket.is_queued && ticket.number.is_some_and(|number| self.place(number).is_err());
        self.woken -= usize::from(was_woken);
        was_woken
    }

    /// Returns the place of a waiter, or the place where to insert it.
    fn place(&self, number: u64) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use alloc::sync::Arc;
    use alloc::task::Wake;
    use alloc::vec::Vec;
    use core::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[derive(Default)]
    struct Flag(AtomicBool);

    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    #[derive(Default)]
    struct Waiter {
        arrival: usize,
        ticket: RoomTicket,
        flag: Arc<Flag>,
    }

    /// A model: waiters that look in any order after they were woken, others that use room without
    /// waiting, and replies that make room.
    struct World {
        limit: usize,
        pending: usize,
        queue: RoomQueue,
        waiters: VecDeque<Waiter>,
        arrivals: usize,
        looks: usize,
        random: fastrand::Rng,
    }

    impl World {
        fn new(seed: u64) -> Self {
            let mut random = fastrand::Rng::with_seed(seed);
            Self {
                limit: random.usize(1..100),
                pending: 0,
                queue: RoomQueue::default(),
                waiters: VecDeque::new(),
                arrivals: 0,
                looks: 0,
                random,
            }
        }

        fn room(&self) -> usize {
            self.limit - self.pending
        }

        fn admit(&mut self, used: usize) {
            let mut wakers = Wakers::default();
            self.queue.admit(self.room() - used, &mut wakers);
            wakers.take().for_each(Waker::wake);
        }

        /// Lets a waiter look, as the router does. Returns whether it enters.
        fn look(&mut self, waiter: &mut Waiter) -> bool {
            self.looks += 1;
            if self.queue.try_enter(&mut waiter.ticket, self.room()) {
                self.admit(usize::from(self.pending > 0));
                // Not every woken waiter uses the room.
                self.pending += usize::from(self.random.u8(..) > 50);
                return true;
            }
            self.queue.wait(&mut waiter.ticket, waiter.flag.clone().into());
            false
        }

        fn arrive(&mut self) {
            self.arrivals += 1;
            let mut waiter = Waiter { arrival: self.arrivals, ..Waiter::default() };
            if !self.look(&mut waiter) {
                self.waiters.push_back(waiter);
            }
        }

        fn woken(&self) -> Vec<usize> {
            let is_woken = |at: &usize| self.waiters[*at].flag.0.load(Ordering::Relaxed);
            (0..self.waiters.len()).filter(is_woken).collect()
        }

        fn look_if_woken(&mut self) {
            let woken = self.woken();
            if !woken.is_empty() {
                let mut waiter =
                    self.waiters.remove(woken[self.random.usize(..woken.len())]).unwrap();
                waiter.flag.0.store(false, Ordering::Relaxed);
                if !self.look(&mut waiter) {
                    let at = self.waiters.partition_point(|other| other.arrival < waiter.arrival);
                    self.waiters.insert(at, waiter);
                }
            }
        }

        fn give_up(&mut self) {
            if !self.waiters.is_empty() {
                let mut waiter =
                    self.waiters.remove(self.random.usize(..self.waiters.len())).unwrap();
                self.queue.leave(&mut waiter.ticket);
                self.admit(0);
            }
        }

        fn step(&mut self) {
            match self.random.u8(..8) {
                0..3 => self.arrive(),
                3..5 => self.look_if_woken(),
                5 if self.pending > 0 => {
                    self.pending -= self.random.usize(1..=self.pending);
                    self.admit(0);
                }
                6 if self.room() > 0 && self.random.bool() => self.pending += 1,
                7 => self.give_up(),
                _ => {}
            }
        }
    }

    #[test]
    fn no_waiter_sleeps_while_there_is_room_and_no_pending_reply() {
        for seed in 0..300 {
            let mut world = World::new(seed);
            for _ in 0..500 {
                world.step();
                assert!(world.woken().len() <= WOKEN_AT_ONCE, "seed {seed}");
            }
            while world.pending > 0 || !world.woken().is_empty() {
                if world.woken().is_empty() {
                    world.pending -= 1;
                    world.admit(0);
                }
                world.look_if_woken();
            }
            assert!(world.waiters.is_empty(), "seed {seed}");
            assert_eq!(world.queue.woken, 0, "seed {seed}");
        }
    }

    #[test]
    fn waiters_enter_in_the_order_of_their_arrival() {
        let mut queue = RoomQueue::default();
        let mut wakers = Wakers::default();
        let mut tickets = [(); 5].map(|()| RoomTicket::default());
        for ticket in &mut tickets {
            assert!(!queue.try_enter(ticket, 0));
            queue.wait(ticket, Waker::noop().clone());
        }
        queue.admit(2, &mut wakers);
        assert_eq!(queue.waiting.len(), 3);
        let [first, second, third, ..] = &mut tickets;
        // Another caller was faster.
        assert!(!queue.try_enter(first, 0));
        queue.wait(first, Waker::noop().clone());
        assert!(!queue.try_enter(second, 0));
        queue.wait(second, Waker::noop().clone());
        queue.admit(1, &mut wakers);
        assert!(!queue.try_enter(third, 1), "not woken");
        assert!(queue.try_enter(first, 1));
        // Refused again, it is ahead of all others.
        queue.wait(first, Waker::noop().clone());
        queue.admit(1, &mut wakers);
        assert!(queue.try_enter(first, 1));
    }
}
