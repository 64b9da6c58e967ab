//! Attempts of one client that share a node, and pass the lock on among themselves.

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::task::JoinSet;
use tokio::time::timeout;
use zk_recipes::{Guard, HandOver, Holding, LockError, LockMode, Loss, Mutex, Options, RwLock};
use zk_session::{Client, End};

use super::*;

const LOCK: &str = "/locks/shared";
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn options() -> Options {
    Options::new().local_hand_over(HandOver::default().time(LONG))
}

fn mutex(client: &Client) -> Mutex {
    Mutex::with(client, LOCK, options()).expect("a valid path")
}

fn rw_lock(client: &Client) -> RwLock {
    RwLock::with(client, LOCK, options()).expect("a valid path")
}

/// Spawns an attempt that waits in this process.
async fn queue(mutex: &Mutex) -> tokio::task::JoinHandle<Guard> {
    let (theirs, before) = (mutex.clone(), mutex.local_waiters());
    let waiting = tokio::spawn(async move { theirs.acquire().await.expect("acquired") });
    until("a waiter", || mutex.local_waiters() > before).await;
    waiting
}

#[tokio::test]
async fn attempts_of_one_client_share_a_node_and_are_served_in_order() {
    let embedded = start().await;
    let mutex = mutex(&client(&embedded).await);
    let mut held = mutex.acquire().await.expect("acquired");
    let mut waiting = Vec::new();
    for _ in 0..5 {
        waiting.push(queue(&mutex).await);
    }
    assert_eq!(ephemerals(&embedded).len(), 1);
    for next in waiting {
        assert!(!next.is_finished());
        let (node, token) = (held.node_path(), held.fencing_token());
        held.release().await.expect("passed on");
        held = next.await.expect("no panic");
        assert_eq!(held.node_path(), node);
        assert!(held.fencing_token() > token);
        assert!(held.fencing_token().to_u128() > token.to_u128());
        assert_eq!(held.fencing_token().zxid(), token.zxid());
        assert_eq!(held.state(), Holding::Held);
    }
    held.validate().await.expect("held");
    held.release().await.expect("released");
    assert!(ephemerals(&embedded).is_empty(), "confirmed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_contender_of_another_client_waits_for_the_bound_only() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let bound = HandOver::default().turns(3).time(LONG);
    let mutex = Mutex::with(&ours, LOCK, Options::new().local_hand_over(bound)).expect("valid");
    let held = mutex.acquire().await.expect("acquired");
    let other = Mutex::new(&other, LOCK).expect("valid");
    let foreign = tokio::spawn(async move { other.acquire().await.expect("acquired") });
    eventually(&embedded, "a waiter", |embedded| ephemerals(embedded).len() == 2).await;
    let [first, second, third] = [queue(&mutex).await, queue(&mutex).await, queue(&mutex).await];
    held.release().await.expect("passed on");
    let first = first.await.expect("no panic");
    first.release().await.expect("passed on");
    let second = second.await.expect("no panic");
    let token = second.fencing_token();
    assert_eq!(token.turn(), 2);
    second.release().await.expect("given back");
    let foreign = foreign.await.expect("no panic");
    assert!(!third.is_finished());
    assert!(token < foreign.fencing_token());
    foreign.release().await.expect("released");
    let third = third.await.expect("no panic");
    assert_eq!(third.fencing_token().turn(), 0);
    third.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn no_turn_begins_after_the_time() {
    let embedded = start().await;
    let bound = HandOver::default().time(Duration::ZERO);
    let options = Options::new().local_hand_over(bound);
    let mutex = Mutex::with(&client(&embedded).await, LOCK, options).expect("valid");
    let held = mutex.acquire().await.expect("acquired");
    let next = queue(&mutex).await;
    let token = held.fencing_token();
    held.release().await.expect("given back");
    let next = next.await.expect("no panic");
    assert!(token.zxid() < next.fencing_token().zxid());
    next.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_try_fails_while_another_attempt_of_the_client_holds_or_waits() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = mutex(&client);
    let held = mutex.try_acquire().await.expect("free");
    let nodes = ephemerals(&embedded);
    let tried = mutex.try_acquire().await.expect_err("held");
    assert_eq!(tried.reason, LockError::Busy);
    assert_eq!(tried.operation, "try_acquire");
    let next = queue(&mutex).await;
    held.release().await.expect("passed on");
    let next = next.await.expect("no panic");
    assert_eq!(ephemerals(&embedded), nodes);
    drop(next);
    nothing_is_left(&embedded).await;
    mutex.try_acquire().await.expect("free again").release().await.expect("released");
}

#[tokio::test]
async fn a_time_limit_ends_an_attempt_that_waits_for_its_own_process() {
    let embedded = start().await;
    let mutex = mutex(&client(&embedded).await);
    let held = mutex.acquire().await.expect("acquired");
    let late = mutex.acquire().timeout(MOMENT).await.expect_err("held");
    assert_eq!(late.reason, LockError::TimedOut);
    assert_eq!(mutex.local_waiters(), 0);
    held.release().await.expect("released");
    mutex.acquire().timeout(Duration::ZERO).await.expect("free").release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_loss_reaches_the_holder_and_who_waits_gets_another_node() {
    let embedded = start().await;
    let mutex = mutex(&client(&embedded).await);
    let held = mutex.acquire().await.expect("acquired");
    let (next, last) = (queue(&mutex).await, queue(&mutex).await);
    // The first one that waits is woken for the loss, and may be gone before it runs.
    next.abort();
    delete_node(&embedded, &held.node_path()).await;
    assert_eq!(held.lost().await, Loss::NodeDeleted);
    let last = timeout(HANG_TIMEOUT, last).await.expect("not for ever").expect("no panic");
    assert_eq!(last.state(), Holding::Held);
    assert!(held.fencing_token() < last.fencing_token());
    let released = held.release().await.expect_err("lost");
    assert_eq!(released.reason, LockError::Lost(Loss::NodeDeleted));
    assert_eq!(last.state(), Holding::Held, "of another node");
    last.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn who_waits_fails_with_the_session_or_queues_again_on_the_next_one() {
    let embedded = start().await;
    for (renews, is_notified) in [(false, true), (false, false), (true, true), (true, false)] {
        let at = embedded.connect_string();
        let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT).renew(renews);
        let client = builder.connect().await.expect("connected");
        let mutex = mutex(&client);
        let held = mutex.acquire().await.expect("acquired");
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let mutex = mutex.clone();
                tokio::spawn(async move { mutex.acquire().await?.release().await })
            })
            .collect();
        until("three waiters", || mutex.local_waiters() == 3).await;
        eventually(&embedded, "the node is watched", |embedded| watches(embedded) == 1).await;
        let session = client.session_id();
        if !is_notified {
            embedded.command(|ensemble, _| ensemble.swallow_events(session, "/", u64::MAX));
        }
        assert!(embedded.expire_session(session));
        // A server reports the deleted nodes before it closes the connection.
        let loss = if is_notified { Loss::NodeDeleted } else { Loss::Ended(End::Expired) };
        assert_eq!(held.lost().await, loss);
        for waiting in waiting {
            let waited = timeout(HANG_TIMEOUT, waiting).await.expect("an end").expect("no panic");
            match waited.map_err(|error| error.reason) {
                Ok(()) => assert!(renews),
                Err(LockError::Ended(_)) => assert!(!renews),
                Err(error) => panic!("{error}"),
            }
        }
        drop(held);
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn a_lock_that_is_asked_for_is_not_passed_on() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::with(&ours, LOCK, options().revocable()).expect("valid");
    let held = mutex.acquire().await.expect("acquired");
    let next = queue(&mutex).await;
    Mutex::new(&other, LOCK).expect("valid").revoke(held.node()).await.expect("asked");
    held.revoked().await;
    let node = held.node_path();
    held.release().await.expect("given back");
    assert!(!ephemerals(&embedded).contains(&node));
    let next = next.await.expect("no panic");
    assert_ne!(next.node_path(), node);
    drop(next);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn signals_and_callbacks_end_with_the_turn() {
    let embedded = start().await;
    let mutex = mutex(&client(&embedded).await);
    let held = mutex.acquire().await.expect("acquired");
    let next = queue(&mutex).await;
    let captured = Arc::new(());
    let owned = captured.clone();
    held.on_lost(move |loss| {
        drop(owned);
        unreachable!("{loss}");
    });
    let lost = held.lost();
    let lost = tokio::spawn(lost);
    tokio::task::yield_now().await;
    held.release().await.expect("passed on");
    assert_eq!(lost.await.expect("no panic"), Loss::Released);
    assert_eq!(Arc::strong_count(&captured), 1, "the callback was dropped");
    let next = next.await.expect("no panic");
    let called = Arc::new(AtomicUsize::new(0));
    let calls = called.clone();
    next.on_lost(move |_| {
        calls.fetch_add(1, Ordering::Relaxed);
    });
    delete_node(&embedded, &next.node_path()).await;
    assert_eq!(next.lost().await, Loss::NodeDeleted);
    eventually(&embedded, "the callback", |_| called.load(Ordering::Relaxed) == 1).await;
    drop(next);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn an_attempt_that_is_dropped_leaves_its_place_to_the_next_one() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = mutex(&ours);
    let other = Mutex::new(&other, LOCK).expect("valid");
    let foreign = other.acquire().await.expect("acquired");
    let front = mutex.clone();
    let front = tokio::spawn(async move { front.acquire().await.map(drop) });
    eventually(&embedded, "a waiter", |embedded| ephemerals(embedded).len() == 2).await;
    let nodes = ephemerals(&embedded);
    let next = mutex.clone();
    let next = tokio::spawn(async move { next.acquire().await.expect("acquired") });
    until("two waiters", || mutex.local_waiters() == 2).await;
    front.abort();
    let limited = mutex.acquire().timeout(MOMENT).await.expect_err("held");
    assert_eq!(limited.reason, LockError::TimedOut);
    assert_eq!(ephemerals(&embedded), nodes, "the place is kept");
    foreign.release().await.expect("released");
    let next = timeout(HANG_TIMEOUT, next).await.expect("not for ever").expect("no panic");
    assert!(nodes.contains(&next.node_path()));
    drop(next);
    nothing_is_left(&embedded).await;
    // Nothing is kept of the last one.
    let foreign = other.acquire().await.expect("acquired");
    mutex.acquire().timeout(MOMENT).await.expect_err("held");
    eventually(&embedded, "one node", |embedded| ephemerals(embedded).len() == 1).await;
    drop(foreign);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn readers_share_a_node_and_writers_take_turns() {
    let embedded = start().await;
    let lock = rw_lock(&client(&embedded).await);
    let first = lock.read().await.expect("acquired");
    let second = lock.read().await.expect("at once");
    assert_eq!(first.node_path(), second.node_path());
    assert!(first.fencing_token() < second.fencing_token());
    let theirs = lock.clone();
    let writer = tokio::spawn(async move { theirs.write().await.expect("acquired") });
    eventually(&embedded, "a writer", |embedded| ephemerals(embedded).len() == 2).await;
    let theirs = lock.clone();
    let third = tokio::spawn(async move { theirs.read().await.expect("acquired") });
    tokio::time::sleep(MOMENT).await;
    assert!(!writer.is_finished() && !third.is_finished(), "no reader overtakes the writer");
    assert_eq!(lock.try_read().await.expect_err("a writer waits").reason, LockError::Busy);
    first.release().await.expect("another reader has it");
    tokio::time::sleep(MOMENT).await;
    assert!(!writer.is_finished());
    second.release().await.expect("released");
    let writer = writer.await.expect("no panic");
    let reader = writer.downgrade().await.expect("downgraded");
    let third = third.await.expect("no panic");
    let refused = reader.try_upgrade().await.expect_err("another reader is there");
    drop(third);
    let upgraded = {
        let mut reader = refused.into_guard();
        loop {
            match reader.try_upgrade().await {
                Ok(writer) => break writer,
                Err(refused) => reader = refused.into_guard(),
            }
        }
    };
    upgraded.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_reader_upgrades_only_without_other_readers_of_its_node() {
    let embedded = start().await;
    let lock = rw_lock(&client(&embedded).await);
    let first = lock.read().await.expect("acquired");
    let second = lock.read().await.expect("at once");
    let refused = first.try_upgrade().await.expect_err("two readers");
    drop(second);
    let writer = refused.into_guard().try_upgrade().await.expect("alone");
    assert_eq!(lock.try_read().await.expect_err("a writer").reason, LockError::Busy);
    writer.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn other_clients_see_one_contender() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = mutex(&ours);
    let held = mutex.acquire().await.expect("acquired");
    let next = queue(&mutex).await;
    let ours = mutex.contenders().await.expect("listed");
    assert_eq!((ours.len(), ours[0].local_waiters), (1, 1));
    held.release().await.expect("passed on");
    let held = next.await.expect("no panic");
    let seen = Mutex::new(&other, LOCK).expect("valid").contenders().await.expect("listed");
    assert_eq!(seen.len(), 1);
    assert_eq!((seen[0].mode, seen[0].node.as_str()), (LockMode::Exclusive, held.node()));
    assert_eq!(seen[0].local_waiters, 0);
    assert_eq!(seen[0].token, held.fencing_token().zxid());
    assert_eq!(held.fencing_token().to_string(), format!("{}.0000000001", seen[0].token.0));
    drop(held);
    nothing_is_left(&embedded).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn at_most_one_of_many_tasks_of_several_clients_holds() {
    scenarios::attempts_of_one_client_take_turns_with_one_node(&start().await).await;
}

#[tokio::test]
async fn ten_thousand_attempts_queue_at_once() {
    let embedded = start().await;
    let mutex = mutex(&client(&embedded).await);
    let held = mutex.acquire().await.expect("acquired");
    let mut tasks = JoinSet::new();
    for _ in 0..10_000 {
        let mutex = mutex.clone();
        tasks.spawn(async move { mutex.acquire().await.map(drop) });
    }
    until("all wait", || mutex.local_waiters() == 10_000).await;
    assert_eq!(ephemerals(&embedded).len(), 1);
    drop(held);
    while let Some(task) = tasks.join_next().await {
        task.expect("no panic").expect("acquired");
    }
    nothing_is_left(&embedded).await;
}
