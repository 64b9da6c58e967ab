//! The blocking client on the embedded ensemble: operations, losses, and many threads.

#[path = "../../../crates/zk-recipes/examples/service_blocking.rs"]
#[expect(dead_code, reason = "`main`")]
mod example;
#[cfg(unix)]
mod forking;
#[path = "../../../crates/zk-proto/examples/fuzz_client.rs"]
#[expect(dead_code, reason = "`main`")]
mod fuzz_client;
mod generated;
mod recipes;
mod service;
mod transport;

use std::thread;

use tokio::runtime::Runtime;
use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, NodeKind};
use zk_session::{End, Error, Outcome, State, WatchUpdate};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{HANG_TIMEOUT, SESSION_TIMEOUT};
use zk_testkit::watchdog::Watchdog;

/// An ensemble on its own runtime.
struct Ensemble {
    embedded: Embedded,
    runtime: Runtime,
    _watchdog: Watchdog,
}

impl Ensemble {
    fn start(servers: usize) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime");
        let embedded = runtime.block_on(Embedded::start(servers)).expect("an ensemble");
        Self { embedded, runtime, _watchdog: Watchdog::start() }
    }

    fn client(&self) -> Client {
        let at = self.embedded.connect_string();
        Client::builder(&at).session_timeout(SESSION_TIMEOUT).connect().expect("connected")
    }
}

#[test]
fn threads_share_a_session() {
    let ensemble = Ensemble::start(3);
    let client = ensemble.client();
    client.create("/counter", b"0", NodeKind::Persistent).wait().expect("a new node");
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..25 {
                    increment(&client);
                }
            });
        }
    });
    assert_eq!(client.get_data("/counter").wait().expect("the node exists").0, "100");
    client.close();
}

fn increment(client: &Client) {
    loop {
        let (data, stat) = client.get_data("/counter").wait().expect("the node exists");
        let count: u64 = String::from_utf8_lossy(&data).parse().expect("a number");
        let next = (count + 1).to_string();
        match client.set_data("/counter", next.as_bytes(), Some(stat.version)).wait() {
            Ok(_) => return,
            Err(error) if error.code() == Some(ErrorCode::BAD_VERSION) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[track_caller]
fn assert_moves_from(client: &Client, server: usize) {
    let is_elsewhere = |state| match state {
        State::Connected { server: now, .. } => now != server,
        _ => false,
    };
    assert!(is_elsewhere(client.wait_for_state(is_elsewhere, Some(HANG_TIMEOUT))));
}

#[test]
fn a_session_moves_to_another_server_with_its_watches() {
    let ensemble = Ensemble::start(3);
    let (client, other) = (ensemble.client(), ensemble.client());
    client.create("/a", b"", NodeKind::Ephemeral).wait().expect("a new node");
    let (_, _, watch) = client.get_data_and_watch("/a").wait().expect("the node exists");
    let mut all = client.watch_recursively("/a").wait().expect("the server knows such watches");
    let State::Connected { server, session } = client.state() else { panic!("not connected") };
    ensemble.embedded.kill(server);
    assert_moves_from(&client, server);
    assert_eq!(client.session_id(), session);
    assert_eq!(all.wait(), Ok(WatchUpdate::Gap));
    while let Err(error) = other.set_data("/a", b"new", None).wait() {
        assert_eq!(error.reason, Error::ConnectionLost);
    }
    assert_eq!(&*watch.wait().expect("a watch event").path, "/a");
    assert!(matches!(all.wait(), Ok(WatchUpdate::Event(_))));
    ensemble.runtime.block_on(ensemble.embedded.restart(server)).expect("the port is free");
}

#[test]
fn an_expired_session_is_reported() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let (_, watch) = client.exists_and_watch("/a").wait().expect("sent");
    assert!(ensemble.embedded.expire_session(client.session_id()));
    assert_eq!(client.ended(), End::Expired);
    let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
    assert_eq!(watch.wait(), Err(expired.clone()));
    assert_eq!(client.sync("/").wait().map_err(Error::from), Err(expired));
}

#[test]
fn trees_are_created_and_deleted() {
    let ensemble = Ensemble::start(1);
    let client = ensemble.client();
    let below = client.with_chroot("/app").expect("a path");
    let (path, _) =
        below.create_all("/a/b/c-", b"", NodeKind::EphemeralSequential).wait().expect("new");
    assert_eq!(path, "/a/b/c-0000000000");
    assert_eq!(below.count_descendants("/").wait().expect("the node exists"), 3);
    assert_eq!(below.get_ephemerals("/").wait().expect("the node exists"), [path]);
    below.delete_all("/a").wait().expect("deleted");
    assert_eq!(below.get_children("/").wait().expect("the node exists").0, [""; 0]);
    let is_there = |path| ensemble.embedded.with(|ensemble| ensemble.paths().any(|p| p == path));
    assert!(is_there("/app") && !is_there("/app/a"));
}
