//! Permits: their number, their waiters, and cleanup.

use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{Holding, LockError, Loss, Options, Semaphore, SemaphoreError};
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{Client, Error};
use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

use super::{HANG_TIMEOUT, client, eventually, lock_nodes, start, waits_until, watches};

const PATH: &str = super::LOCK;
/// How long to wait before concluding that something does not happen.
const A_WHILE: Duration = Duration::from_millis(100);

fn semaphore(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, PATH, permits).expect("a valid path")
}

fn leases(embedded: &Embedded) -> usize {
    lock_nodes(embedded).iter().filter(|path| path.contains("/leases/")).count()
}

async fn nothing_is_left(embedded: &Embedded) {
    let clean = |embedded: &Embedded| {
        let is_node = |path: &String| path.contains("-lock-") || path.contains("-lease-");
        !lock_nodes(embedded).iter().any(is_node) && watches(embedded) == 0
    };
    eventually(embedded, "no node and no watch", clean).await;
}

#[tokio::test]
async fn no_more_permits_are_held_than_exist() {
    scenarios::no_more_permits_are_held_than_exist(&start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_for_all_permits_do_not_deadlock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let semaphore = semaphore(&client(&embedded).await, 2);
        tasks.spawn(async move {
            for _ in 0..10 {
                let permits = semaphore.acquire_many(2).await.expect("acquired");
                assert_eq!(permits.state(), Holding::Held);
                permits.release().await.expect("held");
            }
        });
    }
    let all = async { while tasks.join_next().await.transpose().expect("no panic").is_some() {} };
    timeout(HANG_TIMEOUT, all).await.expect("no deadlock");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_request_for_many_permits_is_not_overtaken() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let held = semaphore(&one, 2).acquire().await.expect("free");
    let mut both = Box::pin(semaphore(&one, 2).acquire_many(2));
    let has_leases = |embedded: &Embedded| leases(embedded) == 3;
    waits_until(&embedded, &mut both, "one permit is held", has_leases).await;
    let mut late = Box::pin(semaphore(&other, 2).acquire());
    assert!(
        timeout(A_WHILE, &mut late).await.is_err(),
        "one permit is free, but not for the second contender"
    );
    held.release().await.expect("held");
    both.await.expect("acquired").release().await.expect("held");
    late.await.expect("acquired").release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_dropped_request_returns_everything() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = semaphore(&client, 2);
    let held = semaphore.acquire().await.expect("free");
    let answer = semaphore.acquire_many(2).timeout(A_WHILE).await;
    assert_eq!(answer.expect_err("one permit is held").reason, LockError::TimedOut.into());
    eventually(&embedded, "one permit node", |embedded| leases(embedded) == 1).await;
    let next = semaphore.acquire().timeout(Duration::MAX).await.expect("free");
    next.release().await.expect("held");
    held.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_try_creates_nothing_when_too_few_permits_are_left() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = semaphore(&client, 2);
    let first = semaphore.try_acquire().await.expect("free");
    // Its place in the queue is deleted in the background.
    let queue_is_empty = |embedded: &Embedded| lock_nodes(embedded).len() == leases(embedded) + 3;
    eventually(&embedded, "an empty queue", queue_is_empty).await;
    let before = embedded.with(|ensemble| ensemble.zxid());
    assert_eq!(
        semaphore.try_acquire_many(2).await.expect_err("one permit is held").reason,
        LockError::Busy.into()
    );
    assert_eq!(embedded.with(|ensemble| ensemble.zxid()), before, "no writes");
    let second = semaphore.try_acquire_many(1).await.expect("one permit is left");
    assert_eq!(
        semaphore.try_acquire_many(1).await.expect_err("no permit is left").reason,
        LockError::Busy.into()
    );
    second.release().await.expect("held");
    first.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

/// Servers delete containers whose last child is gone, but not those that never had a child.
#[tokio::test]
async fn without_a_maximum_no_nodes_are_created() {
    let quick = Config { container_check: Duration::from_millis(10), ..Config::servers(1) };
    let embedded = Embedded::with_config(quick).await.expect("loopback");
    let any = Semaphore::open(&client(&embedded).await, PATH).expect("a valid path");
    assert_eq!(any.acquire().await.expect_err("no maximum yet").reason, SemaphoreError::NoMaximum);
    let is_gone = |embedded: &Embedded| embedded.with(|all| all.node("/locks").is_none());
    eventually(&embedded, "no node below the path", is_gone).await;
}

#[tokio::test]
async fn all_clients_agree_on_the_number_of_permits_and_can_change_it() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let (two, three) = (semaphore(&client, 2), semaphore(&client, 3));
    let any = Semaphore::open(&client, PATH).expect("a valid path");
    assert_eq!(any.acquire().await.expect_err("no maximum yet").reason, SemaphoreError::NoMaximum);
    let first = two.acquire_many(2).await.expect("free");
    assert_eq!(
        three.acquire().await.expect_err("another number").reason,
        SemaphoreError::OtherMaximum { maximum: 2 }
    );
    for too_many in [3, 100_000, 4_000_000_000] {
        assert_eq!(
            any.acquire_many(too_many).await.expect_err("too many").reason,
            SemaphoreError::TooManyPermits { maximum: 2 }
        );
    }
    let mut waiting = Box::pin(any.acquire());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err());
    any.set_permits(3).await.expect("written");
    let second = waiting.await.expect("the maximum was raised");
    any.set_permits(1).await.expect("written");
    assert_eq!(any.permits().await.expect("read"), Some(1));
    assert_eq!((first.state(), second.state()), (Holding::Held, Holding::Held));
    first.release().await.expect("held");
    let mut waiting = Box::pin(any.acquire());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "the only permit is held");
    second.release().await.expect("held");
    waiting.await.expect("free").release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn permits_of_an_ended_session_are_free() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (dying, other) = (client(&embedded).await, client(&embedded).await);
    let held = semaphore(&dying, 1).acquire().await.expect("free");
    let mut waiting = Box::pin(semaphore(&other, 1).acquire());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err());
    assert!(embedded.expire_session(dying.session_id()));
    let next = waiting.await.expect("free");
    assert!(next.fencing_token() > held.fencing_token());
    assert!(matches!(held.lost().await, Loss::Ended(_) | Loss::NodeDeleted));
}

#[tokio::test]
async fn a_deleted_permit_node_is_lost_if_held_and_created_again_if_not() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let held = semaphore(&one, 2).acquire_many(2).await.expect("free");
    let mut waiting = Box::pin(semaphore(&other, 2).acquire());
    let has_lease = |embedded: &Embedded| leases(embedded) == 3;
    waits_until(&embedded, &mut waiting, "both permits are held", has_lease).await;
    let mine = semaphore(&one, 2).leases().await.expect("listed");
    let theirs = mine.iter().find(|lease| lease.session == other.session_id()).expect("waiting");
    let node = |name: &str| format!("{PATH}/leases/{name}");
    one.delete(&node(&theirs.node), None).await.expect("deleted");
    waits_until(&embedded, &mut waiting, "another permit node", has_lease).await;
    one.delete(&node(held.node()), None).await.expect("deleted");
    assert_eq!(held.lost().await, Loss::NodeDeleted);
    waiting.await.expect("both permits are free").release().await.expect("held");
    drop(held);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_permit_holder_receives_a_request_to_release() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = Semaphore::with(&client, PATH, Some(1), Options::new().revocable());
    let semaphore = semaphore.expect("a valid path");
    let held = semaphore.acquire().await.expect("free");
    semaphore.revoke(held.node()).await.expect("written");
    held.revoked().await;
    held.validate().await.expect("still held");
    held.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_transaction_fails_if_one_of_several_permits_is_lost() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, other) = (client(&embedded).await, client(&embedded).await);
    let permits = semaphore(&holder, 2).acquire_many(2).await.expect("free");
    permits.validate().await.expect("held");
    let leases = semaphore(&other, 2).leases().await.expect("listed");
    let second = leases.iter().find(|lease| lease.node != permits.node()).expect("two");
    // Both are sent before the holder can learn of the deletion, and return the other permit.
    let deleted = holder.delete(&format!("{PATH}/leases/{}", second.node), None);
    let written = permits.transaction().create("/written", b"", NodeKind::Persistent).commit();
    deleted.await.expect("deleted");
    let refused = Error::Transaction { index: 1, code: ErrorCode::NO_NODE };
    assert_eq!(written.await.expect_err("one permit is lost").reason, refused);
    assert!(permits.validate().await.is_err());
}
