//! Tests that other implementations have, and that the other files do not cover.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use tokio::time::timeout;
use zk_proto::{Acl, NodeKind, Perms};
use zk_recipes::{Holding, Mutex, Options, RwLock, Semaphore};
use zk_session::{Client, State};
use zk_testkit::serve::Embedded;
use zk_testkit::server::Config;

use super::{LOCK, SESSION_TIMEOUT, begun, client, eventually, lock_nodes, watches};

const SEMAPHORE: &str = "/semaphore";
/// How long to wait before concluding that something does not happen.
const A_WHILE: Duration = Duration::from_millis(50);

fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, LOCK).expect("a valid path")
}

fn semaphore(client: &Client, permits: u32) -> Semaphore {
    Semaphore::new(client, SEMAPHORE, permits).expect("a valid path")
}

async fn at(servers: &[std::net::SocketAddr]) -> Client {
    let servers: Vec<_> = servers.iter().map(ToString::to_string).collect();
    let builder = Client::builder(&servers.join(",")).session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("connected")
}

async fn is_suspended(client: &Client) {
    let mut states = client.states();
    states.wait_for(|state| *state == State::Suspended).await.expect("the driver runs");
}

#[tokio::test]
async fn without_a_quorum_contenders_wait_and_then_continue() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = mutex(&holder).acquire().await.expect("free");
    let permit = semaphore(&holder, 1).acquire().await.expect("free");
    let mut lock = Box::pin(mutex(&waiter).acquire());
    let mut lease = Box::pin(semaphore(&waiter, 1).acquire());
    let early =
        timeout(A_WHILE, async { tokio::select!(_ = &mut lock => (), _ = &mut lease => ()) });
    assert!(early.await.is_err(), "two locks are held");
    embedded.kill(0);
    embedded.kill(1);
    tokio::join!(is_suspended(&holder), is_suspended(&waiter));
    let released = tokio::spawn(async { tokio::join!(guard.release(), permit.release()) });
    let early =
        timeout(A_WHILE, async { tokio::select!(_ = &mut lock => (), _ = &mut lease => ()) });
    assert!(early.await.is_err(), "no release without a quorum");
    assert!(!released.is_finished());
    embedded.restart(0).await.expect("the port is still free");
    let (guard, permit) = tokio::join!(lock, lease);
    let (guard, permit) = (guard.expect("acquired"), permit.expect("acquired"));
    assert_eq!((guard.state(), permit.state()), (Holding::Held, Holding::Held));
    assert_eq!(released.await.expect("no panic"), (Ok(()), Ok(())));
    drop((guard, permit));
    eventually(&embedded, "no watch", |embedded| watches(embedded) == 0).await;
}

#[tokio::test]
async fn an_attempt_without_servers_waits_for_one() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    embedded.kill(0);
    is_suspended(&client).await;
    let (quitting, mut waiting) =
        (begun(mutex(&client).acquire()), Box::pin(mutex(&client).acquire()));
    assert!(timeout(A_WHILE, &mut waiting).await.is_err(), "no server answers");
    drop(quitting);
    embedded.restart(0).await.expect("the port is still free");
    let guard = waiting.await.expect("free");
    eventually(&embedded, "one node", |embedded| lock_nodes(embedded).len() == 1).await;
    guard.release().await.expect("released");
    eventually(&embedded, "no node and no watch", |embedded| {
        lock_nodes(embedded).is_empty() && watches(embedded) == 0
    })
    .await;
}

#[tokio::test]
async fn a_predecessor_that_leaves_while_a_waiter_is_cut_off_is_noticed() {
    let embedded = Embedded::start(3).await.expect("loopback");
    let holder = at(&[embedded.address(0), embedded.address(2)]).await;
    let waiter = at(&[embedded.address(1)]).await;
    let guard = mutex(&holder).acquire().await.expect("free");
    let waiting = tokio::spawn(mutex(&waiter).acquire());
    eventually(&embedded, "both watches are set", |embedded| watches(embedded) >= 2).await;
    embedded.kill(1);
    is_suspended(&waiter).await;
    let token = guard.fencing_token();
    guard.release().await.expect("two of three form a quorum");
    eventually(&embedded, "the waiter is alone", |embedded| lock_nodes(embedded).len() == 1).await;
    assert!(!waiting.is_finished());
    embedded.restart(1).await.expect("the port is still free");
    let guard = waiting.await.expect("no panic").expect("acquired");
    assert!(guard.fencing_token() > token);
    guard.release().await.expect("released");
}

#[tokio::test]
async fn locks_of_a_closed_client_are_free() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (closing, other) = (client(&embedded).await, client(&embedded).await);
    let guard = mutex(&closing).acquire().await.expect("free");
    let permits = semaphore(&closing, 2).acquire_many(2).await.expect("free");
    let read_write = |client| RwLock::new(client, "/read-write").expect("a valid path");
    let writer = read_write(&closing).write().await.expect("free");
    let reader = tokio::spawn(read_write(&other).read());
    let next = tokio::spawn(mutex(&other).acquire());
    let permit = tokio::spawn(semaphore(&other, 2).acquire());
    tokio::time::sleep(A_WHILE).await;
    let early = [next.is_finished(), permit.is_finished(), reader.is_finished()];
    assert_eq!(early, [false; 3], "all locks are held");
    closing.close().await;
    let next = next.await.expect("no panic").expect("acquired");
    let permit = permit.await.expect("no panic").expect("acquired");
    let reader = reader.await.expect("no panic").expect("acquired");
    assert!(next.fencing_token() > guard.fencing_token());
    assert!(reader.fencing_token() > writer.fencing_token());
    assert!(permit.fencing_token() > permits.fencing_token());
    for state in [guard.state(), permits.state(), writer.state()] {
        assert!(matches!(state, Holding::Lost(_)), "{state:?}");
    }
}

#[tokio::test]
async fn nodes_and_parents_have_the_requested_acl() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let world = |perms| Acl { perms, ..Acl::OPEN };
    let (node, parent) = (Perms::READ, Perms::READ | Perms::CREATE | Perms::DELETE);
    let options = Options::new().acl(&[world(node)]).parent_acl(&[world(parent)]);
    let lock = Mutex::with(&client, LOCK, options.clone()).expect("a valid path");
    let guard = lock.acquire().await.expect("free");
    let perms = |path: &str| {
        embedded.with(|ensemble| {
            let grants = ensemble.node(path).expect("the node exists").acl();
            grants.iter().map(|grant| grant.perms).collect::<Vec<_>>()
        })
    };
    assert_eq!(perms(&guard.node_path()), [node]);
    assert_eq!((perms("/locks"), perms(LOCK)), (vec![parent], vec![parent]));
    guard.release().await.expect("released");
    let permits = Semaphore::with(&client, "/some/permits", None, options).expect("a valid path");
    permits.set_permits(3).await.expect("a new node");
    for path in ["/some", "/some/permits", "/some/permits/max"] {
        assert_eq!(perms(path), [parent], "{path}");
    }
    let is_container =
        |path| embedded.with(|all| all.node(path).is_some_and(|it| it.is_container()));
    assert!(is_container("/some") && is_container("/some/permits"));
}

#[tokio::test]
async fn unused_lock_paths_are_deleted() {
    let quick = Config { container_check: Duration::from_millis(10), ..Config::servers(1) };
    let embedded = Embedded::with_config(quick).await.expect("loopback");
    let client = client(&embedded).await;
    client.create("/locks", b"", NodeKind::Persistent).await.expect("created");
    let lock = Mutex::new(&client, "/locks/some/where").expect("a valid path");
    let attempts: Vec<_> = (0..10).map(|_| tokio::spawn(lock.acquire())).collect();
    for attempt in attempts {
        let guard = attempt.await.expect("no panic").expect("acquired");
        guard.release().await.expect("released");
    }
    let is_there = |embedded: &Embedded, path| embedded.with(|all| all.node(path).is_some());
    eventually(&embedded, "both lock paths are gone", |embedded| {
        !is_there(embedded, "/locks/some")
    })
    .await;
    assert!(is_there(&embedded, "/locks"), "the parent existed, and is no container");
    // The next contender creates them again.
    lock.acquire().await.expect("free").release().await.expect("released");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_writers_are_alone_and_readers_overlap() {
    const WRITER: i32 = 1000;
    let embedded = Embedded::start(3).await.expect("loopback");
    let (inside, most) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
    let mut contenders = tokio::task::JoinSet::new();
    for place in 0..6 {
        let lock = RwLock::new(&client(&embedded).await, LOCK).expect("a valid path");
        let (inside, most) = (inside.clone(), most.clone());
        contenders.spawn(async move {
            for round in 0..12 {
                if (place + round) % 4 == 0 {
                    let guard = lock.write().await.expect("acquired");
                    assert_eq!(inside.fetch_add(WRITER, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    assert_eq!(inside.fetch_sub(WRITER, Ordering::SeqCst), WRITER);
                    guard.release().await.expect("released");
                } else {
                    let guard = lock.read().await.expect("acquired");
                    let readers = inside.fetch_add(1, Ordering::SeqCst) + 1;
                    assert!(readers < WRITER, "a writer is inside");
                    most.fetch_max(readers, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                    inside.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await.expect("released");
                }
            }
        });
    }
    contenders.join_all().await;
    assert!(most.load(Ordering::SeqCst) > 1, "no two readers at once");
    eventually(&embedded, "no node and no watch", |embedded| {
        lock_nodes(embedded).is_empty() && watches(embedded) == 0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_all_permits_are_held_and_never_more() {
    const PERMITS: u32 = 3;
    let embedded = Embedded::start(3).await.expect("loopback");
    let (out, most) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
    let mut contenders = tokio::task::JoinSet::new();
    for place in 0..6 {
        let semaphore = semaphore(&client(&embedded).await, PERMITS);
        let (out, most) = (out.clone(), most.clone());
        contenders.spawn(async move {
            for round in 0..8 {
                let count = 1 + (place + round) % 2;
                let permits = semaphore.acquire_many(count).await.expect("acquired");
                let count = i32::try_from(count).expect("one or two");
                let now_out = out.fetch_add(count, Ordering::SeqCst) + count;
                most.fetch_max(now_out, Ordering::SeqCst);
                let all_were_out = async {
                    while most.load(Ordering::SeqCst) < PERMITS as i32 {
                        tokio::task::yield_now().await;
                    }
                };
                // Times out if the next in line wants two permits and one is left.
                let _ = timeout(A_WHILE, all_were_out).await;
                out.fetch_sub(count, Ordering::SeqCst);
                permits.release().await.expect("released");
            }
        });
    }
    contenders.join_all().await;
    assert_eq!(most.load(Ordering::SeqCst), PERMITS as i32);
    eventually(&embedded, "no watch", |embedded| watches(embedded) == 0).await;
}
