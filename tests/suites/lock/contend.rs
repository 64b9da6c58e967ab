//! Many contenders at once.

use std::sync::Arc;
use std::time::Duration;

use zk_recipes::Mutex;
use zk_session::State;
use zk_testkit::contention::{Contention, clients};
use zk_testkit::serve::Embedded;

use super::{LOCK, SESSION_TIMEOUT, begun, client, watches};

fn contention(rounds: usize) -> Contention {
    Contention { path: LOCK.into(), rounds, hold: Duration::from_millis(1) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_contender_acquires_alone_and_none_starves() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let clients = clients(&embedded.connect_string(), 8, SESSION_TIMEOUT).await;
    let oracle = contention(10).run(&clients, |_| async {}).await.expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (80, vec![]));
    assert_eq!(watches(&embedded), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dying_server_costs_no_contender_its_place() {
    let embedded = Arc::new(Embedded::start(3).await.expect("loopback"));
    let clients = clients(&embedded.connect_string(), 6, SESSION_TIMEOUT).await;
    let hurt = {
        let (embedded, clients) = (embedded.clone(), clients.clone());
        move |count: usize| {
            let (embedded, clients) = (embedded.clone(), clients.clone());
            async move {
                // Kills servers that have clients, one after another. Two of three are always
                // alive.
                if count.is_multiple_of(10)
                    && let Some(server) = clients.iter().find_map(|client| match client.state() {
                        State::Connected { server, .. } => Some(server),
                        _ => None,
                    })
                {
                    embedded.kill(server);
                    embedded.restart(server).await.expect("the port is still free");
                }
            }
        }
    };
    let oracle = contention(10).run(&clients, hurt).await.expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (60, vec![]));
    let connections: u64 = clients.iter().map(|client| client.statistics().connections).sum();
    assert!(connections > clients.len() as u64, "no client changed its server");
}

#[tokio::test]
async fn contenders_of_one_session_queue_as_well() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    // The order is that in which they begin.
    let [first, second, third] = [(); 3].map(|()| begun(mutex.acquire()));
    let last = tokio::spawn(async move { third.await.expect("acquired").fencing_token() });
    let middle = tokio::spawn(async move {
        let guard = second.await.expect("acquired");
        let token = guard.fencing_token();
        guard.release().await.expect("released");
        token
    });
    let guard = first.await.expect("acquired");
    let token = guard.fencing_token();
    guard.release().await.expect("released");
    let tokens = [token, middle.await.expect("no panic"), last.await.expect("no panic")];
    assert!(tokens.is_sorted(), "{tokens:?}");
}

#[tokio::test]
async fn clients_with_different_chroots_share_a_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let whole = client(&embedded).await;
    let below = zk_session::Client::connect(&format!("{}/locks", embedded.connect_string()))
        .await
        .expect("connected");
    below.ensure_path("/").await.expect("created");
    let guard = Mutex::new(&below, "/test").expect("valid").acquire().await.expect("acquired");
    let waiting = Mutex::new(&whole, LOCK).expect("valid").acquire();
    let mut waiting = std::pin::pin!(waiting);
    let too_early = tokio::time::timeout(Duration::from_millis(50), &mut waiting).await;
    assert!(too_early.is_err(), "two holders of one lock");
    guard.release().await.expect("released");
    drop(waiting.await.expect("acquired"));
}
