//! Clients that follow the configuration of an ensemble whose servers are all replaced.

use zk_testkit::sim::{Bug, REPLACED, following};

#[test]
fn clients_that_follow_the_configuration_outlive_all_servers_that_they_knew() {
    let mut replaced = 0;
    for seed in 0..50 {
        let sim = "cargo run -p zk-testkit --bin sim -- --workload following";
        let report = following(seed, None);
        assert_eq!(report.violations, [""; 0], "repeat: {sim} --seed {seed}");
        replaced += report.counts[REPLACED];
    }
    assert!(replaced > 300, "{replaced}");
}

#[test]
fn a_client_that_ignores_the_configuration_is_found() {
    let runs = (0..20).map(|seed| following(seed, Some(Bug::IgnoresConfig)).violations);
    let found = runs.filter(|found| found.iter().any(|it| it.contains("a client is Suspended")));
    let found = found.count();
    println!("IgnoresConfig: found by {found} seeds of 20");
    assert!(found >= 15, "found by {found} seeds of 20");
}
