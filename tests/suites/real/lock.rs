//! The lock on real servers.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use zk_recipes::{LockError, Mutex};
use zk_session::Client;
use zk_testkit::contention::{Contention, clients};
use zk_testkit::real;
use zk_testkit::wire::CountedConnect;

const LOCK: &str = "/locks/real";
const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_free_lock_costs_one_round_trip_and_its_release_another() {
    let Some(ensemble) = real::ensemble_or_skip(1) else {
        return;
    };
    let counted = CountedConnect::default();
    let client = Client::builder(&ensemble.connect_string())
        .connect_with(counted.clone())
        .await
        .expect("the server answers");
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    // The first acquisition creates the lock path.
    mutex.acquire().await.expect("acquired").release().await.expect("released");
    // Later ones may share a round trip with a ping, but need no more than their own.
    let mut least = u64::MAX;
    for _ in 0..10 {
        let before = counted.tally().round_trips;
        mutex.acquire().await.expect("acquired").release().await.expect("released");
        least = least.min(counted.tally().round_trips - before);
    }
    println!("uncontended acquire + release on a real server: {least} round trips");
    assert_eq!(least, 2);
}

#[tokio::test]
async fn a_lock_without_other_contenders_costs_two_requests() {
    let Some(ensemble) = real::ensemble_or_skip(1) else {
        return;
    };
    let at = ensemble.connect_string();
    let client = Client::connect(&at).await.expect("the server answers");
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    let acquire = async |mutex: &Mutex| {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    };
    for _ in 0..10 {
        acquire(&mutex).await;
    }
    // On a busy machine, a lock held for long also watches its own node.
    let mut least = u64::MAX;
    for _ in 0..20 {
        let before = client.statistics().requests;
        acquire(&mutex).await;
        least = least.min(client.statistics().requests - before);
    }

    // Another client acquires the lock, and holds it during our next attempt.
    let other = Client::connect(&at).await.expect("the server answers");
    let others = Mutex::new(&other, LOCK).expect("a valid path");
    let guard = others.acquire().await.expect("acquired");
    let waiting = mutex.acquire().timeout(Duration::from_millis(200)).await;
    assert!(matches!(&waiting, Err(error) if error.reason == LockError::TimedOut), "{waiting:?}");
    guard.release().await.expect("released");
    println!("uncontended acquire + release, once more: {least} requests");
    assert_eq!(least, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_waiters_are_woken_one_at_a_time() {
    const CONTENDERS: usize = 51;
    let Some(ensemble) = real::ensemble_or_skip(1) else {
        return;
    };
    let clients = clients(&ensemble.connect_string(), CONTENDERS, SESSION_TIMEOUT).await;
    let contention = Contention { path: LOCK.into(), rounds: 3, hold: Duration::ZERO };
    let oracle = contention.run(&clients, |_| async {}).await.expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (3 * CONTENDERS, vec![]));
    let notifications: u64 = clients.iter().map(|client| client.statistics().notifications).sum();
    let hand_overs = oracle.hand_overs().len() as u64;
    println!("{hand_overs} hand-overs with up to 50 waiters: {notifications} notifications");
    // Each hand-over wakes one waiter. A holder that looks at its own node has that event, too.
    let bound = hand_overs + oracle.acquisitions() as u64;
    assert!(notifications <= bound, "{notifications} notifications: waiters were woken in vain");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_leader_costs_no_client_its_lock() {
    let Some(ensemble) = real::ensemble_or_skip(3) else {
        return;
    };
    let clients = clients(&ensemble.connect_string(), 8, SESSION_TIMEOUT).await;
    let ensemble = Arc::new(StdMutex::new(ensemble));
    let contention = Contention { path: LOCK.into(), rounds: 5, hold: Duration::from_millis(5) };
    let sabotage = move |count: usize| {
        let ensemble = ensemble.clone();
        async move {
            if count == 20 {
                // SIGKILL while a client holds the lock.
                let kill = move || {
                    let mut ensemble = ensemble.lock().unwrap_or_else(PoisonError::into_inner);
                    let leader = ensemble.leader().expect("a quorum has a leader");
                    ensemble.kill(leader).expect("a running process");
                };
                tokio::task::spawn_blocking(kill).await.expect("no panic");
            }
        }
    };
    let oracle = contention.run(&clients, sabotage).await.expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (40, vec![]));
    let connections: u64 = clients.iter().map(|client| client.statistics().connections).sum();
    assert!(connections > clients.len() as u64, "no client lost its connection to the leader");
}
