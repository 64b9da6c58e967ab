//! Decisions about which logged transactions are committed.

use std::fs;

use tempfile::TempDir;
use zk_proto::OpCode;

use super::*;
use crate::transaction_log::Change;

/// Decides by the servers that have logged each transaction. Returns what is dropped, and how many
/// are missing.
fn decide(logged: &[(u32, u32, &[usize])]) -> (Vec<(u32, u32)>, u64) {
    let mut committed = Committed::default();
    for (epoch, counter, servers) in logged {
        let zxid = Zxid(i64::from(*epoch) << 32 | i64::from(*counter));
        for server in *servers {
            committed.record(zxid, *server).expect("a small counter");
        }
    }
    committed.decide(3);
    let dropped = committed.dropped.iter().map(|zxid| (zxid.epoch(), zxid.counter()));
    (dropped.collect(), committed.missing)
}

#[test]
fn a_majority_commits_all_before() {
    assert_eq!(decide(&[(1, 1, &[0, 1]), (1, 2, &[0]), (1, 3, &[0, 2])]), (vec![], 0));
    assert_eq!(decide(&[(1, 1, &[0, 1]), (1, 3, &[0, 2])]), (vec![], 1));
}

#[test]
fn what_only_the_last_leader_has_logged_is_not_committed() {
    assert_eq!(decide(&[(1, 1, &[0, 1]), (1, 2, &[0])]), (vec![(1, 2)], 0));
}

/// It joined the next leader late, and got a snapshot.
#[test]
fn what_a_server_has_logged_that_was_away_when_the_next_epoch_began_is_not_committed() {
    let logged = [
        (1, 1, &[0, 1, 2][..]),
        (1, 2, &[0]),
        (2, 1, &[1, 2]),
        (2, 2, &[1, 2]),
        (2, 3, &[0, 1, 2]),
    ];
    assert_eq!(decide(&logged), (vec![(1, 2)], 0));
}

/// It leads the next epoch, and its followers got a snapshot.
#[test]
fn what_the_next_leader_has_logged_is_committed() {
    let logged = [(1, 1, &[0, 1, 2][..]), (1, 2, &[0]), (2, 1, &[0, 1])];
    assert_eq!(decide(&logged), (vec![], 0));
}

#[test]
fn an_epoch_that_committed_nothing_decides_nothing() {
    let logged = [(1, 1, &[0, 1][..]), (1, 2, &[0]), (2, 1, &[0]), (3, 1, &[1, 2])];
    assert_eq!(decide(&logged), (vec![(1, 2), (2, 1)], 0));
    let logged = [(1, 1, &[0, 1][..]), (1, 2, &[0]), (2, 1, &[0]), (3, 1, &[0, 2])];
    assert_eq!(decide(&logged), (vec![], 0));
}

/// Its leader began without what the third server had, and then led the epoch after it.
#[test]
fn an_epoch_that_only_the_next_leader_has_kept_decides() {
    let logged =
        [(1, 1, &[0, 1, 2][..]), (1, 2, &[2]), (2, 1, &[0]), (3, 1, &[0, 2]), (3, 2, &[0, 2])];
    assert_eq!(decide(&logged), (vec![(1, 2)], 0));
}

/// It left its leader, wrote what it had received, and followed the next leader without that.
#[test]
fn what_a_server_has_logged_before_it_went_back_is_not_committed() {
    let logged =
        [(1, 1, &[0, 1, 2][..]), (1, 2, &[0, 1, 2]), (1, 3, &[0]), (1, 2, &[0]), (2, 1, &[0, 1])];
    assert_eq!(decide(&logged), (vec![(1, 3)], 0));
}

#[test]
fn what_one_of_a_majority_has_forgotten_is_not_committed() {
    let mut committed = Committed::default();
    let logged = [(0, 1), (0, 2), (1, 1), (1, 2), (1, 1)];
    let repeated =
        logged.map(|(server, zxid)| committed.record(Zxid(zxid), server).expect("small"));
    assert_eq!(repeated, [false, false, false, false, true]);
    committed.decide(3);
    let two = BTreeSet::from([Zxid(2)]);
    assert_eq!(
        (committed.dropped, committed.forgotten, committed.committed),
        (two.clone(), two, 1)
    );
}

#[test]
fn a_counter_beyond_memory_is_an_error() {
    assert!(Committed::default().record(Zxid(-1), 0).is_err());
}

/// Two servers of one ensemble log the same. These are of two ensembles, so the sessions differ.
#[test]
fn logs_of_files_are_replayed_as_one() {
    let golden = include_bytes!("../golden/3.8.0.log");
    let other = include_bytes!("../golden/3.9.5.log");
    let folders = [(); 3].map(|()| TempDir::new().expect("a folder"));
    let write = |server: usize, name: &str, bytes: &[u8]| {
        fs::write(folders[server].path().join(name), bytes).expect("a file");
    };
    write(0, "log.1", golden);
    write(1, "log.1", golden);
    // The server logs all again, and not as the others.
    write(2, "log.1", other);
    write(2, "log.2", other);
    write(2, "snapshot.2", b"ZKSN");
    let mut seen = Vec::new();
    let union = replay(&folders, |logged, body| {
        seen.push((logged.zxid, logged.operation));
        Change::decode(logged.operation, body).map(drop)
    })
    .expect("readable logs");
    assert_eq!((union.logged, union.repeated), (vec![13, 13, 26], vec![0, 0, 13]));
    assert_eq!((union.committed, union.missing, union.differing.len()), (13, 0, 13));
    assert!(seen.iter().map(|(zxid, _)| zxid.counter()).eq(1..=13));
    assert_eq!(seen[12].1, OpCode::CLOSE_SESSION);

    // Cut off in the last transaction.
    fs::remove_file(folders[1].path().join("log.1")).expect("a file");
    fs::remove_file(folders[2].path().join("log.1")).expect("a file");
    write(2, "log.2", &golden[..golden.len() - 40]);
    let union = replay(&folders, |_, _| Ok(())).expect("readable logs");
    assert_eq!((union.committed, union.dropped.len(), union.differing.len()), (12, 1, 0));
    let refused = replay(&folders, |logged, _| Change::decode(logged.operation, b"").map(drop));
    assert!(refused.is_err());
}
