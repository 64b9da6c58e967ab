//! Readers and writers on the embedded ensemble.

use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{LockError, Loss, ModeError, RwLock};
use zk_session::{Client, End};
use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;

use super::{LOCK, SESSION_TIMEOUT, client, eventually, lock_nodes, start, waits_until, watches};

/// How long to wait before concluding that something does not happen.
const A_WHILE: Duration = Duration::from_millis(50);

fn lock(client: &Client) -> RwLock {
    RwLock::new(client, LOCK).expect("a valid path")
}

async fn nothing_is_left(embedded: &Embedded, locks: &[&RwLock]) {
    eventually(embedded, "no node, no watch, nothing pending", |embedded| {
        lock_nodes(embedded).is_empty()
            && watches(embedded) == 0
            && locks.iter().all(|lock| lock.pending_cleanups() == 0)
    })
    .await;
}

async fn waits<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> bool {
    timeout(A_WHILE, future).await.is_err()
}

#[tokio::test]
async fn readers_share_the_lock_and_a_writer_holds_it_alone() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let (here, there) = (lock(&one), lock(&other));
    let readers = (here.read().await.expect("free"), there.read().await.expect("shared"));
    let mut writing = Box::pin(here.write());
    let stand = |count| move |embedded: &Embedded| lock_nodes(embedded).len() == count;
    waits_until(&embedded, &mut writing, "readers hold the lock", stand(3)).await;
    // No reader passes a waiting writer.
    let mut late = Box::pin(there.read());
    waits_until(&embedded, &mut late, "a writer waits", stand(4)).await;
    assert_eq!(there.try_read().await.map(drop).map_err(LockError::from), Err(LockError::Busy));

    readers.0.release().await.expect("released");
    assert!(waits(&mut writing).await, "one reader is left");
    readers.1.release().await.expect("released");
    let writer = writing.await.expect("acquired");
    assert!(waits(&mut late).await, "a writer holds the lock");
    assert_eq!(there.try_write().await.map(drop).map_err(LockError::from), Err(LockError::Busy));
    writer.release().await.expect("released");
    late.await.expect("acquired").release().await.expect("released");
    nothing_is_left(&embedded, &[&here, &there]).await;
}

#[tokio::test]
async fn a_downgrade_admits_readers_and_keeps_writers_waiting() {
    scenarios::a_downgrade_admits_readers_and_keeps_writers_waiting(&start().await).await;
}

#[tokio::test]
async fn two_readers_that_upgrade_do_not_deadlock() {
    scenarios::two_readers_that_upgrade_do_not_deadlock(&start().await).await;
}

#[tokio::test]
async fn a_dropped_conversion_leaves_nothing() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let here = lock(&client);
    for steps in 0..30 {
        let writer = here.write().await.expect("free");
        let converting = tokio::spawn(writer.downgrade());
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        converting.abort();
        drop(converting.await);
        let reader = here.read().await.expect("free");
        let converting = tokio::spawn(reader.try_upgrade());
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        converting.abort();
        drop(converting.await);
        nothing_is_left(&embedded, &[&here]).await;
    }
}

#[tokio::test]
async fn a_deleted_writer_loses_the_lock_when_it_downgrades() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, vandal) = (client(&embedded).await, client(&embedded).await);
    let here = lock(&one);
    let writer = here.write().await.expect("free");
    vandal.delete(&writer.node_path(), None).await.expect("the node exists");
    let lost = writer.downgrade().await.expect_err("gone");
    assert_eq!(lost.error.reason, LockError::Lost(Loss::NodeDeleted).into());
    assert_eq!(
        lost.into_guard().release().await.map_err(LockError::from),
        Err(LockError::Lost(Loss::NodeDeleted))
    );
    nothing_is_left(&embedded, &[&here]).await;
}

#[tokio::test]
async fn a_conversion_fails_with_the_session_and_the_next_one_acquires_anew() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    let service = builder.renew(true).connect().await.expect("connected");
    let here = lock(&service);
    let reader = here.read().await.expect("free");
    let converting = tokio::spawn(reader.try_upgrade());
    assert!(embedded.expire_session(service.session_id()));
    let failed = converting.await.expect("no panic").expect_err("its session has expired");
    let loss = [Loss::Ended(End::Expired), Loss::NodeDeleted].map(LockError::Lost);
    assert!(loss.map(ModeError::Lock).contains(&failed.error.reason), "{failed:?}");
    drop(failed);
    here.write().await.expect("free").release().await.expect("released");
    nothing_is_left(&embedded, &[&here]).await;
}
