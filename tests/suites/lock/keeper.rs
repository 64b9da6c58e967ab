//! Locks on a ClickHouse Keeper, which ends the session at an operation that it lacks.

use std::time::Duration;

use tokio::time::timeout;
use zk_recipes::{
    Barrier, Cache, DoubleBarrier, Ephemeral, HandOver, Holding, LeaderElection, LockError,
    LockRequest, MultiLock, Mutex, Options, Owner, ReentrantMutex, RwLock, Semaphore,
    SessionClient,
};
use zk_session::proto::{ErrorCode, NodeKind, OpCode};
use zk_session::{Client, End, ServerKind, blocking};
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Ensemble, Keeper};

use super::{HANG_TIMEOUT, LOCK, client};

async fn start(keeper: Keeper) -> Embedded {
    let config = Config::servers(3).with_keeper(keeper);
    Embedded::with_config(config).await.expect("loopback")
}

/// Its session ends with its connection, which other clients take for a resumed one.
#[tokio::test]
async fn a_lock_is_lost_with_its_connection() {
    let embedded = start(Keeper::WithContainers).await;
    let client = client(&embedded).await;
    let lock = Mutex::new(&client, LOCK).expect("a valid path");
    let guard = lock.acquire().await.expect("free");
    let session = client.session_id();
    let server = embedded.with(|ensemble| ensemble.server_of(session)).expect("it is connected");
    embedded.kill(server);
    timeout(HANG_TIMEOUT, guard.lost()).await.expect("no hang");
    assert!(matches!(guard.state(), Holding::Lost(_)), "{:?}", guard.state());
    assert_eq!(client.ended().await, End::Expired);
}

/// Uses each recipe below paths that are missing, with two clients.
async fn use_every_recipe<C: SessionClient>(ours: &C, other: &C) {
    const MOMENT: Duration = Duration::from_millis(10);

    let mutex = |client| Mutex::new(client, "/locks/mutex").expect("a valid path");
    let guard = mutex(ours).acquire().await.expect("free");
    let first = guard.fencing_token();
    // It drops its watches.
    let late = mutex(other).acquire().timeout(MOMENT).await.expect_err("held");
    assert_eq!(late.reason, LockError::TimedOut);
    assert_eq!(guard.validate().await, Ok(()));
    guard.release().await.expect("held");
    let guard = mutex(other).acquire().await.expect("free again");
    assert!(guard.fencing_token() > first);
    guard.release().await.expect("held");

    let options = Options::new().local_hand_over(HandOver::default());
    let shared = Mutex::with(ours, "/locks/shared", options).expect("a valid path");
    shared.acquire().await.expect("free").release().await.expect("held");

    let reentrant = ReentrantMutex::new(ours, "/locks/reentrant").expect("a valid path");
    let owner = Owner::unique();
    let outer = reentrant.acquire_as(owner).await.expect("free");
    reentrant.acquire_as(owner).await.expect("ours").release().await.expect("held");
    outer.release().await.expect("held");

    let rw = |client| RwLock::new(client, "/locks/rw").expect("a valid path");
    let writing = rw(ours).write().await.expect("free");
    let reading = writing.downgrade().await.expect("held");
    let writing = reading.try_upgrade().await.expect("no other reader");
    writing.release().await.expect("held");
    let both = (rw(ours).read().await.expect("free"), rw(other).read().await.expect("free"));
    both.0.release().await.expect("held");
    both.1.release().await.expect("held");

    let semaphore = |client| Semaphore::open(client, "/semaphore/of/two").expect("valid");
    semaphore(ours).set_permits(2).await.expect("set");
    let two = semaphore(ours).acquire_many(2).await.expect("free");
    let late = semaphore(other).acquire().timeout(MOMENT).await.expect_err("all are held");
    assert_eq!(late.reason, LockError::TimedOut.into());
    two.release().await.expect("held");
    semaphore(other).acquire().await.expect("free").release().await.expect("held");

    let parts = [LockRequest::from(&mutex(ours)), LockRequest::write(&rw(ours))];
    let all = MultiLock::new(parts).expect("compatible locks").acquire().await.expect("free");
    all.release().await.expect("held");

    let election = |client| LeaderElection::new(client, "/elections/test").expect("a valid path");
    let leader = election(ours).stand();
    let term = leader.elected().await.expect("no other candidate");
    let follower = election(other).stand();
    leader.close().await.expect("closed");
    assert!(follower.elected().await.expect("a leader").token > term.token);
    follower.close().await.expect("closed");

    let barrier = |client| Barrier::new(client, "/barriers/test").expect("a valid path");
    barrier(ours).close().await.expect("closed");
    let late = barrier(other).wait().timeout(MOMENT).await.expect_err("closed");
    assert_eq!(late.reason, LockError::TimedOut);
    barrier(ours).open().await.expect("opened");
    barrier(other).wait().await.expect("open");

    let double = |client| DoubleBarrier::new(client, "/barriers/double", 2).expect("valid");
    let (one, two) = tokio::join!(double(ours).enter(), double(other).enter());
    let (one, two) = (one.expect("both are here"), two.expect("both are here"));
    let (one, two) = tokio::join!(one.leave(), two.leave());
    one.and(two).expect("both leave");

    let ephemeral = Ephemeral::new(ours, "/services/one", "here").expect("a valid path");
    ephemeral.created().await.expect("created");
    let cache = Cache::new(other, "/services").expect("a valid path");
    cache.ready().await.expect("it can be read");
    let changes = cache.changes();
    assert_eq!(cache.len(), 2);
    ephemeral.close().await.expect("deleted");
    while cache.len() == 2 {
        changes.next().await.expect("it goes on");
    }
}

async fn uses_every_recipe<C: SessionClient>(embedded: &Embedded, clients: [C; 2]) {
    let [ours, other] = &clients;
    let sessions = [ours, other].map(|client| client.session_id());
    let used = use_every_recipe(ours, other);
    timeout(HANG_TIMEOUT, used).await.expect("no hang");
    assert_eq!(sessions, [ours, other].map(|client| client.session_id()));
    embedded.with(|ensemble| {
        assert_eq!(ensemble.accepted(), 2);
        let sent = |opcode| ensemble.counters().requests(opcode);
        assert_eq!((sent(OpCode::CREATE_CONTAINER), sent(OpCode::REMOVE_WATCHES)), (0, 0));
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_recipe_works_on_each_age_of_keeper_in_one_session() {
    for keeper in Keeper::ALL {
        let embedded = start(keeper).await;
        let clients = [client(&embedded).await, client(&embedded).await];
        assert_eq!(clients[0].server_kind(), ServerKind::Keeper);
        uses_every_recipe(&embedded, clients).await;

        let embedded = start(keeper).await;
        let connect = || blocking::Client::connect(&embedded.connect_string()).expect("connected");
        uses_every_recipe(&embedded, [connect(), connect()]).await;
    }
}

/// `Client::create` needs the stat that only `create2` returns.
#[tokio::test]
async fn a_client_that_repeats_a_create_loses_three_sessions_to_an_early_keeper() {
    let embedded = start(Keeper::Early).await;
    let builder = Client::builder(&embedded.connect_string()).renew(true);
    let client = builder.connect().await.expect("connected");
    let create = || client.create("/a", b"", NodeKind::Persistent);
    while create().await.expect_err("no create2").code() != Some(ErrorCode::UNIMPLEMENTED) {}
    // On the next session.
    let created = || client.transaction().create("/a", b"", NodeKind::Persistent).commit();
    while created().await.is_err() {}
    // Each loss costs the attempt to resume, and the next session.
    assert_eq!(embedded.with(Ensemble::accepted), 7);
}
