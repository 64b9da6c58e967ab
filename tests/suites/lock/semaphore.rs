//! Permits: how many are out, who waits, what is left behind.

use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{Holding, LockError, Loss, Options, Semaphore};
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{Client, Error};
use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

use super::{HANG_TIMEOUT, client, eventually, lock_nodes, start, waits_until, watches};

const PATH: &str = super::LOCK;
/// Longer than anything here takes that does not wait for ever.
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
    eventually(embedded, "no lease, no place in the queue, no watch", clean).await;
}

#[tokio::test]
async fn no_more_permits_are_held_than_exist() {
    scenarios::no_more_permits_are_held_than_exist(&start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_want_all_do_not_keep_each_other_waiting() {
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
    timeout(HANG_TIMEOUT, all).await.expect("nobody waits for ever");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn who_wants_many_is_not_overtaken() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let held = semaphore(&one, 2).acquire().await.expect("free");
    let mut both = Box::pin(semaphore(&one, 2).acquire_many(2));
    let has_leases = |embedded: &Embedded| leases(embedded) == 3;
    waits_until(&embedded, &mut both, "one is out", has_leases).await;
    let mut late = Box::pin(semaphore(&other, 2).acquire());
    assert!(timeout(A_WHILE, &mut late).await.is_err(), "one is free, but not for the second");
    held.release().await.expect("held");
    both.await.expect("its turn").release().await.expect("held");
    late.await.expect("its turn").release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn giving_up_gives_everything_back() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = semaphore(&client, 2);
    let held = semaphore.acquire().await.expect("free");
    let answer = semaphore.acquire_many_timeout(2, A_WHILE).await;
    assert_eq!(answer.expect_err("one is out").reason, LockError::TimedOut);
    eventually(&embedded, "one lease", |embedded| leases(embedded) == 1).await;
    let next = semaphore.acquire_timeout(Duration::MAX).await.expect("free");
    next.release().await.expect("held");
    held.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn trying_creates_nothing_when_there_is_no_room() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = semaphore(&client, 2);
    let first = semaphore.try_acquire().await.expect("free");
    // Its place in the queue is given back in the background.
    let queue_is_empty = |embedded: &Embedded| lock_nodes(embedded).len() == leases(embedded) + 3;
    eventually(&embedded, "an empty queue", queue_is_empty).await;
    let before = embedded.with(|ensemble| ensemble.zxid());
    assert_eq!(
        semaphore.try_acquire_many(2).await.expect_err("one is out").reason,
        LockError::Busy
    );
    assert_eq!(embedded.with(|ensemble| ensemble.zxid()), before, "nothing was written");
    let second = semaphore.try_acquire_many(1).await.expect("one is left");
    assert_eq!(
        semaphore.try_acquire_many(1).await.expect_err("none is left").reason,
        LockError::Busy
    );
    second.release().await.expect("held");
    first.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

/// Servers delete containers whose last child has gone, and none that never had a child.
#[tokio::test]
async fn who_finds_no_number_leaves_no_directory() {
    let quick = Config { container_check: Duration::from_millis(10), ..Config::servers(1) };
    let embedded = Embedded::with_config(quick).await.expect("loopback");
    let any = Semaphore::open(&client(&embedded).await, PATH).expect("a valid path");
    assert_eq!(any.acquire().await.expect_err("none yet").reason, LockError::NoMaximum);
    let is_gone = |embedded: &Embedded| embedded.with(|all| all.node("/locks").is_none());
    eventually(&embedded, "nothing of it is there", is_gone).await;
}

#[tokio::test]
async fn the_number_of_permits_is_the_same_for_all_and_can_be_raised_and_lowered() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let (two, three) = (semaphore(&client, 2), semaphore(&client, 3));
    let any = Semaphore::open(&client, PATH).expect("a valid path");
    assert_eq!(any.acquire().await.expect_err("none yet").reason, LockError::NoMaximum);
    let first = two.acquire_many(2).await.expect("free");
    assert_eq!(
        three.acquire().await.expect_err("another number").reason,
        LockError::OtherMaximum { maximum: 2 }
    );
    for too_many in [3, 100_000, 4_000_000_000] {
        assert_eq!(
            any.acquire_many(too_many).await.expect_err("too many").reason,
            LockError::TooManyPermits { maximum: 2 }
        );
    }
    let mut waiting = Box::pin(any.acquire());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err());
    any.set_permits(3).await.expect("written");
    let second = waiting.await.expect("there are more now");
    any.set_permits(1).await.expect("written");
    assert_eq!(any.permits().await.expect("read"), Some(1));
    assert_eq!((first.state(), second.state()), (Holding::Held, Holding::Held));
    first.release().await.expect("held");
    let mut waiting = Box::pin(any.acquire());
    assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "the only one is out");
    second.release().await.expect("held");
    waiting.await.expect("free").release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn permits_of_a_session_that_ends_are_free() {
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
async fn a_lease_that_somebody_deletes_is_lost_when_held_and_made_anew_when_not() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let held = semaphore(&one, 2).acquire_many(2).await.expect("free");
    let mut waiting = Box::pin(semaphore(&other, 2).acquire());
    let has_lease = |embedded: &Embedded| leases(embedded) == 3;
    waits_until(&embedded, &mut waiting, "both are out", has_lease).await;
    let mine = semaphore(&one, 2).leases().await.expect("listed");
    let theirs = mine.iter().find(|lease| lease.session == other.session_id()).expect("waiting");
    let node = |name: &str| format!("{PATH}/leases/{name}");
    one.delete(&node(&theirs.node), None).await.expect("deleted");
    waits_until(&embedded, &mut waiting, "there is another", has_lease).await;
    one.delete(&node(held.node()), None).await.expect("deleted");
    assert_eq!(held.lost().await, Loss::NodeDeleted);
    waiting.await.expect("both are free").release().await.expect("held");
    drop(held);
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn somebody_who_is_asked_for_a_permit_hears_it() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let semaphore = Semaphore::with(&client, PATH, Some(1), Options::new().revocable());
    let semaphore = semaphore.expect("a valid path");
    let held = semaphore.acquire().await.expect("free");
    semaphore.revoke(held.node()).await.expect("written");
    held.revoked().await;
    held.validate().await.expect("held all the same");
    held.release().await.expect("held");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_transaction_fails_without_any_of_several_leases() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, other) = (client(&embedded).await, client(&embedded).await);
    let permits = semaphore(&holder, 2).acquire_many(2).await.expect("free");
    permits.validate().await.expect("held");
    let leases = semaphore(&other, 2).leases().await.expect("listed");
    let second = leases.iter().find(|lease| lease.node != permits.node()).expect("two");
    // Nobody tells the holder before it writes: it checks for itself.
    let deleted = other.delete(&format!("{PATH}/leases/{}", second.node), None);
    deleted.await.expect("deleted");
    let written = permits.transaction().create("/written", b"", NodeKind::Persistent).commit();
    let refused = Error::Transaction { index: 1, code: ErrorCode::NO_NODE };
    assert_eq!(written.await.expect_err("one is gone").reason, refused);
    assert!(permits.validate().await.is_err());
}
