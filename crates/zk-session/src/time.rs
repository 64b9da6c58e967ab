//! Time as an argument: the session core reads no clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment, measured from a start that the caller chooses.
///
/// The clock must be monotonic; do not use the wall clock. It must also advance while the machine
/// is suspended, because the session timeout does so at the server. On Linux that is
/// `CLOCK_BOOTTIME`. `CLOCK_MONOTONIC`, which `std::time::Instant` reads, stops. With such a clock,
/// a [`lease`](crate::session::Session::lease) seems to last longer than it does, by the time that
/// the machine was suspended.
///
/// ```
/// use core::time::Duration;
/// use zk_session::time::Instant;
///
/// let clock = std::time::Instant::now();
/// let now = Instant::after_start(clock.elapsed());
/// let deadline = now + Duration::from_secs(3);
/// assert_eq!(deadline - now, Duration::from_secs(3));
/// assert_eq!(now - deadline, Duration::ZERO);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(Duration);

impl Instant {
    /// The chosen start.
    pub const START: Self = Self(Duration::ZERO);

    /// The last moment. The session never reaches a deadline at or after it.
    pub const END: Self = Self(Duration::MAX);

    /// Returns the moment that is `elapsed` after the chosen start.
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// Returns the time since the chosen start.
    pub const fn since_start(self) -> Duration {
        self.0
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. The sum saturates at [`Instant::END`].
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.0)
    }
}
