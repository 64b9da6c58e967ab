//! Clients with a known fault. A simulator that finds nothing wrong with them would be worthless.

use zk_testkit::sim::{Quirk, Scale, run};

use super::outages::outages;

/// Looks for a run that finds the fault, and for what `symptom` says of it.
fn assert_found(quirk: Quirk, symptom: &str) {
    let mut others = Vec::new();
    for seed in 0..300 {
        let report = run(seed, &Scale::small(), Some(quirk), false);
        if report.violations.iter().any(|violation| violation.contains(symptom)) {
            println!("{quirk:?}: found by seed {seed}: {:?}", report.violations);
            return;
        }
        others.extend(report.violations);
    }
    panic!("{quirk:?}: no run shows that {symptom:?}; only {others:?}");
}

#[test]
fn a_lost_request_that_is_made_again_is_found() {
    assert_found(Quirk::RepeatsWhatWasLost, "is NotApplied, but 1 times there");
}

#[test]
fn reading_from_the_past_is_found() {
    assert_found(Quirk::ForgetsWhatWasSeen, "was seen before");
}

#[test]
fn a_lost_connection_taken_for_an_event_is_found() {
    assert_found(Quirk::TakesLossForEvent, ": held by ");
}

#[test]
fn a_herd_is_found() {
    assert_found(Quirk::WatchesTheDirectory, "its end has woken");
}

#[test]
fn a_dropped_event_is_found() {
    assert_found(Quirk::DropsEvents, "no event");
}

#[test]
fn a_dropped_event_of_a_watch_that_stays_is_found() {
    assert_found(Quirk::DropsEvents, "neither an event nor a gap");
}

#[test]
fn a_gap_that_is_not_told_is_found() {
    assert_found(Quirk::ConcealsGaps, "neither an event nor a gap");
}

#[test]
fn a_deadline_that_is_not_kept_is_found() {
    assert_found(Quirk::ForgetsDeadlines, "was not answered by its deadline");
}

#[test]
fn a_deadline_taken_for_a_refusal_is_found() {
    assert_found(Quirk::TakesDeadlineForRefusal, "is NotApplied, but 1 times there");
}

#[test]
fn a_client_that_reads_from_the_past_unasked_is_found() {
    assert_found(Quirk::AcceptsReadOnlyUnasked, "by a read-only member without having asked");
}

#[test]
fn a_client_that_sleeps_through_outages_is_found() {
    let runs = (0..20).map(|seed| outages(seed, Some(Quirk::SleepsThroughOutages)));
    let found =
        runs.filter(|found| found.iter().any(|what| what.contains("shorter than the lease")));
    let found = found.count();
    println!("SleepsThroughOutages: found by {found} seeds of 20");
    assert!(found >= 5, "found by {found} seeds of 20");
}

#[test]
fn a_lock_that_trusts_in_every_event_is_found() {
    assert_found(Quirk::NeverRenews, "1 attempts unanswered");
}
