//! Outages of all servers, and slow connections.

use zk_testkit::sim::{outages, reconnections};

#[test]
fn an_outage_that_ends_before_the_lease_costs_neither_session_nor_lock() {
    for seed in 0..50 {
        let sim = "cargo run -p zk-testkit --bin sim -- --workload outages";
        assert_eq!(outages(seed, None).violations, [""; 0], "repeat: {sim} --seed {seed}");
    }
}

#[test]
fn locks_stay_held_over_a_slow_connection() {
    // A round trip takes up to 0.45 of the shortest session timeout.
    for slowness in 1..=10 {
        assert_eq!(reconnections(slowness, None), 0, "{slowness}");
    }
}
