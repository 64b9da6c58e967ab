//! The lock is taken away: whoever held it, or waited for it, must learn of that.

use std::time::Duration;

use zk_recipes::{Holding, LockError, Loss, Mutex};
use zk_session::{End, State};
use zk_testkit::serve::Embedded;

use super::{LOCK, client, eventually, lock_nodes, watches};

#[tokio::test]
async fn a_holder_whose_session_expires_loses_the_lock_to_the_next() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    eventually(&embedded, "somebody waits", |embedded| watches(embedded) == 2).await;
    assert!(embedded.expire_session(holder.session_id()));
    let next = waiting.await.expect("no panic").expect("acquired");
    assert!(next.fencing_token() > guard.fencing_token());
    // A server tells of the end of the session's nodes before it closes the connection.
    let loss = guard.lost().await;
    assert!(matches!(loss, Loss::NodeDeleted | Loss::Ended(End::Expired)), "{loss:?}");
    assert_eq!(guard.state(), Holding::Lost(loss));
    assert_eq!(guard.release().await, Err(LockError::Lost(loss)));
    assert_eq!(holder.ended().await, End::Expired);
    assert_eq!(next.state(), Holding::Held);
}

#[tokio::test]
async fn a_holder_whose_node_is_deleted_loses_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    vandal.delete(&lock_nodes(&embedded)[0], None).await.expect("it is there");
    let lost = tokio::time::timeout(Duration::from_secs(5), guard.lost()).await;
    assert_eq!(lost, Ok(Loss::NodeDeleted));
    assert_eq!(guard.release().await, Err(LockError::Lost(Loss::NodeDeleted)));
    assert!(matches!(holder.state(), State::Connected { .. }), "the session is not to blame");
    assert_eq!(watches(&embedded), 0);
}

#[tokio::test]
async fn a_guard_prints_its_node_its_token_and_how_things_stand() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("acquired");
    let printed = |state: &str| {
        let (node, token) = (guard.node_path(), guard.fencing_token());
        format!("MutexGuard(Held {{ node: {node:?}, token: Zxid({token}), state: {state}, .. }})")
    };
    assert_eq!(format!("{guard:?}"), printed("Held"));
    assert!(embedded.expire_session(client.session_id()));
    let loss = guard.lost().await;
    assert_eq!(format!("{guard:?}"), printed(&format!("Lost({loss:?})")));
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_does_not_get_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter, vandal) =
        (client(&embedded).await, client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    eventually(&embedded, "both its watches", |embedded| watches(embedded) == 2).await;
    let nodes = lock_nodes(&embedded);
    let waiters = nodes.iter().find(|path| !path.ends_with(guard.node())).expect("two nodes");
    vandal.delete(waiters, None).await.expect("it is there");
    assert!(matches!(waiting.await.expect("no panic"), Err(LockError::NodeVanished)));
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_waiter_whose_session_expires_is_told() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    eventually(&embedded, "both its watches", |embedded| watches(embedded) == 2).await;
    assert!(embedded.expire_session(waiter.session_id()));
    // A server tells of the end of the session's nodes before it closes the connection.
    let told = waiting.await.expect("no panic");
    assert!(matches!(told, Err(LockError::NodeVanished | LockError::Ended(End::Expired))));
    assert_eq!(waiter.ended().await, End::Expired);
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_lost_connection_suspends_a_lock_and_does_not_lose_it() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let holder = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let State::Connected { member, .. } = holder.state() else {
        panic!("it was connected a moment ago");
    };
    embedded.kill(member);
    eventually(&embedded, "suspended", |_| guard.state() == Holding::Suspended).await;
    eventually(&embedded, "resumed", |_| guard.state() == Holding::Held).await;
    assert!(guard.lease().is_some_and(|lease| lease > tokio::time::Instant::now()));
    guard.release().await.expect("released");
}

#[tokio::test]
async fn an_attempt_on_a_closed_session_fails_at_once() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    client.close().await;
    assert!(matches!(mutex.acquire().await, Err(LockError::Ended(End::Closed))));
}
