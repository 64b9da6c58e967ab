//! Recordings of clients, replayed.

use std::thread;

use zk_proto::recording::{Kind, Reader, Writer};
use zk_recipes::recording::{ReplayError, replay};
use zk_testkit::sim::{Bug, Scale, Targets, record};
use zk_testkit::suite::number;

/// Whatever faults a run has, each of its clients and machines decides the same again. The tests of
/// elections, kept nodes and caches replay some of their own runs.
#[test]
fn every_client_of_a_run_with_faults_is_replayed() {
    // Two hundred in CI, with optimizations.
    let runs = number("ZK_SIM_RUNS").unwrap_or(6);
    let all = [Targets::Locks, Targets::Recipes, Targets::Tasks, Targets::Crowd];
    let counts = thread::scope(|scope| {
        let workers = all.map(|targets| scope.spawn(move || replay_runs(targets, runs)));
        workers.map(|worker| worker.join().expect("every client is replayed"))
    });
    let sum = |what: usize| counts.iter().map(|counts| counts[what]).sum::<u64>();
    let [clients, records, decided] = [0, 1, 2].map(sum);
    println!("{clients} clients, {records} records, {decided} machines");
    assert!(clients >= runs * 12 && records > runs * 15_000);
    assert!(decided > runs * 100);
}

/// Returns how many clients were replayed, with how many records, and how many machines decided.
fn replay_runs(targets: Targets, runs: u64) -> [u64; 3] {
    let scale = Scale { targets, ..Scale::small() };
    let (mut clients, mut records, mut decided) = (0, 0, 0);
    for seed in 0..runs {
        let sim = record(seed, &scale, None);
        for (number, recording) in sim.recordings().enumerate() {
            let replayed = match replay(&recording) {
                Ok(replayed) => replayed,
                Err(error) => panic!("{targets:?}, seed {seed}, client {number}: {error}"),
            };
            assert_eq!(replayed.repeated, 0, "a machine is not described");
            (clients, records) = (clients + 1, records + replayed.records as u64);
            decided += replayed.decided as u64;
        }
    }
    [clients, records, decided]
}

/// A machine that was recorded with a bug decides otherwise than one without.
#[test]
fn a_replay_finds_machines_with_bugs() {
    let of_locks = [
        Bug::SearchesWithoutSync,
        Bug::TakesDisconnectForEvent,
        Bug::IgnoresContenders,
        Bug::KeepsLocksAcrossSessions,
        Bug::IgnoresOwnDeletion,
        Bug::TakesDisconnectForLeaseEnd,
    ];
    let of_recipes = [
        Bug::IgnoresOthersInside,
        Bug::SeesAnotherInside,
        Bug::TakesUpgradesForLost,
        Bug::CountsTwice,
        Bug::IgnoresBarriers,
        Bug::TakesLocksOfOthers,
    ];
    let all = of_locks.map(|bug| (Targets::Locks, bug));
    for (targets, bug) in all.into_iter().chain(of_recipes.map(|bug| (Targets::Recipes, bug))) {
        let scale = Scale { targets, ..Scale::small() };
        let found = (0..20).find_map(|seed| {
            let (errors, _) = record(seed, &scale, Some(bug)).replay();
            errors.into_iter().find_map(|error| match error {
                ReplayError::Diverged(divergence) => Some((seed, divergence)),
                _ => None,
            })
        });
        let (seed, divergence) = found.unwrap_or_else(|| panic!("{bug:?} is not found"));
        println!("{bug:?}: seed {seed}: {}", ReplayError::Diverged(divergence.clone()));
        assert!(divergence.machine.is_some(), "{bug:?}");
    }
    // The recorded descriptions include these bugs, so the replay repeats them.
    for bug in [Bug::WatchesParent, Bug::NeverRenewsWatches] {
        let (errors, decided) = record(2, &Scale::small(), Some(bug)).replay();
        assert!(errors.is_empty() && decided > 20, "{bug:?}: {errors:?}");
    }
}

/// A byte of an input that was changed changes a decision, which the replay finds.
#[test]
fn a_replay_of_an_altered_recording_diverges() {
    let sim = record(1, &Scale::small(), None);
    let recording = sim.recordings().next().expect("a client");
    replay(&recording).expect("the recording itself");
    let mut outcomes = [0; 3];
    for place in (100..recording.len()).step_by(recording.len() / 200) {
        let mut altered = recording.clone();
        altered[place] ^= 1;
        match replay(&altered) {
            // A byte of a body, which the session does not look at.
            Ok(_) => outcomes[0] += 1,
            Err(ReplayError::Diverged(_)) => outcomes[1] += 1,
            Err(_) => outcomes[2] += 1,
        }
    }
    println!("{outcomes:?}");
    assert!(outcomes[1] > 100);
}

/// An altered description of a machine makes the replay diverge, unless the byte did not matter.
#[test]
fn a_replay_with_other_machines_diverges() {
    let sim = record(1, &Scale::small(), None);
    let recording = sim.recordings().next().expect("a client");
    let records: Vec<_> = Reader::new(&recording).expect("one").flatten().collect();
    let described = |it: &zk_proto::recording::Record<'_>| {
        it.kind == Kind::ATTACH && it.fields().rest().len() > 20
    };
    let attached = records.iter().position(described).expect("a machine");
    let before: usize = records[..attached].iter().map(|record| record.bytes.len()).sum();
    let end = Writer::MAGIC.len() + before + records[attached].bytes.len();
    let description = end - records[attached].fields().rest().len()..end;
    let decided = replay(&recording).expect("the recording itself").decided;
    let (mut outcomes, mut tried) = ([0; 4], 0);
    for place in description {
        let mut altered = recording.clone();
        altered[place] ^= 1;
        outcomes[match replay(&altered) {
            Ok(replayed) if replayed.decided == decided => 0,
            // The name of an unknown machine.
            Ok(_) => 1,
            Err(ReplayError::Diverged(_)) => 2,
            Err(_) => 3,
        }] += 1;
        tried += 1;
    }
    println!("{outcomes:?} of {tried}");
    assert!(outcomes[0] * 4 < tried && outcomes[2] * 2 > tried);
}
