//! A mutex of threads: exclusion, time limits, places and revocation.

use super::*;

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
