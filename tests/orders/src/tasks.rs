//! The async client, and locks in tasks. Each thread runs one task.

use std::time::Duration;

use shuttle::future::block_on;
use shuttle::thread;
use zk_recipes::{Guard, LockError, Loss, Mutex};
use zk_session::Client;

use super::in_many_orders;
use super::network::Network;

const PATH: &str = "/lock";

/// The client creates timers of tokio, which never fire here.
fn with_timers(scene: fn()) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let runtime = runtime.expect("a runtime");
    let _entered = runtime.enter();
    in_many_orders(scene);
}

async fn client(network: &Network) -> Client {
    let builder = Client::builder("server").session_timeout(Duration::from_secs(30)).seed(1);
    builder.clock(network.clock()).connect_with(network.clone()).await.expect("connected")
}

async fn acquired(client: &Client) -> Guard {
    Mutex::new(client, PATH).expect("a valid path").acquire().await.expect("acquired")
}

#[test]
fn two_tasks_acquire_and_drop_one_lock() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let client = block_on(client(&network));
        let tasks = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || block_on(async { drop(acquired(&client).await) }))
        });
        tasks.into_iter().for_each(|task| task.join().expect("no panic"));
        drop(client);
        server.finish();
    });
}

#[test]
fn a_lock_is_acquired_and_dropped_while_the_client_closes() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let client = block_on(client(&network));
        let lock = Mutex::new(&client, PATH).expect("a valid path");
        let acquires = thread::spawn(move || match block_on(lock.acquire()) {
            Ok(guard) => drop(guard),
            Err(error) => assert!(matches!(error.reason, LockError::Ended(_)), "{error}"),
        });
        block_on(client.close());
        acquires.join().expect("no panic");
        server.finish();
    });
}

#[test]
fn a_guard_is_dropped_while_the_client_closes() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let client = block_on(client(&network));
        let guard = block_on(acquired(&client));
        let drops = thread::spawn(move || drop(guard));
        block_on(client.close());
        drops.join().expect("no panic");
        server.finish();
    });
}

#[test]
fn two_tasks_batch_their_requests() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let client = block_on(client(&network));
        let tasks = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || {
                let both = client.batch(|| [client.exists("/"), client.exists("/lock")]);
                for answer in both {
                    block_on(answer).expect("answered");
                }
            })
        });
        tasks.into_iter().for_each(|task| task.join().expect("no panic"));
        block_on(client.close());
        server.finish();
    });
}

#[test]
fn two_tasks_wait_for_room() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let builder = Client::builder("server").session_timeout(Duration::from_secs(30)).seed(1);
        let builder = builder.clock(network.clock()).max_pending(1);
        let client = block_on(builder.connect_with(network.clone())).expect("connected");
        let first = client.exists("/");
        let tasks = [(); 2].map(|()| {
            let client = client.clone();
            thread::spawn(move || {
                block_on(async {
                    loop {
                        client.ready().await.expect("room");
                        match client.exists("/").await {
                            Ok(_) => break,
                            // The other task was faster.
                            Err(error) => assert!(
                                matches!(error.reason, zk_session::Error::QueueFull { .. }),
                                "{error}"
                            ),
                        }
                    }
                });
            })
        });
        block_on(first).expect("answered");
        tasks.into_iter().for_each(|task| task.join().expect("no panic"));
        block_on(client.close());
        server.finish();
    });
}

#[test]
fn a_task_that_waits_for_the_loss_learns_of_it() {
    with_timers(|| {
        let network = Network::new();
        let server = network.serve();
        let client = block_on(client(&network));
        let guard = block_on(acquired(&client));
        let expires = network.clone();
        let expires = thread::spawn(move || expires.expire_all());
        // With the session, or first with its node.
        assert!(matches!(block_on(guard.lost()), Loss::Ended(_) | Loss::NodeDeleted));
        expires.join().expect("no panic");
        drop(guard);
        drop(client);
        server.finish();
    });
}
