//! The place of an attempt in the queue, before it has the lock.

use std::time::Duration;

use zk_recipes::{Guard, LockError, Mutex, Place, RwLock, Semaphore};

use super::{LOCK, begun, client, eventually, lock_nodes, start};

/// Waits until other contenders are known to be ahead.
async fn waits(mut next: impl AsyncFnMut() -> Option<Place>) -> Place {
    loop {
        let place = next().await.expect("not decided yet");
        if place.behind.is_some() {
            return place;
        }
    }
}

#[tokio::test]
async fn an_attempt_tells_its_place_until_it_has_the_lock() {
    let embedded = start().await;
    let (holder, ours) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("free");
    let mutex = Mutex::new(&ours, LOCK).expect("valid");
    let mut first = mutex.acquire();
    let place = waits(async || first.next_place().await).await;
    assert_eq!((place.behind.as_deref(), place.ahead), (Some(guard.node()), Some(1)), "the holder");
    let mut second = mutex.acquire();
    let second_place = waits(async || second.next_place().await).await;
    assert_eq!((second_place.behind, second_place.ahead), (Some(place.node), Some(2)));
    // Waiting for news changes nothing, and leaving the queue moves the one behind.
    drop(begun(second.next_place()));
    drop(first);
    let moved = waits(async || second.next_place().await).await;
    assert_eq!((moved.behind.as_deref(), moved.ahead), (Some(guard.node()), Some(1)));
    assert_eq!(lock_nodes(&embedded).len(), 2);
    guard.release().await.expect("released");
    assert_eq!(second.next_place().await, None);
    assert_eq!(second.next_place().await, None, "still decided");
    let guard = second.await.expect("free");
    assert_eq!(guard.node(), moved.node);
    guard.release().await.expect("released");
    let mut gone = mutex.acquire();
    while gone.next_place().await.is_some() {}
    drop(gone);
    eventually(&embedded, "released", |embedded| lock_nodes(embedded).is_empty()).await;
}

#[tokio::test]
async fn an_attempt_that_is_queued_comes_before_a_later_one() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&one, LOCK).expect("valid").acquire().await.expect("free");
    let mut earlier = Mutex::new(&two, LOCK).expect("valid").acquire();
    let place = earlier.next_place().await.expect("its node exists");
    assert!(lock_nodes(&embedded).iter().any(|path| path.ends_with(&place.node)));
    let later = tokio::spawn(Mutex::new(&one, LOCK).expect("valid").acquire());
    guard.release().await.expect("released");
    let earlier = earlier.await.expect("free");
    let token = earlier.fencing_token();
    earlier.release().await.expect("released");
    let later = later.await.expect("no panic").expect("free");
    assert!(token < later.fencing_token());
    later.release().await.expect("released");
}

#[tokio::test]
async fn the_error_of_an_attempt_comes_after_its_last_place() {
    let embedded = start().await;
    let (holder, ours) = (client(&embedded).await, client(&embedded).await);
    let guard = RwLock::new(&holder, LOCK).expect("valid").write().await.expect("free");
    let mutex = RwLock::new(&ours, LOCK).expect("valid");
    let mut attempt = mutex.read().timeout(Duration::from_millis(50));
    assert_eq!(
        waits(async || attempt.next_place().await).await.behind.as_deref(),
        Some(guard.node())
    );
    assert_eq!(attempt.next_place().await, None);
    assert_eq!(attempt.await.expect_err("held").reason, LockError::TimedOut);
    eventually(&embedded, "it has left", |embedded| lock_nodes(embedded).len() == 1).await;
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_request_for_permits_tells_its_place() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let permits = Semaphore::new(&client, LOCK, 2).expect("valid");
    let taken = permits.acquire_many(2).await.expect("free");
    let mut first = permits.acquire();
    let place = waits(async || first.next_place().await).await;
    assert_eq!((place.behind.as_deref(), place.ahead), (Some("leases"), Some(1)));
    let mut second = permits.acquire();
    assert_eq!(waits(async || second.next_place().await).await.behind, Some(place.node));
    taken.release().await.expect("released");
    let guards: [Guard; 2] = [first.await.expect("free"), second.await.expect("free")];
    drop(guards);
}
