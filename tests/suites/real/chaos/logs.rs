//! The judgement of a run by the transaction logs of the servers alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{env, io};

use tokio::task::block_in_place;
use tokio::time::sleep;
use zk_recipes::machine::Scheme;
use zk_session::proto::Zxid;
use zk_testkit::log_oracle::{LogOracle, Place, Verdict, Violation};
use zk_testkit::real::RealEnsemble;
use zk_testkit::transaction_log::{Change, Union, replay};

use super::HANG_TIMEOUT;
use super::holders;
use super::services::{ELECTION, HOLDER_MARKER, LEADER_MARKER};

/// Judges the run after its end, and compares its acquisitions with what the clients report: for each
/// lock path, the tokens with which they have acquired it, and those with which they have written.
///
/// # Panics
///
/// If a guarantee is broken, or something is left.
pub(super) async fn judge(ensemble: &mut RealEnsemble, reports: &[(&str, &[Zxid], &[Zxid])]) {
    wait_until_all_sessions_are_closed(ensemble).await;
    let began = Instant::now();
    let folders = [0, 1, 2].map(|server| ensemble.log_folder(server));
    let (union, verdict) = block_in_place(|| read(&folders)).expect("readable logs");
    let seconds = began.elapsed().as_secs_f64();
    println!("by the servers' logs, read in {seconds:.1} s: {}; {verdict}", describe(&union));
    let mut found = Vec::new();
    for (lock, acquired, written) in reports {
        let counts = verdict.counts(lock);
        println!(
            "{lock}: {} acquisitions by the logs, {} by the clients; {} turns with a write by the \
             logs, {} by the clients",
            counts.acquisitions,
            acquired.len(),
            counts.turns,
            written.len()
        );
        found.extend(verdict.contradictions(lock, acquired, written));
    }
    found.extend(findings(&union, &verdict));
    if !found.is_empty() {
        println!("the data of the servers is in {}", ensemble.keep().display());
    }
    assert_eq!(found, [""; 0]);
}

fn read(folders: &[PathBuf]) -> io::Result<(Union, Verdict)> {
    let mut oracle = LogOracle::new(places());
    let union = replay(folders, |logged, body| {
        let change = Change::decode(logged.operation, body)?;
        oracle.apply(&logged, &change);
        Ok(())
    })?;
    Ok((union, oracle.conclude()))
}

fn describe(union: &Union) -> String {
    let Union { logged, repeated, committed, dropped, forgotten, missing, differing } = union;
    format!(
        "{committed} transactions committed, {} not, {} of them forgotten, {missing} missing, \
         {logged:?} in the logs, {repeated:?} of them again, {} that differ",
        dropped.len(),
        forgotten.len(),
        differing.len(),
    )
}

/// Returns broken guarantees. If the logs are incomplete or contradict themselves, the servers broke
/// theirs: what is found after that proves nothing.
fn findings(union: &Union, verdict: &Verdict) -> Vec<String> {
    let mut found: Vec<_> = verdict.violations.iter().map(Violation::to_string).collect();
    if union.committed == 0 {
        found.push("the logs have no transactions".into());
    }
    let is_incomplete = union.missing > 0 || !union.differing.is_empty();
    if is_incomplete {
        found.push(format!("{} missing, differing {:?}", union.missing, union.differing));
    }
    let is_contradictory =
        matches!(verdict.violations.first(), Some(Violation::Contradiction { .. }));
    if is_incomplete || is_contradictory {
        found.push("the servers are at fault, not the client".into());
    }
    found
}

fn places() -> Vec<Place> {
    let contest = |place: holders::Place, markers| Place {
        lock: place.lock,
        scheme: place.scheme,
        register: Some(place.register),
        markers,
    };
    vec![
        contest(holders::Place::CURATOR, &["/chaos-lock-holder-", HOLDER_MARKER]),
        contest(holders::Place::KAZOO, &["/chaos-kazoo-holder-"]),
        Place {
            lock: ELECTION,
            scheme: Scheme::CURATOR_LEADER,
            register: None,
            markers: &[LEADER_MARKER],
        },
    ]
}

/// Closed sessions are in the logs. Others end with their timeout.
async fn wait_until_all_sessions_are_closed(ensemble: &RealEnsemble) {
    let are_closed = || {
        let monitor = ensemble.four_letter(ensemble.leader()?, "mntr").ok()?;
        let sessions = monitor.lines().find_map(|line| line.strip_prefix("zk_global_sessions\t"));
        sessions.map(|sessions| sessions == "0")
    };
    let end = Instant::now() + HANG_TIMEOUT;
    while block_in_place(are_closed) != Some(true) {
        assert!(Instant::now() < end, "a session stays open");
        sleep(Duration::from_millis(100)).await;
    }
}

/// Judges the data of a run that was kept, in the folder that `ZK_CHAOS_KEPT` names.
#[test]
#[ignore = "judges what a run has kept"]
fn kept_logs_are_judged() {
    let kept = env::var_os("ZK_CHAOS_KEPT").expect("ZK_CHAOS_KEPT names a folder");
    let folder = |server| Path::new(&kept).join(format!("{server}/data/version-2"));
    let (union, verdict) = read(&[1, 2, 3].map(folder)).expect("readable logs");
    println!("by the servers' logs: {}; {verdict}", describe(&union));
    assert_eq!(findings(&union, &verdict), [""; 0]);
}
