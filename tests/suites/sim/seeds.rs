//! Random runs from seeds.

use std::collections::BTreeMap;
use std::time::Duration;

use cpu_time::ProcessTime;
use zk_testkit::sim::{Fault, Report, Scale, Targets, rare, run};
use zk_testkit::suite::{is_long, number};

/// What must happen at least once in a large number of runs, besides every fault.
const REACHED: [&str; 12] = [
    "acquisitions judged",
    "answered: applied",
    "answered: not applied",
    "answered: unknown",
    "deadlines passed",
    "gaps",
    "lock: refused by a full queue",
    "read-only",
    "reads judged",
    "sessions ended",
    "sessions renewed",
    "watches fired",
];

/// # Panics
///
/// If the run has violations. The message says how to repeat it, and how to draw it if `sim` can.
fn assert_clean(test: &str, scale: &Scale, Report { seed, violations, .. }: &Report) {
    let recipes = Scale { targets: Targets::Recipes, ..Scale::small() };
    let tasks = Scale { targets: Targets::Tasks, ..Scale::small() };
    let crowd = Scale { targets: Targets::Crowd, ..Scale::small() };
    let drawn = [
        (Scale::small(), ""),
        (Scale::large(), " --large"),
        (recipes, " --workload recipes"),
        (tasks, " --workload tasks"),
        (crowd, " --workload crowd"),
    ];
    let draw = drawn.iter().find(|(it, _)| it == scale).map_or(String::new(), |(_, options)| {
        let sim = "cargo run -p zk-testkit --bin sim --";
        format!("\ndraw: {sim}{options} --seed {seed} --svg seed-{seed}.svg")
    });
    assert!(
        violations.is_empty(),
        "seed {seed}: {violations:#?}\n\
         replay: ZK_SEED={seed} cargo test -p zk-testkit --test sim {test} -- --nocapture{draw}"
    );
}

fn every_run_is_clean(test: &str, scale: &Scale, runs: u64) {
    if let Some(seed) = number("ZK_SEED") {
        return assert_clean(test, scale, &run(seed, scale, None, true));
    }
    let first = number("ZK_SIM_FROM").unwrap_or(0);
    let runs = number("ZK_SIM_RUNS").unwrap_or(runs);
    let start = ProcessTime::now();
    let (mut steps, mut acquisitions) = (0, 0);
    let mut totals = BTreeMap::new();
    for seed in first..first + runs {
        let report = run(seed, scale, None, false);
        assert_clean(test, scale, &report);
        steps += report.steps;
        acquisitions += report.acquisitions;
        for (what, count) in report.counts {
            *totals.entry(what).or_insert(0) += count;
        }
    }
    let cpu = start.elapsed().max(Duration::from_micros(1));
    let per_minute = runs as f64 * 60.0 / cpu.as_secs_f64();
    println!("{runs} runs of {scale:?}: {cpu:?} of CPU, {per_minute:.0} runs per CPU-minute");
    println!("{steps} steps, {acquisitions} acquisitions; {totals:?}");
    if scale.targets == Targets::Crowd {
        assert!(totals.get("lists shared").is_some_and(|count| *count > 0), "{totals:?}");
    }
    if runs >= 50 {
        let of_recipes = match scale.targets {
            Targets::Locks => &["locks without a list"][..],
            Targets::Recipes => &rare::OF_RECIPES,
            Targets::Crowd => &[],
            _ => &rare::OF_TASKS,
        };
        for what in REACHED.iter().chain(&Fault::NAMES).chain(of_recipes) {
            assert!(totals.get(*what).is_some_and(|count| *count > 0), "{what} never happened");
        }
        assert!(acquisitions > runs * 10, "locks are hardly ever acquired");
    }
}

/// No run has a violation, and together they reach everything in [`REACHED`].
#[test]
fn small_runs() {
    every_run_is_clean("small_runs", &Scale::small(), 60);
}

/// Several locks at once, conversions, the textbook lock, a barrier and a double barrier.
#[test]
fn runs_of_the_other_recipes() {
    let scale = Scale { targets: Targets::Recipes, ..Scale::small() };
    every_run_is_clean("runs_of_the_other_recipes", &scale, 50);
}

/// Tasks that take turns with the nodes of their clients, and convert locks.
#[test]
fn runs_of_tasks_that_take_turns() {
    let scale = Scale { targets: Targets::Tasks, ..Scale::small() };
    every_run_is_clean("runs_of_tasks_that_take_turns", &scale, 50);
}

/// Attempts of one client that share the lists of a queue.
#[test]
fn runs_of_crowds() {
    let scale = Scale { targets: Targets::Crowd, ..Scale::small() };
    every_run_is_clean("runs_of_crowds", &scale, 40);
}

/// Sessions that are never resumed, and that end at operations which an early Keeper lacks.
#[test]
fn runs_on_a_keeper() {
    let scale = Scale { is_keeper: true, ..Scale::small() };
    let report = |seed| run(seed, &scale, None, false);
    let runs = number("ZK_SIM_RUNS").unwrap_or(24);
    let reports: Vec<_> = (0..runs).map(report).collect();
    for report in &reports {
        assert_clean("runs_on_a_keeper", &scale, report);
    }
    let count = |what| reports.iter().filter_map(|it| it.counts.get(what)).sum::<u64>();
    assert!(reports.iter().map(|it| it.acquisitions).sum::<u64>() > runs * 10);
    assert!(count("sessions renewed") > runs && count("session: resumed") == 0);
    for what in ["lock: lost with the session", "lock: looks for a lost create"] {
        assert!(count(what) > 0, "{what} never happened");
    }
}

/// Longer runs with more clients. Use this test, in release and alone, to measure speed.
#[test]
fn large_runs() {
    every_run_is_clean("large_runs", &Scale::large(), 2);
}

#[test]
fn one_seed_is_one_run() {
    let reports = [1, 1, 2].map(|seed| run(seed, &Scale::small(), None, false));
    assert_eq!(reports[0], reports[1]);
    assert_ne!(reports[0].hash, reports[2].hash);
}

/// Replies are too short for a list of more than two contenders, or for a create of two permits.
/// Contenders read the list in pieces. The others that cannot read a list leave.
#[test]
fn runs_with_short_replies() {
    let scale = Scale { max_reply: 190, clients: 8, ..Scale::small() };
    if let Some(seed) = number("ZK_SEED") {
        return assert_clean("runs_with_short_replies", &scale, &run(seed, &scale, None, true));
    }
    let mut totals = BTreeMap::new();
    for seed in 0..if is_long() { 30 } else { 20 } {
        let report = run(seed, &scale, None, false);
        assert_clean("runs_with_short_replies", &scale, &report);
        for (what, count) in report.counts {
            *totals.entry(what).or_insert(0) += count;
        }
        *totals.entry("acquisitions").or_insert(0) += report.acquisitions;
    }
    println!("{totals:?}");
    for what in [
        "lock: reads a list in pieces",
        "lists too long",
        "acquisitions",
        "answered: applied",
        "cut",
        "stall",
    ] {
        assert!(totals.get(what).is_some_and(|count| *count > 0), "{what} never happened");
    }
}
