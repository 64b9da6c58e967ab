//! Who is willing to wait for ever.

use core::time::Duration;

use tokio::time::Instant;
use zk_recipes::{
    Barrier, DoubleBarrier, LeaderElection, LockError, MultiLock, Mutex, Owner, Part,
    ReentrantMutex, RwLock, Semaphore, SimpleLock,
};

use super::{MOMENT, client, nothing_is_left, start};

const FOR_EVER: Duration = Duration::MAX;

#[tokio::test]
async fn no_patience_is_too_long() {
    let embedded = start().await;
    let client = client(&embedded).await;

    let mutex = Mutex::new(&client, "/mutex").expect("a valid path");
    drop(mutex.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let rw_lock = RwLock::new(&client, "/rw").expect("a valid path");
    drop(rw_lock.read_timeout(FOR_EVER).await.expect("acquired"));
    drop(rw_lock.write_timeout(FOR_EVER).await.expect("acquired"));

    let multi = MultiLock::new([Part::from(&mutex), Part::read(&rw_lock)]).expect("they fit");
    drop(multi.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("a valid path");
    drop(reentrant.acquire_timeout(FOR_EVER).await.expect("acquired"));
    let owner = Owner::unique();
    drop(reentrant.acquire_as_timeout(owner, FOR_EVER).await.expect("acquired"));

    let simple = SimpleLock::new(&client, "/simple").expect("a valid path");
    drop(simple.acquire_timeout(FOR_EVER).await.expect("acquired"));

    let barrier = Barrier::new(&client, "/barrier").expect("a valid path");
    barrier.wait_timeout(FOR_EVER).await.expect("it is open");

    let double = DoubleBarrier::new(&client, "/double", 1).expect("a valid path");
    let member = double.enter_timeout(FOR_EVER).await.expect("all have come");
    member.leave().await.expect("all have left");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn who_is_too_late_waits_for_nobody_and_leaves_nothing() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let late = || Instant::now() - MOMENT;

    let theirs = Mutex::new(&other, "/mutex").expect("a valid path").acquire().await;
    let mutex = Mutex::new(&ours, "/mutex").expect("a valid path");
    timed_out(mutex.acquire_until(late())).await;
    let reentrant = ReentrantMutex::new(&ours, "/mutex").expect("a valid path");
    timed_out(reentrant.acquire_until(late())).await;
    timed_out(reentrant.acquire_as_until(Owner::unique(), late())).await;
    drop(theirs);

    let theirs = RwLock::new(&other, "/rw").expect("a valid path").write().await;
    let rw_lock = RwLock::new(&ours, "/rw").expect("a valid path");
    timed_out(rw_lock.read_until(late())).await;
    timed_out(rw_lock.write_until(late())).await;
    drop(theirs);

    let theirs = Semaphore::new(&other, "/semaphore", 2).expect("a valid path").acquire().await;
    let semaphore = Semaphore::new(&ours, "/semaphore", 2).expect("a valid path");
    timed_out(semaphore.acquire_many_until(2, late())).await;
    let all = theirs.expect("acquired");
    let rest = semaphore.acquire().await.expect("acquired");
    timed_out(semaphore.acquire_until(late())).await;
    drop((all, rest));

    let leader = LeaderElection::new(&other, "/election").expect("a valid path").stand();
    leader.elected().await.expect("elected");
    let candidate = LeaderElection::new(&ours, "/election").expect("a valid path").stand();
    timed_out(candidate.elected_until(late())).await;
    timed_out(candidate.elected_timeout(MOMENT)).await;
    leader.close().await.expect("closed");
    candidate.elected_timeout(FOR_EVER).await.expect("it stands all the same");
    drop(candidate);

    let simple = SimpleLock::new(&other, "/simple").expect("a valid path");
    let theirs = simple.acquire().await;
    timed_out(SimpleLock::new(&ours, "/simple").expect("valid").acquire_until(late())).await;
    drop(theirs);

    let barrier = Barrier::new(&ours, "/barrier").expect("a valid path");
    barrier.close().await.expect("closed");
    timed_out(barrier.wait_until(late())).await;
    let double = DoubleBarrier::new(&ours, "/double", 2).expect("a valid path");
    timed_out(double.enter_until(late())).await;
    nothing_is_left(&embedded).await;
}

async fn timed_out<T>(waiting: impl Future<Output = Result<T, LockError>>) {
    assert_eq!(waiting.await.map(drop), Err(LockError::TimedOut));
}
