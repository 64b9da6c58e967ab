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
            let mut waiter = self.waiters.remove(woken[self.random.usize(..woken.len())]).unwrap();
            waiter.flag.0.store(false, Ordering::Relaxed);
            if !self.look(&mut waiter) {
                let at = self.waiters.partition_point(|other| other.arrival < waiter.arrival);
                self.waiters.insert(at, waiter);
            }
        }
    }

    fn give_up(&mut self) {
        if !self.waiters.is_empty() {
            let mut waiter = self.waiters.remove(self.random.usize(..self.waiters.len())).unwrap();
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
