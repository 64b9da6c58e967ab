//! What it costs, counted on the wire.

use std::time::Duration;

use zk_proto::OpCode;
use zk_recipes::Mutex;
use zk_session::Client;
use zk_testkit::contention::{Contention, clients};
use zk_testkit::serve::Embedded;
use zk_testkit::wire::CountedConnect;

use super::{LOCK, SESSION_TIMEOUT, client, watches};

#[tokio::test]
async fn a_free_lock_costs_one_round_trip_and_its_release_another() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let counted = CountedConnect::default();
    let client = Client::builder(&embedded.connect_string())
        .connect_with(counted.clone())
        .await
        .expect("the embedded ensemble answers");
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    // The first one finds no directory and has to make it.
    mutex.acquire().await.expect("acquired").release().await.expect("released");

    let before = (counted.tally().round_trips, client.statistics().requests);
    let guard = mutex.acquire().await.expect("acquired");
    assert_eq!(counted.tally().round_trips - before.0, 1, "to acquire");
    guard.release().await.expect("released");
    assert_eq!(counted.tally().round_trips - before.0, 2, "to acquire and release");
    assert_eq!(client.statistics().requests - before.1, 3, "create, list, delete");
    let counters = embedded.with(|ensemble| ensemble.counters().clone());
    assert_eq!(counters.requests(OpCode::CREATE2), 3, "one failed, since there was no directory");
    assert_eq!(counters.notifications, 0);
    println!(
        "uncontended acquire + release: {} round trips, {} requests",
        counted.tally().round_trips - before.0,
        client.statistics().requests - before.1
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_are_woken_one_at_a_time() {
    const WAITERS: usize = 50;
    let embedded = Embedded::start(3).await.expect("loopback");
    let holder = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiters = clients(&embedded.connect_string(), WAITERS, SESSION_TIMEOUT).await;
    let contention = Contention { path: LOCK.into(), rounds: 1, hold: Duration::from_millis(1) };
    let running = {
        let waiters = waiters.clone();
        tokio::spawn(async move { contention.run(&waiters, |_| async {}).await })
    };
    // Everybody stands in line: each has its one watch, and the second in line one on itself.
    super::eventually(&embedded, "50 waiters in line", |embedded| {
        super::lock_nodes(embedded).len() == WAITERS + 1 && watches(embedded) >= WAITERS
    })
    .await;
    guard.release().await.expect("released");
    let oracle = running.await.expect("no panic").expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (WAITERS, vec![]));
    let notifications = embedded.with(|ensemble| ensemble.counters().notifications);
    println!("{WAITERS} hand-overs with up to {WAITERS} waiters: {notifications} notifications");
    assert_eq!(notifications, WAITERS as u64);
}

#[tokio::test]
async fn the_second_in_line_needs_no_request_to_take_over() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    super::eventually(&embedded, "both its watches", |embedded| watches(embedded) == 2).await;
    let before = waiter.statistics();
    guard.release().await.expect("released");
    let _guard = waiting.await.expect("no panic").expect("acquired");
    let after = waiter.statistics();
    assert_eq!(after.requests, before.requests);
    assert_eq!(after.notifications, before.notifications + 1);
}
