//! The blocking client, and locks in threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use shuttle::thread;
use zk_recipes::LockError;
use zk_recipes::{Guard, Mutex};
use zk_session::blocking::Client;
use zk_session::proto::{ExistsRequest, Request};

use super::in_many_orders;
use super::network::Network;

/// Longer than a run.
const LONG: Duration = Duration::from_secs(3600);
const PATH: &str = "/lock";

pub(super) fn client(network: &Network) -> Client {
    let builder = Client::builder("server").session_timeout(Duration::from_secs(30)).seed(1);
    builder.clock(network.clock()).connect_with(network.clone()).expect("connected")
}

fn acquired(client: &Client) -> Guard<Client> {
    Mutex::new(client, PATH).expect("a valid path").acquire().wait().expect("acquired")
}

#[test]
fn two_threads_acquire_and_drop_one_lock() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let threads = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || drop(acquired(&client)))
        });
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        drop(client);
        server.finish();
    });
}

#[test]
fn a_lock_is_acquired_and_dropped_while_the_client_closes() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let lock = Mutex::new(&client, PATH).expect("a valid path");
        let acquires = thread::spawn(move || match lock.acquire().wait() {
            Ok(guard) => drop(guard),
            Err(error) => assert!(matches!(error.reason, LockError::Ended(_)), "{error}"),
        });
        client.close();
        acquires.join().expect("no panic");
        server.finish();
    });
}

#[test]
fn a_guard_is_dropped_while_the_client_closes() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let guard = acquired(&client);
        let drops = thread::spawn(move || drop(guard));
        client.close();
        drops.join().expect("no panic");
        server.finish();
    });
}

#[test]
fn two_threads_wait_for_room() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let builder = Client::builder("server").session_timeout(Duration::from_secs(30)).seed(1);
        let builder = builder.clock(network.clock()).max_pending(1);
        let client = builder.connect_with(network.clone()).expect("connected");
        let exists = || Request::Exists(ExistsRequest { path: "/", watch: false });
        let first = client.submit(&exists());
        let threads = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || {
                loop {
                    client.ready().wait().expect("room");
                    match client.submit(&exists()).wait() {
                        Ok(_) => break,
                        // The other thread was faster.
                        Err(error) => assert!(
                            matches!(error.reason, zk_session::Error::QueueFull { .. }),
                            "{error}"
                        ),
                    }
                }
            })
        });
        first.wait().expect("answered");
        threads.into_iter().for_each(|thread| thread.join().expect("no panic"));
        client.close();
        server.finish();
    });
}

#[test]
fn a_thread_that_waits_for_the_loss_learns_of_it() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let guard = acquired(&client);
        let expires = network.clone();
        let expires = thread::spawn(move || expires.expire_all());
        // The session, or first its node.
        assert!(guard.lost().timeout(LONG).wait().is_some());
        expires.join().expect("no panic");
        drop(guard);
        client.ended();
        server.finish();
    });
}

#[test]
fn a_callback_runs_once_for_a_loss_and_never_for_a_release() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let guard = acquired(&client);
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        guard.on_lost(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let expires = network.clone();
        let expires = thread::spawn(move || expires.expire_all());
        let released = guard.release().wait();
        expires.join().expect("no panic");
        client.ended();
        drop(client);
        server.finish();
        let calls = calls.load(Ordering::Relaxed);
        match released {
            Ok(()) => assert_eq!(calls, 0, "it was released"),
            Err(error) => assert!(calls <= 1, "{error}"),
        }
    });
}

#[test]
fn a_callback_is_added_while_the_lock_is_lost() {
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let client = client(&network);
        let guard = acquired(&client);
        let calls = Arc::new(AtomicUsize::new(0));
        let expires = network.clone();
        let expires = thread::spawn(move || expires.expire_all());
        let counted = calls.clone();
        guard.on_lost(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        expires.join().expect("no panic");
        assert!(guard.lost().timeout(LONG).wait().is_some());
        drop(guard);
        client.ended();
        drop(client);
        // All threads of the client have ended by then.
        server.finish();
        assert!(calls.load(Ordering::Relaxed) <= 1);
    });
}

/// What a callback owns. Its drop waits for other threads, as a callback may.
struct Owned(Arc<AtomicUsize>, usize);

impl Drop for Owned {
    fn drop(&mut self) {
        let Self(calls, number) = self;
        assert_eq!(calls.load(Ordering::Relaxed), 2 * *number, "out of order, or another one runs");
        calls.fetch_add(1, Ordering::Relaxed);
        for _ in 0..200 {
            thread::yield_now();
        }
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn callbacks_of_different_moments_run_in_order_and_one_at_a_time() {
    const CALLS: usize = 6;
    in_many_orders(|| {
        let network = Network::new();
        let server = network.serve();
        let handles = network.handles();
        let client = client(&network);
        let calls = Arc::new(AtomicUsize::new(0));
        for number in 0..CALLS {
            let guard = acquired(&client);
            let owned = Owned(calls.clone(), number);
            guard.on_lost(move |_| drop(owned));
            // That drops the callback.
            guard.release().wait().expect("released");
        }
        drop(client);
        server.finish();
        // For ever, if a callback is lost, or if a thread for callbacks does not end.
        while calls.load(Ordering::Relaxed) < 2 * CALLS || network.handles() > handles {
            thread::yield_now();
        }
    });
}
