//! Several locks at once.

use super::*;

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
