//! The blocking recipes on the embedded ensemble.

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

fn eventually(what: &str, condition: impl Fn() -> bool) {
    while !condition() {
        assert!(!what.is_empty(), "the watchdog ends the test");
        thread::sleep(Duration::from_millis(1));
    }
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
fn a_mutex_excludes_threads_and_sessions() {
    let ensemble = Ensemble::start(3);
    let clients = [ensemble.client(), ensemble.client()];
    let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for number in 0..6 {
            let mutex = Mutex::new(&clients[number % 2], "/lock").expect("valid");
            let (inside, entered) = (&inside, &entered);
            scope.spawn(move || {
                let mut last = None;
                for _ in 0..20 {
                    let guard = mutex.acquire().wait().expect("acquired");
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                    assert_eq!(guard.state(), Holding::Held);
                    assert!(last < Some(guard.fencing_token()));
                    last = Some(guard.fencing_token());
                    entered.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                    if number % 3 == 0 {
                        drop(guard);
                    } else {
                        guard.release().wait().expect("released");
                    }
                }
            });
        }
    });
    assert_eq!(entered.into_inner(), 120);
    for client in clients {
        client.close();
    }
    assert_eq!(nodes(&ensemble, "/lock"), [""; 0]);
}

#[test]
fn threads_pass_a_lock_on_among_themselves() {
    let ensemble = Ensemble::start(1);
    let clients = [ensemble.client(), ensemble.client()];
    let options = || Options::new().local_hand_over(HandOver::default().turns(8));
    let (inside, entered) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let last = std::sync::Mutex::new(FencingToken(0, 0));
    thread::scope(|scope| {
        for client in &clients {
            let mutex = Mutex::with(client, "/lock", options()).expect("valid");
            for number in 0..6 {
                let (inside, entered, last) = (&inside, &entered, &last);
                let mutex = mutex.clone();
                scope.spawn(move || {
                    for _ in 0..20 {
                        let limit = if number == 0 { Duration::from_millis(1) } else { LONG };
                        let Ok(guard) = mutex.acquire().timeout(limit).wait() else { continue };
                        assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0);
                        assert_eq!(guard.state(), Holding::Held);
                        let token = guard.fencing_token();
                        let before = std::mem::replace(&mut *last.lock().expect("no panic"), token);
                        assert!(before < token, "{before} before {token}");
                        entered.fetch_add(1, Ordering::SeqCst);
                        inside.fetch_sub(1, Ordering::SeqCst);
                        if number % 3 == 0 {
                            drop(guard);
                        } else {
                            guard.release().wait().expect("released");
                        }
                    }
                });
            }
        }
    });
    assert!(entered.into_inner() >= 200);
    for client in clients {
        client.close();
    }
    assert_eq!(nodes(&ensemble, "/lock"), [""; 0]);
}

#[test]
fn an_idle_lock_stays_for_the_threads_of_its_client_until_another_one_comes() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::with(&ours, "/lock", Options::new().keep_idle(LONG)).expect("valid");
    let first = mutex.acquire().wait().expect("acquired");
    eventually("the queue and the node are watched", || {
        ensemble.embedded.with(|ensemble| ensemble.watches() == 2)
    });
    first.release().wait().expect("kept");
    let before = ours.statistics().requests;
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                for _ in 0..50 {
                    mutex.acquire().wait().expect("acquired").release().wait().expect("released");
                }
            });
        }
    });
    assert_eq!(ours.statistics().requests, before);
    assert_eq!(nodes(&ensemble, "/lock").len(), 1);
    let other = Mutex::new(&other, "/lock").expect("valid");
    other.acquire().timeout(LONG).wait().expect("given up").release().wait().expect("released");
    eventually("nothing is left", || nodes(&ensemble, "/lock").is_empty());
    mutex.acquire().wait().expect("acquired").release().wait().expect("kept");
    ours.close();
    eventually("nothing is left", || nodes(&ensemble, "/lock").is_empty());
}

#[test]
fn a_thread_that_waits_for_another_one_learns_of_the_loss() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let options = Options::new().local_hand_over(HandOver::default());
    let mutex = Mutex::with(&ours, "/lock", options).expect("valid");
    let held = mutex.acquire().wait().expect("acquired");
    let theirs = mutex.clone();
    let waiting = thread::spawn(move || theirs.acquire().timeout(LONG).wait());
    eventually("a thread waits", || mutex.local_waiters() == 1);
    other.delete(&held.node_path(), None).wait().expect("deleted");
    let next = waiting.join().expect("no panic").expect("acquired");
    assert!(held.fencing_token() < next.fencing_token());
    assert_eq!(held.state(), Holding::Lost(Loss::NodeDeleted));
    next.release().wait().expect("released");
}

#[test]
fn attempts_that_one_thread_awaits_take_turns() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let options = Options::new().local_hand_over(HandOver::default());
    let mutex = Mutex::with(&client, "/lock", options).expect("valid");
    let held = run(mutex.acquire()).expect("acquired");
    let mut waiting = pin!(mutex.acquire());
    let mut context = Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(&mut context).is_pending(), "and does not block the thread");
    drop(held);
    run(waiting).expect("passed on").release().wait().expect("released");
}

#[test]
fn trying_and_time_limits_leave_nothing_behind() {
    let ensemble = Ensemble::start(1);
    let (ours, others) = (ensemble.client(), ensemble.client());
    let mutex = |client| Mutex::new(client, "/lock").expect("valid");
    let (mine, theirs) = (mutex(&ours), mutex(&others));
    let guard = theirs.try_acquire().wait().expect("free");
    assert_eq!(mine.try_acquire().wait().expect_err("held").reason, LockError::Busy);
    for limit in [Duration::ZERO, SHORT] {
        assert_eq!(
            mine.acquire().timeout(limit).wait().expect_err("held").reason,
            LockError::TimedOut
        );
    }
    for limit in [Duration::ZERO, SHORT] {
        let start = Instant::now();
        assert_eq!(
            mine.acquire().until(start + limit).wait().expect_err("held").reason,
            LockError::TimedOut
        );
        assert!(start.elapsed() >= limit / 2 && start.elapsed() < LONG);
    }
    eventually("gone", || nodes(&ensemble, "/lock").len() == 1 && mine.pending_cleanups() == 0);
    let listed = theirs.contenders().wait().expect("listed");
    assert!(listed.len() == 1 && listed[0].is_holder() && listed[0].node == guard.node());
    guard.release().wait().expect("released");
    mine.acquire()
        .timeout(Duration::ZERO)
        .wait()
        .expect("free")
        .release()
        .wait()
        .expect("released");
    mine.acquire()
        .timeout(LONG)
        .wait()
        .expect("free")
        .release()
        .timeout(LONG)
        .wait()
        .expect("released");
    let late = Instant::now() + LONG;
    mine.acquire()
        .until(late)
        .wait()
        .expect("free")
        .release()
        .until(late)
        .wait()
        .expect("released");
    assert_eq!(nodes(&ensemble, "/lock"), [""; 0]);
}

#[test]
fn a_lost_lock_is_reported_in_every_way() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let guard = Mutex::new(&ours, "/lock").expect("valid").acquire().wait().expect("free");
    let (lost, losses) = mpsc::channel();
    let sender = lost.clone();
    guard.on_lost(move |loss| sender.send(loss).expect("a receiver"));
    guard.validate().wait().expect("held");
    assert_eq!(guard.lost().timeout(SHORT).wait(), None);
    other.delete(&guard.node_path(), None).wait().expect("deleted");
    assert_eq!(guard.lost().timeout(LONG).wait(), Some(Loss::NodeDeleted));
    assert_eq!(losses.recv_timeout(LONG), Ok(Loss::NodeDeleted));
    // The lock is lost, so it is called at once.
    guard.on_lost(move |loss| lost.send(loss).expect("a receiver"));
    assert_eq!(losses.try_recv(), Ok(Loss::NodeDeleted));
    assert!(guard.is_lost());
    let reason = LockError::Lost(Loss::NodeDeleted);
    assert_eq!(guard.validate().wait().expect_err("lost").reason, reason);
    let written = guard.transaction().create("/written", b"", NodeKind::Persistent).commit();
    assert!(written.wait().is_err());
    assert_eq!(guard.release().wait().expect_err("lost").reason, reason);
}

#[test]
fn work_of_a_thread_has_the_lock_and_asks_whether_it_is_lost() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::new(&ours, "/lock").expect("valid");
    let mut pages = Vec::new();
    let done = mutex.acquire().timeout(LONG).run(|held| {
        assert_eq!(nodes(&ensemble, "/lock"), [held.node_path()]);
        let tried = mutex.try_acquire().run(|_| ()).expect_err("held");
        assert!(matches!(&tried, RunError::NotAcquired(error) if error.reason == LockError::Busy));
        pages.push(1);
        "done"
    });
    assert_eq!((done, pages), (Ok("done"), vec![1]));
    assert_eq!(nodes(&ensemble, "/lock"), [""; 0], "released before it returns");
    let lost = mutex.acquire().run(|held| {
        other.delete(&held.node_path(), None).wait().expect("deleted");
        eventually("the flag is set", || held.is_lost());
        "partly done"
    });
    let error = lost.expect_err("lost");
    assert_eq!((error.loss(), error.fault()), (Some(Loss::NodeDeleted), Fault::Session));
    let printed = "the work is done, but release of '/lock': the lock was lost before: ";
    assert!(error.to_string().starts_with(printed), "{error}");
    assert_eq!(error.into_value(), Some("partly done"));
    let election = LeaderElection::new(&ours, "/election").expect("valid");
    assert_eq!(election.lead().run(|term| term.is_lost()), Ok(false));
}

#[test]
fn an_attempt_of_a_thread_tells_its_place() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let guard = Mutex::new(&other, "/lock").expect("valid").acquire().wait().expect("free");
    let mut attempt = Mutex::new(&ours, "/lock").expect("valid").acquire().timeout(LONG);
    let place = loop {
        let place = attempt.next_place().wait().expect("held by another");
        if place.behind.is_some() {
            break place;
        }
    };
    assert_eq!((place.behind.as_deref(), place.ahead), (Some(guard.node()), Some(1)));
    guard.release().wait().expect("released");
    assert_eq!(attempt.next_place().wait(), None);
    assert_eq!(attempt.wait().expect("free").node(), place.node);
}

#[test]
fn a_callback_that_panics_does_not_stop_the_others() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::new(&ours, "/lock").expect("valid");
    let guard = mutex.acquire().wait().expect("free");
    let (lost, losses) = mpsc::channel();
    guard.on_lost(|loss| panic!("on purpose: {loss}"));
    guard.on_lost(move |loss| lost.send(loss).expect("a receiver"));
    other.delete(&guard.node_path(), None).wait().expect("deleted");
    assert_eq!(losses.recv_timeout(LONG), Ok(Loss::NodeDeleted));
    mutex.acquire().timeout(LONG).wait().expect("free").release().wait().expect("released");
}

#[test]
fn a_callback_may_use_the_client_and_is_not_called_for_a_release() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::new(&ours, "/lock").expect("valid");
    let (lost, losses) = mpsc::channel();
    let guard = mutex.acquire().wait().expect("free");
    let sender = lost.clone();
    guard.on_lost(move |loss| sender.send(Some(loss)).expect("a receiver"));
    guard.release().wait().expect("released");
    let guard = mutex.acquire().wait().expect("free");
    guard.on_lost(move |_| {
        assert!(matches!(ours.state(), State::Connected { .. }));
        assert_eq!(ours.exists("/gone").wait().expect("connected"), None);
        lost.send(None).expect("a receiver");
    });
    other.delete(&guard.node_path(), None).wait().expect("deleted");
    assert_eq!(losses.recv_timeout(LONG), Ok(None));
}

#[test]
fn without_servers_the_lease_ends_held_locks_and_releases() {
    let ensemble = Ensemble::start(1);
    let at = ensemble.embedded.connect_string();
    let short_lived = Client::builder(&at).session_timeout(Duration::from_secs(1));
    let client = short_lived.connect().expect("connected");
    let lock = |path| Mutex::new(&client, path).expect("valid");
    let [first, second] =
        ["/first", "/second"].map(|path| lock(path).acquire().wait().expect("free"));
    let (lost, losses) = mpsc::channel();
    first.on_lost(move |loss| lost.send(loss).expect("a receiver"));
    ensemble.embedded.kill(0);
    let error = second.release().timeout(SHORT).wait().expect_err("not confirmed");
    assert_eq!(error.reason, LockError::NotConfirmed(Unconfirmed::TimedOut));
    let error = lock("/third").try_acquire().wait().expect_err("no server answers");
    assert_eq!(error.reason, LockError::NoConnection);
    assert_eq!(first.lost().timeout(LONG).wait(), Some(Loss::LeaseEnded));
    assert_eq!(losses.recv_timeout(LONG), Ok(Loss::LeaseEnded));
    let error = first.release().wait().expect_err("lost");
    assert_eq!(error.reason, LockError::Lost(Loss::LeaseEnded));
}

#[test]
fn validate_without_servers_ends_with_the_lease() {
    let ensemble = Ensemble::start(1);
    let at = ensemble.embedded.connect_string();
    let short_lived = Client::builder(&at).session_timeout(Duration::from_secs(1));
    let client = short_lived.connect().expect("connected");
    let lock = |path| Mutex::new(&client, path).expect("valid");
    let one = lock("/one").acquire().wait().expect("free");
    let parts = ["/a", "/b"].map(lock);
    let both = MultiLock::new(parts.each_ref().map(LockRequest::from)).expect("compatible locks");
    let both = both.acquire().wait().expect("free");
    ensemble.embedded.kill(0);
    client.wait_for_state(|state| !matches!(state, State::Connected { .. }), Some(LONG));
    let lost = LockError::Lost(Loss::LeaseEnded);
    thread::scope(|scope| {
        let validated =
            scope.spawn(|| one.validate().wait().expect_err("no server answers").reason);
        assert_eq!(both.validate().wait().expect_err("no server answers").reason, lost);
        assert_eq!(validated.join().expect("no panic"), lost);
    });
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
fn a_thread_can_acquire_again_what_it_holds() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let mutex = ReentrantMutex::new(&client, "/lock").expect("valid");
    let outer = mutex.acquire().wait().expect("free");
    let inner = mutex.try_acquire().wait().expect("ours");
    assert_eq!(inner.fencing_token(), outer.fencing_token());
    thread::scope(|scope| {
        let other = || mutex.acquire().timeout(SHORT).wait().map(drop).expect_err("held").reason;
        assert_eq!(scope.spawn(other).join().expect("no panic"), LockError::TimedOut);
        let other = || mutex.try_acquire().wait().map(drop).expect_err("held").reason;
        assert_eq!(scope.spawn(other).join().expect("no panic"), LockError::Busy);
        outer.release().wait().expect("one level");
        assert_eq!(nodes(&ensemble, "/lock").len(), 1);
        let next = scope.spawn(|| mutex.acquire().wait().expect("acquired").release().wait());
        inner.release().wait().expect("the last level");
        next.join().expect("no panic").expect("released");
    });
    assert_eq!(nodes(&ensemble, "/lock"), [""; 0]);
}

#[test]
fn owners_acquire_in_the_order_of_their_calls() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let mutex = ReentrantMutex::new(&client, "/lock").expect("valid");
    let owner = Owner::unique();
    let outer = mutex.acquire_as(owner).wait().expect("free");
    thread::scope(|scope| {
        // The owner is an id, not the thread.
        scope.spawn(|| {
            mutex.acquire_as(owner).wait().expect("acquired").release().wait().expect("one level");
        });
    });
    let busy = mutex.try_acquire().wait().expect_err("held by another owner");
    assert_eq!(busy.reason, LockError::Busy);
    let order = std::sync::Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..3 {
            let (mutex, order) = (&mutex, &order);
            scope.spawn(move || {
                let guard = mutex.acquire().timeout(LONG).wait().expect("acquired");
                order.lock().expect("no panic").push(number);
                guard.release().wait().expect("released");
            });
            // Each is queued before the next is started.
            thread::sleep(SHORT);
        }
        outer.release().wait().expect("released");
    });
    assert_eq!(order.into_inner().expect("no panic"), [0, 1, 2]);
}

#[test]
fn a_local_turn_without_a_request_wakes_the_next_thread() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = ReentrantMutex::new(&ours, "/lock").expect("valid");
    let guard = mutex.acquire().wait().expect("free");
    other.delete(&guard.node_path(), None).wait().expect("deleted");
    assert_eq!(guard.lost().timeout(LONG).wait(), Some(Loss::NodeDeleted));
    thread::scope(|scope| {
        let next = scope.spawn(|| mutex.acquire().timeout(LONG).wait().map(drop));
        thread::sleep(SHORT);
        // No node is deleted, so no server needs to answer.
        drop(guard);
        next.join().expect("no panic").expect("acquired");
    });
}

#[test]
fn a_lost_lock_is_lost_on_all_levels() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = ReentrantMutex::new(&ours, "/lock").expect("valid");
    let (outer, inner) =
        (mutex.acquire().wait().expect("free"), mutex.acquire().wait().expect("ours"));
    other.delete(&outer.node_path(), None).wait().expect("deleted");
    let lost = LockError::Lost(Loss::NodeDeleted);
    assert_eq!(inner.lost().timeout(LONG).wait(), Some(Loss::NodeDeleted));
    assert_eq!(mutex.acquire().wait().expect_err("lost").reason, lost);
    assert_eq!(inner.release().wait().expect_err("lost").reason, lost);
    assert_eq!(outer.release().wait().expect_err("lost").reason, lost);
    mutex.acquire().wait().expect("anew").release().wait().expect("released");
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

#[test]
fn several_locks_are_acquired_together() {
    let ensemble = Ensemble::start(1);
    let (ours, others) = (ensemble.client(), ensemble.client());
    let parts = |client: &Client| {
        let (mutex, lock) = (Mutex::new(client, "/b"), RwLock::new(client, "/a"));
        let permits = Semaphore::new(client, "/c", 3).expect("valid");
        [
            LockRequest::from(&mutex.expect("valid")),
            LockRequest::write(&lock.expect("valid")),
            LockRequest::permits(&permits, 2),
        ]
    };
    let mine = MultiLock::new(parts(&ours)).expect("compatible locks");
    let held = mine.acquire().wait().expect("free");
    assert_eq!(held.locks().len(), 3);
    held.validate().wait().expect("held");
    let theirs = RwLock::new(&others, "/a").expect("valid");
    assert_eq!(theirs.try_read().wait().expect_err("written").reason, LockError::Busy);
    // While the attempt waits for one lock, it must notice the loss of another.
    let again = MultiLock::new(parts(&others)).expect("compatible locks");
    let error = again.acquire().timeout(SHORT).wait().expect_err("held");
    assert_eq!((&*error.path, error.reason), ("/a", LockError::TimedOut.into()));
    assert_eq!(held.lost().timeout(SHORT).wait(), None);
    let (sender, losses) = mpsc::channel();
    let lost = sender.clone();
    held.on_lost(move |loss| lost.send(loss).expect("a receiver"));
    others.delete(&held.lock("/b").expect("held").node_path(), None).wait().expect("deleted");
    let lost = held.lost().timeout(LONG).wait().expect("lost");
    assert_eq!((&*lost.path, lost.loss), ("/b", Loss::NodeDeleted));
    assert_eq!(losses.recv_timeout(LONG), Ok(lost.clone()));
    held.on_lost(move |loss| sender.send(loss).expect("a receiver"));
    assert_eq!(losses.try_recv(), Ok(lost.clone()));
    assert_eq!(held.loss(), Some(lost));
    let error = held.validate().wait().expect_err("one lock is lost");
    let lost = LockError::Lost(Loss::NodeDeleted);
    assert_eq!((&*error.path, &error.reason), ("/b", &lost));
    assert!(
        held.transaction().create("/written", b"", NodeKind::Persistent).commit().wait().is_err()
    );
    assert_eq!(held.release().wait().expect_err("one lock is lost").reason, lost);
    again.acquire().timeout(LONG).wait().expect("free").release().wait().expect("released");
    thread::scope(|scope| {
        let first = theirs.write().wait().expect("free");
        let waiting = scope.spawn(|| mine.acquire().wait());
        eventually("a waiter", || nodes(&ensemble, "/a").len() == 2);
        drop(first);
        waiting.join().expect("no panic").expect("free").release().wait().expect("released");
    });
}

#[test]
fn a_lost_lock_ends_the_wait_for_the_others() {
    let ensemble = Ensemble::start(1);
    let (ours, others) = (ensemble.client(), ensemble.client());
    let locks = ["/a", "/b"].map(|path| Mutex::new(&ours, path).expect("valid"));
    let both = MultiLock::new(locks.each_ref().map(LockRequest::from)).expect("compatible locks");
    let held = Mutex::new(&others, "/b").expect("valid").acquire().wait().expect("free");
    let error = thread::scope(|scope| {
        let waiting = scope.spawn(|| both.acquire().wait().map(drop));
        eventually("a waiter", || nodes(&ensemble, "/b").len() == 2);
        others.delete(&nodes(&ensemble, "/a")[0], None).wait().expect("deleted");
        waiting.join().expect("no panic").expect_err("lost")
    });
    assert_eq!((&*error.path, error.reason), ("/a", LockError::Lost(Loss::NodeDeleted).into()));
    held.release().wait().expect("released");
    eventually("gone", || nodes(&ensemble, "/").is_empty());
}

#[test]
fn a_revocable_lock_receives_a_request() {
    let ensemble = Ensemble::start(1);
    let (ours, other) = (ensemble.client(), ensemble.client());
    let mutex = Mutex::with(&ours, "/lock", Options::new().revocable()).expect("valid");
    let guard = mutex.acquire().wait().expect("free");
    assert!(guard.revoked().timeout(SHORT).wait().is_none());
    Mutex::new(&other, "/lock").expect("valid").revoke(guard.node()).wait().expect("asked");
    assert!(guard.revoked().timeout(LONG).wait().is_some());
    guard.release().wait().expect("released");
}

#[test]
fn a_dropped_client_lives_until_its_locks_are_released() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let guard = Mutex::new(&client, "/lock").expect("valid").acquire().wait().expect("free");
    drop(client);
    guard.validate().wait().expect("the guard keeps the session");
    drop(guard);
    eventually("gone", || nodes(&ensemble, "/lock").is_empty());
    eventually("closed", || ensemble.embedded.with(|ensemble| ensemble.sessions().count()) == 0);
}

/// As after a suspension of the machine: the timers of the system stood still.
#[test]
fn a_lease_that_ended_in_a_suspension_is_noticed_soon_after_it() {
    let ensemble = Ensemble::start(1);
    let (start, ahead) = (Instant::now(), Arc::new(AtomicU64::new(0)));
    let seconds = ahead.clone();
    let now = move || {
        let ahead = Duration::from_secs(seconds.load(Ordering::SeqCst));
        zk_session::time::Instant::after_start(start.elapsed() + ahead)
    };
    let builder = Client::builder(&ensemble.embedded.connect_string()).clock(now);
    let client = builder.session_timeout(Duration::from_secs(30)).connect().expect("connected");
    let guard = Mutex::new(&client, "/lock").expect("valid").acquire().wait().expect("free");
    let (sender, noticed) = mpsc::channel();
    guard.on_lost(move |loss| sender.send(loss).expect("the test waits"));
    ahead.store(30, Ordering::SeqCst);
    // Long before the next ping, which was due in ten seconds.
    assert_eq!(noticed.recv_timeout(Duration::from_secs(5)), Ok(Loss::LeaseEnded));
    assert_eq!(guard.state(), Holding::Lost(Loss::LeaseEnded));
}
