//! Elections and nodes that are kept alive, over many sessions.

use zk_testkit::sim::{Flaw, run_lasting};
use zk_testkit::suite::number;

#[test]
fn nothing_is_held_across_sessions_and_everything_comes_back() {
    let first = number("ZK_SIM_FROM").unwrap_or(0);
    let runs = number("ZK_SIM_RUNS").unwrap_or(40);
    let (mut renewals, mut acquisitions) = (0, 0);
    for seed in first..first + runs {
        let report = run_lasting(seed, None);
        assert!(
            report.violations.is_empty(),
            "seed {seed}: {:#?}\n\
             replay: ZK_SIM_FROM={seed} ZK_SIM_RUNS=1 cargo test -p zk-testkit --test sim nothing_is_held",
            report.violations
        );
        renewals += report.counts.get("sessions renewed").copied().unwrap_or(0);
        acquisitions += report.acquisitions;
    }
    println!("{runs} runs: {renewals} sessions renewed, {acquisitions} acquisitions");
    assert!(renewals > runs || runs < 10, "sessions hardly ever expire");
}

/// Asserts that some run finds the flaw by a violation that contains `symptom`.
fn assert_found(flaw: Flaw, symptom: &str) {
    let is_symptom = |violation: &String| violation.contains(symptom);
    let found = (0..20).any(|seed| run_lasting(seed, Some(flaw)).violations.iter().any(is_symptom));
    assert!(found, "{flaw:?}: no run reports {symptom:?}");
}

#[test]
fn a_leadership_or_a_node_kept_across_sessions_is_found() {
    assert_found(Flaw::KeepsHolding, "is held across sessions");
}

#[test]
fn a_leadership_beyond_the_lease_is_found() {
    assert_found(Flaw::IgnoresLeases, "leads after the end of the lease");
}

#[test]
fn a_candidate_or_a_node_that_ends_with_its_session_is_found() {
    assert_found(Flaw::EndsWithSession, "not everything is held again");
}

#[test]
fn an_end_that_is_reported_late_is_found() {
    assert_found(Flaw::ReportsReleasesLate, "is held, although its deletion is submitted");
}
