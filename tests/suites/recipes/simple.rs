//! The textbook lock: not fair, but correct.

use tokio::time::Instant;
use zk_recipes::{LockError, Loss, SimpleLock};
use zk_session::{Client, State};
use zk_testkit::contention::clients;
use zk_testkit::oracle::LockOracle;
use zk_testkit::serve::Embedded;

use super::{
    HANG_TIMEOUT, MOMENT, SESSION_TIMEOUT, client, delete_node, eventually, nothing_is_left, start,
    watches,
};

const LOCK: &str = "/locks/simple";

fn simple(client: &Client) -> SimpleLock {
    SimpleLock::new(client, LOCK).expect("a valid path")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_clients_hold_the_simple_lock_while_servers_die() {
    const ROUNDS: usize = 10;
    let embedded = std::sync::Arc::new(Embedded::start(3).await.expect("loopback"));
    let clients = clients(&embedded.connect_string(), 5, SESSION_TIMEOUT).await;
    let oracle = std::sync::Arc::new(LockOracle::new());
    let contenders = clients.iter().enumerate().map(|(place, client)| {
        let (client, oracle, embedded) = (client.clone(), oracle.clone(), embedded.clone());
        tokio::spawn(async move {
            let name = format!("c{place}");
            for _ in 0..ROUNDS {
                let guard = simple(&client).acquire().await.expect("acquired");
                let token = guard.fencing_token().zxid();
                let count = oracle.acquired(&name, token, Instant::now().into_std());
                if count.is_multiple_of(10)
                    && let State::Connected { server, .. } = client.state()
                {
                    embedded.kill(server);
                    embedded.restart(server).await.expect("the port is still free");
                }
                oracle.gives_up(&name);
                guard.release().await.expect("released");
            }
        })
    });
    for contender in contenders.collect::<Vec<_>>() {
        contender.await.expect("no panic");
    }
    assert_eq!((oracle.acquisitions(), oracle.violations()), (5 * ROUNDS, vec![]));
    nothing_is_left(&*embedded).await;
}

#[tokio::test]
async fn attempts_with_and_without_a_timeout_leave_nothing() {
    let embedded = start().await;
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = simple(&holder).acquire().await.expect("acquired");
    assert_eq!(guard.node_path(), LOCK);
    let early = simple(&waiter).acquire().timeout(MOMENT).await;
    assert_eq!(early.expect_err("held").reason, LockError::TimedOut);
    eventually(&embedded, "the watch is gone", |embedded| watches(embedded) <= 1).await;
    let waiting = tokio::spawn(simple(&waiter).acquire());
    tokio::time::sleep(MOMENT).await;
    assert!(!waiting.is_finished());
    let token = guard.fencing_token();
    drop(guard);
    let guard = waiting.await.expect("no panic").expect("acquired");
    assert!(guard.fencing_token() > token);
    guard.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_loss_of_a_simple_lock_is_noticed() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let guard = simple(&client).acquire().await.expect("acquired");
    eventually(&embedded, "the holder watches its node", |embedded| watches(embedded) == 1).await;
    delete_node(&embedded, LOCK).await;
    assert_eq!(guard.lost().await, Loss::NodeDeleted);
    assert_eq!(
        guard.release().await.map_err(LockError::from),
        Err(LockError::Lost(Loss::NodeDeleted))
    );
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn an_attempt_can_be_dropped_at_any_moment() {
    let embedded = start().await;
    let client = client(&embedded).await;
    for steps in 0..30 {
        let attempt = tokio::spawn(simple(&client).acquire());
        for _ in 0..steps {
            tokio::task::yield_now().await;
        }
        attempt.abort();
        let _ = attempt.await;
        nothing_is_left(&embedded).await;
    }
    let guard = simple(&client).acquire().timeout(HANG_TIMEOUT).await;
    guard.expect("free").release().await.expect("released");
}
