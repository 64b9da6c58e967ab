//! Locks that a client keeps while nobody needs them.

use std::time::Duration;

use tokio::time::{advance, timeout};
use zk_recipes::{HandOver, LockError, Loss, Mutex, Options, RwLock};
use zk_session::Client;

use super::frozen::Frozen;
use super::*;

const LOCK: &str = "/locks/kept";
/// Longer than any test.
const LONG: Duration = Duration::from_secs(600);

fn keeping(client: &Client, limit: Duration) -> Mutex {
    Mutex::with(client, LOCK, Options::new().keep_idle(limit)).expect("valid")
}

/// Acquires the lock and releases it. Returns its node and the number of the turn.
async fn cycle(mutex: &Mutex) -> (String, u32) {
    let guard = mutex.acquire().await.expect("acquired");
    let held = (guard.node_path(), guard.fencing_token().turn());
    guard.release().await.expect("released");
    held
}

#[tokio::test]
async fn an_idle_lock_stays_for_the_next_attempt_of_its_client() {
    let embedded = start().await;
    let mutex = keeping(&client(&embedded).await, LONG);
    let (node, _) = cycle(&mutex).await;
    for turn in 1..200 {
        assert_eq!(cycle(&mutex.clone()).await, (node.clone(), turn));
    }
    let tried = mutex.try_acquire().await.expect("idle");
    assert_eq!(tried.node_path(), node);
    assert_eq!(mutex.try_acquire().await.expect_err("in use").reason, LockError::Busy);
    drop(tried);
    assert_eq!(ephemerals(&embedded), [node]);
    drop(mutex);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_contender_of_another_client_calls_an_idle_lock_back() {
    let embedded = start().await;
    let mutex = keeping(&client(&embedded).await, LONG);
    let other = Mutex::new(&client(&embedded).await, LOCK).expect("valid");
    let (node, _) = cycle(&mutex).await;
    assert_eq!(other.try_acquire().await.expect_err("kept").reason, LockError::Busy);
    assert_eq!(ephemerals(&embedded), std::slice::from_ref(&node));
    let foreign = other.acquire().await.expect("given up");
    assert!(!ephemerals(&embedded).contains(&node));
    // The lock is not kept beside a contender that waits already.
    let theirs = mutex.clone();
    let ours = tokio::spawn(async move { theirs.acquire().await.expect("acquired") });
    eventually(&embedded, "two contenders", |embedded| ephemerals(embedded).len() == 2).await;
    let again = other.clone();
    let again = tokio::spawn(async move { again.acquire().await.expect("acquired") });
    eventually(&embedded, "three contenders", |embedded| ephemerals(embedded).len() == 3).await;
    foreign.release().await.expect("released");
    ours.await.expect("no panic").release().await.expect("released");
    drop(timeout(HANG_TIMEOUT, again).await.expect("not for ever").expect("no panic"));
    drop(mutex);
    nothing_is_left(&embedded).await;
}

/// Lets five local attempts and one of another client wait for the holder. Returns who comes first.
async fn order(options: Options) -> usize {
    let embedded = start().await;
    let mutex = Mutex::with(&client(&embedded).await, LOCK, options).expect("valid");
    cycle(&mutex).await;
    let held = mutex.acquire().await.expect("acquired");
    let other = Mutex::new(&client(&embedded).await, LOCK).expect("valid");
    let foreign = tokio::spawn(async move { other.acquire().await.expect("acquired") });
    eventually(&embedded, "a contender", |embedded| ephemerals(embedded).len() == 2).await;
    // Its watch event has arrived when a later reply has.
    held.validate().await.expect("held");
    let mut held = Some(held);
    let mut turns = 0;
    for _ in 0..5 {
        let next = mutex.clone();
        let next = tokio::spawn(async move { next.acquire().await.expect("acquired") });
        until("a waiter", || mutex.local_waiters() > 0).await;
        drop(held.take());
        tokio::select! {
            guard = next => (held, turns) = (Some(guard.expect("no panic")), turns + 1),
            () = eventually(&embedded, "one of us waits", |_| foreign.is_finished()) => break,
        }
    }
    drop((held, foreign.await.expect("no panic"), mutex));
    nothing_is_left(&embedded).await;
    turns
}

#[tokio::test]
async fn a_lock_that_others_wait_for_is_passed_on_within_the_bound_from_then() {
    let kept = || Options::new().keep_idle(LONG);
    assert_eq!(order(kept()).await, 0);
    let bound = HandOver::default().turns(3).time(LONG);
    assert_eq!(order(kept().local_hand_over(bound)).await, 2);
}

#[tokio::test]
async fn an_idle_lock_is_given_up_after_its_time_although_nobody_polls() {
    let _frozen = Frozen::start();
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = keeping(&client, MOMENT);
    let time_passes = async || {
        advance(MOMENT * 3).await;
        // Timers may fire during the first one. The second one is sent behind their requests.
        for _ in 0..2 {
            client.sync("/").await.expect("answered");
        }
    };
    let (node, _) = cycle(&mutex).await;
    let held = mutex.acquire().await.expect("acquired");
    time_passes().await;
    assert_eq!(held.node_path(), node, "it is in use");
    assert_eq!(ephemerals(&embedded), [node]);
    held.release().await.expect("kept");
    time_passes().await;
    nothing_is_left(&embedded).await;
    assert_eq!(cycle(&mutex).await.1, 0);
    time_passes().await;
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn an_idle_lock_is_given_up_when_another_client_asks_for_it() {
    let embedded = start().await;
    let options = Options::new().keep_idle(LONG).revocable();
    let mutex = Mutex::with(&client(&embedded).await, LOCK, options).expect("valid");
    let (node, _) = cycle(&mutex).await;
    let name = node.rsplit('/').next().expect("a name");
    let other = Mutex::new(&client(&embedded).await, LOCK).expect("valid");
    other.revoke(name).await.expect("asked");
    nothing_is_left(&embedded).await;
    drop(mutex);
}

#[tokio::test]
async fn an_idle_lock_that_is_lost_is_not_passed_on() {
    let embedded = start().await;
    let builder = Client::builder(&embedded.connect_string());
    let client = builder.session_timeout(SESSION_TIMEOUT).renew(true).connect().await;
    let client = client.expect("connected");
    let mutex = keeping(&client, LONG);
    let (first, _) = cycle(&mutex).await;
    delete_node(&embedded, &first).await;
    // The watch event comes before the reply.
    assert_eq!(client.exists(&first).await, Ok(None));
    let (second, turn) = cycle(&mutex).await;
    assert!(first != second && turn == 0);
    let session = client.session_id();
    assert!(embedded.expire_session(session));
    eventually(&embedded, "another session", |_| client.session_id() != session).await;
    let (third, turn) = cycle(&mutex).await;
    assert!(second != third && turn == 0);
    let held = mutex.acquire().await.expect("acquired");
    delete_node(&embedded, &third).await;
    assert_eq!(held.lost().await, Loss::NodeDeleted);
    held.release().await.expect_err("lost");
    drop(mutex);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn readers_and_writers_of_one_client_alternate() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let lock = RwLock::with(&ours, LOCK, Options::new().keep_idle(LONG)).expect("valid");
    for _ in 0..3 {
        let first = lock.read().await.expect("acquired");
        let second = lock.read().await.expect("acquired");
        assert_eq!(first.node_path(), second.node_path());
        drop((first, second));
        assert_eq!(ephemerals(&embedded).len(), 1);
        let writer = lock.write().await.expect("acquired");
        let reader = writer.downgrade().await.expect("downgraded");
        reader.release().await.expect("released");
    }
    drop(lock);
    nothing_is_left(&embedded).await;
}
