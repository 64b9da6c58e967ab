//! The blocking recipes on the embedded ensemble.

mod hand_over;
mod loss;
mod multi_lock;
mod mutex;
mod reentrant;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::{Duration, Instant};

use zk_recipes::{
    Barrier, DoubleBarrier, Ephemeral, LeaderElection, LockRequest, MultiLock, Mutex,
    ReentrantMutex, RwLock, Semaphore,
};
use zk_recipes::{
    Fault, FencingToken, HandOver, Holding, Leadership, LockError, Loss, ModeError, Options, Owner,
    RunError, Unconfirmed,
};

use zk_testkit::scenarios;

use super::*;

/// Longer than any step here takes.
const LONG: Duration = Duration::from_secs(20);
/// How long to wait before concluding that something does not happen.
const SHORT: Duration = Duration::from_millis(50);

fn nodes(ensemble: &Ensemble, below: &str) -> Vec<String> {
    ensemble.embedded.with(|ensemble| {
        let is_below = |path: &&str| path.starts_with(below) && path.contains("/_c_");
        ensemble.paths().filter(is_below).map(str::to_owned).collect()
    })
}

/// Runs a future as an executor does that knows nothing of the client.
fn run<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => thread::park(),
        }
    }
}

fn eventually(what: &str, condition: impl Fn() -> bool) {
    while !condition() {
        assert!(!what.is_empty(), "the watchdog ends the test");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn any_executor_awaits_recipes_of_threads_and_their_time_limits() {
    let ensemble = Ensemble::start(1);
    let (ours, theirs) = (ensemble.client(), ensemble.client());
    let mutex = |client| Mutex::new(client, "/lock").expect("valid");
    run(async {
        let guard = mutex(&ours).acquire().await.expect("free");
        let waits = mutex(&theirs).acquire().timeout(SHORT).await;
        assert_eq!(waits.expect_err("held").reason, LockError::TimedOut);
        assert_eq!(guard.lost().timeout(SHORT).await, None);
        let limited = mutex(&theirs).acquire().timeout(LONG);
        guard.release().await.expect("held");
        limited.await.expect("free").release().timeout(LONG).await.expect("held");
    });
    assert_eq!(nodes(&ensemble, "/lock"), Vec::<String>::new());
}

#[test]
fn a_cache_follows_a_tree_across_sessions() {
    let ensemble = Ensemble::start(1);
    scenarios::a_blocking_cache_follows_a_tree_across_sessions(&ensemble.embedded);
}

#[test]
fn a_service_survives_the_expiry_of_its_session() {
    let ensemble = Ensemble::start(1);
    let builder = Client::builder(&ensemble.embedded.connect_string());
    let client = builder.session_timeout(SESSION_TIMEOUT).renew(true).connect().expect("connected");
    let mutex = Mutex::new(&client, "/lock").expect("valid");
    let candidate = LeaderElection::new(&client, "/election").expect("valid").stand();
    let here = Ephemeral::new(&client, "/services/one", "10.0.0.7").expect("valid");
    client.create("/config", b"", NodeKind::Persistent).wait().expect("a new node");
    let mut config = client.watch("/config").wait().expect("watched");
    let mut last = None;
    for _ in 0..3 {
        let guard = mutex.acquire().wait().expect("acquired");
        let term = candidate.elected().wait().expect("the only one");
        let now = (guard.fencing_token(), term.token, here.created().wait().expect("created"));
        assert!(
            last.is_none_or(|(a, b, c)| now.0 > a && now.1 > b && now.2 > c),
            "{last:?} {now:?}"
        );
        last = Some(now);
        let (_, once) = client.exists_and_watch("/missing").wait().expect("watched");
        let before = client.session_id();

        assert!(ensemble.embedded.expire_session(before));

        let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
        assert_eq!(once.wait(), Err(expired));
        let loss = guard.lost().timeout(LONG).wait().expect("in time");
        assert!(matches!(loss, Loss::Ended(End::Expired) | Loss::NodeDeleted), "{loss:?}");
        client.set_data("/config", b"new", None).wait().expect("it waits for the next session");
        assert_ne!(client.session_id(), before);
        assert_eq!(config.wait(), Ok(WatchUpdate::Gap));
        assert!(matches!(config.wait(), Ok(WatchUpdate::Event(_))));
        guard.release().wait().expect_err("it is lost");
    }
    assert_eq!(client.statistics().renewals, 3);
    here.close().wait().expect("deleted");
    candidate.close().wait().expect("resigned");
    client.close();
    eventually("no session is left", || ensemble.embedded.with(|all| all.sessions().count()) == 0);
}

#[test]
fn readers_share_a_lock_and_can_convert_it() {
    let ensemble = Ensemble::start(1);
    let (ours, others) = (ensemble.client(), ensemble.client());
    let lock = |client| RwLock::new(client, "/lock").expect("valid");
    let (mine, theirs) = (lock(&ours), lock(&others));
    let (one, two) = (mine.read().wait().expect("free"), theirs.read().wait().expect("shared"));
    assert_eq!(mine.try_write().wait().expect_err("read").reason, LockError::Busy);
    let refused = one.try_upgrade().wait().expect_err("not alone");
    assert_eq!(refused.error.reason, ModeError::NotAlone);
    two.release().wait().expect("released");
    let writer = refused.into_guard().try_upgrade().wait().expect("alone");
    assert_eq!(
        theirs.read().timeout(SHORT).wait().expect_err("written").reason,
        LockError::TimedOut
    );
    let token = writer.fencing_token();
    let reader = writer.downgrade().wait().expect("held");
    assert_eq!(reader.fencing_token(), token);
    theirs.read().timeout(LONG).wait().expect("shared").release().wait().expect("released");
    reader.release().wait().expect("released");
    theirs.write().timeout(LONG).wait().expect("free").release().wait().expect("released");
}

#[test]
fn no_more_permits_are_acquired_than_exist() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let semaphore = Semaphore::new(&client, "/permits", 3).expect("valid");
    let two = semaphore.acquire_many(2).wait().expect("free");
    let one = semaphore.try_acquire().wait().expect("free");
    assert_eq!(
        semaphore.try_acquire().wait().expect_err("no permit is left").reason,
        LockError::Busy.into()
    );
    assert_eq!(semaphore.leases().wait().expect("listed").len(), 3);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| semaphore.acquire_many(2).wait());
        eventually("a waiter", || {
            semaphore.waiting().wait().is_ok_and(|waiting| !waiting.is_empty())
        });
        two.release().wait().expect("released");
        waiting.join().expect("no panic").expect("permits").release().wait().expect("released");
    });
    semaphore.set_permits(4).wait().expect("changed");
    assert_eq!(Semaphore::open(&client, "/permits").expect("valid").permits().wait(), Ok(Some(4)));
    one.release().wait().expect("released");
}

#[test]
fn candidates_lead_one_after_another() {
    let ensemble = Ensemble::start(1);
    let (ours, others) = (ensemble.client(), ensemble.client());
    let election = |client| LeaderElection::new(client, "/leader").expect("valid");
    let first = election(&ours).stand();
    let term = first.elected().wait().expect("alone");
    let second = election(&others).stand();
    let in_time = second.elected().timeout(SHORT).wait();
    assert_eq!(in_time.expect_err("another leader").reason, LockError::TimedOut);
    let checked = first.transaction().expect("a leader").commit();
    checked.wait().expect("a leader");
    // The leader loses its node, and queues again behind the other.
    others.delete(&term.node, None).wait().expect("deleted");
    let next = second.elected().wait().expect("first in the queue");
    assert!(next.token > term.token);
    let follows = first.changed(&Leadership::Leader(term)).timeout(LONG).wait();
    assert_eq!(follows, Some(Leadership::Follower));
    second.close().wait().expect("resigned");
    let again = first.elected().timeout(LONG).wait().expect("alone again");
    assert!(again.token > next.token);
    first.close().timeout(LONG).wait().expect("resigned");
}

#[test]
fn threads_wait_at_barriers() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let barrier = Barrier::new(&client, "/barrier").expect("valid");
    barrier.close().wait().expect("closed");
    assert_eq!(
        barrier.wait().timeout(SHORT).wait().expect_err("closed").reason,
        LockError::TimedOut
    );
    let at_once = barrier.wait().timeout(Duration::ZERO).wait();
    assert_eq!(at_once.expect_err("closed").reason, LockError::TimedOut);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| barrier.wait().wait());
        barrier.open().wait().expect("opened");
        waiting.join().expect("no panic").expect("open");
    });
    barrier.wait().timeout(Duration::ZERO).wait().expect("open");

    let both = DoubleBarrier::new(&client, "/both", 2).expect("valid");
    assert_eq!(both.enter().timeout(SHORT).wait().expect_err("alone").reason, LockError::TimedOut);
    let (inside, outside) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let participant = both.enter().wait().expect("the nodes exist");
                inside.fetch_add(1, Ordering::SeqCst);
                eventually("both", || inside.load(Ordering::SeqCst) == 2);
                participant.leave().wait().expect("left");
                outside.fetch_add(1, Ordering::SeqCst);
            });
        }
    });
    assert_eq!(outside.into_inner(), 2);
}
