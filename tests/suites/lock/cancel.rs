//! Attempts and guards dropped at any moment: nothing may be left behind.

use std::time::Duration;

use zk_proto::{Acl, ErrorCode, Id, Perms};
use zk_recipes::{LockError, Mutex, Options, Owner, ReentrantMutex, Semaphore};
use zk_session::{Error, State};
use zk_testkit::serve::Embedded;

use super::{LOCK, begun, client, eventually, lock_nodes, watches};

#[tokio::test]
async fn a_waiter_that_gives_up_leaves_the_queue() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, quitter, patient) =
        (client(&embedded).await, client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let quitting = Mutex::new(&quitter, LOCK).expect("valid").acquire();
    let gave_up = tokio::time::timeout(Duration::from_millis(50), quitting).await;
    assert!(gave_up.is_err(), "the lock was held");
    let waiting = tokio::spawn(Mutex::new(&patient, LOCK).expect("valid").acquire());
    eventually(&embedded, "the quitter's node is gone", |embedded| {
        lock_nodes(embedded).len() == 2 && watches(embedded) >= 1
    })
    .await;
    guard.release().await.expect("released");
    let guard = waiting.await.expect("no panic").expect("acquired");
    guard.release().await.expect("released");
    eventually(&embedded, "no node and no watch", |embedded| {
        lock_nodes(embedded).is_empty() && watches(embedded) == 0
    })
    .await;
}

#[tokio::test]
async fn an_attempt_can_be_dropped_at_any_moment() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, quitter) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::new(&quitter, LOCK).expect("valid");
    for contended in [false, true] {
        let guard = match contended {
            false => None,
            true => {
                Some(Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired"))
            }
        };
        let kept = usize::from(contended);
        // From before the first step to long after the last.
        for steps in 0..60 {
            let attempt = tokio::spawn(mutex.acquire());
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            attempt.abort();
            let _ = attempt.await;
            eventually(&embedded, "no node of the attempt", |embedded| {
                lock_nodes(embedded).len() == kept && watches(embedded) <= kept
            })
            .await;
        }
        drop(guard);
        eventually(&embedded, "free", |embedded| lock_nodes(embedded).is_empty()).await;
    }
    assert_eq!(watches(&embedded), 0);
}

#[tokio::test]
async fn a_dropped_guard_releases_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    drop(mutex.acquire().await.expect("acquired"));
    mutex.acquire().await.expect("acquired again").release().await.expect("released");
    eventually(&embedded, "no node", |embedded| lock_nodes(embedded).is_empty()).await;
}

#[tokio::test]
async fn a_guard_dropped_without_a_connection_releases_the_lock_later() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("acquired");
    embedded.kill(0);
    let mut states = client.states();
    states.wait_for(|state| *state == State::Suspended).await.expect("the driver runs");
    drop(guard);
    embedded.restart(0).await.expect("the port is still free");
    eventually(&embedded, "no node", |embedded| lock_nodes(embedded).is_empty()).await;
    assert!(matches!(client.state(), State::Connected { .. }), "the session is alive");
}

#[tokio::test]
async fn the_last_guard_keeps_the_session_until_the_lock_is_released() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("acquired");
    drop(client);
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert_eq!(lock_nodes(&embedded).len(), 1, "the guard holds the lock");
    guard.release().await.expect("released");
    eventually(&embedded, "the session is closed", |embedded| {
        embedded.with(|ensemble| ensemble.sessions().count()) == 0
    })
    .await;
    assert!(lock_nodes(&embedded).is_empty());
}

#[tokio::test]
async fn dropped_guards_and_futures_count_as_pending_at_once() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    for _ in 0..3 {
        let guard = mutex.acquire().await.expect("acquired");
        assert_eq!(mutex.pending_cleanups(), 0);
        drop(guard);
        assert_eq!(mutex.pending_cleanups(), 1, "a guard");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        drop(begun(mutex.acquire()));
        assert_eq!(mutex.pending_cleanups(), 1, "a future");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        let releasing = mutex.acquire().await.expect("acquired").release();
        assert_eq!(mutex.pending_cleanups(), 1, "a pending release");
        releasing.await.expect("released");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        assert_eq!(lock_nodes(&embedded), Vec::<String>::new());
    }
}

/// Options whose ACL allows no client to delete nodes.
fn without_delete() -> Options {
    let anyone = Id { scheme: "world", id: Some("anyone") };
    Options::new().parent_acl(&[Acl { perms: Perms::READ | Perms::CREATE, id: anyone }])
}

const NO_AUTH: LockError = LockError::Request(Error::Server(ErrorCode::NO_AUTH));

#[tokio::test]
async fn a_node_that_may_not_be_deleted_is_counted_and_does_not_block() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::with(&one, LOCK, without_delete()).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    let node = guard.node().to_owned();
    let refused = guard.release().await.expect_err("deletion is refused");
    assert_eq!((refused.operation, &*refused.path, refused.reason), ("release", LOCK, NO_AUTH));
    assert_eq!((mutex.pending_cleanups(), mutex.abandoned_nodes()), (0, 1));
    assert_eq!(
        mutex.acquire().await.map(drop).map_err(LockError::from),
        Err(LockError::Abandoned { node })
    );
    // Another lock of the same client knows the second node, too; another client may wait for it.
    let same = ReentrantMutex::with(&one, LOCK, without_delete()).expect("valid");
    let failed = same.acquire_as(Owner::unique()).await.map(drop).map_err(LockError::from);
    assert!(matches!(failed, Err(LockError::Abandoned { .. })), "{failed:?}");
    let limit = Duration::from_millis(50);
    let waiting = Mutex::new(&other, LOCK).expect("valid").acquire().timeout(limit).await;
    assert_eq!(waiting.map(drop).map_err(LockError::from), Err(LockError::TimedOut));
    let abandoned = || (mutex.abandoned_nodes(), same.abandoned_nodes());
    eventually(&embedded, "all deletions are refused", |_| abandoned() == (2, 1)).await;
    assert_eq!((mutex.pending_cleanups(), same.pending_cleanups()), (0, 0));
}

#[tokio::test]
async fn permit_nodes_that_may_not_be_deleted_are_counted() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = Semaphore::with(&client, LOCK, Some(3), without_delete()).expect("valid");
    let guard = semaphore.acquire_many(2).await.expect("free");
    let refused = guard.release().await.expect_err("deletion is refused");
    assert_eq!((refused.operation, &*refused.path, refused.reason), ("release", LOCK, NO_AUTH));
    // Both permit nodes, and the place in the queue.
    eventually(&embedded, "all nodes are counted", |_| semaphore.abandoned_nodes() == 3).await;
}
