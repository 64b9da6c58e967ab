//! Several locks, acquired together or not at all.

use tokio::time::timeout;
use zk_recipes::{
    Holding, LockError, LockRequest, Loss, MultiLock, MultiLockError, Mutex, Options, RecipeError,
    RwLock, Semaphore, SemaphoreError, machine::Scheme,
};
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{Client, Error};

use super::frozen::Frozen;
use super::{
    HANG_TIMEOUT, MOMENT, client, delete_node, ephemerals, eventually, nothing_is_left, scenarios,
    start, watches,
};

fn mutex(client: &Client, path: &str) -> Mutex {
    Mutex::new(client, path).expect("a valid path")
}

fn multi(client: &Client, paths: &[&str]) -> MultiLock {
    let parts = paths.iter().map(|path| LockRequest::from(&mutex(client, path)));
    MultiLock::new(parts).expect("compatible locks")
}

/// Returns the operation, the path and the reason of an error.
fn blamed<R>(error: RecipeError<R>) -> (&'static str, String, R) {
    (error.operation, error.path.into(), error.reason)
}

#[tokio::test]
async fn several_locks_are_acquired_and_released_together() {
    scenarios::several_locks_are_acquired_and_released_together(&start().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn contenders_with_opposite_orders_do_not_deadlock() {
    let embedded = start().await;
    let mut contenders = Vec::new();
    for paths in [["/a", "/b", "/c"], ["/c", "/b", "/a"], ["/b", "/c", "/a"]] {
        let client = client(&embedded).await;
        contenders.push(tokio::spawn(async move {
            for _ in 0..20 {
                let guard = multi(&client, &paths).acquire().await.expect("acquired");
                guard.release().await.expect("released");
            }
        }));
    }
    for contender in contenders {
        let done = timeout(HANG_TIMEOUT, contender).await;
        done.expect("no deadlock").expect("no panic");
    }
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_lock_listed_twice_is_acquired_once() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let lock = RwLock::new(&ours, "/rw").expect("a valid path");
    let readers = MultiLock::new([LockRequest::read(&lock), LockRequest::read(&lock)])
        .expect("compatible locks");
    let guard = readers.acquire().await.expect("acquired");
    assert_eq!((guard.locks().len(), ephemerals(&embedded).len()), (1, 1));
    let theirs = RwLock::new(&other, "/rw").expect("a valid path");
    theirs.try_read().await.expect("held for reading").release().await.expect("released");
    guard.release().await.expect("released");

    let both = MultiLock::new([
        LockRequest::read(&lock),
        LockRequest::write(&lock),
        LockRequest::read(&lock),
    ]);
    let guard = both.expect("compatible locks").acquire().await.expect("acquired");
    assert_eq!(ephemerals(&embedded).len(), 1);
    assert_eq!(theirs.try_read().await.expect_err("held for writing").reason, LockError::Busy);
    guard.release().await.expect("released");

    let again = ours.with_chroot("/").expect("a valid path");
    let same = MultiLock::new([
        LockRequest::from(&mutex(&again, "/m")),
        LockRequest::from(&mutex(&ours, "/m")),
    ]);
    let guard = same.expect("compatible locks").acquire().await.expect("acquired");
    assert_eq!(guard.locks().len(), 1);
    guard.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn incompatible_locks_are_refused() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let refusal = |parts: Vec<LockRequest>| MultiLock::new(parts).expect_err("incompatible locks");
    let a = LockRequest::from(&mutex(&ours, "/a"));
    assert_eq!(refusal(vec![]), MultiLockError::Empty);
    assert_eq!(
        refusal(vec![a.clone(), LockRequest::from(&mutex(&other, "/b"))]),
        MultiLockError::Sessions
    );
    // Their paths mean different things, and none would be right for a transaction on both.
    let below = ours.with_chroot("/app").expect("a valid path");
    assert_eq!(
        refusal(vec![a.clone(), LockRequest::from(&mutex(&below, "/b"))]),
        MultiLockError::Chroots
    );
    let kazoo = Options::new().scheme(Scheme::KAZOO_MUTEX);
    let kazoo = LockRequest::from(&Mutex::with(&ours, "/a", kazoo).expect("a valid path"));
    assert_eq!(refusal(vec![a, kazoo]), MultiLockError::Schemes { path: "/a".into() });
}

#[tokio::test]
async fn if_one_lock_cannot_be_acquired_none_is_kept() {
    const PATHS: [&str; 4] = ["/a", "/b", "/c", "/d"];
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    for bad in PATHS {
        // Lock nodes cannot be children of an ephemeral node.
        other.delete_all(bad).await.expect("deleted");
        other.create(bad, b"", NodeKind::Ephemeral).await.expect("created");
        let error = multi(&ours, &PATHS).acquire().await.expect_err("one lock cannot be acquired");
        let refused = Error::Server(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        assert_eq!(blamed(error), ("acquire", bad.into(), LockError::Request(refused).into()));
        other.delete(bad, None).await.expect("deleted");
        nothing_is_left(&embedded).await;
    }
}

#[tokio::test]
async fn permits_are_acquired_together_with_locks() {
    scenarios::permits_are_acquired_together_with_locks(&start().await).await;
}

#[tokio::test]
async fn incompatible_permits_and_locks_are_refused() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let semaphore = Semaphore::new(&ours, "/s", 3).expect("a valid path");
    let permits = |permits| LockRequest::permits(&semaphore, permits);
    let too_many = MultiLock::new([LockRequest::from(&mutex(&ours, "/a")), permits(2), permits(2)]);
    let error = too_many.expect("compatible locks").acquire().await.expect_err("three permits");
    assert_eq!(
        blamed(error),
        ("acquire", "/s".into(), SemaphoreError::TooManyPermits { maximum: 3 })
    );
    let mixed = MultiLock::new([permits(1), LockRequest::from(&mutex(&ours, "/s"))]);
    assert_eq!(
        mixed.expect_err("two kinds of lock"),
        MultiLockError::Schemes { path: "/s".into() }
    );
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn one_deadline_applies_to_all_locks() {
    let _frozen = Frozen::start();
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let in_the_way = mutex(&other, "/b").acquire().await.expect("acquired");
    let waiting = tokio::spawn(multi(&ours, &["/a", "/b", "/c"]).acquire().timeout(MOMENT));
    let waits = |embedded: &zk_testkit::serve::Embedded| watches(embedded) > 0;
    eventually(&embedded, "the attempt waits for the second lock", waits).await;
    tokio::time::advance(2 * MOMENT).await;
    let error = waiting.await.expect("no panic").expect_err("timed out");
    assert_eq!(blamed(error), ("acquire", "/b".into(), LockError::TimedOut.into()));
    let left = |embedded: &zk_testkit::serve::Embedded| ephemerals(embedded).len() == 1;
    eventually(&embedded, "only the other's node", left).await;
    in_the_way.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_loss_of_one_lock_is_reported_and_blocks_writes() {
    let embedded = start().await;
    let client = client(&embedded).await;
    client.create("/data", b"", NodeKind::Persistent).await.expect("created");
    let guard = multi(&client, &["/a", "/b"]).acquire().await.expect("acquired");
    let write = || guard.transaction().set_data("/data", b"x", None).commit();
    assert_eq!(write().await.expect("applied").len(), 3);
    eventually(&embedded, "the nodes are watched", |embedded| watches(embedded) == 2).await;
    delete_node(&embedded, &guard.locks()[1].node_path()).await;
    let lost = guard.lost().await;
    assert_eq!((&*lost.path, lost.loss), ("/b", Loss::NodeDeleted));
    assert_eq!(lost.to_string(), "/b: our node was deleted");
    assert_eq!(guard.state(), Holding::Lost(Loss::NodeDeleted));
    let refused = Error::Transaction { index: 1, code: ErrorCode::NO_NODE };
    assert_eq!(write().await.expect_err("refused").reason, refused);
    let is_lost = |operation| Err((operation, "/b".into(), LockError::Lost(Loss::NodeDeleted)));
    assert_eq!(guard.validate().await.map_err(blamed), is_lost("validate"));
    assert_eq!(guard.release().await.map_err(blamed), is_lost("release"));
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_lost_lock_is_named_by_its_path() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let semaphore = Semaphore::new(&client, "/b", 2).expect("a valid path");
    let [a, c] = ["/a", "/c"].map(|path| LockRequest::from(&mutex(&client, path)));
    let all =
        MultiLock::new([a, LockRequest::permits(&semaphore, 2), c]).expect("compatible locks");
    for (place, path) in ["/a", "/b", "/c"].into_iter().enumerate() {
        let guard = all.acquire().await.expect("acquired");
        assert_eq!(guard.validate().await, Ok(()));
        delete_node(&embedded, &guard.locks()[place].node_path()).await;
        let error = guard.validate().await.expect_err("one is lost");
        assert_eq!(blamed(error), ("validate", path.into(), LockError::Lost(Loss::NodeDeleted)));
    }
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_loss_of_one_lock_ends_the_wait_for_another() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let in_the_way = mutex(&other, "/b").acquire().await.expect("acquired");
    let attempt = tokio::spawn(multi(&ours, &["/a", "/b"]).acquire());
    eventually(&embedded, "all watches of the attempt", |embedded| watches(embedded) == 4).await;
    let (nodes, _) = other.get_children("/a").await.expect("listed");
    delete_node(&embedded, &format!("/a/{}", nodes[0])).await;
    let error = attempt.await.expect("no panic").expect_err("lost");
    assert_eq!(blamed(error), ("acquire", "/a".into(), LockError::Lost(Loss::NodeDeleted).into()));
    in_the_way.release().await.expect("released");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn the_end_of_the_session_loses_all_locks() {
    let embedded = start().await;
    let client = client(&embedded).await;
    let guard = multi(&client, &["/a", "/b"]).acquire().await.expect("acquired");
    client.close().await;
    // The server may report the deletion of a node first.
    let loss = guard.lost().await.loss;
    assert!(matches!(loss, Loss::Ended(_) | Loss::NodeDeleted), "{loss:?}");
    // They are released in reverse order.
    let last = guard.locks()[1].lost().await;
    let error = guard.release().await.expect_err("lost");
    assert_eq!(error.reason, LockError::Lost(last));
    nothing_is_left(&embedded).await;
}
