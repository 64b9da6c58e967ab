//! The double barrier: all participants wait for all.

use tokio::time::timeout;
use zk_recipes::{DoubleBarrier, LeaveError, LockError, Loss};
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{Client, End};

use super::{
    HANG_TIMEOUT, MOMENT, SESSION_TIMEOUT, client, delete_node, ephemerals, eventually,
    nothing_is_left, scenarios, start, watches,
};

const PATH: &str = "/barriers/double";

fn barrier(client: &Client, participants: usize) -> DoubleBarrier {
    DoubleBarrier::new(client, PATH, participants).expect("a valid path")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_double_barrier_can_be_used_again() {
    scenarios::a_double_barrier_can_be_used_again(&start().await).await;
}

#[tokio::test]
async fn a_participant_that_gives_up_is_not_counted() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let early = barrier(&one, 2).enter().timeout(MOMENT).await;
    assert_eq!(early.expect_err("alone").reason, LockError::TimedOut);
    nothing_is_left(&embedded).await;
    let late = barrier(&two, 2).enter().timeout(MOMENT).await;
    assert_eq!(late.expect_err("alone").reason, LockError::TimedOut);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_participant_that_dies_inside_does_not_block_the_others() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    for dies_first in [true, false] {
        let dying = client(&embedded).await;
        let (inside, other, dead) = tokio::join!(
            barrier(&one, 3).enter(),
            barrier(&two, 3).enter(),
            barrier(&dying, 3).enter()
        );
        let dead = dead.expect("entered");
        let leaving = async {
            let (inside, other) = (inside.expect("entered"), other.expect("entered"));
            let (one, two) = tokio::join!(inside.leave(), other.leave());
            (one.expect("left"), two.expect("left"))
        };
        let expire = async {
            if !dies_first {
                tokio::time::sleep(MOMENT).await;
            }
            assert!(embedded.expire_session(dying.session_id()));
        };
        tokio::join!(leaving, expire);
        assert!(matches!(dead.lost().await, Loss::NodeDeleted | Loss::Ended(_)));
        let lost = dead.leave().await.expect_err("it is lost");
        assert!(matches!(lost.reason, LeaveError::Lock(LockError::Lost(_))), "{lost}");
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn entering_fails_with_the_session_and_can_be_repeated_on_the_next_one() {
    let embedded = start().await;
    let other = client(&embedded).await;
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    let service = builder.renew(true).connect().await.expect("connected");
    let entering = tokio::spawn(barrier(&service, 2).enter());
    eventually(&embedded, "it waits", |embedded| watches(embedded) == 2).await;
    assert!(embedded.expire_session(service.session_id()));
    let failed = entering.await.expect("no panic").expect_err("its session has expired");
    // The server may report the deletion of the node first.
    let reasons = [LockError::Ended(End::Expired), LockError::Lost(Loss::NodeDeleted)];
    assert!(reasons.contains(&failed.reason), "{failed}");
    nothing_is_left(&embedded).await;

    // As long as only the deletion was reported, it enters on the old session, and fails again.
    let enter_again = async || loop {
        match barrier(&service, 2).enter().await {
            Ok(inside) => break inside,
            Err(error) => assert!(reasons.contains(&error.reason), "{error}"),
        }
    };
    let both = async {
        let (one, two) = tokio::join!(enter_again(), barrier(&other, 2).enter());
        assert!(embedded.expire_session(service.session_id()));
        one.lost().await;
        // The other one is still inside.
        let (one, two) = (enter_again().await, two.expect("entered"));
        let (one, two) = tokio::join!(one.leave(), two.leave());
        one.expect("left");
        two.expect("left");
    };
    timeout(HANG_TIMEOUT, both).await.expect("nobody waits for ever");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_participant_dropped_inside_leaves_nothing_that_admits_others() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let (inside, other) = tokio::join!(barrier(&one, 2).enter(), barrier(&two, 2).enter());
    drop((inside.expect("entered"), other.expect("entered")));
    nothing_is_left(&embedded).await;
    let ready = format!("{PATH}/ready");
    assert!(
        embedded.with(|ensemble| ensemble.node(&ready).is_some()),
        "the other participant did not leave"
    );
    let alone = barrier(&one, 2).enter().timeout(MOMENT).await;
    assert_eq!(alone.expect_err("alone").reason, LockError::TimedOut);
    nothing_is_left(&embedded).await;
    // MultiAcquire they get in all the same, and tidy up.
    let (inside, other) = tokio::join!(barrier(&one, 2).enter(), barrier(&two, 2).enter());
    let (inside, other) = (inside.expect("entered"), other.expect("entered"));
    let (one, two) = tokio::join!(inside.leave(), other.leave());
    one.expect("left");
    two.expect("left");
    assert!(embedded.with(|ensemble| ensemble.node(&ready).is_none()));
}

#[tokio::test]
async fn leaving_can_be_cancelled() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let (inside, other) = tokio::join!(barrier(&one, 2).enter(), barrier(&two, 2).enter());
    let (inside, other) = (inside.expect("entered"), other.expect("entered"));
    assert!(timeout(MOMENT, inside.leave()).await.is_err(), "the other is still inside");
    eventually(&embedded, "left", |embedded| ephemerals(embedded).len() == 1).await;
    other.leave().await.expect("left");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_participant_whose_node_is_deleted_notices() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let entering = tokio::spawn(barrier(&client, 2).enter());
    eventually(&embedded, "the participant waits", |embedded| watches(embedded) == 2).await;
    delete_node(&embedded, &ephemerals(&embedded)[0]).await;
    let error = entering.await.expect("no panic").expect_err("lost");
    assert_eq!(error.reason, LockError::Lost(Loss::NodeDeleted));
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn participants_with_names_of_another_kind_count() {
    let embedded = start().await;
    let (ours, foreign) = (client(&embedded).await, client(&embedded).await);
    let entering = tokio::spawn(barrier(&ours, 2).enter());
    eventually(&embedded, "a waiter", |embedded| watches(embedded) >= 1).await;
    // A participant with the names of Curator.
    let theirs = format!("{PATH}/0d9cbd9f-ea25-4e57-8a5c-5a2c9f1ee31f");
    foreign.create(&theirs, b"", NodeKind::Ephemeral).await.expect("created");
    // Our participant may have created the node first.
    let ready = foreign.create(&format!("{PATH}/ready"), b"", NodeKind::Persistent).await;
    assert!(
        ready.as_ref().err().is_none_or(|error| error.code() == Some(ErrorCode::NODE_EXISTS)),
        "{ready:?}"
    );
    let inside = entering.await.expect("no panic").expect("entered");
    let leaving = tokio::spawn(inside.leave());
    tokio::time::sleep(MOMENT).await;
    assert!(!leaving.is_finished(), "the other is still inside");
    foreign.delete(&theirs, None).await.expect("deleted");
    leaving.await.expect("no panic").expect("left");
    nothing_is_left(&embedded).await;
}

/// The sixth comes while all five are inside, or while some of them leave.
#[tokio::test]
async fn six_get_into_a_barrier_of_five_and_out_again() {
    let embedded = start().await;
    let sixth = client(&embedded).await;
    let mut clients = Vec::new();
    for _ in 0..5 {
        clients.push(client(&embedded).await);
    }
    for leave_early in 0..5 {
        let mut entering = tokio::task::JoinSet::new();
        for client in &clients {
            entering.spawn(barrier(client, 5).enter());
        }
        let inside = timeout(HANG_TIMEOUT, entering.join_all()).await.expect("they enter");
        let mut inside: Vec<_> = inside.into_iter().map(|it| it.expect("entered")).collect();
        // The first one stays until all have left.
        inside.sort_by_key(|guard| {
            let node = guard.node_path();
            node[node.len() - 10..].to_string()
        });
        let mut leaving = tokio::task::JoinSet::new();
        for guard in inside.split_off(5 - leave_early) {
            leaving.spawn(guard.leave());
        }
        eventually(&embedded, "some are out", |embedded| {
            ephemerals(embedded).len() == 5 - leave_early
        })
        .await;
        let late = timeout(HANG_TIMEOUT, barrier(&sixth, 5).enter()).await;
        let late = late.unwrap_or_else(|_| panic!("it does not enter beside {leave_early}"));
        leaving.spawn(late.expect("entered").leave());
        for guard in inside {
            leaving.spawn(guard.leave());
        }
        let left = timeout(HANG_TIMEOUT, leaving.join_all()).await;
        let left = left.unwrap_or_else(|_| panic!("they do not leave after {leave_early}"));
        assert!(left.len() == 6 && left.iter().all(Result::is_ok), "{left:?}");
        nothing_is_left(&embedded).await;
    }
}

/// Nobody leaves before the nodes of all six exist. A sixth that comes when all have left would wait
/// for the next meeting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn six_come_at_once_to_a_barrier_of_five_again_and_again() {
    let embedded = start().await;
    let mut clients = Vec::new();
    for _ in 0..6 {
        clients.push(client(&embedded).await);
    }
    for round in 0..25 {
        let (all_came, _) = tokio::sync::watch::channel(false);
        let mut visits = tokio::task::JoinSet::new();
        for client in &clients {
            let (entering, mut came) = (barrier(client, 5).enter(), all_came.subscribe());
            visits.spawn(async move {
                let inside = entering.await.expect("entered");
                came.wait_for(|came| *came).await.expect("all come");
                inside.leave().await.expect("left");
            });
        }
        eventually(&embedded, "all have come", |embedded| ephemerals(embedded).len() == 6).await;
        all_came.send_replace(true);
        let left = timeout(HANG_TIMEOUT, visits.join_all()).await;
        left.unwrap_or_else(|_| panic!("one waits for ever in round {round}"));
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn a_participant_that_leaves_in_vain_says_that_others_stay() {
    let embedded = start().await;
    let (one, two) = (client(&embedded).await, client(&embedded).await);
    let (inside, other) = tokio::join!(barrier(&one, 2).enter(), barrier(&two, 2).enter());
    let (inside, other) = (inside.expect("entered"), other.expect("entered"));
    let error = inside.leave().timeout(MOMENT).await.expect_err("the other stays");
    assert_eq!(error.reason, LeaveError::OthersInside);
    assert!(error.to_string().contains("others have not left in time"), "{error}");
    // It has left nevertheless.
    other.leave().timeout(HANG_TIMEOUT).await.expect("left");
    nothing_is_left(&embedded).await;
}
