//! Every deadline of a session, in one table.

use crate::time::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next member is tried then.
    Retry,
    /// The member being tried must have answered the handshake by then.
    Connect,
    /// The member must have said something by then.
    Read,
    /// The member must hear something from us by then, lest the session expires.
    Ping,
}

impl Timer {
    const ALL: [Self; 4] = [Self::Retry, Self::Connect, Self::Read, Self::Ping];
}

#[derive(Debug, Default)]
pub(super) struct Timers([Option<Instant>; Timer::ALL.len()]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        // At the end of time, where sums stop, all deadlines would be due at once and for ever.
        self.0[timer as usize] = (at < Instant::END).then_some(at);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes one that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| self.0[*timer as usize].is_some_and(|at| at <= now);
        let timer = Timer::ALL.into_iter().find(due)?;
        self.0[timer as usize] = None;
        Some(timer)
    }
}
