//! Locks acquired outside the runtime of their session, and clients with unusual settings.

use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;
use zk_recipes::{Guard, Holding, Loss, Mutex, Options};
use zk_session::Client;
use zk_testkit::serve::Embedded;

use super::{LOCK, client, eventually, lock_nodes, until};

#[test]
fn a_lock_can_be_acquired_outside_a_runtime() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("one");
    let embedded = runtime.block_on(Embedded::start(1)).expect("loopback");
    let mutex =
        runtime.block_on(async { Mutex::new(&client(&embedded).await, LOCK).expect("valid") });
    let acquiring = mutex.acquire();
    let guard = runtime.block_on(acquiring).expect("acquired");
    let releasing = guard.release();
    runtime.block_on(releasing).expect("released");
    assert!(lock_nodes(&embedded).is_empty());
}

/// Acquires the lock on a runtime that ends at once.
async fn acquired_elsewhere(mutex: Mutex) -> Guard {
    let elsewhere = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(mutex.acquire()).expect("acquired")
    });
    until("the end of the thread", || elsewhere.is_finished()).await;
    elsewhere.join().expect("no panic")
}

#[tokio::test]
async fn the_session_of_a_lock_runs_on_its_own_runtime() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (owner, vandal) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::new(&owner, LOCK).expect("valid");
    drop(acquired_elsewhere(mutex.clone()).await);
    eventually(&embedded, "released", |embedded| lock_nodes(embedded).is_empty()).await;
    let guard = acquired_elsewhere(mutex).await;
    assert_eq!(guard.state(), Holding::Held);
    vandal.delete(&guard.node_path(), None).await.expect("the node exists");
    assert_eq!(guard.lost().await, Loss::NodeDeleted);
    assert_eq!(guard.state(), Holding::Lost(Loss::NodeDeleted));
}

#[tokio::test]
async fn when_the_runtime_of_a_session_ends_its_locks_are_lost() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let acquiring = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let client = Client::connect(&at).await.expect("connected");
            let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("free");
            (client, guard)
        })
    });
    until("the end of the thread", || acquiring.is_finished()).await;
    let (_client, guard) = acquiring.join().expect("no panic");
    assert!(matches!(guard.state(), Holding::Lost(Loss::Ended(_))), "{:?}", guard.state());
    assert!(matches!(guard.lost().await, Loss::Ended(_)));
}

#[tokio::test]
async fn a_request_timeout_does_not_limit_locks() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let hasty = client(&embedded).await.with_request_timeout(Some(Duration::from_millis(20)));
    let mutex = Mutex::new(&hasty, LOCK).expect("valid");
    let guard = mutex.acquire().await.expect("acquired");
    embedded.kill(0);
    let releasing = tokio::spawn(guard.release());
    let entering = tokio::spawn(mutex.acquire());
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!releasing.is_finished() && !entering.is_finished());
    assert_eq!(mutex.pending_cleanups(), 1);
    embedded.restart(0).await.expect("the port is free");
    releasing.await.expect("no panic").expect("released");
    let guard = entering.await.expect("no panic").expect("the old node is gone");
    guard.release().await.expect("released");
    assert!(lock_nodes(&embedded).is_empty());
}

#[tokio::test]
async fn a_release_by_a_dropped_guard_is_reported_as_such() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    for options in [Options::new(), Options::new().revocable()] {
        let mutex = Mutex::with(&client, LOCK, options).expect("valid");
        let guard = mutex.acquire().await.expect("acquired");
        let lost = guard.lost();
        guard.release().await.expect("released");
        assert_eq!(lost.await, Loss::Released);
        let lost = mutex.acquire().await.expect("acquired").lost();
        assert_eq!(lost.await, Loss::Released, "its guard was dropped");
    }
}
