//! Locks of a session that another client has resumed.

use std::time::Duration;

use zk_recipes::{
    DoubleBarrier, LeaderElection, LockError, Mutex, RecipeError, RwLock, Semaphore, SemaphoreError,
};
use zk_session::Client;
use zk_testkit::serve::Embedded;
use zk_testkit::suite::begun;

/// A restarted service would wait for ever behind the node of its own session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_candidate_and_a_participant_that_the_session_has_left_behind_are_named() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let first = Client::connect(&at).await.expect("connected");
    let candidate = LeaderElection::new(&first, "/election").expect("valid").stand();
    let node = candidate.elected().await.expect("the only one").node;
    let meeting = DoubleBarrier::new(&first, "/meeting", 3).expect("valid");
    let waits = begun(meeting.enter());
    let participant = loop {
        let ephemerals = first.get_ephemerals("/meeting").await.expect("connected");
        match ephemerals.into_iter().next() {
            Some(node) => break node,
            None => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    };
    let resume = first.detach().await.expect("the session is alive");
    drop((candidate, waits));

    let second = Client::builder(&at).resume(resume).connect().await.expect("the session is alive");
    let again = LeaderElection::new(&second, "/election").expect("valid").stand();
    let reason = again.elected().await.expect_err("it waits behind its own session").reason;
    assert_eq!(reason, LockError::HeldByOwnSession { node: node.clone() });
    second.delete(&node, None).await.expect("deleted");
    again.elected().await.expect("now it leads");

    let meeting = DoubleBarrier::new(&second, "/meeting", 3).expect("valid");
    let reason = meeting.enter().await.map(drop).expect_err("its session waits there").reason;
    assert_eq!(reason, LockError::HeldByOwnSession { node: participant });
}

/// A restarted service would wait for ever behind the node of its own session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_the_resumed_session_still_holds_is_named() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = format!("{}/app", embedded.connect_string());
    let first = Client::connect(&at).await.expect("connected");
    first.ensure_path("/").await.expect("created");
    let held = Mutex::new(&first, "/lock").expect("valid").acquire().await.expect("free");
    let read = RwLock::new(&first, "/shared").expect("valid").read().await.expect("free");
    let permits = Semaphore::new(&first, "/permits", 1).expect("valid");
    let permit = permits.acquire().await.expect("free");
    let nodes = [held.node_path(), read.node_path(), permit.node_path()];
    let resume = first.detach().await.expect("the session is alive");
    drop((held, read, permit));

    let second = Client::builder(&at).resume(resume).connect().await.expect("the session is alive");
    let mutex = Mutex::new(&second, "/lock").expect("valid");
    let rw = RwLock::new(&second, "/shared").expect("valid");
    let permits = Semaphore::new(&second, "/permits", 1).expect("valid");
    let refused = [
        mutex.acquire().await.map(drop).map_err(RecipeError::<SemaphoreError>::from),
        rw.write().await.map(drop).map_err(RecipeError::from),
        permits.acquire().await.map(drop),
    ];
    for (refused, node) in refused.into_iter().zip(&nodes) {
        let node = node.clone();
        let reason = refused.expect_err("it is held").reason;
        assert_eq!(reason, LockError::HeldByOwnSession { node }.into());
    }
    // Others that read do not wait for a reader.
    rw.read().await.expect("free").release().await.expect("released");
    // Contenders of this client are waited for.
    second.delete(&nodes[0], None).await.expect("deleted");
    let held = mutex.acquire().await.expect("free");
    let waits = mutex.acquire().timeout(Duration::from_millis(100)).await;
    assert_eq!(waits.expect_err("it is held").reason, LockError::TimedOut);
    drop(held);

    // The blocking client.
    let resume = second.detach().await.expect("the session is alive");
    let blocking = tokio::task::spawn_blocking(move || {
        let third =
            zk_session::blocking::Client::builder(&at).resume(resume).connect().expect("still");
        let rw = RwLock::new(&third, "/shared").expect("valid");
        let reason = rw.write().wait().map(drop).expect_err("it is held").reason;
        assert_eq!(reason, LockError::HeldByOwnSession { node: nodes[1].clone() });
        third.delete(&nodes[1], None).wait().expect("deleted");
        rw.write().wait().map(drop).expect("free");
    });
    blocking.await.expect("no panic");
}
