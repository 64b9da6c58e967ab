//! A lock that its owner may acquire again.

use core::future::poll_fn;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;
use std::sync::Arc;

use tokio::time::timeout;
use zk_recipes::{
    Holding, LockError, Loss, Mutex, Options, Owner, RecipeError, ReentrantGuard, ReentrantMutex,
};
use zk_session::Client;

use super::{
    MOMENT, begun, client, delete_node, ephemerals, eventually, nothing_is_left, scenarios, start,
    watches,
};

const LOCK: &str = "/locks/reentrant";

fn reentrant(client: &Client) -> ReentrantMutex {
    ReentrantMutex::new(client, LOCK).expect("a valid path")
}

#[tokio::test]
async fn an_owner_releases_as_often_as_it_has_acquired() {
    scenarios::an_owner_releases_as_often_as_it_has_acquired(&start().await).await;
}

#[tokio::test]
async fn a_request_to_release_reaches_the_guards_of_all_levels() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let options = Options::new().revocable();
    let (mutex, owner) =
        (ReentrantMutex::with(&ours, LOCK, options).expect("valid"), Owner::unique());
    let outer = mutex.acquire_as(owner).await.expect("acquired");
    let inner = mutex.acquire_as(owner).await.expect("acquired again");
    reentrant(&other).revoke(outer.node()).await.expect("asked");
    outer.revoked().await;
    inner.revoked().await;
    assert_eq!(inner.state(), Holding::Held, "still held");
    drop((outer, inner));
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_callback_is_dropped_after_the_release() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let (mutex, captured) = (reentrant(&client), Arc::new(()));
    let owner = Owner::unique();
    let outer = mutex.acquire_as(owner).await.expect("acquired");
    let inner = mutex.acquire_as(owner).await.expect("acquired again");
    let owned = (mutex.clone(), captured.clone());
    inner.on_lost(move |loss| {
        drop(owned);
        unreachable!("{loss}");
    });
    inner.release().await.expect("one level");
    assert_eq!(Arc::strong_count(&captured), 2, "still held");
    outer.release().await.expect("released");
    eventually(&embedded, "dropped", |_| Arc::strong_count(&captured) == 1).await;
}

#[tokio::test]
async fn a_try_waits_for_no_other_owner() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let (mutex, owner) = (reentrant(&ours), Owner::unique());
    let busy = |tried: Result<ReentrantGuard, RecipeError>| {
        assert_eq!(tried.expect_err("held by another").reason, LockError::Busy);
    };
    let elsewhere = Mutex::new(&other, LOCK).expect("valid").acquire().await.expect("acquired");
    busy(mutex.try_acquire_as(owner).await);
    assert_eq!(ephemerals(&embedded).len(), 1, "no node was created");
    // Even the owner does not overtake an earlier waiter.
    let waiting = tokio::spawn(mutex.acquire_as(owner));
    eventually(&embedded, "a waiter", |embedded| ephemerals(embedded).len() == 2).await;
    busy(mutex.try_acquire_as(owner).await);
    elsewhere.release().await.expect("released");
    let outer = waiting.await.expect("no panic").expect("acquired");
    let inner = mutex.try_acquire_as(owner).await.expect("held by its owner");
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    busy(mutex.try_acquire_as(Owner::unique()).await);
    drop((outer, inner));
    // The rest of the cancelled attempt blocks no other contender.
    let next = mutex.try_acquire_as(Owner::unique()).await.expect("free");
    next.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn attempts_of_one_task_exclude_each_other() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = reentrant(&client);
    let inside = AtomicUsize::new(0);
    let visit = async || {
        let guard = mutex.acquire_as(Owner::unique()).await.expect("acquired");
        assert_eq!(inside.fetch_add(1, Ordering::Relaxed), 0, "alone");
        tokio::task::yield_now().await;
        inside.fetch_sub(1, Ordering::Relaxed);
        guard.release().await.expect("released");
    };
    tokio::join!(visit(), visit(), visit());
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_lost_lock_is_lost_on_all_levels_and_cannot_be_entered_again() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let (mutex, owner, other) = (reentrant(&client), Owner::unique(), Owner::unique());
    let outer = mutex.acquire_as(owner).await.expect("acquired");
    let inner = mutex.acquire_as(owner).await.expect("acquired again");
    eventually(&embedded, "the holder watches its node", |embedded| watches(embedded) == 1).await;
    delete_node(&embedded, &outer.node_path()).await;
    assert_eq!(tokio::join!(outer.lost(), inner.lost()), (Loss::NodeDeleted, Loss::NodeDeleted));
    let lost = LockError::Lost(Loss::NodeDeleted);
    assert_eq!(mutex.acquire_as(owner).await.expect_err("lost").reason, lost);
    // An owner that has not noticed its loss yet keeps other owners of its process waiting.
    assert!(timeout(MOMENT, mutex.acquire_as(other)).await.is_err());
    assert_eq!(inner.release().await.map_err(LockError::from), Err(lost.clone()));
    assert_eq!(mutex.acquire_as(owner).await.expect_err("lost").reason, lost);
    assert_eq!(outer.release().await.map_err(LockError::from), Err(lost));
    let anew = mutex.acquire_as(owner).await.expect("acquired again");
    assert_eq!(anew.state(), Holding::Held);
    anew.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_process_has_one_node_and_serves_its_owners_in_order() {
    const OWNERS: usize = 20;
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = reentrant(&client);
    let first = mutex.acquire_as(Owner::unique()).await.expect("acquired");
    let (served, mut order) = tokio::sync::mpsc::unbounded_channel();
    let waiting: Vec<_> = (0..OWNERS)
        .map(|number| {
            let (acquiring, served) = (mutex.acquire_as(Owner::unique()), served.clone());
            let client = client.clone();
            tokio::spawn(async move {
                let guard = acquiring.await.expect("acquired");
                let (nodes, _) = client.get_children(LOCK).await.expect("listed");
                served.send((number, nodes.len())).expect("a receiver");
                guard.release().await.expect("released");
            })
        })
        .collect();
    tokio::time::sleep(MOMENT).await;
    assert_eq!(ephemerals(&embedded).len(), 1);
    first.release().await.expect("released");
    for waiter in waiting {
        waiter.await.expect("no panic");
    }
    drop(served);
    for number in 0..OWNERS {
        assert_eq!(order.recv().await, Some((number, 1)));
    }
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn another_process_acquires_between_two_owners_of_ours() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = reentrant(&ours);
    let first = mutex.acquire_as(Owner::unique()).await.expect("acquired");
    let second = begun(mutex.acquire_as(Owner::unique()));
    let foreign = begun(Mutex::new(&other, LOCK).expect("valid").acquire());
    eventually(&embedded, "the other process waits", |embedded| ephemerals(embedded).len() == 2)
        .await;
    let token = first.fencing_token();
    first.release().await.expect("released");
    let (foreign, second) = tokio::join!(
        async {
            let guard = foreign.await.expect("acquired");
            let token = guard.fencing_token();
            guard.release().await.expect("released");
            token
        },
        second
    );
    let second = second.expect("acquired");
    assert!(token < foreign && foreign < second.fencing_token());
    second.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_cancelled_request_does_not_end_other_requests_of_the_process() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let foreign = Mutex::new(&other, LOCK).expect("valid").acquire().await.expect("acquired");
    let (mutex, owner) = (reentrant(&ours), Owner::unique());
    let asks = tokio::spawn(mutex.acquire_as(owner));
    let waits = tokio::spawn(mutex.acquire_as(owner));
    eventually(&embedded, "one request", |embedded| ephemerals(embedded).len() == 2).await;
    asks.abort();
    assert!(asks.await.expect_err("aborted").is_cancelled());
    foreign.release().await.expect("released");
    waits.await.expect("no panic").expect("acquired").release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn one_task_enters_any_number_of_times_at_once() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let (mutex, owner) = (reentrant(&client), Owner::unique());
    let first = mutex.acquire_as(owner).await.expect("acquired");
    let mut entering: Vec<_> = (0..200).map(|_| Box::pin(mutex.acquire_as(owner))).collect();
    let guards = poll_fn(|cx| {
        let entered = entering.iter_mut().map(|entering| entering.as_mut().poll(cx));
        Poll::Ready(entered.filter(Poll::is_ready).count())
    });
    assert_eq!(guards.await, 200);
    first.release().await.expect("released");
}

#[tokio::test]
async fn the_end_of_the_session_reaches_holders_and_waiters() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let (mutex, owner) = (reentrant(&client), Owner::unique());
    let guard = mutex.acquire_as(owner).await.expect("acquired");
    let waiting = mutex.acquire_as(Owner::unique());
    client.close().await;
    // The server may report the deletion of the node first.
    let loss = guard.lost().await;
    assert!(matches!(loss, Loss::Ended(_) | Loss::NodeDeleted), "{loss:?}");
    assert_eq!(guard.release().await.map_err(LockError::from), Err(LockError::Lost(loss)));
    assert!(matches!(waiting.await.map_err(LockError::from), Err(LockError::Ended(_))));
}
