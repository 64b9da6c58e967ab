//! What `zk-explain --proxy` shows and records of a lock that `zk-lock` and Curator take in turns.

use zk_testkit::explained::{LOCK, Row, draw, has_latency, read, take_turns, wakes};
use zk_testkit::peers::Peer;
use zk_testkit::real;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_shared_with_curator_is_shown_and_recorded() {
    let Some(curator) = Peer::Curator.find_or_skip() else { return };
    let Some(server) = real::ensemble_or_skip(1) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let picture = take_turns(&server, &curator, folder.path()).await;
    println!("{picture}");
    let (names, rows) = read(&picture);
    assert_eq!(names.len(), 3);
    let found: Vec<_> = wakes(&rows).iter().map(|row| (row.from, row.to, &row.text[..])).collect();
    let [(0, Some(1), to_curator), (1, Some(2), from_curator)] = found[..] else {
        panic!("{found:?}");
    };
    for text in [to_curator, from_curator] {
        assert!(text.starts_with(&format!("NODE_DELETED {LOCK}/_c_")), "{text}");
    }
    // The end of its session deletes the node of `zk-lock`.
    let ours = ["CREATE2 ", "GET_CHILDREN ", "CLOSE_SESSION"];
    let curators = ["CREATE", "GET_CHILDREN", "GET_DATA ", "DELETE ", "CLOSE_SESSION"];
    for (lane, operations) in [(0, &ours[..]), (1, &curators[..]), (2, &ours[..])] {
        for operation in operations {
            let is_it = |row: &&Row| row.from == lane && row.text.starts_with(operation);
            assert!(rows.iter().find(is_it).is_some_and(has_latency), "{operation} of {lane}");
        }
    }
    // The recording has the same rows. Only the names of the clients differ.
    assert_eq!(read(&draw(folder.path(), &["--format", "lanes"])).1, rows);
}
