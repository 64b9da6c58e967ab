//! `docs/coming-from.md`: it has the names that users of other clients search, each name of this
//! project exists, and each row about a lock that is shared names a test with that client.

use std::fs;

use super::answers::{answered_below, rows};
use super::links::code_spans;
use super::names::listings;
use super::root;

const SEARCHED: [&str; 54] = [
    "ChildrenW",
    "ChildrenWatch",
    "Conn.State",
    "Connect",
    "ConnectionLossException",
    "ConnectionStateErrorPolicy",
    "ConnectionStateListener",
    "Counter",
    "CuratorCache",
    "CuratorFrameworkFactory",
    "DataWatch",
    "DistributedAtomicLong",
    "DistributedBarrier",
    "DistributedDoubleBarrier",
    "DistributedQueue",
    "DoubleBarrier",
    "Election",
    "EnsembleProvider",
    "ExistsW",
    "GroupMember",
    "InterProcessMultiLock",
    "InterProcessMutex",
    "InterProcessReadWriteLock",
    "InterProcessSemaphoreMutex",
    "InterProcessSemaphoreV2",
    "KazooClient",
    "KazooRetry",
    "KeeperException",
    "LeaderLatch",
    "LeaderLatchListener",
    "LeaderSelector",
    "Lock",
    "LockTimeout",
    "LockingQueue",
    "Multi",
    "NewLock",
    "NodeCache",
    "OperationTimeoutError",
    "Party",
    "PathChildrenCache",
    "PersistentNode",
    "RECONNECTED",
    "RetryPolicy",
    "Semaphore",
    "SessionExpiredError",
    "SetPartitioner",
    "SharedCount",
    "TestingServer",
    "add_listener",
    "guaranteed",
    "handlers",
    "inBackground",
    "sessionTimeoutMs",
    "withProtection",
];

/// Returns the rows about names: those of others, and what they are here.
fn names(page: &str) -> Vec<(&str, &str)> {
    let (names, _) = page.split_once("## Locks that are shared\n").expect("the last section");
    let pair = |row: Vec<_>| <[_; 2]>::try_from(row).expect("two cells").into();
    rows(names).into_iter().map(pair).collect()
}

fn page() -> String {
    fs::read_to_string(root().join("docs/coming-from.md")).expect("the page")
}

#[test]
fn every_name_that_is_searched_is_on_the_page() {
    let page = page();
    let rows = names(&page);
    let theirs: Vec<_> = rows.iter().flat_map(|(theirs, _)| code_spans(theirs)).collect();
    let missing = SEARCHED.iter().find(|name| !theirs.contains(name));
    assert_eq!(missing, None);
    // Rows that refer to others.
    for (_, here) in &rows {
        let reference = here.strip_prefix("as `").and_then(|rest| rest.split_once("` above"));
        if let Some((name, _)) = reference {
            assert!(theirs.contains(&name), "{name}");
        }
    }
}

#[test]
fn every_name_of_this_project_exists() {
    let (page, listings) = (page(), listings().replace("<C>", "").replace("<D>", ""));
    let mut checked = 0;
    let is_name = |c: char| c.is_alphanumeric() || c == '_';
    for (theirs, here) in names(&page) {
        if here.starts_with("as `") {
            continue;
        }
        for span in code_spans(here).filter(|span| !span.contains([' ', '-', ',', '/'])) {
            let path = span.trim_start_matches('.').split('(').next().expect("a name");
            let last = path.rsplit("::").next().expect("a name");
            // Of the test server, of Java and Python, and features.
            let others = [
                "Embedded",
                "expire_session",
                "kill",
                "false",
                "SUSPENDED",
                "LOST",
                "tracing",
                "SharedCount",
            ];
            if others.contains(&last) {
                continue;
            }
            let is_end = |rest: &str| !rest.starts_with(is_name);
            let name = format!("::{path}");
            let exists = listings.split(&*name).skip(1).any(is_end);
            assert!(exists, "{theirs}: {path} does not exist");
            checked += 1;
        }
    }
    assert!(checked > 90, "{checked} names");
}

#[test]
fn every_lock_that_is_shared_has_a_test_with_the_other_client() {
    let rows = answered_below("docs/coming-from.md", "## Locks that are shared\n");
    let is_tested = |row: &Vec<String>| row.last().is_some_and(|last| last.contains("interop/"));
    assert!(rows.len() > 6 && rows.iter().all(is_tested), "{rows:?}");
}
