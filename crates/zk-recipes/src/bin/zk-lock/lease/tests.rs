//! Tests of the page of the lease.

use super::*;

#[test]
fn a_lease_passes_after_the_patience_while_the_command_runs() {
    let lease = Lease::create().expect("memory");
    let is = |runs, has_passed| {
        let seen = (lease.runs().expect("readable"), lease.has_passed().expect("readable"));
        assert_eq!(seen, (runs, has_passed));
    };
    is(false, false);
    assert_eq!(lease.grace().expect("readable"), None);
    let ends_at = |time, timeout| {
        lease.write(END, millis(time)).expect("writable");
        lease.write(TIMEOUT, timeout).expect("writable");
    };
    // The patience is a fortieth of the session timeout, and the grace a twentieth in all.
    let passed = now() - Duration::from_secs(1);
    ends_at(passed, 20_000);
    is(false, false);
    lease.write(RUNS, 1).expect("writable");
    is(true, true);
    ends_at(passed, 800_000);
    is(true, false);
    let grace = lease.grace().expect("readable").expect("it runs");
    assert!(grace > Duration::from_secs(20) && grace < Duration::from_secs(40), "{grace:?}");
    assert!(lease.interval().expect("readable") <= INTERVAL);
    let endless: [fn(&Lease) -> _; 2] = [Lease::release, |lease| lease.end_within(Duration::MAX)];
    for endless in endless {
        ends_at(Duration::ZERO, 0);
        is(true, true);
        endless(&lease).expect("writable");
        is(true, false);
        lease.grace().expect("readable").expect("it runs");
    }
    ends_at(Duration::ZERO, 0);
    lease.finish().expect("writable");
    is(false, false);
}
