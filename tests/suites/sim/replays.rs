//! Recordings of clients, replayed.

use zk_session::recording::{ReplayError, replay};
use zk_testkit::sim::{Scale, Targets, record};
use zk_testkit::suite::is_long;

/// Whatever faults a run has, each of its clients decides the same again.
#[test]
fn every_client_of_a_run_with_faults_is_replayed() {
    let runs = if is_long() { 200 } else { 6 };
    let (mut clients, mut records) = (0, 0);
    let all = [Targets::Locks, Targets::Recipes, Targets::Crowd];
    for (targets, seeds) in all.map(|targets| (targets, 0..runs)) {
        let scale = Scale { targets, ..Scale::small() };
        for seed in seeds {
            let sim = record(seed, &scale, None);
            for (number, recording) in sim.recordings().enumerate() {
                match replay(&recording) {
                    Ok(replayed) => records += replayed.records,
                    Err(error) => panic!("seed {seed}, client {number}: {error}"),
                }
                clients += 1;
            }
        }
    }
    println!("{clients} clients, {records} records");
    assert!(clients >= runs * 8 && records > runs as usize * 10_000);
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
    assert!(outcomes[1] > 50);
}
