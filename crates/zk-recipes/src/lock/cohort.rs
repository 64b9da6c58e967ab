//! Decides which attempts of one process take turns with one node.

use alloc::vec::Vec;
use core::mem;
use core::time::Duration;

use zk_session::time::Instant;

use crate::attempt::LockMode;
use crate::numbered::Numbered;

#[cfg(test)]
mod tests;

/// How long the attempts of one process keep a node; see
/// [`Options::local_hand_over`](crate::Options::local_hand_over).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandOver {
    /// The number of turns with one node. The default is 64.
    pub turns: u32,
    /// The time after which no other turn begins. The default is 100 ms.
    pub time: Duration,
}

impl Default for HandOver {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl HandOver {
    /// The default: 64 turns or 100 ms, whichever ends first.
    pub const DEFAULT: Self = Self { turns: 64, time: Duration::from_millis(100) };

    /// Sets the number of turns. Every node has at least one.
    #[must_use]
    pub const fn turns(self, turns: u32) -> Self {
        Self { turns, ..self }
    }

    /// Sets the time after which no other turn begins.
    #[must_use]
    pub const fn time(self, time: Duration) -> Self {
        Self { time, ..self }
    }
}

/// Identifies an attempt of a [`Cohort`].
pub type Ticket = u64;

/// What is known of a lock that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Standing {
    /// It is held, and nobody of another process is known to wait.
    Held,
    /// It is held, and somebody of another process waits. Needed only if idle locks are kept.
    Contended,
    /// It is held, and has been idle for the time to keep it. Report this once; it has no effect
    /// while the lock is in use.
    Late,
    /// Its present holders keep it, and it is not passed on: it is suspended, or asked for.
    Withheld,
    /// It is no longer held.
    Lost,
}

/// The attempts of one process on one lock, in the order in which they came.
///
/// The first waiter, the *front*, gets one node for all. A holder that releases the lock passes it to
/// the front, until the bound is reached. Then the node is deleted, and the front gets another one, at
/// the end of ZooKeeper's queue. Readers hold one node together.
///
/// If idle locks are kept, the bound does not count before somebody of another process waits. Until
/// then, a node that is released while nobody waits stays for the next attempt, until it is
/// [late](Standing::Late).
///
/// A node that the cohort no longer uses is *retired*. Its holders keep it, nobody joins them.
///
/// It has no clock, and does nothing by itself. Before each other call, report with
/// [`update`](Self::update) what is known of the node that is [held](Self::held). Also do so when that
/// changes.
///
/// `H` is a share of a held node: delete the node when the last share is dropped. `W` wakes an attempt.
/// `A` is an attempt with a node in ZooKeeper's queue. All are returned in [`After`] and never dropped
/// here, since that runs other code.
#[derive(Clone, Debug)]
pub struct Cohort<H, W, A> {
    bound: HandOver,
    keeps_idle: bool,
    /// The attempts that wait, or have not noticed their turn yet.
    entries: Numbered<Entry<H, W>>,
    node: Option<CohortNode<H>>,
    /// A front that has given up leaves its place in ZooKeeper's queue to the next one.
    left: Option<(LockMode, A)>,
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
struct CohortNode<H> {
    id: u64,
    mode: LockMode,
    held: H,
    standing: Standing,
    /// When the bound began to count, and how many turns had been given before.
    counted: Option<(Instant, u32)>,
    /// How many turns were given.
    turns: u32,
    holders: usize,
    /// Whether the node is kept although nobody holds the lock.
    is_idle: bool,
}

/// The right to hold the lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Turn<H> {
    /// Identifies the node within the cohort.
    pub node: u64,
    /// Counts the turns of this node, from 0.
    pub number: u32,
    /// A share of the node.
    pub held: H,
}

/// What an attempt does next.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Next<H, A> {
    /// It holds the lock, and has left the queue.
    Hold(Turn<H>),
    /// It is the front, and gets a node: by the attempt that another front has left, or by one of its
    /// own. Then it calls [`Cohort::acquired`].
    Attempt(Option<A>),
    /// It waits, until it is woken.
    Wait,
}

/// What is left to do after a call, in this order, and not under a lock.
#[derive(Clone, Debug)]
#[must_use]
#[non_exhaustive]
pub struct After<H, W, A> {
    /// Shares that are no longer used. The last share of a node deletes it.
    pub unused: Vec<H>,
    /// An attempt that is no longer used: it leaves ZooKeeper's queue.
    pub unused_attempt: Option<A>,
    /// Wakers that are no longer used.
    pub unused_wakers: Vec<W>,
    /// Those to wake. A front that is woken enters the queue behind others, so it comes last.
    pub wake: Vec<W>,
}

impl<H, W, A> Default for After<H, W, A> {
    fn default() -> Self {
        Self {
            unused: Vec::new(),
            unused_attempt: None,
            unused_wakers: Vec::new(),
            wake: Vec::new(),
        }
    }
}

impl<H> CohortNode<H> {
    /// Returns whether another turn is within the bound.
    fn is_open(&self, bound: HandOver, now: Instant) -> bool {
        matches!(self.standing, Standing::Held | Standing::Contended)
            && self.turns < u32::MAX
            && self.counted.is_none_or(|(since, before)| {
                self.turns - before < bound.turns && now - since < bound.time
            })
    }
}

impl<H: Clone, W, A> Cohort<H, W, A> {
    /// Creates a cohort without attempts.
    pub const fn new(bound: HandOver, keeps_idle: bool) -> Self {
        Self { bound, keeps_idle, entries: Numbered::new(), node: None, left: None, last_node: 0 }
    }

    // ---- Getters -------------------------------------------------------------------------------

    /// Returns how many attempts wait.
    pub fn waiting(&self) -> usize {
        self.entries.iter().filter(|(_, entry)| entry.turn.is_none()).count()
    }

    /// Returns whether an attempt that enters now need not wait for another one of this process.
    pub fn admits(&self, mode: LockMode) -> bool {
        let shares =
            |node: &CohortNode<H>| (node.mode, mode) == (LockMode::Shared, LockMode::Shared);
        let is_free = |node: &CohortNode<H>| node.is_idle || shares(node);
        self.front().is_none() && self.node.as_ref().is_none_or(is_free)
    }

    /// Returns the node with which the lock is held.
    pub fn held(&self) -> Option<&H> {
        self.node.as_ref().map(|node| &node.held)
    }

    /// Returns the node that is kept although nobody holds the lock.
    pub fn idle(&self) -> Option<&H> {
        self.node.as_ref().filter(|node| node.is_idle).map(|node| &node.held)
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// Updates the standing of the node that is [held](Self::held). Once it is lost, turns that
    /// were not noticed yet are void. An idle node is kept only while it is [`Standing::Held`].
    pub fn update(&mut self, now: Instant, standing: Standing) -> After<H, W, A> {
        let mut after = After::default();
        let Some(node) = self.node.as_mut() else { return after };
        node.standing = if standing == Standing::Late { Standing::Held } else { standing };
        if standing == Standing::Contended {
            // The present turn counts.
            node.counted = node.counted.or(Some((now, node.turns - 1)));
        }
        let is_useless = node.is_idle && standing != Standing::Held;
        if standing == Standing::Lost {
            let id = node.id;
            for entry in self.entries.values_mut() {
                let lost = entry.turn.take_if(|turn| turn.node == id);
                after.unused.extend(lost.map(|turn| turn.held));
            }
        }
        if is_useless || standing == Standing::Lost {
            self.retire(&mut after);
            self.wake_front(&mut after);
        }
        after
    }

    /// An attempt enters at the end. [Poll](Self::poll) it.
    pub fn enter(&mut self, mode: LockMode) -> Ticket {
        self.entries.push(Entry { mode, turn: None, waker: None })
    }

    /// Decides what this attempt does. `waker` is kept if it waits, or makes an attempt.
    pub fn poll(&mut self, ticket: Ticket, now: Instant, waker: W) -> (Next<H, A>, After<H, W, A>) {
        let mut after = After::default();
        let next = self.decide(ticket, now, &mut after);
        match (&next, self.entries.get_mut(ticket)) {
            (Next::Attempt(_) | Next::Wait, Some(entry)) => {
                after.unused_wakers.extend(entry.waker.replace(waker));
            }
            _ => after.unused_wakers.push(waker),
        }
        (next, after)
    }

    fn decide(&mut self, ticket: Ticket, now: Instant, after: &mut After<H, W, A>) -> Next<H, A> {
        if self.is_front(ticket) {
            self.serve_idle(now, after);
            self.serve_readers(now, after);
        }
        match (self.front(), self.entries.get_mut(ticket)) {
            (_, Some(Entry { turn: Some(_), .. })) => self.take_turn(ticket, after),
            (Some((front, mode)), _) if front == ticket => {
                if !self.waits_for_turn(mode) {
                    self.retire(after);
                }
                if self.node.is_some() {
                    return Next::Wait;
                }
                Next::Attempt(self.left.take().map(|(_, attempt)| attempt))
            }
            _ => Next::Wait,
        }
    }

    fn take_turn(&mut self, ticket: Ticket, after: &mut After<H, W, A>) -> Next<H, A> {
        let Some(entry) = self.entries.remove(ticket) else { return Next::Wait };
        after.unused_wakers.extend(entry.waker);
        entry.turn.map_or(Next::Wait, Next::Hold)
    }

    /// The front has acquired a node, and holds the lock with it.
    pub fn acquired(&mut self, ticket: Ticket, now: Instant, held: H) -> (Turn<H>, After<H, W, A>) {
        let mut after = After::default();
        self.retire(&mut after);
        self.last_node += 1;
        let entry = self.entries.remove(ticket);
        let mode = entry.as_ref().map_or(LockMode::Exclusive, |entry| entry.mode);
        after.unused_wakers.extend(entry.and_then(|entry| entry.waker));
        let turn = Turn { node: self.last_node, number: 0, held: held.clone() };
        self.node = Some(CohortNode {
            id: self.last_node,
            mode,
            held,
            standing: Standing::Held,
            counted: (!self.keeps_idle).then_some((now, 0)),
            turns: 1,
            holders: 1,
            is_idle: false,
        });
        self.serve_readers(now, &mut after);
        self.wake_front(&mut after);
        (turn, after)
    }

    /// A holder leaves. Returns whether the cohort keeps the node.
    pub fn leave(&mut self, node: u64, now: Instant) -> (bool, After<H, W, A>) {
        let mut after = After::default();
        let kept = self.end_turn(node, now, &mut after);
        (kept, after)
    }

    fn end_turn(&mut self, id: u64, now: Instant, after: &mut After<H, W, A>) -> bool {
        let Some(node) = self.node.as_mut().filter(|node| node.id == id) else { return false };
        node.holders -= 1;
        if node.holders > 0 {
            return true;
        }
        let (mode, is_open) = (node.mode, node.is_open(self.bound, now));
        let is_alone = self.keeps_idle && node.standing == Standing::Held;
        let front = self.front_mode();
        let passes = is_open && front == Some(mode);
        let is_kept = is_open && is_alone && front.is_none();
        if passes {
            self.serve_front(after);
            self.serve_readers(now, after);
        } else if is_kept {
            self.node.iter_mut().for_each(|node| node.is_idle = true);
        } else {
            self.retire(after);
        }
        self.wake_front(after);
        passes || is_kept
    }

    /// An attempt gives up, at any time. It passes on a turn that it has not noticed, and leaves the
    /// `attempt` that it has begun to the next front, if that can use it.
    pub fn withdraw(&mut self, ticket: Ticket, now: Instant, attempt: Option<A>) -> After<H, W, A> {
        let mut after = After::default();
        let was_front = self.is_front(ticket);
        let Some(entry) = self.entries.remove(ticket) else {
            after.unused_attempt = attempt;
            return after;
        };
        after.unused_wakers.extend(entry.waker);
        if let Some(attempt) = attempt {
            self.left = Some((entry.mode, attempt));
        }
        if let Some(turn) = entry.turn {
            self.end_turn(turn.node, now, &mut after);
            after.unused.push(turn.held);
        } else if was_front {
            // It may have been woken because of a loss, and looks no more.
            after.wake.extend(self.front_waker());
        }
        let front = self.front_mode();
        let useless = self.left.take_if(|(mode, _)| Some(*mode) != front);
        after.unused_attempt = useless.map(|(_, attempt)| attempt);
        after
    }

    /// A holder keeps this node for itself.
    pub fn take_away(&mut self, node: u64) -> After<H, W, A> {
        let mut after = After::default();
        if self.node.as_ref().is_some_and(|current| current.id == node) {
            self.retire(&mut after);
            self.wake_front(&mut after);
        }
        after
    }

    // ---- Parts ---------------------------------------------------------------------------------

    /// Takes the waker of the front, which then looks again.
    fn front_waker(&mut self) -> Option<W> {
        let (front, _) = self.front()?;
        self.entries.get_mut(front)?.waker.take()
    }

    /// Returns the first attempt that has no turn.
    fn front(&self) -> Option<(Ticket, LockMode)> {
        let mut entries = self.entries.iter().filter(|(_, entry)| entry.turn.is_none());
        entries.next().map(|(ticket, entry)| (*ticket, entry.mode))
    }

    fn is_front(&self, ticket: Ticket) -> bool {
        self.front().is_some_and(|(front, _)| front == ticket)
    }

    fn front_mode(&self) -> Option<LockMode> {
        self.front().map(|(_, mode)| mode)
    }

    /// Returns whether a front of this mode waits for the holder of the node. Otherwise it does not
    /// wait here, but in ZooKeeper's queue.
    fn waits_for_turn(&self, mode: LockMode) -> bool {
        let exclusive = LockMode::Exclusive;
        self.node.as_ref().is_some_and(|node| (node.mode, mode) == (exclusive, exclusive))
    }

    /// The front gets a lock that is kept, if it wants this mode.
    fn serve_idle(&mut self, now: Instant, after: &mut After<H, W, A>) {
        let Some(node) = self.node.as_ref().filter(|node| node.is_idle) else {
            return;
        };
        if node.is_open(self.bound, now) && self.front_mode() == Some(node.mode) {
            self.serve_front(after);
        }
    }

    /// Readers join the readers that hold the lock, up to the next writer.
    fn serve_readers(&mut self, now: Instant, after: &mut After<H, W, A>) {
        let (bound, shared) = (self.bound, LockMode::Shared);
        while self.node.as_ref().is_some_and(|node| node.mode == shared && node.is_open(bound, now))
            && self.front_mode() == Some(shared)
        {
            self.serve_front(after);
        }
    }

    /// The front gets the next turn of the node.
    fn serve_front(&mut self, after: &mut After<H, W, A>) {
        let front = self.front();
        let Some((front, node)) = front.zip(self.node.as_mut()) else { return };
        if let Some(entry) = self.entries.get_mut(front.0) {
            entry.turn = Some(Turn { node: node.id, number: node.turns, held: node.held.clone() });
            node.turns += 1;
            node.holders += 1;
            node.is_idle = false;
            after.wake.extend(mem::take(&mut entry.waker));
        }
    }

    /// Wakes the front, unless it waits for a turn.
    fn wake_front(&mut self, after: &mut After<H, W, A>) {
        if self.front_mode().is_some_and(|mode| !self.waits_for_turn(mode)) {
            after.wake.extend(self.front_waker());
        }
    }

    fn retire(&mut self, after: &mut After<H, W, A>) {
        after.unused.extend(self.node.take().map(|node| node.held));
    }
}
