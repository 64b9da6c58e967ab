//! The cost of permits, counted on the wire while the clock stands still.

use tokio::task::JoinSet;
use zk_proto::OpCode;
use zk_recipes::Semaphore;
use zk_session::Client;
use zk_testkit::contention::clients;
use zk_testkit::serve::Embedded;

use super::cost::counted_client;
use super::frozen::Frozen;
use super::{LOCK, SESSION_TIMEOUT, client, eventually, lock_nodes, watches};

fn semaphore(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, LOCK, permits).expect("a valid path")
}

/// Returns the number of nodes with a marker: `-lock-` in the queue, `-lease-` for permits.
fn nodes(embedded: &Embedded, marker: &str) -> usize {
    lock_nodes(embedded).iter().filter(|path| path.contains(marker)).count()
}

async fn nothing_is_under_way(embedded: &Embedded, leases: usize) {
    let settled = |embedded: &Embedded| {
        nodes(embedded, "-lock-") == 0 && nodes(embedded, "-lease-") == leases
    };
    eventually(embedded, "an empty queue", settled).await;
}

#[tokio::test]
async fn free_permits_cost_two_round_trips_and_each_release_one_request() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (counted, client) = counted_client(&embedded).await;
    let semaphore = semaphore(&client, 3);
    // The first request creates the parents and the maximum.
    semaphore.acquire().await.expect("free").release().await.expect("held");
    nothing_is_under_way(&embedded, 0).await;
    client.exists("/").await.expect("answered");

    for permits in [1, 3] {
        let requests = |opcode| embedded.with(|e| e.counters().requests(opcode));
        let of_all = || {
            use OpCode as O;
            [O::CREATE2, O::GET_CHILDREN, O::MULTI, O::GET_DATA, O::REMOVE_WATCHES, O::DELETE]
                .map(requests)
        };
        let before = of_all();
        let round_trips = counted.tally().round_trips;
        let guard = semaphore.acquire_many(permits).await.expect("free");
        assert_eq!(counted.tally().round_trips - round_trips, 2, "to acquire");
        nothing_is_under_way(&embedded, permits as usize).await;
        // Behind all pending replies.
        client.exists("/").await.expect("answered");
        let acquired = of_all();
        let round_trips = counted.tally().round_trips;
        guard.release().await.expect("held");
        assert_eq!(counted.tally().round_trips - round_trips, 1, "to release");
        let released = of_all();
        let difference = |after: [u64; 6], before: [u64; 6]| {
            after.iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>()
        };
        let to_acquire = difference(acquired, before);
        // A queue node, two lists, the permit node, the maximum; then both watches and the queue
        // node are removed.
        assert_eq!(to_acquire, [1, 2, 1, 1, 2, 1]);
        let to_release = difference(released, acquired);
        println!(
            "{permits} permits: {} requests to acquire, {} to release",
            to_acquire.iter().sum::<u64>(),
            to_release.iter().sum::<u64>()
        );
        assert_eq!(to_release[5], u64::from(permits), "a deletion for each");
    }
    assert_eq!(embedded.with(|ensemble| ensemble.counters().notifications), 0);
}

/// Measures hand-overs while all permits are held.
async fn hand_over(waiters: usize) {
    let embedded = Embedded::start(1).await.expect("loopback");
    let holder = client(&embedded).await;
    let held = semaphore(&holder, 1).acquire().await.expect("free");
    nothing_is_under_way(&embedded, 1).await;
    let waiting = clients(&embedded.connect_string(), waiters, SESSION_TIMEOUT).await;
    let mut tasks = JoinSet::new();
    for client in waiting.clone() {
        tasks.spawn(async move { semaphore(&client, 1).acquire().await.expect("acquired") });
    }
    // The first waiter has its permit node, the others are queued. All set a watch, and the first
    // two also watch their own nodes.
    let watched = waiters + 1 + usize::from(waiters > 1);
    let are_queued = |embedded: &Embedded| {
        nodes(embedded, "-lock-") == waiters
            && nodes(embedded, "-lease-") == 2
            && watches(embedded) == watched
    };
    eventually(&embedded, "all are queued", are_queued).await;
    let sent = || waiting.iter().map(|client| client.statistics().requests).sum::<u64>();
    let events = || waiting.iter().map(|client| client.statistics().notifications).sum::<u64>();
    let before = (sent(), events());
    held.release().await.expect("held");
    for left in (0..waiters).rev() {
        let guard = tasks.join_next().await.expect("a holder").expect("no panic");
        if left > 0 {
            // The next waiter has its permit node before this permit is released.
            eventually(&embedded, "the next waiter has a permit node", |embedded| {
                nodes(embedded, "-lock-") == left && nodes(embedded, "-lease-") == 2
            })
            .await;
        }
        guard.release().await.expect("held");
    }
    let (requests, notifications) = (sent() - before.0, events() - before.1);
    println!("{waiters} hand-overs: {requests} requests, {notifications} notifications");
    // The deletion of a permit node wakes one waiter. The deletion of its queue node wakes the next
    // one, unless that one had not looked yet. The owner of a node may watch it, too.
    assert!((waiters as u64..=2 * waiters as u64).contains(&notifications), "{notifications}");
    assert!(requests <= 11 * waiters as u64, "{requests}");
}

#[tokio::test]
async fn a_hand_over_wakes_the_first_waiter_and_then_the_next() {
    let _frozen = Frozen::start();
    for waiters in [1, 10, 100] {
        hand_over(waiters).await;
    }
}
