//! Work under a lock: `run` acquires, works and releases, and a loss cuts the work off.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use zk_recipes::{
    Fault, LockError, LockRequest, Loss, MultiLock, Mutex, Owner, ReentrantMutex, RunError, RwLock,
    Semaphore, Unconfirmed,
};
use zk_session::Client;

use super::{HANG_TIMEOUT, LOCK, client, eventually, lock_nodes, start};

#[tokio::test]
async fn work_has_the_lock_until_it_ends_and_its_value_comes_back() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let text = String::from("borrowed");
    let done = mutex.acquire().run(async |held| {
        assert_eq!(lock_nodes(&embedded), [held.node_path()]);
        held.validate().await.expect("held");
        text.len()
    });
    assert_eq!(done.await, Ok(8));
    assert!(lock_nodes(&embedded).is_empty(), "released before it returns");
    // It can be spawned, and an error of the work is its value.
    let spawned = tokio::spawn(mutex.acquire().run(async |held| {
        held.validate().await.map_err(|_| "lost")?;
        Err::<(), _>("the work failed")
    }));
    assert_eq!(spawned.await.expect("no panic"), Ok(Err("the work failed")));
}

#[tokio::test]
async fn work_runs_under_every_kind_of_guard() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let rw = RwLock::new(&client, "/rw").expect("valid");
    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("valid");
    let permits = Semaphore::new(&client, "/permits", 2).expect("valid");
    let both = MultiLock::new([LockRequest::read(&rw), LockRequest::permits(&permits, 2)]);
    assert_eq!(rw.read().run(async |held| held.lock_path().to_owned()).await, Ok("/rw".to_owned()));
    assert_eq!(rw.try_write().run(async |held| held.is_lost()).await, Ok(false));
    assert_eq!(permits.acquire_many(2).run(async |held| held.is_lost()).await, Ok(false));
    let owned = reentrant.acquire_as(Owner::unique()).run(async |held| held.is_lost());
    assert_eq!(owned.await, Ok(false));
    let all = both.expect("two").acquire().run(async |held| held.locks().len());
    assert_eq!(all.await, Ok(2));
}

#[tokio::test]
async fn a_loss_drops_the_work_and_is_the_error() {
    let embedded = start().await;
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::new(&holder, LOCK).expect("valid");
    let (captured, (begun, node)) = (Arc::new(()), oneshot::channel());
    let owned = captured.clone();
    let working = tokio::spawn(mutex.acquire().run(async move |held| {
        let _owned = owned;
        begun.send(held.node_path()).expect("a receiver");
        pending::<()>().await;
    }));
    vandal.delete(&node.await.expect("begun"), None).await.expect("the node exists");
    let ended = tokio::time::timeout(HANG_TIMEOUT, working).await.expect("in time");
    let error = ended.expect("no panic").expect_err("lost");
    assert_eq!(error, RunError::Lost { path: LOCK.to_owned(), loss: Loss::NodeDeleted });
    assert_eq!((error.loss(), error.fault()), (Some(Loss::NodeDeleted), Fault::Session));
    assert_eq!(error.name(), "Lost");
    let text = format!("the work under '{LOCK}' was cut off: our node was deleted");
    assert_eq!(error.to_string(), text);
    assert_eq!(error.into_value(), None);
    assert_eq!(Arc::strong_count(&captured), 1, "the work was dropped");
}

#[tokio::test]
async fn work_does_not_begin_without_the_lock() {
    let embedded = start().await;
    let (holder, other) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("free");
    let mutex = Mutex::new(&other, LOCK).expect("valid");
    let late = mutex.acquire().timeout(Duration::from_millis(20));
    for (attempt, reason) in [(late, LockError::TimedOut), (mutex.try_acquire(), LockError::Busy)] {
        let error = attempt.run(async |_| unreachable!("held by another")).await;
        let error: RunError<()> = error.expect_err("held by another");
        assert_eq!((error.loss(), error.fault()), (None, Fault::Others));
        let RunError::NotAcquired(error) = error else { panic!("{error:?}") };
        assert_eq!(error.reason, reason);
    }
    guard.release().await.expect("released");
}

#[tokio::test]
async fn the_value_of_work_is_kept_when_its_release_is_not_confirmed() {
    let embedded = start().await;
    let builder = Client::builder(&embedded.connect_string());
    let client = builder.session_timeout(Duration::from_secs(1)).connect().await.expect("a server");
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let done = mutex.acquire().run(async |_| {
        embedded.kill(0);
        7
    });
    let error = done.await.expect_err("no server");
    assert_eq!((error.loss(), error.fault()), (None, Fault::Ensemble));
    let RunError::NotReleased { value: 7, error } = error else { panic!("{error:?}") };
    assert_eq!(error.reason, LockError::NotConfirmed(Unconfirmed::LeaseEnded));
}

#[tokio::test]
async fn work_that_is_dropped_or_panics_leaves_nothing_behind() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let (begun, has_begun) = oneshot::channel();
    let working = tokio::spawn(mutex.acquire().run(async move |_| {
        begun.send(()).expect("a receiver");
        pending::<()>().await;
    }));
    has_begun.await.expect("begun");
    working.abort();
    assert!(working.await.expect_err("aborted").is_cancelled());
    eventually(&embedded, "released", |embedded| lock_nodes(embedded).is_empty()).await;
    let panics = tokio::spawn(mutex.acquire().run(async |_| panic!("on purpose")));
    assert!(panics.await.expect_err("a panic").is_panic());
    eventually(&embedded, "released", |embedded| lock_nodes(embedded).is_empty()).await;
}
