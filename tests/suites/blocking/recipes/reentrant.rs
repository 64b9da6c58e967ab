//! A lock that its thread can acquire again.

use super::*;

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
fn a_task_that_waits_for_another_owner_leaves_its_thread_to_that_one() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let mutex = ReentrantMutex::new(&client, "/lock").expect("valid");
    let (done, is_done) = mpsc::channel();
    // Not joined: a task that blocks the thread would never end.
    thread::spawn(move || {
        run(async {
            let held = mutex.acquire_as(Owner::unique()).await.expect("free");
            let late = mutex.acquire_as(Owner::unique()).timeout(SHORT).await;
            assert_eq!(late.expect_err("held").reason, LockError::TimedOut);
            let mut next = pin!(mutex.acquire_as(Owner::unique()));
            let is_pending = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending()));
            assert!(is_pending.await);
            held.release().await.expect("released");
            next.await.expect("acquired").release().await.expect("released");
        });
        done.send(()).expect("the test waits");
    });
    is_done.recv_timeout(LONG).expect("the thread was free for the holder");
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
    let acquire = || Box::pin(mutex.acquire_as(Owner::unique()).timeout(LONG));
    let mut attempts = [acquire(), acquire(), acquire()];
    let mut cx = Context::from_waker(Waker::noop());
    for attempt in &mut attempts {
        assert!(attempt.as_mut().poll(&mut cx).is_pending(), "held");
    }
    outer.release().wait().expect("released");
    // An attempt that acquired out of turn would keep the lock, and the next one would time out.
    for attempt in attempts {
        run(attempt).expect("acquired").release().wait().expect("released");
    }
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
