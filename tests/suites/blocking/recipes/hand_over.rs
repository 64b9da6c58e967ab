//! Threads of one client pass a lock on among themselves.

use super::*;

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
