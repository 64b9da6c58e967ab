//! Caches of a tree that changes, with faults.

use std::collections::BTreeMap;

use zk_testkit::sim::{Bug, Report, caches, rare};
use zk_testkit::suite::number;

/// The faults that must strike at least once in a large number of runs.
const FAULTS: [&str; 8] = ["crash", "cut", "expire", "hold", "isolate", "kill", "part", "pause"];

/// After quiet, each cache equals the tree, and so does what it has reported.
#[test]
fn caches_equal_the_tree() {
    let seeds = match number("ZK_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ZK_SIM_RUNS").unwrap_or(60),
    };
    let runs = seeds.end - seeds.start;
    let mut totals = BTreeMap::<_, u64>::new();
    for seed in seeds {
        let Report { counts, violations, .. } = caches(seed, None);
        assert!(
            violations.is_empty(),
            "seed {seed}: {violations:#?}\n\
             replay: ZK_SEED={seed} cargo test -p zk-testkit --test sim caches_equal_the_tree",
        );
        for (what, count) in counts {
            *totals.entry(what).or_default() += count;
        }
    }
    println!("{runs} runs: {totals:?}");
    for what in FAULTS.iter().chain(&rare::OF_CACHES).filter(|_| runs >= 50) {
        assert!(totals.contains_key(*what), "{what} never happened");
    }
}

#[test]
fn one_seed_is_one_run() {
    assert_eq!(caches(1, None), caches(1, None));
}

/// Asserts that some run finds the bug by a violation that contains `symptom`.
fn assert_found(bug: Bug, symptom: &str) {
    let is_found = |seed: &u64| {
        let violations = caches(*seed, Some(bug)).violations;
        violations.iter().any(|violation| violation.contains(symptom))
    };
    let found = (0..20).filter(is_found).count();
    println!("{bug:?}: found by {found} seeds of 20");
    assert!(found >= 5, "found by {found} seeds of 20");
}

#[test]
fn a_cache_that_ignores_gaps_is_found() {
    assert_found(Bug::HidesGaps, "instead of");
}

#[test]
fn a_cache_that_misses_events_is_found() {
    assert_found(Bug::DropsEvents, "instead of");
}
