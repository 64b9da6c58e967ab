//! The options of locks, the state of guards, and error messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use zk_proto::{Acl, ErrorCode, Id, NodeKind, OpCode, Perms};
use zk_recipes::machine::{DisconnectPolicy, Event, LockMode, Scheme, UnknownNodePolicy};
use zk_recipes::{
    Attempt, Barrier, Holding, LeaderElection, LockError, Loss, ModeError, Mutex, Options, Parents,
    RwLock,
};
use zk_session::{Client, Error, State};
use zk_testkit::scenarios;
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Version};

use super::frozen::Frozen;
use super::{LOCK, begun, client, eventually, lock_nodes, start, watches};

const SCHEMES: [Scheme; 8] = [
    Scheme::CURATOR_MUTEX,
    Scheme::CURATOR_READ_WRITE,
    Scheme::CURATOR_LEADER,
    Scheme::GO_ZK,
    Scheme::KAZOO_MUTEX,
    Scheme::KAZOO_READ_WRITE,
    Scheme::ZOOKEEPER_RECIPE,
    Scheme::private("mine-", Some("ours-")),
];

fn mutex(client: &Client, options: Options) -> Mutex {
    Mutex::with(client, LOCK, options).expect("a valid path")
}

#[tokio::test]
async fn missing_parents_are_containers_or_persistent_nodes_or_an_error() {
    for (parents, is_container) in [
        (Parents::Containers, Some(true)),
        (Parents::Persistent, Some(false)),
        (Parents::None, None),
    ] {
        let embedded = start().await;
        let client = client(&embedded).await;
        let options = || Options::new().parents(parents);
        let acquired = mutex(&client, options()).acquire().await;
        let containers = embedded.with(|it| it.counters().requests(OpCode::CREATE_CONTAINER));
        assert_eq!(containers > 0, is_container == Some(true), "{parents:?}");
        let is_there = client.exists(LOCK).await.expect("connected").is_some();
        assert_eq!(is_there, is_container.is_some(), "{parents:?}");
        assert_eq!(acquired.is_ok(), is_container.is_some());
        let closed = Barrier::with(&client, "/b/b", options()).expect("valid").close().await;
        let missing = LockError::from(Error::Server(ErrorCode::NO_NODE));
        match is_container {
            Some(_) => closed.expect("created"),
            None => assert_eq!(closed.expect_err("no parent").reason, missing),
        }
    }
}

#[tokio::test]
async fn every_naming_scheme_makes_a_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    for scheme in SCHEMES {
        let of = |client| mutex(client, Options::new().scheme(scheme));
        let first = of(&one).acquire().await.expect("free");
        let mut second = Box::pin(of(&other).acquire());
        assert!(timeout(Duration::from_millis(20), &mut second).await.is_err(), "{scheme:?}");
        first.release().await.expect("released");
        second.await.expect("acquired").release().await.expect("released");
        let read_write = RwLock::with(&one, LOCK, Options::new().scheme(scheme));
        match read_write {
            Err(error) => {
                assert_eq!((error.reason, scheme.has_readers()), (ModeError::NoReaders, false));
            }
            Ok(lock) => {
                let reader = lock.read().await.expect("free");
                assert_eq!(
                    lock.try_write().await.map(drop).map_err(LockError::from),
                    Err(LockError::Busy),
                    "{scheme:?}"
                );
                reader.release().await.expect("released");
            }
        }
    }
}

#[tokio::test]
async fn a_try_creates_no_node_if_the_lock_is_held() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    let guard = mutex(&one, Options::new()).acquire().await.expect("free");
    let created = || embedded.with(|ensemble| ensemble.counters().requests(OpCode::CREATE2));
    let before = created();
    let tried = mutex(&other, Options::new());
    for _ in 0..5 {
        assert_eq!(
            tried.try_acquire().await.map(drop).map_err(LockError::from),
            Err(LockError::Busy)
        );
    }
    assert_eq!(created(), before);
    guard.release().await.expect("released");
    let guard = tried.try_acquire().await.expect("free");
    guard.release().await.expect("released");
    assert_eq!(tried.pending_cleanups(), 0);
}

#[tokio::test]
async fn contenders_are_listed_in_the_order_of_the_queue() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let clients = [client(&embedded).await, client(&embedded).await, client(&embedded).await];
    assert_eq!(mutex(&clients[0], Options::new()).contenders().await, Ok(vec![]));
    let guard = mutex(&clients[0], Options::new().data("first")).acquire().await.expect("free");
    let waiting: Vec<_> = ["second", "third"]
        .iter()
        .zip(&clients[1..])
        .map(|(name, client)| {
            // Each request is sent before the next attempt starts.
            begun(mutex(client, Options::new().data(*name)).acquire())
        })
        .collect();
    eventually(&embedded, "all are queued", |embedded| lock_nodes(embedded).len() == 3).await;
    let list = mutex(&clients[2], Options::new()).contenders().await.expect("listed");
    assert_eq!(list[0].data.as_deref(), Some(&b"first"[..]));
    assert_eq!(
        (list[0].token, list[0].session),
        (guard.fencing_token().zxid(), clients[0].session_id())
    );
    assert!(list.iter().all(|one| one.mode == LockMode::Exclusive && one.since >= 0));
    let waits_for: Vec<_> = list.iter().map(|one| one.waits_for.as_deref()).collect();
    assert_eq!(waits_for, [None, Some(&*list[0].node), Some(&*list[1].node)]);
    drop(waiting);
}

#[tokio::test]
async fn many_or_unreadable_contenders_are_listed() {
    for version in [Version::V3_8, Version::V3_9] {
        let config = Config::default().with_version(version);
        let embedded = Embedded::with_config(config).await.expect("a server");
        scenarios::many_or_unreadable_contenders_are_listed(&embedded).await;
    }
}

#[tokio::test]
async fn a_holder_receives_a_request_to_release() {
    scenarios::a_holder_receives_a_request_to_release(&start().await).await;
}

#[tokio::test]
async fn writes_of_a_former_holder_are_refused() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, vandal) = (client(&embedded).await, client(&embedded).await);
    let guard = mutex(&one, Options::new()).acquire().await.expect("free");
    let written = guard.transaction().create("/written", b"", NodeKind::Persistent);
    written.commit().await.expect("held");
    guard.validate().await.expect("held");
    vandal.delete(&guard.node_path(), None).await.expect("the node exists");
    let refused = guard.transaction().create("/late", b"", NodeKind::Persistent).commit().await;
    let code = refused.expect_err("lost").code();
    assert_eq!(code, Some(ErrorCode::NO_NODE));
    assert_eq!(
        guard.validate().await.map_err(LockError::from),
        Err(LockError::Lost(Loss::NodeDeleted))
    );
    let is_there = |path| embedded.with(|ensemble| ensemble.node(path).is_some());
    assert!(is_there("/written") && !is_there("/late"));
}

#[tokio::test]
async fn a_lock_is_held_as_long_as_its_disconnect_policy_says() {
    let embedded = Embedded::start(1).await.expect("loopback");
    for (trust, expected) in [
        (DisconnectPolicy::UntilServerReports, Holding::Suspended),
        (DisconnectPolicy::UntilLeaseEnds, Holding::Suspended),
        (DisconnectPolicy::WhileConnected, Holding::Lost(Loss::Disconnected)),
    ] {
        let client = client(&embedded).await;
        let lock = mutex(&client, Options::new().disconnect_policy(trust));
        let guard = lock.acquire().await.expect("free");
        embedded.kill(0);
        let mut states = client.states();
        states.wait_for(|state| *state == State::Suspended).await.expect("the driver runs");
        eventually(&embedded, "the guard reports it", |_| guard.state() == expected).await;
        embedded.restart(0).await.expect("the port is still free");
        drop(guard);
        eventually(&embedded, "no node", |embedded| lock_nodes(embedded).is_empty()).await;
        eventually(&embedded, "nothing pending", |_| lock.pending_cleanups() == 0).await;
    }
}

#[tokio::test]
async fn a_held_lock_ends_with_the_lease() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let lock = mutex(&client, Options::new().disconnect_policy(DisconnectPolicy::UntilLeaseEnds));
    let guard = lock.acquire().await.expect("free");
    embedded.kill(0);
    eventually(&embedded, "cut off", |_| guard.state() == Holding::Suspended).await;
    tokio::time::advance(super::SESSION_TIMEOUT).await;
    assert_eq!(guard.lost().await, Loss::LeaseEnded);
}

#[tokio::test]
async fn a_predecessor_that_may_not_be_read_is_an_error() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (one, other) = (client(&embedded).await, client(&embedded).await);
    one.add_auth("digest", b"me:secret").await.expect("accepted");
    let mine = Id { scheme: "auth", id: Some("") };
    let acl = [Acl { perms: Perms::ALL, id: mine }];
    let guard = mutex(&one, Options::new().acl(&acl)).acquire().await.expect("free");
    let failed = mutex(&other, Options::new()).acquire().await.map(drop);
    let node = guard.node().to_owned();
    assert_eq!(failed.map_err(LockError::from), Err(LockError::Unreadable { node }));
    eventually(&embedded, "only the holder's node", |embedded| lock_nodes(embedded).len() == 1)
        .await;
    guard.release().await.expect("released");
}

#[tokio::test]
async fn an_observer_knows_the_attempt_of_each_event() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let acquired = Arc::new(std::sync::Mutex::new(Vec::new()));
    let note = acquired.clone();
    let observer = move |Attempt { path, number, .. }: Attempt<'_>, event: &Event| {
        if matches!(event, Event::Acquired { .. }) {
            note.lock().expect("no panic").push((path.to_owned(), number));
        }
    };
    let lock = mutex(&client, Options::new().observer(observer));
    let (first, second) = (begun(lock.acquire()), begun(lock.clone().acquire()));
    first.await.expect("free").release().await.expect("released");
    second.await.expect("free").release().await.expect("released");
    let path = || LOCK.to_owned();
    assert_eq!(*acquired.lock().expect("no panic"), [(path(), 1), (path(), 2)]);
}

#[tokio::test]
async fn unknown_nodes_are_reported_or_refused() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let was_reported = Arc::new(AtomicBool::new(false));
    let observer = {
        let was_reported = was_reported.clone();
        move |_: Attempt<'_>, event: &Event| {
            if matches!(event, Event::UnknownNode(node) if node == "lease_holder") {
                was_reported.store(true, Ordering::Relaxed);
            }
        }
    };
    for path in ["/locks", LOCK, &format!("{LOCK}/lease_holder")] {
        client.create(path, b"", NodeKind::Persistent).await.expect("created");
    }
    let guard = mutex(&client, Options::new().observer(observer)).acquire().await.expect("free");
    guard.release().await.expect("released");
    assert!(was_reported.load(Ordering::Relaxed));
    let refused = mutex(&client, Options::new().unknown_nodes(UnknownNodePolicy::Refuse))
        .acquire()
        .await
        .map(drop);
    assert_eq!(
        refused.map_err(LockError::from),
        Err(LockError::UnknownNode { node: "lease_holder".into() })
    );
    eventually(&embedded, "no node of our own", |embedded| lock_nodes(embedded).len() == 1).await;
}

#[tokio::test]
async fn a_lock_of_another_kind_at_the_same_path_is_refused_unless_it_is_ignored() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let rw_lock = RwLock::new(&client, LOCK).expect("valid");
    let writer = rw_lock.write().await.expect("acquired");
    let other = LockError::OtherLock {
        node: writer.node().into(),
        scheme: Scheme::CURATOR_READ_WRITE.into(),
    };
    for foreign in [UnknownNodePolicy::default(), UnknownNodePolicy::Refuse] {
        let mutex = mutex(&client, Options::new().unknown_nodes(foreign));
        assert_eq!(mutex.acquire().await.map(drop).map_err(LockError::from), Err(other.clone()));
        assert_eq!(
            mutex.try_acquire().await.map(drop).map_err(LockError::from),
            Err(other.clone())
        );
    }
    let election = LeaderElection::new(&client, LOCK).expect("valid").stand();
    assert_eq!(election.elected().await.map_err(LockError::from), Err(other));
    let ignoring = mutex(&client, Options::new().unknown_nodes(UnknownNodePolicy::Ignore));
    let guard = ignoring.try_acquire().await.expect("the writer is ignored");
    let beside = rw_lock.try_read().await.map(drop);
    let beside = beside.expect_err("another kind of lock").reason;
    assert!(matches!(beside, LockError::OtherLock { .. }), "{beside:?}");
    guard.release().await.expect("released");
    writer.release().await.expect("released");
}

#[tokio::test]
async fn beyond_the_last_sequence_number_only_private_names_work() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    for path in ["/locks", LOCK] {
        client.create(path, b"", NodeKind::Persistent).await.expect("created");
    }
    embedded.command(|ensemble, now| ensemble.set_counter(now, LOCK, i32::MAX - 2));
    let failed = mutex(&client, Options::new()).acquire().await.map(drop);
    assert_eq!(failed.map_err(LockError::from), Err(LockError::SequenceExhausted));
    let private = mutex(&client, Options::new().scheme(Scheme::private("mine-", None)));
    let all: Vec<_> = (0..8).map(|_| tokio::spawn(private.acquire())).collect();
    let mut tokens = Vec::new();
    for contender in all {
        let guard = contender.await.expect("no panic").expect("acquired");
        tokens.push(guard.fencing_token());
        guard.release().await.expect("released");
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
    eventually(&embedded, "no node and no watch", |embedded| {
        lock_nodes(embedded).is_empty() && watches(embedded) == 0
    })
    .await;
}

/// Passes bytes on, until `silent` is set; then keeps the connections open.
async fn silenced(to: std::net::SocketAddr, silent: Arc<AtomicBool>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let Ok(far) = TcpStream::connect(to).await else { continue };
            let (near, far) = (near.into_split(), far.into_split());
            for (mut from, mut to) in [(near.0, far.1), (far.0, near.1)] {
                let silent = silent.clone();
                tokio::spawn(async move {
                    let mut buffer = [0; 4096];
                    while let Ok(length @ 1..) = from.read(&mut buffer).await {
                        let is_silent = silent.load(Ordering::Relaxed);
                        if !is_silent && to.write_all(&buffer[..length]).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
    });
    address
}

#[tokio::test]
async fn a_deadline_is_kept_when_the_network_drops_everything() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let silent = Arc::new(AtomicBool::new(false));
    let address = silenced(embedded.address(0), silent.clone()).await;
    let builder = Client::builder(&address.to_string());
    let cut_off =
        builder.session_timeout(super::SESSION_TIMEOUT).connect().await.expect("connected");
    let (queue, read_write) = (mutex(&cut_off, Options::new()), RwLock::new(&cut_off, LOCK));
    silent.store(true, Ordering::Relaxed);
    let limit = Duration::from_millis(50);
    assert_eq!(
        queue.acquire().timeout(limit).await.map(drop).map_err(LockError::from),
        Err(LockError::NoAnswer)
    );
    let read_write = read_write.expect("a valid path");
    assert_eq!(
        read_write.read().timeout(limit).await.map(drop).map_err(LockError::from),
        Err(LockError::NoAnswer)
    );
    assert_eq!(
        read_write.write().timeout(limit).await.map(drop).map_err(LockError::from),
        Err(LockError::NoAnswer)
    );
    assert!(matches!(cut_off.state(), State::Connected { .. }), "not noticed yet");
    let pending = || (queue.pending_cleanups(), read_write.pending_cleanups());
    eventually(&embedded, "the cleanup continues", |_| pending() == (1, 2)).await;
}

#[tokio::test]
async fn a_server_that_is_too_old_is_reported_and_asked_once() {
    let config = Config::default().with_version(Version::V3_4);
    let embedded = Embedded::with_config(config).await.expect("loopback");
    let client = client(&embedded).await;
    client.create("/old", b"", NodeKind::Persistent).await.expect_err("3.4 has no create2");
    let before = client.statistics();
    let refused = mutex(&client, Options::new()).acquire().await.expect_err("3.4 has no create2");
    let too_old = Error::Unsupported { opcode: OpCode::CREATE2, needs: "ZooKeeper 3.5" };
    assert_eq!(refused.reason, LockError::Request(too_old));
    let after = client.statistics();
    assert_eq!(after.connections - before.connections, 1, "the server closed the connection");
    assert!(after.requests - before.requests <= 2, "{before:?} {after:?}");
}

#[tokio::test]
async fn every_error_names_the_operation_and_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = mutex(&client, Options::new());
    let guard = mutex.acquire().await.expect("free");
    let busy = mutex.try_acquire().await.expect_err("held by another");
    let late =
        mutex.acquire().timeout(Duration::from_millis(20)).await.expect_err("held by another");
    let watches_itself =
        |embedded: &Embedded| mutex.pending_cleanups() == 0 && watches(embedded) == 1;
    eventually(&embedded, "the watch of the holder", watches_itself).await;
    client.delete(&guard.node_path(), None).await.expect("the node exists");
    let lost = guard.release().await.expect_err("lost");
    let invalid = Mutex::new(&client, "a\tb").expect_err("it is relative");
    let printed = [busy, late, lost, invalid].map(|error| error.to_string());
    let expected = [
        "try_acquire of '/locks/test': the lock is taken",
        "acquire of '/locks/test': the time limit has passed",
        "release of '/locks/test': the lock was lost before: our node was deleted",
        "new of 'a\\tb': a path must start with '/'",
    ];
    assert_eq!(printed, expected);
}

/// ZOOKEEPER-4306: see `docs/servers.md`.
#[tokio::test]
async fn no_client_takes_so_many_locks_that_its_end_would_stop_the_ensemble() {
    const FRAME: usize = 4_096;
    let path = |count: usize| format!("/{}/{count}", "n".repeat(200));
    for is_limited in [true, false] {
        let config = Config { frame_limit: FRAME, ..Config::servers(3) };
        let embedded = Embedded::with_config(config).await.expect("loopback");
        let builder = Client::builder(&embedded.connect_string()).max_request(FRAME);
        let builder = if is_limited { builder } else { builder.max_ephemerals(usize::MAX) };
        let holder = builder.connect().await.expect("connected");
        let mut guards = Vec::new();
        let refused = loop {
            let mutex = Mutex::new(&holder, &path(guards.len())).expect("a valid path");
            match mutex.acquire().await {
                Ok(guard) if guards.len() < 40 => guards.push(guard),
                Ok(_) => break None,
                Err(error) => break Some(error),
            }
        };
        let full = Error::EphemeralsFull { limit: FRAME };
        assert_eq!(refused.map(LockError::from), is_limited.then_some(LockError::Request(full)));
        if is_limited {
            // A released lock makes room.
            guards.pop().expect("held").release().await.expect("released");
            let mutex = Mutex::new(&holder, &path(100)).expect("a valid path");
            guards.push(mutex.acquire().await.expect("there is room"));
        }
        let session = holder.session_id();
        assert!(embedded.expire_session(session));
        for server in 0..3 {
            if !embedded.with(|ensemble| ensemble.is_alive(server)) {
                embedded.kill(server);
            }
            embedded.restart(server).await.expect("loopback");
        }
        // If no server can answer, a short time limit is enough.
        let limit = if is_limited { super::HANG_TIMEOUT } else { Duration::from_millis(500) };
        let other = Client::builder(&embedded.connect_string());
        let other = other.connect_timeout(limit).connect().await;
        assert_eq!(other.is_ok(), is_limited, "{other:?}");
    }
}
