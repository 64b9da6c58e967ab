//! Somebody gives up, at any moment: nothing may be left behind.

use std::time::Duration;

use zk_recipes::Mutex;
use zk_session::State;
use zk_testkit::serve::Embedded;

use super::{LOCK, client, eventually, lock_nodes, watches};

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
        // From before its first step to long after its last.
        for steps in 0..60 {
            let attempt = tokio::spawn(mutex.acquire());
            for _ in 0..steps {
                tokio::task::yield_now().await;
            }
            attempt.abort();
            let _ = attempt.await;
            eventually(&embedded, "nothing is left of the attempt", |embedded| {
                lock_nodes(embedded).len() == kept && watches(embedded) <= kept
            })
            .await;
        }
        drop(guard);
        eventually(&embedded, "the lock is free", |embedded| lock_nodes(embedded).is_empty()).await;
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
    assert!(matches!(client.state(), State::Connected { .. }), "the session lives on");
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
async fn what_is_dropped_counts_as_pending_at_once() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    for _ in 0..3 {
        let guard = mutex.acquire().await.expect("acquired");
        assert_eq!(mutex.pending_cleanups(), 0);
        drop(guard);
        assert_eq!(mutex.pending_cleanups(), 1, "a guard");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        drop(mutex.acquire());
        assert_eq!(mutex.pending_cleanups(), 1, "a future");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        let releasing = mutex.acquire().await.expect("acquired").release();
        assert_eq!(mutex.pending_cleanups(), 1, "a release under way");
        releasing.await.expect("released");
        eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
        assert_eq!(lock_nodes(&embedded), Vec::<String>::new());
    }
}
