//! Forked processes, with clients that belong to their parents.

use std::future::Future;
use std::os::unix::process::CommandExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use fork::Fork;
use zk_recipes::Mutex;
use zk_recipes::{Holding, LockError, Loss};
use zk_session::{End, Error, State};
use zk_testkit::suite::HANG_TIMEOUT;

use super::Ensemble;

const FORKED: State = State::Ended(End::Forked);
const LOST: Holding = Holding::Lost(Loss::Ended(End::Forked));

/// Runs `child` in a forked process, which must neither panic nor hang.
fn in_child(child: impl FnOnce()) {
    match fork::fork().expect("a process") {
        Fork::Parent(child) => {
            let status = fork::waitpid(child).expect("a child");
            assert_eq!(status, 0, "the child has failed");
        }
        Fork::Child => {
            thread::spawn(|| {
                thread::sleep(HANG_TIMEOUT);
                std::process::abort();
            });
            let has_passed = catch_unwind(AssertUnwindSafe(child)).is_ok();
            // Runs nothing that other threads of the parent may have been in.
            let error = Command::new(if has_passed { "true" } else { "false" }).exec();
            panic!("{error}");
        }
    }
}

fn is_forked(error: &Error) -> bool {
    error.end() == Some(End::Forked)
}

/// Returns what a future returns at once.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits"),
    }
}

#[test]
fn a_forked_process_leaves_the_session_of_a_blocking_client_to_its_parent() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let mutex = Mutex::new(&client, "/lock").expect("a valid path");
    let [mut guard, mut dropped] = ["/lock", "/other"].map(|path| {
        let mutex = Mutex::new(&client, path).expect("a valid path");
        Some(mutex.acquire().wait().expect("free"))
    });
    let mut watch = Some(client.exists_and_watch("/never").wait().expect("connected").1);
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        // Holds the session's lock now and then, also when the process is forked.
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.exists("/lock").wait().expect("connected");
            }
        });
        for _ in 0..10 {
            in_child(|| {
                assert_eq!(client.state(), FORKED);
                drop(dropped.take());
                drop(watch.take());
                assert!(
                    client.get_data("/lock").wait().is_err_and(|error| is_forked(&error.reason))
                );
                let refused = mutex.acquire().wait().map(drop).map_err(LockError::from);
                assert_eq!(refused, Err(LockError::Ended(End::Forked)));
                let guard = guard.take().expect("held by the parent");
                assert_eq!(guard.state(), LOST);
                assert_eq!(
                    guard.lost().timeout(HANG_TIMEOUT).wait(),
                    Some(Loss::Ended(End::Forked))
                );
                let released = guard.release().wait().map_err(LockError::from);
                assert_eq!(released, Err(LockError::Lost(Loss::Ended(End::Forked))));
                assert_eq!(client.ended(), End::Forked);
                client.clone().close();
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for guard in [guard, dropped].into_iter().flatten() {
        assert_eq!(guard.validate().wait().map_err(LockError::from), Ok(()));
        guard.release().wait().expect("held all the time");
    }
    assert_eq!(client.statistics().connections, 1);
    client.close();
}

#[test]
fn a_forked_process_leaves_the_session_of_an_async_client_to_its_parent() {
    let ensemble = Ensemble::start(1);
    let at = ensemble.embedded.connect_string();
    let runtime = &ensemble.runtime;
    let client = runtime.block_on(zk_session::Client::connect(&at)).expect("connected");
    let mutex = Mutex::new(&client, "/lock").expect("a valid path");
    let mut guard = Some(runtime.block_on(mutex.acquire()).expect("free"));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                runtime.block_on(client.exists("/lock")).expect("connected");
            }
        });
        for _ in 0..10 {
            in_child(|| {
                assert_eq!(client.state(), FORKED);
                assert_eq!(*client.states().borrow(), FORKED);
                let refused = now(client.get_data("/lock"));
                assert!(refused.is_err_and(|error| is_forked(&error.reason)));
                let refused = now(mutex.acquire()).map(drop).map_err(LockError::from);
                assert_eq!(refused, Err(LockError::Ended(End::Forked)));
                let guard = guard.take().expect("held by the parent");
                assert_eq!(guard.state(), LOST);
                assert_eq!(now(guard.lost()), Loss::Ended(End::Forked));
                drop(guard);
                now(client.clone().close());
            });
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let guard = guard.expect("held");
    runtime.block_on(guard.validate()).expect("held all the time");
    runtime.block_on(guard.release()).expect("held all the time");
    assert_eq!(client.statistics().connections, 1);
    runtime.block_on(client.close());
}
