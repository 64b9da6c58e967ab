//! Time as an argument: the session core reads no clock.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment, measured from a start that the caller chooses, in nanoseconds.
///
/// The clock must be monotonic; do not use the wall clock. It must also advance while the machine
/// is suspended, because the session timeout does so at the server. On Linux that is
/// `CLOCK_BOOTTIME`, as the clients of this crate use. `CLOCK_MONOTONIC`, which
/// `std::time::Instant` reads, stops. With such a clock, a
/// [`lease`](crate::session::Session::lease) seems to last longer than it does, by the time that the
/// machine was suspended.
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
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant(u64);

/// Returns a duration in nanoseconds, at most 584 years.
const fn nanoseconds(duration: Duration) -> u64 {
    const SECOND: u64 = 1_000_000_000;
    let seconds = duration.as_secs();
    // Far less code on a 32-bit processor than 128 bits take.
    match seconds < u64::MAX / SECOND {
        true => seconds * SECOND + duration.subsec_nanos() as u64,
        false => u64::MAX,
    }
}

/// A length of time in nanoseconds, at most 584 years.
///
/// `Duration` keeps the seconds apart: each comparison and each sum takes twice the code, and its
/// arithmetic can panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span(u64);

impl Span {
    pub(crate) const ZERO: Self = Self(0);

    pub(crate) const fn of(duration: Duration) -> Self {
        Self(nanoseconds(duration))
    }

    pub(crate) const fn from_millis(milliseconds: u64) -> Self {
        Self(milliseconds.saturating_mul(1_000_000))
    }

    pub(crate) const fn from_secs(seconds: u64) -> Self {
        Self::of(Duration::from_secs(seconds))
    }

    pub(crate) const fn from_nanos(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    pub(crate) const fn as_nanos(self) -> u64 {
        self.0
    }

    pub(crate) const fn duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }
}

impl Add for Span {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

/// Returns `span * by / over`.
#[inline(never)]
pub(crate) const fn scaled(span: Span, by: u32, over: u32) -> Span {
    let over = if over == 0 { 1 } else { over };
    Span(span.0.saturating_mul(by as u64) / over as u64)
}

/// Returns the earlier of two moments. An iterator takes more code.
pub(crate) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Returns the later of two moments.
pub(crate) fn later(one: Option<Instant>, other: Instant) -> Option<Instant> {
    Some(one.map_or(other, |one| one.max(other)))
}

impl Instant {
    /// The chosen start.
    pub const START: Self = Self(0);

    /// The last moment, 584 years after the start. The session never reaches a deadline at or after it.
    pub const END: Self = Self(u64::MAX);

    /// Returns the moment that is `elapsed` after the chosen start, at most [`END`](Self::END).
    pub const fn after_start(elapsed: Duration) -> Self {
        Self(nanoseconds(elapsed))
    }

    /// Returns the time since the chosen start.
    pub const fn since_start(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Adds a length of time. The sum saturates at [`Instant::END`].
    // One copy on boards, not one in each of many places. A second `Add`, besides that of
    // `Duration`, would make types in callers ambiguous.
    #[cfg_attr(target_os = "none", inline(never))]
    pub(crate) const fn after(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    pub(crate) const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Adds a duration. The sum saturates at [`Instant::END`].
    fn add(self, duration: Duration) -> Self {
        self.after(Span::of(duration))
    }
}

impl Sub for Instant {
    type Output = Duration;

    /// Returns the time from `earlier` to `self`, or zero if `earlier` is later.
    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier).duration()
    }
}

impl fmt::Debug for Instant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "+{:?}", self.since_start())
    }
}
