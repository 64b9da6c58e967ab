//! Releases that no server confirms, and leases that end unnoticed.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{panic, thread};

use tokio::runtime::Builder;
use tokio::time::timeout;
use zk_recipes::{
    DisconnectPolicy, DoubleBarrier, Holding, LeaderElection, Leadership, LockError, LockRequest,
    Loss, MultiLock, Mutex, Options, Owner, ReentrantMutex, RwLock, Semaphore, SimpleLock,
    Unconfirmed,
};
use zk_session::{Client, End, State};
use zk_testkit::serve::Embedded;

use super::{LOCK, SESSION_TIMEOUT, client, eventually, lock_nodes, until};

const LEASE_ENDED: LockError = LockError::NotConfirmed(Unconfirmed::LeaseEnded);
const CLOSED: LockError = LockError::NotConfirmed(Unconfirmed::Ended(End::Closed));

/// Returns a client whose clock can jump, as after a stop of the process, and the function that
/// makes it jump.
async fn client_with_clock(embedded: &Embedded) -> (Client, impl Fn(Duration)) {
    client_with_clock_and_timeout(embedded, SESSION_TIMEOUT).await
}

async fn client_with_clock_and_timeout(
    embedded: &Embedded,
    timeout: Duration,
) -> (Client, impl Fn(Duration)) {
    let (start, ahead) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let millis = ahead.clone();
    let now = move || start.elapsed() + Duration::from_millis(millis.load(Ordering::SeqCst));
    let builder = Client::builder(&embedded.connect_string()).session_timeout(timeout);
    let now = move || zk_session::time::Instant::after_start(now());
    let client = builder.clock(now).connect().await.expect("connected");
    let jump = move |time: Duration| {
        ahead.fetch_add(u64::try_from(time.as_millis()).expect("short"), Ordering::SeqCst);
    };
    (client, jump)
}

/// As after a suspension of the machine: the timers of the runtime stood still.
#[tokio::test]
async fn a_lease_that_ended_in_a_suspension_is_noticed_soon_after_it() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let session_timeout = Duration::from_secs(30);
    let (client, jump) = client_with_clock_and_timeout(&embedded, session_timeout).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("free");
    let mut lost = pin!(guard.lost());
    assert!(timeout(Duration::from_millis(1), &mut lost).await.is_err());
    jump(session_timeout);
    assert_eq!(guard.state(), Holding::Lost(Loss::LeaseEnded));
    assert_eq!(lost.await, Loss::LeaseEnded);

    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("free");
    let (sender, noticed) = tokio::sync::oneshot::channel();
    guard.on_lost(|loss| {
        let _ = sender.send(loss);
    });
    jump(session_timeout);
    // Long before the next ping, which was due in ten seconds.
    let loss = timeout(Duration::from_secs(5), noticed).await.expect("soon");
    assert_eq!(loss, Ok(Loss::LeaseEnded));
}

async fn suspended(client: &Client) {
    let mut states = client.states();
    states.wait_for(|state| *state == State::Suspended).await.expect("the driver runs");
}

/// Nothing else runs between the jump of the clock and the checks, as in a blocked runtime.
#[tokio::test]
async fn a_lock_is_lost_when_its_lease_has_ended_by_the_clock_without_an_event() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (client, jump) = client_with_clock(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    let shared = RwLock::new(&client, "/rw").expect("valid").read().await.expect("free");
    let permit =
        Semaphore::new(&client, "/permits", 1).expect("valid").acquire().await.expect("one");
    let reentrant = ReentrantMutex::new(&client, "/reentrant").expect("valid");
    let owner = Owner::unique();
    let level = reentrant.acquire_as(owner).await.expect("free");
    let part = Mutex::new(&client, "/part").expect("valid");
    let multi =
        MultiLock::new([LockRequest::from(&part)]).expect("one").acquire().await.expect("free");
    let simple = SimpleLock::new(&client, "/simple").expect("valid").acquire().await.expect("free");
    let candidate = LeaderElection::new(&client, "/election").expect("valid").stand();
    let term = candidate.elected().await.expect("elected");
    assert_eq!(candidate.leadership(), Leadership::Leader(term));

    assert_eq!(guard.state(), Holding::Held);
    jump(SESSION_TIMEOUT);
    assert!(matches!(client.state(), State::Connected { .. }), "not noticed yet");
    let lost = Holding::Lost(Loss::LeaseEnded);
    assert_eq!([guard.state(), shared.state(), permit.state()], [lost; 3]);
    assert_eq!([level.state(), multi.state(), simple.state()], [lost; 3]);
    assert_eq!(candidate.leadership(), Leadership::Follower);
    assert!(candidate.transaction().is_none());
    assert_eq!(guard.lost().await, Loss::LeaseEnded);
    assert_eq!(multi.lost().await.loss, Loss::LeaseEnded);

    // The session stays alive, and the locks stay lost.
    let mut again = pin!(candidate.elected());
    let next = timeout(SESSION_TIMEOUT, &mut again).await.expect("in time").expect("elected again");
    assert_eq!(candidate.leadership(), Leadership::Leader(next));
    assert_eq!([guard.state(), shared.state(), permit.state()], [lost; 3]);
    let refused = LockError::Lost(Loss::LeaseEnded);
    assert_eq!(
        reentrant.acquire_as(owner).await.map(drop).map_err(LockError::from),
        Err(refused.clone())
    );
    assert_eq!(guard.release().await.map_err(LockError::from), Err(refused.clone()));
    assert_eq!(level.release().await.map_err(LockError::from), Err(refused.clone()));
    assert_eq!(multi.release().await.map_err(LockError::from), Err(refused));
    eventually(&embedded, "no node", |embedded| lock_nodes(embedded).is_empty()).await;
    eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
}

#[tokio::test]
async fn a_lock_held_until_reported_lost_is_in_doubt_after_its_lease() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (client, jump) = client_with_clock(&embedded).await;
    let options = || Options::new().disconnect_policy(DisconnectPolicy::UntilServerReports);
    let mutex = Mutex::with(&client, LOCK, options()).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    let election = LeaderElection::with(&client, "/election", options()).expect("valid");
    let candidate = election.stand();
    let term = candidate.elected().await.expect("elected");
    jump(SESSION_TIMEOUT);
    assert_eq!(guard.state(), Holding::Suspended);
    assert_eq!(candidate.leadership(), Leadership::Suspended(term.clone()));
    eventually(&embedded, "still held", |_| guard.state() == Holding::Held).await;
    let leads = Leadership::Leader(term);
    eventually(&embedded, "still a leader", |_| candidate.leadership() == leads).await;
    guard.release().await.expect("released");
}

#[tokio::test]
async fn no_release_waits_for_a_server_beyond_the_lease() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let builder = Client::builder(&embedded.connect_string());
    let client =
        builder.session_timeout(Duration::from_secs(4)).connect().await.expect("connected");
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    let trusting = Options::new().disconnect_policy(DisconnectPolicy::UntilServerReports);
    let trusting = Mutex::with(&client, "/trusting", trusting).expect("valid");
    let trusted = trusting.acquire().await.expect("free");
    let rw_lock = RwLock::new(&client, "/rw").expect("valid");
    let reader = rw_lock.read().await.expect("free");
    let permits = Semaphore::new(&client, "/permits", 2).expect("valid");
    let permits = permits.acquire_many(2).await.expect("two");
    let level = ReentrantMutex::new(&client, "/reentrant")
        .expect("valid")
        .acquire_as(Owner::unique())
        .await;
    let part = Mutex::new(&client, "/part").expect("valid");
    let multi =
        MultiLock::new([LockRequest::from(&part)]).expect("one").acquire().await.expect("free");
    let simple = SimpleLock::new(&client, "/simple").expect("valid").acquire().await.expect("free");
    let candidate = LeaderElection::new(&client, "/election").expect("valid").stand();
    candidate.elected().await.expect("elected");
    let server =
        DoubleBarrier::new(&client, "/double", 1).expect("valid").enter().await.expect("in");

    embedded.kill(0);
    suspended(&client).await;
    // `leave` keeps its node until all have left, so the node is lost.
    let releases = async {
        tokio::join!(
            guard.release(),
            trusted.release(),
            reader.release(),
            permits.release(),
            level.expect("free").release(),
            multi.release(),
            simple.release(),
            candidate.close(),
        )
    };
    let all = async { tokio::join!(releases, server.leave()) };
    let (ends, left) =
        timeout(Duration::from_secs(60), all).await.expect("the releases end with the lease");
    let ends = <[_; 8]>::from(ends).map(|end| end.map_err(LockError::from));
    assert_eq!(ends, [(); 8].map(|()| Err(LEASE_ENDED)));
    assert_eq!(left.map_err(|error| error.reason), Err(LockError::Lost(Loss::LeaseEnded).into()));
    assert_eq!((mutex.pending_cleanups(), lock_nodes(&embedded).len()), (1, 1));
    assert!(!matches!(client.state(), State::Ended(_)));
}

#[tokio::test]
async fn no_release_waits_for_a_server_after_the_lease() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (client, jump) = client_with_clock(&embedded).await;
    let options = || Options::new().disconnect_policy(DisconnectPolicy::UntilServerReports);
    let mutex = Mutex::with(&client, LOCK, options()).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    let permits = Semaphore::with(&client, "/permits", Some(2), options()).expect("valid");
    let permits = permits.acquire_many(2).await.expect("two");
    let barrier = DoubleBarrier::with(&client, "/double", 1, options()).expect("valid");
    let participant = barrier.enter().await.expect("in");
    let trusting = LeaderElection::with(&client, "/trusting", options()).expect("valid").stand();
    trusting.elected().await.expect("elected");
    let election = LeaderElection::new(&client, "/election").expect("valid");
    let (leader, follower) = (election.stand(), election.stand());
    leader.elected().await.expect("elected");
    eventually(&embedded, "both stand", |embedded| {
        embedded
            .with(|ensemble| ensemble.node("/election").is_some_and(|it| it.children().len() == 2))
    })
    .await;

    embedded.kill(0);
    suspended(&client).await;
    let mut states = client.states();
    states.borrow_and_update();
    jump(2 * SESSION_TIMEOUT);
    // Published again, since the session has reported the end of the lease.
    states.changed().await.expect("the session lives");
    let releases = async {
        tokio::join!(
            guard.release(),
            permits.release(),
            trusting.close(),
            leader.close(),
            follower.close(),
        )
    };
    let all = async { tokio::join!(releases, participant.leave()) };
    let (ends, left) = timeout(Duration::from_secs(60), all).await.expect("no release waits");
    let ends = <[_; 5]>::from(ends).map(|end| end.map_err(LockError::from));
    assert!(ends.iter().all(Result::is_err) && left.is_err(), "{ends:?}, {left:?}");
    assert!(!matches!(client.state(), State::Ended(_)));
}

#[tokio::test]
async fn validate_waits_for_a_server_no_longer_than_the_lease() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let builder = Client::builder(&embedded.connect_string());
    let client =
        builder.session_timeout(Duration::from_secs(4)).connect().await.expect("connected");
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("free");
    let reader = RwLock::new(&client, "/rw").expect("valid").read().await.expect("free");
    let part = Mutex::new(&client, "/part").expect("valid");
    let multi =
        MultiLock::new([LockRequest::from(&part)]).expect("one").acquire().await.expect("free");
    embedded.kill(0);
    suspended(&client).await;
    let asked = async { tokio::join!(guard.validate(), multi.validate(), reader.try_upgrade()) };
    let (one, all, upgraded) =
        timeout(Duration::from_secs(60), asked).await.expect("the checks end");
    let lost = LockError::Lost(Loss::LeaseEnded);
    let ends = [one, all].map(|end| end.map_err(LockError::from));
    assert_eq!(ends, [Err(lost.clone()), Err(lost.clone())]);
    assert_eq!(upgraded.map(drop).map_err(|failed| failed.error.reason), Err(lost.into()));
}

/// The events of the hand-over are read first when the process continues.
#[tokio::test]
async fn a_waiter_whose_lease_ended_while_stopped_does_not_take_over() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let holder = client(&embedded).await;
    let (waiter, jump) = client_with_clock(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("free");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    let session = waiter.session_id();
    eventually(&embedded, "both watches are set", |embedded| {
        embedded.with(|it| it.watched().iter().filter(|(of, _)| *of == session).count() == 2)
    })
    .await;
    jump(SESSION_TIMEOUT);
    guard.release().await.expect("released");
    let guard = waiting.await.expect("no panic").expect("acquired");
    assert_eq!(guard.state(), Holding::Held);
}

#[tokio::test]
async fn a_dropped_release_continues_in_the_background() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let guard = mutex.acquire().await.expect("free");
    embedded.kill(0);
    let released = guard.release().timeout(Duration::from_millis(10)).await;
    assert_eq!(
        released.map_err(LockError::from),
        Err(LockError::NotConfirmed(Unconfirmed::TimedOut))
    );
    assert_eq!(mutex.pending_cleanups(), 1);
    embedded.restart(0).await.expect("the port is still free");
    eventually(&embedded, "no node", |embedded| lock_nodes(embedded).is_empty()).await;
    eventually(&embedded, "nothing pending", |_| mutex.pending_cleanups() == 0).await;
    let guard = mutex.acquire().await.expect("free");
    guard.release().timeout(Duration::MAX).await.expect("confirmed");
}

#[tokio::test]
async fn a_release_whose_session_is_closed_without_a_server_is_not_confirmed() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("free");
    embedded.kill(0);
    suspended(&client).await;
    let releasing = guard.release();
    client.close().await;
    assert_eq!(releasing.await.map_err(LockError::from), Err(CLOSED));
    assert_eq!(lock_nodes(&embedded).len(), 1, "until the session times out");
}

#[tokio::test]
async fn a_release_whose_runtime_ends_is_not_confirmed() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let elsewhere = thread::spawn(move || {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let (client, guard) = runtime.block_on(async {
            let client = Client::connect(&at).await.expect("connected");
            let mutex = Mutex::new(&client, LOCK).expect("valid");
            (client, mutex.acquire().await.expect("free"))
        });
        (runtime, client, guard)
    });
    until("the end of the thread", || elsewhere.is_finished()).await;
    let (runtime, client, guard) =
        elsewhere.join().unwrap_or_else(|panic| panic::resume_unwind(panic));
    embedded.kill(0);
    suspended(&client).await;
    let releasing = guard.release();
    runtime.shutdown_background();
    assert_eq!(releasing.await.map_err(LockError::from), Err(CLOSED));
}
