//! All deadlines, in two tables: those of the session and those of its connection.

use core::marker::PhantomData;

use crate::time::Instant;

/// The deadlines of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SessionTimer {
    /// Without a connection: try the next server.
    Retry,
    /// Without a connection: fail unsent requests.
    DisconnectTimeout,
    /// The earliest deadline of a request, which may have been answered meanwhile.
    Deadline,
    /// The end of the lease, which a reply may have renewed meanwhile: renewing moves no timer.
    Lease,
}

/// The deadlines of one connection, or of the attempt to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectionTimer {
    /// The transport must connect; after that, the server must answer the handshake.
    Connect,
    /// The server must send something.
    Read,
    /// A ping must be sent, so that the session does not expire.
    Ping,
    /// On a read-only server: probe another server.
    Probe,
}

/// The key of a table of timers.
pub(super) trait Timer: Copy {
    /// All keys, in the order in which deadlines are handled that are due at the same time.
    const ALL: [Self; 4];

    fn index(self) -> usize;
}

impl Timer for SessionTimer {
    const ALL: [Self; 4] = [Self::Retry, Self::DisconnectTimeout, Self::Deadline, Self::Lease];

    fn index(self) -> usize {
        self as usize
    }
}

impl Timer for ConnectionTimer {
    const ALL: [Self; 4] = [Self::Connect, Self::Read, Self::Ping, Self::Probe];

    fn index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Debug)]
pub(super) struct Timers<K> {
    /// [`Instant::END`] for a timer that is not set: no session reaches it, and sums saturate
    /// there.
    due: [Instant; 4],
    key: PhantomData<K>,
}

impl<K: Timer> Timers<K> {
    pub(super) fn new() -> Self {
        Self { due: [Instant::END; 4], key: PhantomData }
    }

    pub(super) fn set(&mut self, timer: K, at: Instant) {
        self.due[timer.index()] = at;
    }

    /// Sets a deadline, unless an earlier one is set.
    pub(super) fn set_earlier(&mut self, timer: K, at: Instant) {
        self.set(timer, at.min(self.due[timer.index()]));
    }

    pub(super) fn unset(&mut self, timer: K) {
        self.set(timer, Instant::END);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Returns a deadline, if it is set.
    pub(super) fn get(&self, timer: K) -> Option<Instant> {
        is_set(self.due[timer.index()])
    }

    /// Returns the earliest deadline.
    pub(super) fn next(&self) -> Option<Instant> {
        earliest(&self.due)
    }

    /// Takes one deadline that is due.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<K> {
        let is_due = |timer: &K| self.get(*timer).is_some_and(|at| at <= now);
        let timer = K::ALL.into_iter().find(is_due)?;
        self.unset(timer);
        Some(timer)
    }
}

// One copy for both tables on boards.
#[cfg_attr(target_os = "none", inline(never))]
fn earliest(due: &[Instant; 4]) -> Option<Instant> {
    is_set(due.iter().fold(Instant::END, |earliest, at| earliest.min(*at)))
}

fn is_set(at: Instant) -> Option<Instant> {
    (at < Instant::END).then_some(at)
}
