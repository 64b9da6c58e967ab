//! Timeouts of all recipes, from zero to the largest duration.

use core::time::Duration;

use tokio::time::Instant;
use zk_recipes::{
    Barrier, Cache, DoubleBarrier, Ephemeral, Fault, LeaderElection, LockError, LockRequest,
    MultiLock, Mutex, Owner, Reason, RecipeError, ReentrantMutex, RwLock, Semaphore, SimpleLock,
};
use zk_session::{Client, End, State};
use zk_testkit::proxy::Proxy;

use super::{MOMENT, SESSION_TIMEOUT, client, ephemerals, eventually, nothing_is_left, start};

const FOR_EVER: Duration = Duration::MAX;
const ZERO: Duration = Duration::ZERO;

#[tokio::test]
async fn no_timeout_is_too_long() {
    let embedded = start().await;
    let client = client(&embedded).await;

    let mutex = Mutex::new(&client, "/mutex").expect("a valid path");
    drop(mutex.acquire().timeout(FOR_EVER).await.expect("acquired"));

    let rw_lock = RwLock::new(&client, "/rw").expect("a valid path");
    drop(rw_lock.read().timeout(FOR_EVER).await.expect("acquired"));
    drop(rw_lock.write().timeout(FOR_EVER).await.expect("acquired"));

    let multi = MultiLock::new([LockRequest::from(&mutex), LockRequest::read(&rw_lock)])
        .expect("compatible locks");
    drop(multi.acquire().timeout(FOR_EVER).await.expect("acquired"));

    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("a valid path");
    let owner = Owner::unique();
    drop(reentrant.acquire_as(owner).timeout(FOR_EVER).await.expect("acquired"));

    let simple = SimpleLock::new(&client, "/simple").expect("a valid path");
    drop(simple.acquire().timeout(FOR_EVER).await.expect("acquired"));

    let barrier = Barrier::new(&client, "/barrier").expect("a valid path");
    barrier.wait().timeout(FOR_EVER).await.expect("open");

    let double = DoubleBarrier::new(&client, "/double", 1).expect("a valid path");
    let participant = double.enter().timeout(FOR_EVER).await.expect("entered");
    participant.leave().await.expect("left");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn an_attempt_past_its_deadline_leaves_nothing() {
    let embedded = start().await;
    let (ours, other) = (client(&embedded).await, client(&embedded).await);
    let late = || Instant::now() - MOMENT;

    let theirs = Mutex::new(&other, "/mutex").expect("a valid path").acquire().await;
    let mutex = Mutex::new(&ours, "/mutex").expect("a valid path");
    timed_out(mutex.acquire().until(late())).await;
    let reentrant = ReentrantMutex::new(&ours, "/mutex").expect("a valid path");
    timed_out(reentrant.acquire_as(Owner::unique()).until(late())).await;
    drop(theirs);

    let theirs = RwLock::new(&other, "/rw").expect("a valid path").write().await;
    let rw_lock = RwLock::new(&ours, "/rw").expect("a valid path");
    timed_out(rw_lock.read().until(late())).await;
    timed_out(rw_lock.write().until(late())).await;
    drop(theirs);

    let theirs = Semaphore::new(&other, "/semaphore", 2).expect("a valid path").acquire().await;
    let semaphore = Semaphore::new(&ours, "/semaphore", 2).expect("a valid path");
    timed_out(semaphore.acquire_many(2).until(late())).await;
    let all = theirs.expect("acquired");
    let rest = semaphore.acquire().await.expect("acquired");
    timed_out(semaphore.acquire().until(late())).await;
    drop((all, rest));

    let leader = LeaderElection::new(&other, "/election").expect("a valid path").stand();
    leader.elected().await.expect("elected");
    let election = LeaderElection::new(&ours, "/election").expect("a valid path");
    let candidate = election.stand();
    // The answers to the candidate come first.
    assert_eq!(election.participants().await.expect("listed").len(), 2);
    timed_out(candidate.elected().until(late())).await;
    timed_out(candidate.elected().timeout(MOMENT)).await;
    leader.close().await.expect("closed");
    candidate.elected().timeout(FOR_EVER).await.expect("still a candidate");
    drop(candidate);

    let simple = SimpleLock::new(&other, "/simple").expect("a valid path");
    let theirs = simple.acquire().await;
    timed_out(SimpleLock::new(&ours, "/simple").expect("valid").acquire().until(late())).await;
    drop(theirs);

    let barrier = Barrier::new(&ours, "/barrier").expect("a valid path");
    barrier.close().await.expect("closed");
    timed_out(barrier.wait().until(late())).await;
    let double = DoubleBarrier::new(&ours, "/double", 2).expect("a valid path");
    timed_out(double.enter().until(late())).await;
    nothing_is_left(&embedded).await;
}

async fn timed_out<T>(waiting: impl Future<Output = Result<T, RecipeError<impl Reason>>>) {
    let error = waiting.await.map(drop).expect_err("the time limit has passed");
    assert_eq!(error.lock_error(), Some(&LockError::TimedOut));
}

async fn not_connected<T>(waiting: impl Future<Output = Result<T, RecipeError<impl Reason>>>) {
    let error = waiting.await.map(drop).expect_err("there is no connection");
    assert_eq!(error.lock_error(), Some(&LockError::NoConnection));
}

async fn not_answered<T>(waiting: impl Future<Output = Result<T, RecipeError<impl Reason>>>) {
    let error = waiting.await.map(drop).expect_err("no server answers");
    assert_eq!(error.lock_error(), Some(&LockError::NoAnswer), "{error}");
    assert_eq!((error.fault(), error.may_be_held()), (Fault::Ensemble, true));
}

/// Requests arrive, and their replies are lost. Nobody is ahead, and others see our nodes.
#[tokio::test]
async fn a_silent_server_is_not_taken_for_other_contenders() {
    let embedded = start().await;
    let proxy = Proxy::start(&embedded.connect_string()).expect("a free port");
    let builder = Client::builder(&proxy.connect_string()).session_timeout(SESSION_TIMEOUT);
    let ours = builder.connect().await.expect("connected");
    let path = "a valid path";
    let mutex = Mutex::new(&ours, "/mutex").expect(path);
    let rw_lock = RwLock::new(&ours, "/rw").expect(path);
    let semaphore = Semaphore::new(&ours, "/semaphore", 2).expect(path);
    let multi = MultiLock::new([LockRequest::read(&rw_lock)]).expect("compatible locks");
    let reentrant = ReentrantMutex::new(&ours, "/reentrant").expect(path);
    let simple = SimpleLock::new(&ours, "/simple").expect(path);
    let barrier = Barrier::new(&ours, "/barrier").expect(path);
    let double = DoubleBarrier::new(&ours, "/double", 2).expect(path);
    let election = LeaderElection::new(&ours, "/election").expect(path);
    // The next attempt creates its node at once.
    mutex.acquire().await.expect("free").release().await.expect("released");
    let held = Mutex::new(&ours, "/held").expect(path).acquire().await.expect("free");
    let again = ReentrantMutex::new(&ours, "/again").expect(path);
    let released = again.acquire_as(Owner::unique()).await.expect("free");
    proxy.mute();
    drop(released);

    let begun = Instant::now();
    not_answered(mutex.acquire().timeout(MOMENT)).await;
    assert_eq!(mutex.pending_cleanups(), 1);
    not_answered(mutex.try_acquire().timeout(MOMENT)).await;
    let candidate = election.stand();
    let member = Ephemeral::new(&ours, "/member", "").expect(path);
    let cache = Cache::new(&ours, "/").expect(path);
    tokio::join!(
        not_answered(rw_lock.read().timeout(MOMENT)),
        not_answered(rw_lock.try_write().timeout(MOMENT)),
        not_answered(semaphore.acquire().timeout(MOMENT)),
        not_answered(semaphore.try_acquire_many(2).timeout(MOMENT)),
        not_answered(multi.acquire().timeout(MOMENT)),
        not_answered(reentrant.acquire_as(Owner::unique()).timeout(MOMENT)),
        not_answered(again.acquire_as(Owner::unique()).timeout(MOMENT)),
        not_answered(simple.acquire().timeout(MOMENT)),
        not_answered(barrier.wait().timeout(MOMENT)),
        not_answered(double.enter().timeout(MOMENT)),
        not_answered(candidate.elected().timeout(MOMENT)),
        not_answered(member.created().timeout(MOMENT)),
        not_answered(cache.ready().timeout(MOMENT)),
        not_answered(mutex.contenders().timeout(MOMENT)),
        not_answered(semaphore.permits().timeout(MOMENT)),
        not_answered(held.validate().timeout(MOMENT)),
    );
    let longest = 10 * Duration::from_secs(1);
    assert!(begun.elapsed() < longest, "{:?}, until the connection was given up", begun.elapsed());
    assert!(ephemerals(&embedded).iter().any(|node| node.starts_with("/mutex/")));
}

#[tokio::test]
async fn a_timeout_of_zero_acquires_free_locks() {
    acquires_free_locks_within(ZERO).await;
}

/// The time passes before the server's answer, which is awaited all the same.
#[tokio::test]
async fn a_short_timeout_acquires_free_locks() {
    for limit in [Duration::from_nanos(1), Duration::from_micros(10), Duration::from_millis(1)] {
        acquires_free_locks_within(limit).await;
    }
}

async fn acquires_free_locks_within(limit: Duration) {
    let embedded = start().await;
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, "/mutex").expect("a valid path");
    let rw_lock = RwLock::new(&client, "/rw").expect("a valid path");
    let semaphore = Semaphore::new(&client, "/semaphore", 2).expect("a valid path");
    let both = [
        LockRequest::from(&mutex),
        LockRequest::read(&rw_lock),
        LockRequest::permits(&semaphore, 2),
    ];
    let multi = MultiLock::new(both).expect("compatible locks");
    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("a valid path");
    let simple = SimpleLock::new(&client, "/simple").expect("a valid path");
    let barrier = Barrier::new(&client, "/barrier").expect("a valid path");
    let double = DoubleBarrier::new(&client, "/double", 1).expect("a valid path");
    let election = LeaderElection::new(&client, "/election").expect("a valid path");
    let leader = election.stand();
    leader.elected().await.expect("elected");
    for _ in 0..50 {
        let late = Instant::now() - MOMENT;
        let guard = mutex.acquire().timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        let guard = mutex.acquire().until(late).await.expect("free");
        guard.release().await.expect("released");
        let guard = rw_lock.read().timeout(limit).await.expect("free");
        let other = rw_lock.read().until(late).await.expect("free for readers");
        guard.release().await.expect("released");
        other.release().await.expect("released");
        let guard = rw_lock.write().timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        let guard = semaphore.acquire().timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        let guard = semaphore.acquire_many(2).timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        let guard = multi.acquire().timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        // The attempt waits for the owner's own release.
        let owner = Owner::unique();
        let outer = reentrant.acquire_as(owner).timeout(limit).await.expect("free");
        drop((reentrant.acquire_as(owner).timeout(limit).await.expect("ours"), outer));
        let guard = simple.acquire().timeout(limit).await.expect("free");
        guard.release().await.expect("released");
        barrier.wait().timeout(limit).await.expect("open");
        leader.elected().timeout(limit).await.expect("a leader");
        let participant = double.enter().timeout(limit).await.expect("entered");
        participant.leave().await.expect("left");
    }
    leader.close().await.expect("closed");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_timeout_of_zero_does_not_wait_for_a_connection() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let path = "a valid path";
    let mutex = Mutex::new(&ours, "/mutex").expect(path);
    let rw_lock = RwLock::new(&ours, "/rw").expect(path);
    let semaphore = Semaphore::new(&ours, "/semaphore", 2).expect(path);
    let multi = MultiLock::new([LockRequest::from(&mutex), LockRequest::read(&rw_lock)])
        .expect("compatible locks");
    let reentrant = ReentrantMutex::new(&ours, "/reentrant").expect(path);
    let simple = SimpleLock::new(&ours, "/simple").expect(path);
    let barrier = Barrier::new(&ours, "/barrier").expect(path);
    let double = DoubleBarrier::new(&ours, "/double", 1).expect(path);
    // Its release is not confirmed while the connection is lost.
    let released = reentrant.acquire_as(Owner::unique()).await.expect("acquired");
    embedded.kill(0);
    let mut states = ours.states();
    states.wait_for(|state| *state == State::Suspended).await.expect("the session is alive");
    drop(released);

    not_connected(mutex.acquire().timeout(ZERO)).await;
    not_connected(rw_lock.read().timeout(ZERO)).await;
    not_connected(rw_lock.write().timeout(ZERO)).await;
    not_connected(semaphore.acquire().timeout(ZERO)).await;
    not_connected(semaphore.acquire_many(2).timeout(ZERO)).await;
    let error = multi.acquire().timeout(ZERO).await.expect_err("no connection");
    assert_eq!((&*error.path, error.reason), ("/mutex", LockError::NoConnection.into()));
    not_connected(reentrant.acquire_as(Owner::unique()).timeout(ZERO)).await;
    not_connected(simple.acquire().timeout(ZERO)).await;
    not_connected(barrier.wait().timeout(ZERO)).await;
    not_connected(double.enter().timeout(ZERO)).await;
    let is_clean = |_: &_| mutex.pending_cleanups() == 0;
    eventually(&embedded, "nothing was requested", is_clean).await;
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
    ours.close().await;
    let error = mutex.acquire().timeout(ZERO).await.expect_err("ended");
    assert_eq!(error.reason, LockError::Ended(End::Closed));
    let error = barrier.wait().timeout(ZERO).await.expect_err("ended");
    assert_ne!(error.reason, LockError::TimedOut);
}

#[tokio::test]
async fn a_timeout_without_a_connection_reports_no_connection() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let path = "a valid path";
    let mutex = Mutex::new(&ours, "/mutex").expect(path);
    let multi = MultiLock::new([LockRequest::from(&mutex)]).expect("compatible locks");
    let barrier = Barrier::new(&ours, "/barrier").expect(path);
    let candidate = LeaderElection::new(&ours, "/election").expect(path).stand();
    candidate.elected().await.expect("elected");
    let second = LeaderElection::new(&ours, "/election").expect(path).stand();
    embedded.kill(0);
    let mut states = ours.states();
    states.wait_for(|state| *state == State::Suspended).await.expect("the session is alive");

    not_connected(mutex.acquire().timeout(MOMENT)).await;
    let error = multi.acquire().timeout(MOMENT).await.expect_err("no connection");
    assert_eq!((&*error.path, error.reason), ("/mutex", LockError::NoConnection.into()));
    not_connected(barrier.wait().timeout(MOMENT)).await;
    not_connected(second.elected().timeout(MOMENT)).await;
    drop((candidate, second));
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
}

#[tokio::test]
async fn a_missing_reply_is_awaited_until_the_connection_is_lost() {
    let embedded = start().await;
    let ours = client(&embedded).await;
    let mutex = Mutex::new(&ours, "/mutex").expect("a valid path");
    embedded.kill(0);
    // The client may not have noticed the loss yet.
    not_connected(mutex.acquire().timeout(ZERO)).await;
    embedded.restart(0).await.expect("the port is still free");
    nothing_is_left(&embedded).await;
}
