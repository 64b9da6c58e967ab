//! Time as an argument: the core reads no clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment, as the time since a start that whoever drives the core has chosen.
///
/// It must come from a monotonic clock; the wall clock is of no use here. And the clock must run on
/// while the machine is suspended, as the session's timeout does at the server: `CLOCK_BOOTTIME` on
/// Linux, not `CLOCK_MONOTONIC`, which stands still, and which is what `std::time::Instant` reads.
/// By a clock that stood still, a [`lease`](crate::session::Session::lease) seems to last longer
/// than it does, by as long as the machine has slept.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The chosen start.
    pub const START: Self = Self(Duration::ZERO);

    /// The last moment that can be told. Deadlines beyond it never come.
    pub const END: Self = Self(Duration::MAX);

    /// The moment that lies `elapsed` after the chosen start.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// The time since the chosen start.
    pub const fn since_start(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Stops at the end of time instead of overflowing.
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// How long before `self` the other moment lies; zero if it lies after it.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.0)
    }
}
