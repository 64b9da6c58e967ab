//! Decides which attempts of one process take turns with one node.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::mem;
use std::time::Instant;

use crate::attempt::LockMode;
use crate::options::HandOver;

#[cfg(test)]
mod tests;

/// Identifies an attempt.
pub(crate) type Ticket = u64;

/// The attempts of one process on one lock, in the order in which they came.
///
/// The first waiter, the *front*, gets one node for all. A holder that releases the lock passes it to
/// the front, until the bound is reached. Then the node is deleted, and the front gets another one, at
/// the end of ZooKeeper's queue. Readers hold one node together.
///
/// A node that the cohort no longer uses is *retired*. Its holders keep it, nobody joins them.
///
/// `H` is a share of a held node, `W` wakes an attempt. Both are returned in [`After`] and never
/// dropped here, since that runs other code.
#[derive(Clone, Debug)]
pub(crate) struct Cohort<H, W> {
    bound: HandOver,
    /// The attempts that wait, or have not noticed their turn yet.
    entries: BTreeMap<Ticket, Entry<H, W>>,
    node: Option<Node<H>>,
    last_ticket: Ticket,
    last_node: u64,
}

#[derive(Clone, Debug)]
struct Entry<H, W> {
    mode: LockMode,
    turn: Option<Turn<H>>,
    waker: Option<W>,
}

/// The node with which the lock is held.
#[derive(Clone, Debug)]
struct Node<H> {
    id: u64,
    mode: LockMode,
    held: H,
    since: Instant,
    /// How many turns were given.
    turns: u32,
    holders: usize,
}

/// The right to hold the lock.
#[derive(Clone, Debug)]
pub(crate) struct Turn<H> {
    node: u64,
    /// Counts the turns of this node, from 0.
    pub(crate) number: u32,
    pub(crate) held: H,
}

/// What an attempt does next.
#[derive(Clone, Debug)]
pub(crate) enum Next<H> {
    /// It holds the lock, and has left the queue.
    Hold(Turn<H>),
    /// It is the front, and gets a node.
    Attempt,
    Wait,
}

/// What is left to do once the cohort is unlocked.
#[derive(Clone, Debug)]
#[must_use]
pub(crate) struct After<H, W> {
    pub(crate) wake: Vec<W>,
    /// Shares that are no longer used. The last share of a node deletes it.
    pub(crate) unused: Vec<H>,
    pub(crate) unused_wakers: Vec<W>,
}

impl<H, W> Default for After<H, W> {
    fn default() -> Self {
        Self { wake: Vec::new(), unused: Vec::new(), unused_wakers: Vec::new() }
    }
}

impl<H> Node<H> {
    /// Returns whether another turn is within the bound.
    fn is_open(&self, bound: HandOver, now: Instant) -> bool {
        self.turns < bound.turns && now.saturating_duration_since(self.since) < bound.time
    }
}

impl<H: Clone, W> Cohort<H, W> {
    pub(crate) const fn new(bound: HandOver) -> Self {
        Self { bound, entries: BTreeMap::new(), node: None, last_ticket: 0, last_node: 0 }
    }

    /// Returns how many attempts wait.
    pub(crate) fn waiting(&self) -> usize {
        self.entries.values().filter(|entry| entry.turn.is_none()).count()
    }

    /// Enters at the end.
    pub(crate) fn enter(&mut self, mode: LockMode) -> Ticket {
        self.last_ticket += 1;
        self.entries.insert(self.last_ticket, Entry { mode, turn: None, waker: None });
        self.last_ticket
    }

    /// Returns whether an attempt that enters now need not wait for another one of this process.
    pub(crate) fn admits(&self, mode: LockMode) -> bool {
        let shares = |node: &Node<H>| (node.mode, mode) == (LockMode::Shared, LockMode::Shared);
        self.front().is_none() && self.node.as_ref().is_none_or(shares)
    }

    /// Decides what this attempt does. `waker` is kept if it waits, or makes an attempt.
    pub(crate) fn poll(
        &mut self,
        ticket: Ticket,
        now: Instant,
        waker: W,
    ) -> (Next<H>, After<H, W>) {
        let mut after = After::default();
        let next = self.decide(ticket, now, &mut after);
        match (&next, self.entries.get_mut(&ticket)) {
            (Next::Attempt | Next::Wait, Some(entry)) => {
                after.unused_wakers.extend(entry.waker.replace(waker));
            }
            _ => after.unused_wakers.push(waker),
        }
        (next, after)
    }

    fn decide(&mut self, ticket: Ticket, now: Instant, after: &mut After<H, W>) -> Next<H> {
        if self.front().is_some_and(|(front, _)| front == ticket) {
            self.serve_readers(now, after);
        }
        match (self.front(), self.entries.get(&ticket)) {
            (_, Some(Entry { turn: Some(_), .. })) => self.take_turn(ticket, after),
            (Some((front, mode)), _) if front == ticket => {
                if !self.waits_for_turn(mode) {
                    self.retire(after);
                }
                if self.node.is_some() { Next::Wait } else { Next::Attempt }
            }
            _ => Next::Wait,
        }
    }

    fn take_turn(&mut self, ticket: Ticket, after: &mut After<H, W>) -> Next<H> {
        let Some(entry) = self.entries.remove(&ticket) else { return Next::Wait };
        after.unused_wakers.extend(entry.waker);
        entry.turn.map_or(Next::Wait, Next::Hold)
    }

    /// The front has acquired a node, and holds the lock with it.
    pub(crate) fn acquired(
        &mut self,
        ticket: Ticket,
        now: Instant,
        held: H,
    ) -> (Turn<H>, After<H, W>) {
        let mut after = After::default();
        self.retire(&mut after);
        self.last_node += 1;
        let entry = self.entries.remove(&ticket);
        let mode = entry.as_ref().map_or(LockMode::Exclusive, |entry| entry.mode);
        after.unused_wakers.extend(entry.and_then(|entry| entry.waker));
        let turn = Turn { node: self.last_node, number: 0, held: held.clone() };
        self.node = Some(Node { id: self.last_node, mode, held, since: now, turns: 1, holders: 1 });
        self.serve_readers(now, &mut after);
        self.wake_front(&mut after);
        (turn, after)
    }

    /// A holder leaves. The lock is passed on if it `may` be. Returns whether the cohort keeps the
    /// node.
    pub(crate) fn leave(&mut self, node: u64, now: Instant, may: bool) -> (bool, After<H, W>) {
        let mut after = After::default();
        let kept = self.end_turn(node, now, may, &mut after);
        (kept, after)
    }

    fn end_turn(&mut self, id: u64, now: Instant, may: bool, after: &mut After<H, W>) -> bool {
        let Some(node) = self.node.as_mut().filter(|node| node.id == id) else { return false };
        node.holders -= 1;
        if node.holders > 0 {
            return true;
        }
        let (mode, is_open) = (node.mode, node.is_open(self.bound, now));
        let passes = may && is_open && self.front().is_some_and(|(_, front)| front == mode);
        if passes {
            self.serve_front(after);
            self.serve_readers(now, after);
        } else {
            self.retire(after);
        }
        self.wake_front(after);
        passes
    }

    /// An attempt gives up, at any time. If it has a turn that it has not noticed, it passes it on
    /// if it `may`.
    pub(crate) fn withdraw(&mut self, ticket: Ticket, now: Instant, may: bool) -> After<H, W> {
        let mut after = After::default();
        let was_front = self.front().is_some_and(|(front, _)| front == ticket);
        let Some(entry) = self.entries.remove(&ticket) else { return after };
        after.unused_wakers.extend(entry.waker);
        if let Some(turn) = entry.turn {
            self.end_turn(turn.node, now, may, &mut after);
            after.unused.push(turn.held);
        } else if was_front {
            // It may have been woken because of a loss, and looks no more.
            after.wake.extend(self.front_waker());
        }
        after
    }

    /// The lock is lost. Turns that were not noticed yet are not taken.
    pub(crate) fn lose(&mut self) -> After<H, W> {
        let mut after = After::default();
        let Some(id) = self.node.as_ref().map(|node| node.id) else { return after };
        for entry in self.entries.values_mut() {
            after.unused.extend(entry.turn.take_if(|turn| turn.node == id).map(|turn| turn.held));
        }
        self.retire(&mut after);
        self.wake_front(&mut after);
        after
    }

    /// A holder keeps this node for itself.
    pub(crate) fn take_away(&mut self, node: u64) -> After<H, W> {
        let mut after = After::default();
        if self.node.as_ref().is_some_and(|current| current.id == node) {
            self.retire(&mut after);
            self.wake_front(&mut after);
        }
        after
    }

    /// Returns the node with which the lock is held.
    pub(crate) fn held(&self) -> Option<&H> {
        self.node.as_ref().map(|node| &node.held)
    }

    /// Returns the mode of the front.
    pub(crate) fn front_mode(&self) -> Option<LockMode> {
        self.front().map(|(_, mode)| mode)
    }

    /// Takes the waker of the front, which then looks again.
    pub(crate) fn front_waker(&mut self) -> Option<W> {
        let (front, _) = self.front()?;
        self.entries.get_mut(&front)?.waker.take()
    }

    /// Returns the first attempt that has no turn.
    fn front(&self) -> Option<(Ticket, LockMode)> {
        let mut entries = self.entries.iter().filter(|(_, entry)| entry.turn.is_none());
        entries.next().map(|(ticket, entry)| (*ticket, entry.mode))
    }

    /// Returns whether a front of this mode waits for the holder of the node. Otherwise it does not
    /// wait here, but in ZooKeeper's queue.
    fn waits_for_turn(&self, mode: LockMode) -> bool {
        let exclusive = LockMode::Exclusive;
        self.node.as_ref().is_some_and(|node| (node.mode, mode) == (exclusive, exclusive))
    }

    /// Readers join the readers that hold the lock, up to the next writer.
    fn serve_readers(&mut self, now: Instant, after: &mut After<H, W>) {
        let (bound, shared) = (self.bound, LockMode::Shared);
        while self.node.as_ref().is_some_and(|node| node.mode == shared && node.is_open(bound, now))
            && self.front_mode() == Some(shared)
        {
            self.serve_front(after);
        }
    }

    /// The front gets the next turn of the node.
    fn serve_front(&mut self, after: &mut After<H, W>) {
        let front = self.front();
        let Some((front, node)) = front.zip(self.node.as_mut()) else { return };
        if let Some(entry) = self.entries.get_mut(&front.0) {
            entry.turn = Some(Turn { node: node.id, number: node.turns, held: node.held.clone() });
            node.turns += 1;
            node.holders += 1;
            after.wake.extend(mem::take(&mut entry.waker));
        }
    }

    /// Wakes the front, unless it waits for a turn.
    fn wake_front(&mut self, after: &mut After<H, W>) {
        if self.front_mode().is_some_and(|mode| !self.waits_for_turn(mode)) {
            after.wake.extend(self.front_waker());
        }
    }

    fn retire(&mut self, after: &mut After<H, W>) {
        after.unused.extend(self.node.take().map(|node| node.held));
    }
}

impl<H> Turn<H> {
    /// Returns the number of the node within the cohort.
    pub(crate) const fn node(&self) -> u64 {
        self.node
    }
}
