//! The clock of a client's session.
//!
//! The servers' timeouts continue while the machine is suspended. So must the clock of a lease.

use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::{Mutex, PoisonError};
use std::time::Instant as StdInstant;

use boot_time::Instant as BootInstant;

use crate::time::{Instant, Span};

/// The time from now that stands for moments that the system's clock cannot represent.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The shortest suspension that counts. Shorter ones may be the time between two looks at clocks.
const MIN_SUSPENSION: Duration = Duration::from_millis(10);

/// How long a client with a lease sleeps at most: its timers stop in a suspension, and the end of the
/// lease may be due right after it.
pub(crate) const MAX_SLEEP: Duration = Duration::from_millis(500);

/// A clock given by the caller.
#[derive(Clone)]
pub(crate) struct GivenClock(Arc<dyn Fn() -> Instant + Send + Sync>);

impl GivenClock {
    pub(crate) fn new(now: impl Fn() -> Instant + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }
}

impl fmt::Debug for GivenClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GivenClock(..)")
    }
}

/// Measures for how long the machine was suspended: the difference of two clocks.
/// `std::time::Instant` stops meanwhile, except on Windows.
#[derive(Clone)]
struct Suspensions {
    /// Reads the clock that continues during a suspension.
    read: fn() -> BootInstant,
    start: (BootInstant, StdInstant),
    /// The longest time so far, in milliseconds.
    total: Arc<AtomicUsize>,
    /// When it was last measured, in milliseconds by the clock that stops. Two more looks at clocks for
    /// each frame would be felt.
    measured_at: Arc<AtomicUsize>,
}

impl Suspensions {
    fn new(read: fn() -> BootInstant) -> Self {
        let start = (read(), StdInstant::now());
        Self { read, start, total: Arc::default(), measured_at: Arc::default() }
    }

    /// Returns the total at a time by the clock that stops. It never decreases.
    fn total(&self, passed: Span) -> Span {
        let now = (passed.as_nanos() / 1_000_000) as usize;
        if self.measured_at.load(Ordering::Relaxed) == now {
            return Span::from_millis(self.total.load(Ordering::Relaxed) as u64);
        }
        self.measured_at.store(now, Ordering::Relaxed);
        // In this order, a pause between the two never looks like a suspension.
        let passed = (self.read)().saturating_duration_since(self.start.0);
        let ahead =
            passed.saturating_sub(StdInstant::now().saturating_duration_since(self.start.1));
        let known = self.total.load(Ordering::Relaxed);
        let total = if ahead < MIN_SUSPENSION {
            known
        } else {
            let ahead = usize::try_from(ahead.as_millis()).unwrap_or(usize::MAX);
            self.total.fetch_max(ahead, Ordering::Relaxed).max(ahead)
        };
        Span::from_millis(total as u64)
    }
}

/// The clock of a session: the given one, or that by which its client sleeps, with the time of
/// suspensions.
#[derive(Clone)]
pub(crate) struct Clock {
    start: StdInstant,
    /// Reads the clock that the client sleeps by.
    local: fn() -> StdInstant,
    suspensions: Suspensions,
    /// The clock of the caller, and the latest time that it has shown.
    given: Option<(GivenClock, Arc<Mutex<Instant>>)>,
}

impl Clock {
    pub(crate) fn new(local: fn() -> StdInstant, given: Option<GivenClock>) -> Self {
        Self::with(BootInstant::now, local, given)
    }

    fn with(
        unstoppable: fn() -> BootInstant,
        local: fn() -> StdInstant,
        given: Option<GivenClock>,
    ) -> Self {
        Self {
            start: local(),
            local,
            suspensions: Suspensions::new(unstoppable),
            given: given.map(|clock| (clock, Arc::new(Mutex::new(Instant::START)))),
        }
    }

    /// Returns the time. It never decreases, even if the given clock does: a lease would seem longer.
    pub(crate) fn now(&self) -> Instant {
        let Some((GivenClock(now), latest)) = &self.given else {
            let passed = self.passed();
            return Instant::START.after(passed).after(self.suspensions.total(passed));
        };
        let now = now();
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        *latest = now.max(*latest);
        *latest
    }

    /// Returns the time since the start by the local clock.
    fn passed(&self) -> Span {
        Span::of((self.local)().saturating_duration_since(self.start))
    }

    /// Returns the longest sleep of a client, which may sleep by a clock that stops.
    pub(crate) fn max_sleep(&self, has_lease: bool) -> Duration {
        // `shuttle` has no time: a sleep that is short would be an endless loop.
        if has_lease && !cfg!(shuttle) { MAX_SLEEP } else { FAR }
    }

    /// Returns the same moment by the clock by which the client sleeps. The clock of the session may
    /// run ahead of that one, so the result holds at the time of the call.
    pub(crate) fn local_instant(&self, instant: Instant) -> StdInstant {
        let (base, now) = match &self.given {
            Some(_) => ((self.local)(), self.now()),
            None => (self.start, Instant::START.after(self.suspensions.total(self.passed()))),
        };
        let past = base.checked_sub(now - instant).unwrap_or(base);
        past.checked_add(instant - now).unwrap_or(past + FAR)
    }
}

#[cfg(test)]
mod tests;
