//! The clock of a client's session.

use alloc::sync::Arc;
use core::fmt;
use core::time::Duration;
use std::time::Instant as StdInstant;

use crate::time::Instant;

/// The time from now that stands for moments that the system's clock cannot represent.
const FAR: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

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

/// The clock of a session: the given one, or that by which its client sleeps.
#[derive(Clone)]
pub(crate) struct Clock {
    start: StdInstant,
    /// Reads the clock that the client sleeps by.
    local: fn() -> StdInstant,
    given: Option<GivenClock>,
}

impl Clock {
    pub(crate) fn new(local: fn() -> StdInstant, given: Option<GivenClock>) -> Self {
        Self { start: local(), local, given }
    }

    pub(crate) fn now(&self) -> Instant {
        match &self.given {
            Some(GivenClock(now)) => now(),
            None => Instant::after_start((self.local)().saturating_duration_since(self.start)),
        }
    }

    /// Returns the same moment by the clock by which the client sleeps. A given clock may run ahead
    /// of that one, so the result holds at the time of the call.
    pub(crate) fn local_instant(&self, instant: Instant) -> StdInstant {
        let (base, now) = match &self.given {
            Some(GivenClock(now)) => ((self.local)(), now()),
            None => (self.start, Instant::START),
        };
        let past = base.checked_sub(now - instant).unwrap_or(base);
        past.checked_add(instant - now).unwrap_or(past + FAR)
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn a_moment_is_equally_far_away_by_both_clocks() {
        const SECOND: Duration = Duration::from_secs(1);
        let seconds = Arc::new(AtomicU64::new(1_000));
        let read = seconds.clone();
        let given = GivenClock::new(move || {
            Instant::after_start(Duration::from_secs(read.load(Ordering::Relaxed)))
        });
        let local = StdInstant::now;
        let clock = Clock::new(local, Some(given));
        let moment = clock.now() + SECOND * 600;
        assert!(clock.local_instant(moment) > local() + SECOND * 300);
        // The machine is suspended: the given clock continues, the local one stops.
        seconds.fetch_add(700, Ordering::Relaxed);
        assert!(clock.local_instant(moment) < local());
        assert!(clock.local_instant(Instant::END) > local() + SECOND * 3_600);
        assert!(Clock::new(local, None).local_instant(Instant::END) > local() + SECOND * 3_600);
    }
}
