//! What is measured about locks.

use clap::ValueEnum;

/// A kind of work. Each contender acquires, holds, releases, and queues again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Kind {
    /// One contender alone: acquire and release, one after the other.
    Alone,
    /// The same, but the lock is let go in the background, and acquired again at once.
    AloneDropped,
    /// One waits while one holds, for long enough that the other is in the queue; each has a
    /// session of its own.
    #[value(name = "waiters-1")]
    Waiters1,
    /// Ten wait.
    #[value(name = "waiters-10")]
    Waiters10,
    /// A hundred wait.
    #[value(name = "waiters-100")]
    Waiters100,
    /// A hundred locks, one contender each, all on one session.
    #[value(name = "locks-100")]
    Locks100,
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(crate) sessions: usize,
    pub(crate) locks: usize,
    /// Milliseconds.
    pub(crate) hold: u64,
    /// Whether each contender waits until the lock is released.
    pub(crate) waits: bool,
    /// Acquisitions before measuring, with all contenders in their queues behind them.
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
