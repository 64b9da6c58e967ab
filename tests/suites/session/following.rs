//! Following the configuration of the ensemble.

use zk_session::proto::NodeKind;
use zk_session::{Client, State, blocking};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Ensemble, Version};
use zk_testkit::suite::{SESSION_TIMEOUT, until};

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
    until("all servers", || follows.servers().len() == 3).await;
    let (session, connections) = (follows.session_id(), follows.statistics().connections);

    embedded.kill(0);
    // A request that was sent to the old server fails.
    let is_elsewhere =
        || is_connected(follows.state()) && follows.statistics().connections > connections;
    until("the next connection", is_elsewhere).await;
    let stat = follows.exists("/mine").await.expect("served").expect("it is there");
    assert_eq!(stat.ephemeral_owner, session);
    until("a failure", || stays.last_failure().is_some()).await;
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
    let connecting = tokio::task::spawn_blocking(|| builder.connect().expect("connected"));
    let client = connecting.await.expect("no panic");
    until("all servers", || client.servers().len() == 3).await;
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
    until("a watch", || watches() == 1).await;
    let first = client.session_id();
    assert!(embedded.expire_session(first));
    let is_renewed = || is_connected(client.state()) && client.session_id() != first;
    until("the next session", is_renewed).await;
    until("a watch", || watches() == 1).await;
    assert_eq!(client.servers().len(), 3);
    client.close().await;
}
