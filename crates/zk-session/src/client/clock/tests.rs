use core::sync::atomic::AtomicU64;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_moment_is_equally_far_away_by_both_clocks() {
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

#[test]
fn a_given_clock_that_steps_back_stands_still() {
    let seconds = Arc::new(AtomicU64::new(1_000));
    let read = seconds.clone();
    let given = GivenClock::new(move || {
        Instant::after_start(Duration::from_secs(read.load(Ordering::Relaxed)))
    });
    let clock = Clock::new(StdInstant::now, Some(given));
    let lease = clock.now() + SECOND * 10;
    seconds.store(1_011, Ordering::Relaxed);
    assert!(lease < clock.now());
    seconds.store(5, Ordering::Relaxed);
    assert!(lease < clock.now());
    assert!(clock.local_instant(lease) < StdInstant::now());
}

#[test]
fn a_suspension_counts_for_all_times_and_only_once() {
    static SUSPENDED: AtomicU64 = AtomicU64::new(50);
    static MILLIS: AtomicU64 = AtomicU64::new(0);
    fn local() -> StdInstant {
        // As a paused clock of tokio.
        static START: std::sync::OnceLock<StdInstant> = std::sync::OnceLock::new();
        let millis = Duration::from_millis(MILLIS.load(Ordering::Relaxed));
        *START.get_or_init(StdInstant::now) + millis
    }
    fn unstoppable() -> BootInstant {
        BootInstant::now() + Duration::from_secs(SUSPENDED.load(Ordering::Relaxed))
    }
    let clock = Clock::with(unstoppable, local, None);
    let start = clock.now();
    assert_eq!(start, Instant::START);
    SUSPENDED.store(80, Ordering::Relaxed);
    assert_eq!(clock.now(), start, "measured in this millisecond");
    MILLIS.store(1, Ordering::Relaxed);
    for _ in 0..2 {
        let now = clock.now();
        // The thread may have stopped between looks at two clocks.
        let passed = now - start;
        assert!(SECOND * 29 < passed && passed < SECOND * 31, "{passed:?}");
        assert!(clock.local_instant(start + SECOND * 10) < local());
        assert!(clock.local_instant(start + SECOND * 40) > local() + SECOND * 8);
    }
    // A clock that goes back is not believed.
    SUSPENDED.store(50, Ordering::Relaxed);
    MILLIS.store(2, Ordering::Relaxed);
    assert!(clock.now() > start + SECOND * 29);
}

#[test]
fn a_machine_that_was_not_suspended_has_one_time() {
    let clock = Clock::new(StdInstant::now, None);
    for _ in 0..1_000 {
        let now = clock.now();
        assert!(clock.local_instant(now) <= StdInstant::now());
    }
}
