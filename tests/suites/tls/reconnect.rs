//! Connections that break, and what takes their place.

use core::time::Duration;

use zk_session::rustls::{ALL_VERSIONS, HandshakeKind};
use zk_session::{AnyClient, Outcome, RequestError, State};
use zk_testkit::suite::HANG_TIMEOUT;

use super::*;

/// How often the connections break.
const CUTS: usize = 10;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reconnect_resumes_the_tls_session() {
    for version in ALL_VERSIONS {
        let ensemble = Ensemble::start(|authority| {
            vec![server_config(&authority.issue(&["127.0.0.1"]), None, &[version])]
        });
        let ensemble = ensemble.await;
        let front = &ensemble.fronts[0];
        let client = ensemble.client().await;
        client.create("/a", b"", NodeKind::Ephemeral).await.expect("it is new");
        assert_eq!(reconnected(front).await, HandshakeKind::Resumed, "{version:?}");
        client.exists("/a").await.expect("the session lives").expect("it is there");
        client.close().await;

        let client = ensemble.blocking_client().await;
        let client = spawn_blocking(move || {
            client.create("/b", b"", NodeKind::Ephemeral).wait().expect("it is new");
            client
        });
        let client = client.await.expect("it works");
        assert_eq!(reconnected(front).await, HandshakeKind::Resumed, "{version:?}");
        spawn_blocking(move || {
            client.exists("/b").wait().expect("the session lives").expect("it is there");
            client.close();
        })
        .await
        .expect("it works");
    }
}

/// Cuts all connections, and returns how the next one shakes hands.
async fn reconnected(front: &TlsFront) -> HandshakeKind {
    let before = front.handshakes().len();
    front.cut();
    loop {
        if let Some(handshake) = front.handshakes().get(before) {
            return *handshake;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns whether a request was lost with its connection. Otherwise a server has refused it.
fn is_lost(failed: RequestError) -> bool {
    let is_refused = failed.code().is_some();
    assert!(is_refused || failed.reason.outcome() == Outcome::Unknown, "{failed}");
    !is_refused
}

/// Cuts all connections again and again, each time that they serve the requests of a [load] at
/// `path`. If one kind of request was never answered, the session would refuse it.
async fn cut<C: AnyClient>(ensemble: &Ensemble, client: &C, path: &str) {
    for _ in 0..CUTS {
        while client.set_data(path, &[7; 50_000], None).await.is_err_and(is_lost)
            || client.get_data(path).await.is_err_and(is_lost)
        {}
        tokio::time::sleep(Duration::from_millis(20)).await;
        ensemble.fronts.iter().for_each(TlsFront::cut);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_go_on_across_connections_that_break() {
    let ensemble = Ensemble::trusted(3).await;
    let client = ensemble.client().await;
    let session = client.session_id();
    let tasks: Vec<_> = (0..4)
        .map(|task| {
            let client = client.clone();
            tokio::spawn(async move { load(&client, &format!("/task-{task}")).await })
        })
        .collect();
    cut(&ensemble, &client, "/task-0").await;
    let mut lost = 0;
    for task in tasks {
        lost += task.await.expect("requests go on");
    }
    println!("{lost} requests were lost, {:?}", client.statistics());
    assert!(lost > 0, "nothing was under way");
    assert_eq!(client.session_id(), session);
    client.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn threads_go_on_across_connections_that_break() {
    let ensemble = Ensemble::trusted(3).await;
    let client = ensemble.blocking_client().await;
    let session = client.session_id();
    let threads: Vec<_> = (0..4)
        .map(|thread| {
            let client = client.clone();
            spawn_blocking(move || {
                client.block_on(None, load(&client, &format!("/thread-{thread}")))
            })
        })
        .collect();
    cut(&ensemble, &client, "/thread-0").await;
    let mut lost = 0;
    for thread in threads {
        lost += thread.await.expect("requests go on");
    }
    println!("{lost} requests were lost, {:?}", client.statistics());
    assert!(lost > 0, "nothing was under way");
    assert_eq!(client.session_id(), session);
    spawn_blocking(|| client.close()).await.expect("it closes");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_moves_past_a_server_that_is_trusted_no_more() {
    let ensemble = Ensemble::trusted(3).await;
    let client = ensemble.client().await;
    let State::Connected { server, session } = client.state() else { panic!("not connected") };
    let rogue = server_config(&Authority::new("rogue").issue(&["127.0.0.1"]), None, ALL_VERSIONS);
    // All but one: the session finds it.
    let kept = (server + 2) % 3;
    let others = ensemble.fronts.iter().enumerate().filter(|(member, _)| *member != kept);
    others.for_each(|(_, front)| front.set_config(Arc::clone(&rogue)));
    ensemble.fronts.iter().for_each(TlsFront::cut);
    let mut states = client.states();
    let moved = states.wait_for(|state| *state == State::Connected { server: kept, session });
    tokio::time::timeout(HANG_TIMEOUT, moved).await.expect("in time").expect("the session lives");

    // None is trusted: the session waits for one.
    ensemble.fronts[kept].set_config(rogue);
    ensemble.fronts[kept].cut();
    states.wait_for(|state| *state == State::Suspended).await.expect("the session lives");
    let waits = client.exists("/");
    let is_untrusted =
        || client.last_failure().is_some_and(|(_, reason)| reason.starts_with("unknown CA"));
    while !is_untrusted() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(client.state(), State::Suspended);
    ensemble.fronts[server].set_config(good(&ensemble.authority));
    tokio::time::timeout(HANG_TIMEOUT, waits).await.expect("in time").expect("it is trusted again");
    client.close().await;
}
