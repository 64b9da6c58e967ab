//! Pictures of runs, and the command that draws them.

use std::process::Command;
use std::time::Duration;

use zk_testkit::sim::picture::{View, svg};
use zk_testkit::sim::{Bug, Scale, record, run};

fn count(svg: &str, what: &str) -> usize {
    svg.matches(what).count()
}

#[test]
fn one_seed_is_one_picture() {
    let sim = record(3, &Scale::small(), None);
    let picture = svg(&sim, &View::default());
    assert_eq!(picture, svg(&record(3, &Scale::small(), None), &View::default()));
    assert_eq!(sim.report(), run(3, &Scale::small(), None, false), "recording changes a run");

    // Bars of holders and waiters, arrows of events, marks of faults.
    for (what, least) in [
        ("class=\"h\" x=", 30),
        ("class=\"w\" x=", 10),
        ("marker-end=", 10),
        ("<g><title>", 10),
        (">stall</text>", 1),
    ] {
        assert!(count(&picture, what) >= least, "{what}: {}", count(&picture, what));
    }
    for tag in ["text", "title", "g", "svg"] {
        let opened = count(&picture, &format!("<{tag}>")) + count(&picture, &format!("<{tag} "));
        assert_eq!(opened, count(&picture, &format!("</{tag}>")), "{tag}");
    }
    assert!(!picture.contains("class=\"vt\""), "no violation");
}

#[test]
fn a_view_shows_less() {
    let sim = record(3, &Scale::small(), None);
    let whole = svg(&sim, &View::default());
    let (from, to) = (Duration::from_secs(1), Some(Duration::from_secs(2)));
    let part = svg(&sim, &View { from, to, lock: Some("/locks/mutex".to_owned()) });
    assert!(part.len() < whole.len() / 4, "{} of {}", part.len(), whole.len());
    assert!(part.contains(">/locks/mutex</text>") && !part.contains(">/locks/shared</text>"));
}

#[test]
fn a_violation_is_in_the_picture() {
    let sim = record(0, &Scale::small(), Some(Bug::WatchesParent));
    let violations = sim.report().violations;
    let picture = svg(&sim, &View::default());
    assert!(!violations.is_empty());
    assert_eq!(count(&picture, "class=\"vt\" x="), violations.len());
    assert!(picture.contains("its deletion woke"));
}

#[test]
fn the_command_runs_seeds_and_names_the_one_that_fails() {
    let sim = |arguments: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_sim"))
            .args(arguments.split_whitespace())
            .output()
            .expect("the command runs");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        (output.status.code(), text, String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (status, summary, _) = sim("--seeds 0..3");
    assert_eq!(status, Some(0), "{summary}");
    assert!(summary.starts_with("3 runs, ") && summary.contains(" 0 runs with violations\n"));

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("run.svg");
    let (status, summary, _) =
        sim(&format!("--seed 0 --bug WatchesParent --svg {}", file.display()));
    assert_eq!(status, Some(1), "{summary}");
    let repeat =
        "repeat: cargo run -p zk-testkit --bin sim -- --seed 0 --bug WatchesParent --print";
    assert!(summary.contains(repeat), "{summary}");
    assert!(std::fs::read_to_string(file).expect("a picture").contains("its deletion woke"));

    for (wrong, error) in [
        ("--seeds 3..3", "has no seeds"),
        ("--seeds 3", "two numbers"),
        ("--bug Nothing", "the bugs are ResendsLostRequests, "),
        ("--lock /a", "--svg"),
        ("--seeds 0..3 --svg run.svg", "--seeds"),
        ("--seeds 0..3 --print", "--seeds"),
        ("--seed 0 --svg run.svg --from 2 --to 1", "--to"),
    ] {
        let (status, _, stderr) = sim(wrong);
        assert!(status == Some(2) && stderr.contains(error), "{wrong}: {stderr}");
    }
    let (status, _, stderr) = sim("--seed 0 --svg run.svg --lock /nowhere");
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.starts_with("error: the run has no lock /nowhere, but /locks/"), "{stderr}");
    let (status, summary, _) = sim(&format!("--seed {}", u64::MAX));
    assert_eq!(status, Some(0), "{summary}");
    assert!(summary.starts_with("1 runs, "), "{summary}");
}
