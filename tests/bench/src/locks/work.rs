//! The kinds of lock work to measure.

use clap::ValueEnum;

/// A kind of work. Each contender acquires, holds, releases, and queues again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// One contender alone, which acquires and releases by turns.
    Alone,
    /// The same, but it releases in the background, and acquires again at once.
    AloneDropped,
    /// Two sessions by turns: one waits while the other holds the lock long enough for that.
    #[value(name = "waiters-1")]
    Waiters1,
    /// Ten waiters.
    #[value(name = "waiters-10")]
    Waiters10,
    /// A hundred waiters.
    #[value(name = "waiters-100")]
    Waiters100,
    /// A hundred locks of one session, one contender each.
    #[value(name = "locks-100")]
    Locks100,
}

/// The size of the work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) sessions: usize,
    pub(crate) locks: usize,
    /// How long each holder keeps the lock, in milliseconds.
    pub(crate) hold: u64,
    /// Whether each contender waits until its lock is released.
    pub(crate) waits: bool,
    /// Acquisitions before the measurement, after which all contenders are queued.
    pub(crate) warm_up: usize,
    /// Acquisitions to measure.
    pub(crate) measured: usize,
}

impl Kind {
    pub(crate) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    pub(crate) fn work(self, scale: f64) -> Work {
        let (sessions, locks, hold, warm_up, measured) = match self {
            Self::Alone | Self::AloneDropped => (1, 1, 0, 500, 1_000.0),
            Self::Waiters1 => (2, 1, 5, 200, 500.0),
            Self::Waiters10 => (11, 1, 5, 200, 500.0),
            Self::Waiters100 => (101, 1, 5, 200, 500.0),
            Self::Locks100 => (1, 100, 0, 1_000, 5_000.0),
        };
        let waits = self != Self::AloneDropped;
        let measured = (measured * scale).ceil() as usize;
        Work { sessions, locks, hold, waits, warm_up, measured }
    }
}

impl Work {
    pub(crate) fn contenders(&self) -> usize {
        self.sessions.max(self.locks)
    }
}
