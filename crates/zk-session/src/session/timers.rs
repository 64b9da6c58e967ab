//! Every deadline of a session, in one table.

use crate::time::Instant;

/// What a deadline is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Timer {
    /// The next member is tried then.
    Retry,
    /// The member being tried must be reached by then, and then must have answered the handshake.
    Connect,
    /// The member must have said something by then.
    Read,
    /// The member must hear something from us by then, lest the session expires.
    Ping,
    /// While a read-only member serves the session: another one is asked then.
    Probe,
    /// Without a connection until then, what is unsent fails.
    Patience,
    /// The first request that may be late is late then; or it has been answered meanwhile.
    Deadline,
    /// The lease ends then, unless an answer has renewed it meanwhile: renewing moves no timer.
    Lease,
}

impl Timer {
    const ALL: [Self; 8] = [
        Self::Retry,
        Self::Connect,
        Self::Read,
        Self::Ping,
        Self::Probe,
        Self::Patience,
        Self::Deadline,
        Self::Lease,
    ];
    /// Those that belong to one connection, or one attempt to make one.
    const OF_CONNECTION: [Self; 5] =
        [Self::Retry, Self::Connect, Self::Read, Self::Ping, Self::Probe];
}

#[derive(Clone, Debug, Default)]
pub(super) struct Timers([Option<Instant>; Timer::ALL.len()]);

impl Timers {
    pub(super) fn set(&mut self, timer: Timer, at: Instant) {
        // At the end of time, where sums stop, all deadlines would be due at once and for ever.
        self.0[timer as usize] = (at < Instant::END).then_some(at);
    }

    /// Sets it, unless it is due earlier already.
    pub(super) fn set_earlier(&mut self, timer: Timer, at: Instant) {
        if self.0[timer as usize].is_none_or(|set| at < set) {
            self.set(timer, at);
        }
    }

    pub(super) fn unset(&mut self, timer: Timer) {
        self.0[timer as usize] = None;
    }

    pub(super) fn clear_connection(&mut self) {
        for timer in Timer::OF_CONNECTION {
            self.unset(timer);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// When this one is due.
    pub(super) fn get(&self, timer: Timer) -> Option<Instant> {
        self.0[timer as usize]
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.iter().flatten().min().copied()
    }

    /// Takes one that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<Timer> {
        let due = |timer: &Timer| self.0[*timer as usize].is_some_and(|at| at <= now);
        let timer = Timer::ALL.into_iter().find(due)?;
        self.unset(timer);
        Some(timer)
    }
}

#[cfg(test)]
impl Timers {
    pub(super) fn has(&self, timer: Timer) -> bool {
        self.0[timer as usize].is_some()
    }
}
