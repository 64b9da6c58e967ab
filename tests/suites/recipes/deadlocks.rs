//! Deadlocks between owners of one process.

use std::sync::{Arc, Mutex as StdMutex};

use zk_recipes::{Deadlocks, HandOver, LockError, Mutex, Options, RwLock};

use super::*;

#[tokio::test]
async fn a_deadlock_is_reported_by_name_when_it_closes() {
    let embedded = start().await;
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let found = Arc::<StdMutex<Vec<String>>>::default();
    let reports = found.clone();
    let deadlocks = Deadlocks::new(move |deadlock| {
        reports.lock().expect("no panic").push(deadlock.to_string());
    });
    let options = || Options::new().deadlocks(&deadlocks);
    let shared = options().local_hand_over(HandOver::default());
    let first = Mutex::with(&one, "/locks/first", shared).expect("valid");
    let second = RwLock::with(&other, "/locks/second", options()).expect("valid");
    let of_a = first.acquire().by("a").await.expect("free");
    let of_b = second.write().by("b").await.expect("free");
    let (theirs, limit) = (second.clone(), HANG_TIMEOUT);
    let waiting = tokio::spawn(async move { theirs.read().by("a").timeout(limit).await });
    eventually(&embedded, "a waiter", |embedded| ephemerals(embedded).len() == 3).await;
    assert!(found.lock().expect("no panic").is_empty());
    let closing = first.acquire().by("b").timeout(MOMENT).await.expect_err("a deadlock");
    assert_eq!(closing.reason, LockError::TimedOut);
    let text = "b waits for /locks/first behind a, a waits for /locks/second behind b";
    assert_eq!(*found.lock().expect("no panic"), [text]);
    // It is resolved: what was given up or released blocks nobody.
    drop(of_b);
    let of_a_too = waiting.await.expect("no panic").expect("released");
    drop(of_a);
    let again = first.acquire().by("b").await.expect("released");
    drop((of_a_too, again));
    let own = first.acquire().by("c").await.expect("free");
    first.acquire().by("c").timeout(MOMENT).await.expect_err("held by itself");
    assert_eq!(found.lock().expect("no panic").len(), 2);
    drop(own);
    nothing_is_left(&embedded).await;
}
