//! The choice of the next server, and the delay before an attempt.

use alloc::vec::Vec;

use super::DEADLINES;
use crate::time::{Span, scaled};

/// The delay before the first attempt after a lost connection is random, below this.
///
/// So the clients of a server that died do not all connect to the next one at the same time. It
/// doubles with each connection in a row that was of no use.
const SPREAD: Span = Span::from_millis(50);
/// The delay after the first round in which every server failed. It doubles with each such round.
const FIRST_BACK_OFF: Span = Span::from_millis(100);

#[derive(Clone, Debug)]
pub(super) struct Servers {
    /// Each server as many times as it has addresses.
    order: Vec<usize>,
    next: usize,
    /// Attempts that failed in this round, and those of them that timed out.
    failures: usize,
    timeouts: usize,
    /// Rounds in which every server failed, since one last served the session.
    failed_rounds: u32,
    /// Those of them in which every attempt timed out.
    timed_out_rounds: u32,
    /// The longest delay that the last failed round could cause.
    back_off: Span,
    /// Connections that were lost since one was last of use.
    losses: u32,
    rng: fastrand::Rng,
}

impl Servers {
    pub(super) fn new(count: usize, seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let mut order: Vec<usize> = (0..count).collect();
        rng.shuffle(&mut order);
        Self {
            order,
            next: 0,
            failures: 0,
            timeouts: 0,
            failed_rounds: 0,
            timed_out_rounds: 0,
            back_off: Span::ZERO,
            losses: 0,
            rng,
        }
    }

    /// Returns how many addresses the servers have together.
    pub(super) fn count(&self) -> usize {
        self.order.len()
    }

    /// Returns how many servers there are.
    pub(super) fn names(&self) -> usize {
        self.order.iter().max().map_or(0, |last| last + 1)
    }

    /// Sets how many addresses a server has. Those that are new are tried in this round.
    pub(super) fn set_addresses(&mut self, server: usize, count: usize) {
        let before = self.order.iter().filter(|other| **other == server).count();
        if before == 0 {
            return;
        }
        for _ in before..count {
            let place = self.rng.usize(self.next..=self.order.len());
            self.order.insert(place, server);
        }
        for _ in count.max(1)..before {
            if let Some(place) = self.order.iter().rposition(|other| *other == server) {
                self.order.remove(place);
                self.next -= usize::from(place < self.next);
            }
        }
        self.next %= self.order.len();
    }

    /// Returns the next server to try, and advances.
    pub(super) fn take_next(&mut self) -> Option<usize> {
        let server = self.order.get(self.next).copied();
        self.next = (self.next + 1) % self.order.len().max(1);
        server
    }

    /// Replaces the list by one of `count` servers. For each old server, `kept` holds its index in
    /// the new list. `current` is the server of the connection, by its old index.
    ///
    /// Returns whether to leave `current`. In that case the new order is the one in which to try
    /// the servers.
    ///
    /// If all clients do this, each server has, on average, as many clients as before. No more
    /// clients move than necessary (`docs/protocol.md`, *Keep-alive and the choice of a server*).
    pub(super) fn update(
        &mut self,
        kept: &[Option<usize>],
        count: usize,
        current: Option<usize>,
    ) -> bool {
        let (mut old, mut new): (Vec<_>, Vec<_>) =
            (0..count).partition(|server| kept.contains(&Some(*server)));
        self.rng.shuffle(&mut old);
        self.rng.shuffle(&mut new);
        let before = self.names();
        let stays = current.is_some_and(|current| kept.get(current).is_some_and(Option::is_some));
        // The probability `newcomers_first / of` that a new server is tried before the next old
        // one.
        let (leaves, newcomers_first, of) = if current.is_none() {
            (false, new.len(), count)
        } else if count > before {
            (!stays || self.chance(count - before, count), 1, 1)
        } else {
            let removed = before.saturating_sub(old.len());
            let to_old = old.len().saturating_mul(before - count);
            let of = count.saturating_mul(removed);
            (!stays, of.saturating_sub(to_old), of)
        };
        self.order.clear();
        while !old.is_empty() || !new.is_empty() {
            let take_new = old.is_empty() || (!new.is_empty() && self.chance(newcomers_first, of));
            self.order.extend(if take_new { new.pop() } else { old.pop() });
        }
        self.next = 0;
        self.succeeded();
        self.was_of_use();
        leaves
    }

    /// Returns the next server other than `current`, if there is one.
    pub(super) fn next_besides(&mut self, current: usize) -> Option<usize> {
        let count = self.count();
        let mut candidates = core::iter::repeat_with(|| self.take_next()).take(count);
        candidates.find_map(|server| server.filter(|server| *server != current))
    }

    /// Makes `server` the next one. Returns whether it is in the list.
    pub(super) fn prefer(&mut self, server: usize) -> bool {
        let index = self.order.iter().position(|other| *other == server);
        self.next = index.unwrap_or(self.next);
        index.is_some()
    }

    pub(super) fn succeeded(&mut self) {
        (self.failures, self.timeouts) = (0, 0);
        (self.failed_rounds, self.timed_out_rounds, self.back_off) = (0, 0, Span::ZERO);
    }

    pub(super) fn was_of_use(&mut self) {
        self.losses = 0;
    }

    /// Returns how many rounds have failed since a server last served the session.
    pub(super) fn failed_rounds(&self) -> u32 {
        self.failed_rounds
    }

    /// Returns in how many of the failed rounds every attempt timed out, as on a slow connection.
    pub(super) fn timed_out_rounds(&self) -> u32 {
        self.timed_out_rounds
    }

    /// Returns the delay after the loss of an established connection, or of a session: a random
    /// time, at most `limit`. It grows until a connection is of use.
    pub(super) fn delay_after_loss(&mut self, limit: Span) -> Span {
        let mut spread = SPREAD;
        if DEADLINES {
            spread = scaled(SPREAD, 1 << self.losses.min(16), 1);
            self.losses = self.losses.saturating_add(1);
        }
        self.random_below(spread.min(limit))
    }

    /// Returns the delay after a failed attempt: zero within a round of all servers; a random,
    /// growing time between rounds, at most `limit`.
    pub(super) fn delay_after_failure(&mut self, timed_out: bool, limit: Span) -> Span {
        self.failures += 1;
        self.timeouts += usize::from(timed_out);
        if self.failures < self.count() {
            return Span::ZERO;
        }
        let timed_out = self.timeouts == self.failures;
        (self.failures, self.timeouts) = (0, 0);
        self.failed_rounds = self.failed_rounds.saturating_add(1);
        self.timed_out_rounds = self.timed_out_rounds.saturating_add(timed_out.into());
        self.back_off = scaled(self.back_off, 2, 1).max(FIRST_BACK_OFF).min(limit);
        let half = scaled(self.back_off, 1, 2);
        half + self.random_below(half)
    }

    // Integers only: floating point is costly without an FPU.
    fn random_below(&mut self, limit: Span) -> Span {
        Span::from_nanos(self.rng.u64(..limit.as_nanos().max(1)))
    }

    /// Returns true with the probability `part / whole`.
    fn chance(&mut self, part: usize, whole: usize) -> bool {
        self.rng.usize(..whole.max(1)) < part
    }
}

#[cfg(test)]
mod tests;
