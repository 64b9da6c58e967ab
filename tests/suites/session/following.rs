//! Following the configuration of the ensemble.

use std::thread;
use std::time::{Duration, Instant};

use zk_session::proto::NodeKind;
use zk_session::{Client, State, blocking};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Ensemble, Version};
use zk_testkit::suite::{HANG_TIMEOUT, SESSION_TIMEOUT};

/// Waits until the condition holds.
async fn until(condition: impl Fn() -> bool) {
    let end = Instant::now() + HANG_TIMEOUT;
    while !condition() {
        assert!(Instant::now() < end, "it never holds");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn is_connected(state: State) -> bool {
    matches!(state, State::Connected { .. })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_knows_one_server_follows_to_the_others() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let root = Client::connect(&embedded.address(0).to_string()).await.expect("connected");
    root.create("/app", b"", NodeKind::Persistent).await.expect("new");
    let at = format!("{}/app", embedded.address(0));
    let builder = Client::builder(&at).session_timeout(SESSION_TIMEOUT);
    let stays = builder.clone().connect().await.expect("connected");
    let follows = builder.follow_config(true).connect().await.expect("connected");
    follows.create("/mine", b"", NodeKind::Ephemeral).await.expect("new");
    until(|| follows.servers().len() == 3).await;
    let (session, connections) = (follows.session_id(), follows.statistics().connections);

    embedded.kill(0);
    // A request that was sent to the old server fails.
    until(|| is_connected(follows.state()) && follows.statistics().connections > connections).await;
    let stat = follows.exists("/mine").await.expect("served").expect("it is there");
    assert_eq!(stat.ephemeral_owner, session);
    until(|| stays.last_failure().is_some()).await;
    assert_eq!(stays.state(), State::Suspended);
    let (server, reason) = stays.last_failure().expect("it has failed");
    assert_eq!(server, embedded.address(0).to_string());
    assert!(!reason.is_empty());
    stays.set_servers(&embedded.address(1).to_string()).expect("valid");
    stays.exists("/mine").await.expect("served by another server").expect("there");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_blocking_client_follows_too() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let builder = blocking::Client::builder(&embedded.address(0).to_string());
    let builder = builder.session_timeout(SESSION_TIMEOUT).follow_config(true);
    let connecting = tokio::task::spawn_blocking(move || {
        let client = builder.connect().expect("connected");
        while client.servers().len() < 3 {
            thread::sleep(Duration::from_millis(5));
        }
        client
    });
    let client = connecting.await.expect("no panic");
    let session = client.session_id();
    embedded.kill(0);
    let reading = tokio::task::spawn_blocking(move || {
        // The first one may be sent to the old server.
        while client.sync("/").wait().is_err() {}
        (client.session_id(), client.state())
    });
    let (still, state) = reading.await.expect("no panic");
    assert!(still == session && is_connected(state), "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_configuration_the_list_stays() {
    let old = Config::servers(2).with_version(Version::V3_4);
    for config in [old, Config::servers(1)] {
        let embedded = Embedded::with_config(config).await.expect("loopback");
        let at = embedded.address(0).to_string();
        let client = Client::builder(&at).follow_config(true).connect().await.expect("connected");
        // Behind the reply to the client's own request.
        client.sync("/").await.expect("served");
        let servers: Vec<_> = client.servers().iter().map(ToString::to_string).collect();
        assert_eq!(servers, [at]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewed_session_follows_again() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let builder = Client::builder(&embedded.connect_string()).renew(true).follow_config(true);
    let client = builder.connect().await.expect("connected");
    let watches = || embedded.with(Ensemble::watches);
    until(|| watches() == 1).await;
    let first = client.session_id();
    assert!(embedded.expire_session(first));
    until(|| is_connected(client.state()) && client.session_id() != first).await;
    until(|| watches() == 1).await;
    assert_eq!(client.servers().len(), 3);
    client.close().await;
}
