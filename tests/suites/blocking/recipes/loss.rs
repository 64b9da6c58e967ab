//! A lost lock, as a thread learns of it.

use super::*;

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
