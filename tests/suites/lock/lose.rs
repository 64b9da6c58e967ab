//! Loss of the lock: its holder and its waiters must notice.

use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::time::Duration;

use zk_recipes::session::blocking;
use zk_recipes::{Barrier, Holding, LeaderElection, Leadership, LockError, Loss, Mutex, RwLock};
use zk_session::{Client, End, State};
use zk_testkit::paced::PacedConnect;
use zk_testkit::serve::Embedded;
use zk_testkit::server::{Config, Ensemble};

use super::{HANG_TIMEOUT, LOCK, SESSION_TIMEOUT, client, eventually, lock_nodes, watches};

/// Waits until both watches are set: the second in line watches the holder's node and its own. The
/// holder may watch its own node, too.
async fn both_watches(embedded: &Embedded, waiter: &Client) {
    let watched_by = |session| {
        move |ensemble: &Ensemble| ensemble.watched().iter().filter(|one| one.0 == session).count()
    };
    let count = watched_by(waiter.session_id());
    eventually(embedded, "both watches are set", |embedded| embedded.with(count) == 2).await;
}

#[tokio::test]
async fn a_holder_whose_session_expires_loses_the_lock_to_the_next() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    both_watches(&embedded, &waiter).await;
    assert!(embedded.expire_session(holder.session_id()));
    let next = waiting.await.expect("no panic").expect("acquired");
    assert!(next.fencing_token() > guard.fencing_token());
    // A server sends the events of the session's nodes before it closes the connection.
    let loss = guard.lost().await;
    assert!(matches!(loss, Loss::NodeDeleted | Loss::Ended(End::Expired)), "{loss:?}");
    assert_eq!(guard.state(), Holding::Lost(loss));
    assert_eq!(guard.release().await.map_err(LockError::from), Err(LockError::Lost(loss)));
    assert_eq!(holder.ended().await, End::Expired);
    assert_eq!(next.state(), Holding::Held);
}

#[tokio::test]
async fn a_holder_whose_node_is_deleted_loses_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    vandal.delete(&lock_nodes(&embedded)[0], None).await.expect("the node exists");
    let lost = tokio::time::timeout(HANG_TIMEOUT, guard.lost()).await;
    assert_eq!(lost, Ok(Loss::NodeDeleted));
    assert_eq!(
        guard.release().await.map_err(LockError::from),
        Err(LockError::Lost(Loss::NodeDeleted))
    );
    assert!(matches!(holder.state(), State::Connected { .. }), "the session is alive");
    assert_eq!(watches(&embedded), 0);
}

#[tokio::test]
async fn a_callback_of_an_async_guard_runs_on_loss_and_not_on_release() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::new(&holder, LOCK).expect("valid");
    let (sender, mut losses) = tokio::sync::mpsc::unbounded_channel();
    let released = mutex.acquire().await.expect("acquired");
    let lost = sender.clone();
    released.on_lost(move |loss| lost.send(loss).expect("a receiver"));
    released.release().await.expect("released");
    let guard = mutex.acquire().await.expect("acquired");
    guard.on_lost(move |loss| sender.send(loss).expect("a receiver"));
    vandal.delete(&guard.node_path(), None).await.expect("the node exists");
    assert_eq!(losses.recv().await, Some(Loss::NodeDeleted));
    assert_eq!(losses.recv().await, None, "each callback runs at most once");
    assert!(guard.is_lost());
}

/// In this runtime of one thread, a task that blocks stops the session.
#[tokio::test]
async fn a_callback_that_blocks_stops_neither_the_session_nor_other_locks() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let lock = |path| Mutex::new(&holder, path).expect("valid").acquire();
    let (first, second) = (lock(LOCK).await.expect("free"), lock("/second").await.expect("free"));
    let (sender, mut losses) = tokio::sync::mpsc::unbounded_channel();
    let (go_on, blocks) = std::sync::mpsc::channel::<()>();
    let lost = sender.clone();
    first.on_lost(move |_| {
        lost.send("begun").expect("a receiver");
        blocks.recv_timeout(SESSION_TIMEOUT).expect("the session goes on meanwhile");
        tokio::spawn(async move { lost.send("ended") });
    });
    second.on_lost(move |_| sender.send("second").expect("a receiver"));
    vandal.delete(&first.node_path(), None).await.expect("the node exists");
    assert_eq!(losses.recv().await, Some("begun"));
    second.validate().await.expect("held");
    vandal.delete(&second.node_path(), None).await.expect("the node exists");
    assert_eq!(losses.recv().await, Some("second"));
    go_on.send(()).expect("it waits");
    assert_eq!(losses.recv().await, Some("ended"), "in the context of the runtime");
}

#[tokio::test]
async fn a_guard_prints_its_node_its_token_and_its_state() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let guard = Mutex::new(&client, LOCK).expect("valid").acquire().await.expect("acquired");
    let printed = |state: &str| {
        let (node, token) = (guard.node_path(), guard.fencing_token().0);
        format!("Guard {{ node: {node:?}, token: {token}, state: {state}, .. }}")
    };
    assert_eq!(format!("{guard:?}"), printed("Held"));
    assert!(embedded.expire_session(client.session_id()));
    let loss = guard.lost().await;
    assert_eq!(format!("{guard:?}"), printed(&format!("Lost({loss:?})")));
}

#[tokio::test]
async fn a_waiter_whose_node_is_deleted_does_not_get_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter, vandal) =
        (client(&embedded).await, client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    both_watches(&embedded, &waiter).await;
    let nodes = lock_nodes(&embedded);
    let waiters = nodes.iter().find(|path| !path.ends_with(guard.node())).expect("two nodes");
    vandal.delete(waiters, None).await.expect("the node exists");
    assert!(matches!(
        waiting.await.expect("no panic").map_err(LockError::from),
        Err(LockError::NodeVanished)
    ));
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_waiter_whose_session_expires_fails() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    both_watches(&embedded, &waiter).await;
    assert!(embedded.expire_session(waiter.session_id()));
    // A server sends the events of the session's nodes before it closes the connection.
    let outcome = waiting.await.expect("no panic");
    assert!(matches!(
        outcome.map_err(LockError::from),
        Err(LockError::NodeVanished | LockError::Ended(End::Expired))
    ));
    assert_eq!(waiter.ended().await, End::Expired);
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_lost_connection_suspends_a_lock_and_does_not_lose_it() {
    const SERVERS: usize = 3;
    let embedded = Embedded::start(SERVERS).await.expect("loopback");
    let holder = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    // All servers: with one left, the connection could be back too early.
    (0..SERVERS).for_each(|server| embedded.kill(server));
    eventually(&embedded, "suspended", |_| guard.state() == Holding::Suspended).await;
    for server in 0..SERVERS {
        embedded.restart(server).await.expect("the port is still free");
    }
    eventually(&embedded, "resumed", |_| guard.state() == Holding::Held).await;
    assert!(guard.lease().is_some_and(|lease| lease > std::time::Instant::now()));
    guard.release().await.expect("released");
}

#[tokio::test]
async fn a_lock_lost_with_its_session_has_no_lease_of_the_next_one() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let service = Client::builder(&embedded.connect_string()).renew(true).connect().await;
    let service = service.expect("connected");
    let guard = Mutex::new(&service, LOCK).expect("valid").acquire().await.expect("acquired");
    let first = service.session_id();
    assert!(embedded.expire_session(first));
    guard.lost().await;
    eventually(&embedded, "renewed", |_| {
        service.session_id() != first && service.lease().is_some()
    })
    .await;
    assert_eq!(guard.lease(), None);
}

#[tokio::test]
async fn an_attempt_on_a_closed_session_fails_at_once() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    client.close().await;
    assert!(matches!(
        mutex.acquire().await.map_err(LockError::from),
        Err(LockError::Ended(End::Closed))
    ));
}

/// Starts a server, and a client with a session timeout of three seconds, whose watches are renewed
/// after nine to fifteen.
async fn with_short_sessions() -> (Embedded, Client) {
    let config = Config::servers(1).with_tick(Duration::from_secs(1));
    let embedded = Embedded::with_config(config).await.expect("loopback");
    let builder = Client::builder(&embedded.connect_string());
    let client = builder.session_timeout(Duration::from_secs(3)).connect().await;
    (embedded, client.expect("connected"))
}

/// Makes the server lose the next events for this client.
fn swallow_events(embedded: &Embedded, client: &Client) {
    let session = client.session_id();
    embedded.command(|ensemble, _| ensemble.swallow_events(session, "/", u64::MAX));
}

#[tokio::test]
async fn a_waiter_whose_event_the_server_loses_still_acquires() {
    let (embedded, waiter) = with_short_sessions().await;
    let holder = client(&embedded).await;
    let lock = RwLock::new(&holder, LOCK).expect("valid").write().await.expect("free");
    let barrier = Barrier::new(&holder, "/barrier").expect("valid");
    barrier.close().await.expect("closed");
    let read = tokio::spawn(RwLock::new(&waiter, LOCK).expect("valid").read());
    let open = tokio::spawn(Barrier::new(&waiter, "/barrier").expect("valid").wait());
    let session = waiter.session_id();
    eventually(&embedded, "two waiters", |embedded| {
        embedded.with(|it| it.watched().iter().filter(|(of, _)| *of == session).count() == 2)
    })
    .await;
    swallow_events(&embedded, &waiter);
    lock.release().await.expect("released");
    barrier.open().await.expect("opened");
    let guard = read.await.expect("no panic").expect("acquired");
    assert_eq!(guard.state(), Holding::Held);
    open.await.expect("no panic").expect("open");
}

#[tokio::test]
async fn a_holder_whose_event_the_server_loses_still_notices_its_loss() {
    let (embedded, holder) = with_short_sessions().await;
    let vandal = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    eventually(&embedded, "the holder watches its node", |embedded| watches(embedded) == 1).await;
    swallow_events(&embedded, &holder);
    vandal.delete(&guard.node_path(), None).await.expect("the node exists");
    assert_eq!(guard.lost().await, Loss::NodeDeleted);
}

#[tokio::test]
async fn a_waiter_deleted_together_with_its_predecessor_does_not_get_the_lock() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let vandal = client(&embedded).await;
    for _ in 0..50 {
        let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
        let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
        both_watches(&embedded, &waiter).await;
        let nodes = lock_nodes(&embedded);
        let own = nodes.iter().find(|node| **node != guard.node_path()).expect("a waiter");
        // The predecessor first, so that its event is sent first.
        let both = vandal.transaction().delete(&guard.node_path(), None).delete(own, None);
        both.commit().await.expect("the nodes exist");
        let failed = waiting.await.expect("no panic").map(drop);
        assert_eq!(failed.map_err(LockError::from), Err(LockError::NodeVanished));
        drop(guard);
    }
}

/// In either order. The time between the events does not depend on the speed of the machine.
#[tokio::test]
async fn a_waiter_deleted_with_its_predecessor_fails_even_if_the_events_arrive_apart() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, vandal) = (client(&embedded).await, client(&embedded).await);
    let paced = PacedConnect::default();
    let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
    let waiter = builder.connect_with(paced.clone()).await.expect("connected");
    for own_first in [false, true] {
        let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
        let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
        both_watches(&embedded, &waiter).await;
        let (predecessor, nodes) = (guard.node_path(), lock_nodes(&embedded));
        let own = nodes.iter().find(|node| **node != predecessor).expect("a waiter").as_str();
        let order = if own_first { [own, &predecessor] } else { [&predecessor, own] };
        paced.hold_events(order.len());
        let both = order.into_iter().fold(vandal.transaction(), |all, node| all.delete(node, None));
        both.commit().await.expect("the nodes exist");
        let failed = waiting.await.expect("no panic").map(drop).map_err(LockError::from);
        assert_eq!(failed, Err(LockError::NodeVanished), "own node first: {own_first}");
    }
}

/// The loss that observers know already, without a word from the server.
async fn known<T>(lost: impl Future<Output = T>) -> Option<T> {
    let mut lost = pin!(lost);
    poll_fn(|cx| match lost.as_mut().poll(cx) {
        Poll::Ready(loss) => Poll::Ready(Some(loss)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn observers_learn_of_an_end_before_the_server_does() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("valid");
    let guard = mutex.acquire().await.expect("acquired");
    let lost = guard.lost();
    let releasing = guard.release();
    // The runtime has one thread, so nothing has been received since.
    assert_eq!(known(lost).await, Some(Loss::Released));
    releasing.await.expect("confirmed");

    let election = LeaderElection::new(&client, "/leader").expect("valid");
    let candidate = election.stand();
    let term = candidate.elected().await.expect("elected");
    let changed = candidate.changed(&Leadership::Leader(term));
    let resigning = candidate.close();
    assert_eq!(known(changed).await, Some(Leadership::Resigning));
    resigning.await.expect("confirmed");

    let guard = mutex.acquire().await.expect("acquired");
    let (lost, closed) = (guard.lost(), Loss::Ended(End::Closed));
    let mut closing = pin!(client.close());
    poll_fn(|cx| Poll::Ready(closing.as_mut().poll(cx).is_pending())).await;
    assert_eq!(guard.state(), Holding::Lost(closed));
    assert_eq!(known(lost).await, Some(closed));
    closing.await;
}

#[tokio::test]
async fn a_blocking_observer_learns_of_the_end_of_its_client_before_the_server_does() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let at = embedded.connect_string();
    let held = tokio::task::spawn_blocking(move || {
        let client = blocking::Client::connect(&at).expect("connected");
        let mutex = Mutex::new(&client, LOCK).expect("valid");
        (client, mutex.acquire().wait().expect("acquired"))
    });
    let (client, guard) = held.await.expect("no panic");
    // The server, whose lock this holds, cannot answer.
    let closing = embedded.with(|_| {
        let closing = std::thread::spawn(move || client.close());
        while !guard.is_lost() {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(!closing.is_finished());
        closing
    });
    let closed = tokio::task::spawn_blocking(move || closing.join().is_ok());
    assert!(closed.await.expect("no panic"));
}
