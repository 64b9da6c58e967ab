//! The guarantees of recipes, as scenarios that run on the embedded ensemble and on a real one.
//!
//! Each scenario panics when a guarantee is broken, or when nodes or watches are left at its end.

mod cache;
mod hand_over;

use core::time::Duration;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::time::{sleep, timeout};
use zk_recipes::machine::LockMode;
use zk_recipes::{
    Barrier, DoubleBarrier, Ephemeral, Holding, LeaderElection, Leadership, LockError, LockRequest,
    Loss, ModeError, MultiLock, Mutex, Options, Owner, Reason, RecipeError, ReentrantMutex, RwLock,
    Semaphore,
};
use zk_session::proto::{Acl, ErrorCode, Id, NodeKind, Perms, SessionId, Zxid};
use zk_session::session::SessionTicket;
use zk_session::{Client, End, Error, Outcome, RequestError, WatchUpdate};

pub use self::cache::{
    Version, a_blocking_cache_follows_a_tree_across_sessions,
    a_cache_below_a_chroot_ends_at_its_limits, a_cache_follows_a_tree, cached, tree,
};
pub use self::hand_over::attempts_of_one_client_take_turns_with_one_node;
use crate::suite::{
    Fixture, HANG_TIMEOUT, SESSION_TIMEOUT, begun, client, ephemerals, eventually, nothing_is_left,
    waits_until,
};

/// Passes the names of the scenarios that servers since 3.5 can play to a macro.
#[macro_export]
macro_rules! scenarios_since_3_5 {
    ($play:ident) => {
        $play! {
            many_or_unreadable_contenders_are_listed,
            a_contender_waits_in_a_queue_that_is_longer_than_a_reply,
            a_downgrade_admits_readers_and_keeps_writers_waiting,
            two_readers_that_upgrade_do_not_deadlock,
            a_holder_receives_a_request_to_release,
            no_more_permits_are_held_than_exist,
            several_locks_are_acquired_and_released_together,
            permits_are_acquired_together_with_locks,
            candidates_lead_one_after_another,
            a_leader_that_loses_its_node_queues_again,
            an_owner_releases_as_often_as_it_has_acquired,
            attempts_of_one_client_take_turns_with_one_node,
            attempts_that_wait_queue_again_on_the_next_session,
            no_client_passes_a_closed_barrier,
            a_double_barrier_can_be_used_again,
            a_cache_follows_a_tree,
            a_cache_below_a_chroot_ends_at_its_limits,
        }
    };
}

/// The time to wait before concluding that something does not happen.
const MOMENT: Duration = Duration::from_millis(50);

/// Returns the number of ephemeral nodes below a path that ends with a slash.
fn queued_below(fixture: &impl Fixture, parent: &str) -> usize {
    fixture.ephemerals().iter().filter(|path| path.starts_with(parent)).count()
}

async fn waits<T>(future: &mut Pin<Box<impl Future<Output = T>>>) -> bool {
    timeout(MOMENT, future).await.is_err()
}

// ---- Contenders ---------------------------------------------------------------------------------

/// Lists all contenders, one of them unreadable, with more requests than a session's queue takes.
pub async fn many_or_unreadable_contenders_are_listed(fixture: &impl Fixture) {
    const PATH: &str = "/locks/listed";
    const CONTENDERS: usize = 40;
    let (holder, other) = (client(fixture).await, client(fixture).await);
    let mutex = |data: &'static str| {
        Mutex::with(&holder, PATH, Options::new().data(data)).expect("a valid path")
    };
    let guard = mutex("first").acquire().await.expect("free");
    let waiting: Vec<_> = (2..CONTENDERS).map(|_| begun(mutex("next").acquire())).collect();
    let are_queued = |fixture: &_, count: usize| ephemerals(fixture).len() == count;
    eventually(fixture, "the others are queued", |fixture| are_queued(fixture, CONTENDERS - 1))
        .await;
    // The last one: a contender behind it could not watch it, and would fail.
    let unreadable =
        Options::new().data("secret").acl(&[Acl { perms: Perms::DELETE, id: Id::ANYONE }]);
    let last = begun(Mutex::with(&other, PATH, unreadable).expect("a valid path").acquire());
    eventually(fixture, "all are queued", |fixture| are_queued(fixture, CONTENDERS)).await;

    let at = fixture.connect_string();
    let narrow = Client::builder(&at).max_pending(8).connect().await.expect("connected");
    let list = Mutex::new(&narrow, PATH).expect("a valid path").contenders().await.expect("listed");
    assert_eq!(list.len(), CONTENDERS);
    let data: Vec<_> = list.iter().map(|one| one.data.as_deref()).collect();
    assert_eq!((data[0], data[1]), (Some(&b"first"[..]), Some(&b"next"[..])));
    let is_unreadable = |data: &Option<&[u8]>| data.is_none();
    assert_eq!(data.iter().position(is_unreadable), Some(CONTENDERS - 1));
    let secret = &list[CONTENDERS - 1];
    assert!(!secret.is_holder());
    if fixture.version().checks_exists() {
        assert_eq!((secret.session, secret.token), (SessionId::NONE, Zxid::ZERO));
    } else {
        assert_eq!(secret.session, other.session_id());
        assert!(secret.token > list[0].token);
    }
    drop((guard, waiting, last));
    nothing_is_left(fixture).await;
}

/// A contender reads the list of the queue in pieces, since the client accepts no reply so long.
pub async fn a_contender_waits_in_a_queue_that_is_longer_than_a_reply(fixture: &impl Fixture) {
    const PATH: &str = "/locks/long";
    const MAX_REPLY: usize = 1024;
    const OTHERS: usize = 100;
    let at = fixture.connect_string();
    let narrow = Client::builder(&at).max_reply(MAX_REPLY).connect().await.expect("connected");
    let wide = client(fixture).await;
    let mutex = |client: &Client| Mutex::new(client, PATH).expect("a valid path");
    let all_are_queued = async |count: usize| {
        let are_queued = |fixture: &_| ephemerals(fixture).len() == count;
        eventually(fixture, "all are queued", are_queued).await;
    };
    let first = mutex(&wide).acquire().await.expect("free");
    let second = begun(mutex(&wide).acquire());
    all_are_queued(2).await;
    let third = tokio::spawn(mutex(&narrow).acquire());
    all_are_queued(3).await;
    let others: Vec<_> = (0..OTHERS).map(|_| begun(mutex(&wide).acquire())).collect();
    all_are_queued(3 + OTHERS).await;
    first.release().await.expect("held");
    second.await.expect("acquired").release().await.expect("held");
    let third = third.await.expect("no panic").expect("acquired");
    // Its node is the first of the list.
    let fourth = tokio::spawn(mutex(&narrow).acquire());
    all_are_queued(2 + OTHERS).await;
    third.release().await.expect("held");
    for other in others {
        other.await.expect("acquired").release().await.expect("held");
    }
    fourth.await.expect("no panic").expect("acquired").release().await.expect("held");
    assert_eq!(narrow.statistics().connections, 1);
    nothing_is_left(fixture).await;
}

/// A list that is too long sets a watch, which the client removes. A node is found by its session
/// alone.
pub async fn the_watch_of_a_list_that_is_too_long_is_removed(fixture: &impl Fixture) {
    let at = fixture.connect_string();
    let narrow = Client::builder(&at).max_reply(600).connect().await.expect("connected");
    let other = client(fixture).await;
    narrow.ensure_path("/long").await.expect("made");
    for number in 0..12 {
        let path = format!("/long/{number}-{}", "x".repeat(50));
        narrow.create(&path, b"", NodeKind::Ephemeral).await.expect("new");
        let path = format!("/long/other-{number}");
        other.create(&path, b"", NodeKind::Ephemeral).await.expect("new");
    }
    let listed = narrow.get_children_and_watch("/long").await;
    let is_too_long =
        |error: &RequestError| matches!(error.reason, Error::ReplyTooLarge { limit: 600, .. });
    assert!(listed.as_ref().is_err_and(is_too_long), "{listed:?}");
    let all = narrow.get_ephemerals("/").await;
    assert!(all.as_ref().is_err_and(is_too_long), "{all:?}");
    // The prefix of a path is enough.
    let own = narrow.get_ephemerals("/long/3-").await.expect("listed");
    assert_eq!(own, [format!("/long/3-{}", "x".repeat(50))]);
    eventually(fixture, "no watch", |fixture| fixture.watches() == 0).await;
    assert_eq!(narrow.statistics().connections, 1);
    narrow.close().await;
    other.close().await;
    nothing_is_left(fixture).await;
}

// ---- Readers and writers -------------------------------------------------------------------------

fn rw_lock(client: &Client) -> RwLock {
    RwLock::new(client, "/locks/rw").expect("a valid path")
}

/// A writer downgrades: readers acquire the lock, and writers keep waiting.
pub async fn a_downgrade_admits_readers_and_keeps_writers_waiting(fixture: &impl Fixture) {
    let (one, other) = (client(fixture).await, client(fixture).await);
    let (here, there) = (rw_lock(&one), rw_lock(&other));
    let writer = here.write().await.expect("free");
    let (token, mut read, mut written) =
        (writer.fencing_token(), Box::pin(there.read()), Box::pin(there.write()));
    let all_stand = |fixture: &_| queued_below(fixture, "/locks/rw/") == 3;
    let both = Box::pin(async { tokio::join!(&mut read, &mut written) });
    waits_until(fixture, both, "a writer holds the lock", all_stand).await;

    let downgraded = writer.downgrade().await.expect("one transaction");
    assert_eq!(downgraded.fencing_token(), token);
    downgraded.validate().await.expect("the lock is held");
    let second = read.await.expect("let in");
    assert!(waits(&mut written).await, "readers hold the lock");
    let list = here.contenders().await.expect("listed");
    let modes: Vec<_> = list.iter().map(|one| (one.mode, one.is_holder())).collect();
    let reader = (LockMode::Shared, true);
    assert_eq!(modes, [reader, reader, (LockMode::Exclusive, false)]);

    downgraded.release().await.expect("released");
    second.release().await.expect("released");
    let last = written.await.expect("acquired");
    assert!(last.fencing_token() > token);
    last.release().await.expect("released");
    nothing_is_left(fixture).await;
}

/// A single reader can upgrade; two readers cannot.
pub async fn two_readers_that_upgrade_do_not_deadlock(fixture: &impl Fixture) {
    let (one, other) = (client(fixture).await, client(fixture).await);
    let (here, there) = (rw_lock(&one), rw_lock(&other));
    let first = here.read().await.expect("free");
    let second = there.read().await.expect("shared");
    let (up, down) = tokio::join!(first.try_upgrade(), second.try_upgrade());
    let (up, down) = (up.expect_err("not alone"), down.expect_err("not alone"));
    assert_eq!(
        (&up.error.reason, &down.error.reason),
        (&ModeError::NotAlone, &ModeError::NotAlone)
    );
    assert!(up.to_string().ends_with(&up.error.to_string()), "{up}");
    let (first, second) = (up.into_guard(), down.into_guard());

    second.release().await.expect("released");
    let token = first.fencing_token();
    let writer = first.try_upgrade().await.expect("alone");
    assert!(writer.fencing_token() > token);
    writer.validate().await.expect("the lock is held");
    let mut late = Box::pin(there.read());
    assert!(waits(&mut late).await, "a writer holds the lock");
    let reader = writer.downgrade().await.expect("one transaction");
    late.await.expect("let in").release().await.expect("released");
    reader.release().await.expect("released");
    nothing_is_left(fixture).await;
}

// ---- Revocation ----------------------------------------------------------------------------------

/// A revocable holder receives a request to release, and may ignore it.
pub async fn a_holder_receives_a_request_to_release(fixture: &impl Fixture) {
    let (one, other) = (client(fixture).await, client(fixture).await);
    let mutex = |client, options| Mutex::with(client, "/locks/mutex", options).expect("valid");
    let guard = mutex(&one, Options::new().revocable()).acquire().await.expect("free");
    assert!(timeout(MOMENT, guard.revoked()).await.is_err(), "no request");
    mutex(&other, Options::new()).revoke(guard.node()).await.expect("asked");
    timeout(HANG_TIMEOUT, guard.revoked()).await.expect("requested");
    assert_eq!(guard.state(), Holding::Held, "still held");
    let node = guard.node().to_owned();
    guard.release().await.expect("released");
    let gone = mutex(&other, Options::new()).revoke(&node).await;
    let gone = gone.expect_err("released");
    assert_eq!((gone.operation, &*gone.path), ("revoke", &*format!("/locks/mutex/{node}")));
    assert_eq!(gone.reason, LockError::Request(Error::Server(ErrorCode::NO_NODE)));
    nothing_is_left(fixture).await;
}

// ---- Permits -------------------------------------------------------------------------------------

/// Of three permits, two sessions hold them, and a further request waits.
pub async fn no_more_permits_are_held_than_exist(fixture: &impl Fixture) {
    let (one, other) = (client(fixture).await, client(fixture).await);
    let semaphore = |client| Semaphore::new(client, "/semaphore", 3).expect("a valid path");
    let (here, there) = (semaphore(&one), semaphore(&other));
    let first = here.acquire().await.expect("free");
    let second = there.acquire_many(2).await.expect("free");
    let mut third = Box::pin(here.acquire());
    let next_in_line = |fixture: &_| {
        let counts = ["/semaphore/locks/", "/semaphore/leases/"];
        counts.map(|parent| queued_below(fixture, parent)) == [1, 4]
    };
    waits_until(fixture, &mut third, "all permits are held", next_in_line).await;
    assert_eq!(
        here.leases().await.expect("listed").len(),
        4,
        "three permit nodes, and that of the next contender"
    );
    assert_eq!(here.waiting().await.expect("listed").len(), 1);
    second.release().await.expect("held");
    let third = third.await.expect("free again");
    assert!(third.fencing_token() > first.fencing_token());
    assert_eq!(here.leases().await.expect("listed").len(), 2);
    third.release().await.expect("held");
    drop(first);
    nothing_is_left(fixture).await;
    eventually(fixture, "no cleanup", |_| here.pending_cleanups() == 0).await;
}

// ---- Several locks -------------------------------------------------------------------------------

/// Acquires three locks together, whatever their order in the list.
pub async fn several_locks_are_acquired_and_released_together(fixture: &impl Fixture) {
    let (ours, other) = (client(fixture).await, client(fixture).await);
    let mutex = |client, path| Mutex::new(client, path).expect("a valid path");
    let parts = ["/c", "/a", "/b"].map(|path| LockRequest::from(&mutex(&ours, path)));
    let guard = MultiLock::new(parts).expect("compatible locks").acquire().await.expect("acquired");
    let paths: Vec<_> = guard.locks().iter().map(|held| held.lock_path().to_owned()).collect();
    assert_eq!(paths, ["/a", "/b", "/c"]);
    let tokens: Vec<_> = guard.locks().iter().map(|held| held.fencing_token()).collect();
    assert!(tokens.is_sorted(), "acquired one after another: {tokens:?}");
    assert_eq!(guard.lock("/b").expect("one of them").fencing_token(), tokens[1]);
    assert_eq!((guard.state(), guard.validate().await), (Holding::Held, Ok(())));
    for path in ["/a", "/b", "/c"] {
        let busy = mutex(&other, path).try_acquire().await.expect_err("held by another");
        assert_eq!(busy.reason, LockError::Busy);
    }
    guard.release().await.expect("released");
    nothing_is_left(fixture).await;
}

/// Acquires permits and a lock together. A guarded transaction checks all of them.
pub async fn permits_are_acquired_together_with_locks(fixture: &impl Fixture) {
    let (ours, other) = (client(fixture).await, client(fixture).await);
    ours.create("/data", b"", NodeKind::Persistent).await.expect("created");
    let semaphore = |client| Semaphore::new(client, "/s", 3).expect("a valid path");
    let permits = |permits| LockRequest::permits(&semaphore(&ours), permits);
    let mutex = Mutex::new(&ours, "/t").expect("a valid path");
    let both = MultiLock::new([permits(1), LockRequest::from(&mutex), permits(1)])
        .expect("compatible locks");
    let guard = both.acquire().await.expect("acquired");
    let first = guard.lock("/s").expect("one of them");
    assert_eq!(first.lock_path(), "/s/leases");
    assert_eq!(
        semaphore(&other).leases().await.expect("listed").len(),
        2,
        "each was released once"
    );
    let busy = semaphore(&other).try_acquire_many(2).await.expect_err("one remains");
    assert_eq!(busy.reason, LockError::Busy.into());
    // The transaction checks both permit nodes and the lock node.
    let write = || guard.transaction().set_data("/data", b"1", None).commit();
    assert_eq!(write().await.expect("applied").len(), 4);
    let mut leases = semaphore(&other).leases().await.expect("listed").into_iter();
    let second = leases.find(|lease| lease.node != first.node()).expect("two permit nodes");
    other.delete(&format!("/s/leases/{}", second.node), None).await.expect("deleted");
    let refused = write().await.expect_err("refused");
    // A holder that notices the loss of one permit returns the other.
    let is_lease =
        matches!(refused.reason, Error::Transaction { index: 0 | 1, code: ErrorCode::NO_NODE });
    assert!(is_lease, "{refused:?}");
    drop(guard);
    nothing_is_left(fixture).await;
}

// ---- The election --------------------------------------------------------------------------------

const ELECTION: &str = "/election";

fn election(client: &Client, name: &'static str) -> LeaderElection {
    LeaderElection::with(client, ELECTION, Options::new().data(name)).expect("a valid path")
}

async fn names(election: &LeaderElection) -> Vec<String> {
    let participants = election.participants().await.expect("listed").into_iter();
    participants
        .map(|one| String::from_utf8_lossy(one.data.as_deref().expect("readable")).into_owned())
        .collect()
}

async fn in_line(fixture: &impl Fixture, count: usize) {
    eventually(fixture, "all are candidates", |fixture| fixture.ephemerals().len() == count).await;
}

/// One candidate leads, and the next one follows.
pub async fn candidates_lead_one_after_another(fixture: &impl Fixture) {
    let (one, two) = (client(fixture).await, client(fixture).await);
    let (first, second) = (election(&one, "one"), election(&two, "two"));
    assert_eq!(first.leader().await, Ok(None));
    let leader = first.stand();
    let term = leader.elected().await.expect("no other candidate");
    assert_eq!(leader.leadership(), Leadership::Leader(term.clone()));
    let follower = second.stand();
    in_line(fixture, 2).await;
    assert_eq!(follower.leadership(), Leadership::Follower);
    assert!(follower.transaction().is_none());
    assert_eq!(names(&second).await, ["one", "two"]);
    let listed = second.leader().await.expect("listed").expect("a leader");
    assert_eq!((listed.token, listed.data.as_deref()), (term.token, Some(&b"one"[..])));
    assert_eq!(term.node, format!("{ELECTION}/{}", listed.node));
    leader.close().await.expect("closed");
    assert!(follower.elected().await.expect("a leader").token > term.token);
    assert_eq!(names(&first).await, ["two"]);
    drop(follower);
    nothing_is_left(fixture).await;
}

/// The leader's node is deleted: its writes are refused, and it queues again at the end.
pub async fn a_leader_that_loses_its_node_queues_again(fixture: &impl Fixture) {
    let (one, two) = (client(fixture).await, client(fixture).await);
    one.create("/data", b"", NodeKind::Persistent).await.expect("created");
    let first = election(&one, "one").stand();
    let term = first.elected().await.expect("elected");
    let second = election(&two, "two").stand();
    eventually(fixture, "all watches are set", |fixture| fixture.watches() == 3).await;
    let applied = first.transaction().expect("a leader").set_data("/data", b"1", None).commit();
    assert_eq!(applied.await.expect("applied").len(), 2);
    // A transaction that the leader began before the loss is refused.
    let late = first.transaction().expect("a leader").set_data("/data", b"2", None);
    two.delete(&term.node, None).await.expect("deleted");
    let refused = Error::Transaction { index: 0, code: ErrorCode::NO_NODE };
    assert_eq!(late.commit().await.expect_err("refused").reason, refused);
    let mut state = first.leadership();
    while state != Leadership::Follower {
        state = first.changed(&state).timeout(HANG_TIMEOUT).await.expect("in time");
    }
    let next = second.elected().await.expect("elected");
    assert!(next.token > term.token);
    in_line(fixture, 2).await;
    assert_eq!(names(&election(&one, "")).await, ["two", "one"]);
    second.close().await.expect("closed");
    assert!(first.elected().await.expect("elected again").token > next.token);
    first.close().await.expect("closed");
    nothing_is_left(fixture).await;
}

// ---- Again and again -----------------------------------------------------------------------------

/// An owner acquires the lock on five levels; others acquire it after the last release.
pub async fn an_owner_releases_as_often_as_it_has_acquired(fixture: &impl Fixture) {
    const LOCK: &str = "/locks/reentrant";
    let (ours, other) = (client(fixture).await, client(fixture).await);
    let mutex = ReentrantMutex::new(&ours, LOCK).expect("a valid path");
    let owner = Owner::unique();
    let mut guards = Vec::new();
    for _ in 0..5 {
        guards.push(mutex.acquire_as(owner).await.expect("acquired"));
    }
    let token = guards[0].fencing_token();
    assert!(guards.iter().all(|guard| guard.fencing_token() == token));
    assert_eq!(fixture.ephemerals().len(), 1, "one process, one node");
    let waiting = tokio::spawn(Mutex::new(&other, LOCK).expect("valid").acquire());
    eventually(fixture, "a contender waits", |fixture| fixture.ephemerals().len() == 2).await;
    // The order of releases does not matter.
    while guards.len() > 1 {
        guards.remove(guards.len() / 2).release().await.expect("released");
        assert!(!waiting.is_finished() && fixture.ephemerals().len() == 2);
    }
    guards.remove(0).release().await.expect("released");
    let guard = waiting.await.expect("no panic").expect("acquired");
    assert!(guard.fencing_token() > token);
    guard.release().await.expect("released");
    nothing_is_left(fixture).await;
}

// ---- Expiry --------------------------------------------------------------------------------------

/// Ends the session of a client that renews it, as an expiry does: by closing it from elsewhere.
///
/// # Panics
///
/// If the client has no session.
pub async fn expire(fixture: &impl Fixture, ticket: impl Fn() -> Option<SessionTicket>) {
    let old = ticket().expect("a session");
    let is_old = || ticket().is_some_and(|now| now.id == old.id);
    // Both clients take the connection from each other, so it may need several attempts.
    while is_old() {
        let thief = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
        if let Ok(thief) = thief.resume(ticket().unwrap_or(old.clone())).connect().await {
            thief.close().await;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Ends the session of a client that renews it, as [`expire`] does.
///
/// # Panics
///
/// If the client has no session.
pub fn expire_blocking(fixture: &impl Fixture, ticket: impl Fn() -> Option<SessionTicket>) {
    use zk_session::blocking::Client;

    let old = ticket().expect("a session");
    while ticket().is_some_and(|now| now.id == old.id) {
        let thief = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
        if let Ok(thief) = thief.resume(ticket().unwrap_or(old.clone())).connect() {
            thief.close();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What a service has made before its session expires works on the next session, three times.
pub async fn a_service_survives_the_expiry_of_its_session(fixture: &impl Fixture) {
    const PRESENCE: &str = "/services/printer/one";
    let builder = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
    let service = builder.renew(true).connect().await.expect("connected");
    let other = client(fixture).await;
    let mutex = Mutex::new(&service, "/locks/renewed").expect("a valid path");
    let election = LeaderElection::new(&service, "/election/renewed").expect("a valid path");
    let candidate = election.stand();
    let here = Ephemeral::new(&service, PRESENCE, "10.0.0.7").expect("a valid path");
    other.ensure_path("/config").await.expect("created");
    let mut config = service.watch("/config").await.expect("watched");
    let mut last = None;
    for round in 0..3_u8 {
        let guard = mutex.acquire().await.expect("free");
        let term = candidate.elected().await.expect("the only one");
        let now = (guard.fencing_token(), term.token, here.created().await.expect("created"));
        assert!(
            last.is_none_or(|(a, b, c)| now.0 > a && now.1 > b && now.2 > c),
            "{last:?} {now:?}"
        );
        last = Some(now);
        let lost = Arc::new(AtomicUsize::new(0));
        let count = lost.clone();
        guard.on_lost(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let (_, once) = service.exists_and_watch("/missing").await.expect("watched");
        let before = service.session_id();

        expire(fixture, || service.session_ticket()).await;

        let loss = timeout(HANG_TIMEOUT, guard.lost()).await.expect("in time");
        assert!(matches!(loss, Loss::Ended(End::Expired) | Loss::NodeDeleted), "{loss:?}");
        let expired = Error::Ended { end: End::Expired, outcome: Outcome::NotApplied };
        assert_eq!(timeout(HANG_TIMEOUT, once).await.expect("in time"), Err(expired));
        timeout(HANG_TIMEOUT, service.ready()).await.expect("in time").expect("it goes on");
        // The first request of the new session.
        service.sync("/config").await.expect("it waits for the session");
        assert_ne!(service.session_id(), before);
        // There may be one gap more for each attempt to end the session.
        other.set_data("/config", &[round], None).await.expect("set");
        let mut gaps = 0;
        while let WatchUpdate::Gap = config.next().await.expect("it continues") {
            gaps += 1;
        }
        assert!(gaps > 0, "a gap comes before the first event");
        assert_eq!(lost.load(Ordering::SeqCst), 1, "the loss is reported once");
        assert!(matches!(guard.state(), Holding::Lost(_)), "no lock passes to the next session");
        guard.release().await.expect_err("it is lost");
    }
    assert!(service.statistics().renewals >= 3);
    // Somebody deletes the node, and it is created again.
    let before = here.created().await.expect("created");
    other.delete(PRESENCE, None).await.expect("deleted");
    let stat = async {
        loop {
            match other.exists(PRESENCE).await.expect("read") {
                Some(stat) if stat.czxid > before => break stat,
                _ => sleep(Duration::from_millis(1)).await,
            }
        }
    };
    let stat = timeout(HANG_TIMEOUT, stat).await.expect("in time");
    assert_eq!(stat.ephemeral_owner, service.session_id());
    here.close().await.expect("deleted");
    assert_eq!(other.exists(PRESENCE).await, Ok(None));
    candidate.close().await.expect("resigned");
    drop(config);
    nothing_is_left(fixture).await;
}

/// Attempts of every kind wait while their session expires, and acquire their locks on the next one.
/// Without renewal they fail.
pub async fn attempts_that_wait_queue_again_on_the_next_session(fixture: &impl Fixture) {
    type Attempt = Pin<Box<dyn Future<Output = Result<(), LockError>> + Send>>;

    fn done<T: Send + 'static>(
        acquiring: impl Future<Output = Result<T, RecipeError<impl Reason>>> + Send + 'static,
    ) -> Attempt {
        let of_lock = |error: RecipeError<_>| error.lock_error().expect("of every lock").clone();
        Box::pin(async move { acquiring.await.map(drop).map_err(of_lock) })
    }

    async fn waiting(fixture: &impl Fixture, service: &Client) -> Vec<Attempt> {
        let mutex = Mutex::new(service, "/again/mutex").expect("a valid path");
        let rw_lock = RwLock::new(service, "/again/rw").expect("a valid path");
        let semaphore = Semaphore::new(service, "/again/permits", 1).expect("a valid path");
        let reentrant = ReentrantMutex::new(service, "/again/mutex").expect("a valid path");
        let free = Mutex::new(service, "/again/free").expect("a valid path");
        let both = MultiLock::new([LockRequest::from(&free), LockRequest::read(&rw_lock)]);
        let attempts = vec![
            done(mutex.acquire()),
            done(mutex.acquire().timeout(HANG_TIMEOUT)),
            done(rw_lock.read()),
            done(rw_lock.write().timeout(HANG_TIMEOUT)),
            done(semaphore.acquire()),
            done(reentrant.acquire_as(Owner::unique())),
            done(both.expect("compatible locks").acquire()),
        ];
        let attempts = attempts
            .into_iter()
            .map(tokio::spawn)
            .map(|attempt| Box::pin(async { attempt.await.expect("no panic") }) as Attempt);
        let attempts = attempts.collect();
        // Three are held. The request for a permit has a node in the queue and one for the permit,
        // and the several locks have the free one.
        eventually(fixture, "all wait", |fixture| fixture.ephemerals().len() == 12).await;
        attempts
    }

    for renews in [true, false] {
        let builder = Client::builder(&fixture.connect_string()).session_timeout(SESSION_TIMEOUT);
        let service = builder.renew(renews).connect().await.expect("connected");
        let other = client(fixture).await;
        let mutex = Mutex::new(&other, "/again/mutex").expect("a valid path");
        let rw_lock = RwLock::new(&other, "/again/rw").expect("a valid path");
        let semaphore = Semaphore::new(&other, "/again/permits", 1).expect("a valid path");
        let held = (
            mutex.acquire().await.expect("free"),
            rw_lock.write().await.expect("free"),
            semaphore.acquire().await.expect("free"),
        );
        let attempts = waiting(fixture, &service).await;
        let again = Mutex::new(&service, "/again/mutex").expect("a valid path");
        // With one session, the time limit would hide how that ends.
        let limit = if renews { 5 * MOMENT } else { HANG_TIMEOUT };
        let impatient = tokio::spawn(again.acquire().timeout(limit));
        expire(fixture, || service.session_ticket()).await;
        let error = impatient.await.expect("no panic").map_err(LockError::from);
        let error = error.expect_err("the lock is held");
        drop(held);
        if renews {
            // The time limit counts from the call, over both sessions.
            assert!(matches!(error, LockError::TimedOut | LockError::NoConnection), "{error}");
        } else {
            assert!(matches!(error, LockError::Ended(_) | LockError::NodeVanished), "{error}");
        }
        for attempt in attempts {
            let acquired = timeout(HANG_TIMEOUT, attempt).await.expect("it ends");
            match acquired {
                Ok(()) if renews => {}
                Err(
                    LockError::Ended(End::Expired) | LockError::NodeVanished | LockError::Lost(_),
                ) if !renews => {}
                acquired => panic!("renewal {renews}: {acquired:?}"),
            }
        }
        assert_eq!(service.statistics().renewals > 0, renews);
        service.close().await;
        nothing_is_left(fixture).await;
    }
}

// ---- Barriers ------------------------------------------------------------------------------------

/// A barrier is closed, two clients wait for it, and it opens.
pub async fn no_client_passes_a_closed_barrier(fixture: &impl Fixture) {
    const PATH: &str = "/barriers/test";
    let (keeper, one, two) = (client(fixture).await, client(fixture).await, client(fixture).await);
    let barrier = |client| Barrier::new(client, PATH).expect("a valid path");
    barrier(&one).wait().await.expect("there is none");
    for _ in 0..2 {
        barrier(&keeper).close().await.expect("closed, and closed again");
    }
    assert_eq!(barrier(&one).is_closed().await, Ok(true));
    assert_eq!(
        barrier(&one).wait().timeout(MOMENT).await.map_err(LockError::from),
        Err(LockError::TimedOut)
    );
    let waiting = [&one, &two].map(|client| tokio::spawn(barrier(client).wait()));
    eventually(fixture, "two waiters", |fixture| fixture.watches() == 2).await;
    // A change of the barrier's data does not open it.
    keeper.set_data(PATH, b"still closed", None).await.expect("set");
    sleep(MOMENT).await;
    assert!(waiting.iter().all(|waiting| !waiting.is_finished()));
    for _ in 0..2 {
        barrier(&keeper).open().await.expect("opened, and opened again");
    }
    for waiting in waiting {
        waiting.await.expect("no panic").expect("passed");
    }
    assert_eq!(barrier(&one).is_closed().await, Ok(false));
    nothing_is_left(fixture).await;
}

/// Six participants pass a double barrier ten times.
pub async fn a_double_barrier_can_be_used_again(fixture: &impl Fixture) {
    const PARTICIPANTS: usize = 6;
    const ROUNDS: usize = 10;
    let (came, wants_out) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut participants = Vec::new();
    for _ in 0..PARTICIPANTS {
        let (client, came, wants_out) = (client(fixture).await, came.clone(), wants_out.clone());
        participants.push(tokio::spawn(async move {
            let barrier =
                DoubleBarrier::new(&client, "/barriers/double", PARTICIPANTS).expect("valid");
            for round in 1..=ROUNDS {
                came.fetch_add(1, Ordering::SeqCst);
                let inside = barrier.enter().await.expect("entered");
                assert!(came.load(Ordering::SeqCst) >= round * PARTICIPANTS, "entered");
                wants_out.fetch_add(1, Ordering::SeqCst);
                inside.leave().await.expect("left");
                assert!(wants_out.load(Ordering::SeqCst) >= round * PARTICIPANTS, "left");
            }
        }));
    }
    for participant in participants {
        let done = timeout(HANG_TIMEOUT, participant).await;
        done.expect("a participant waits for ever").expect("no panic");
    }
    nothing_is_left(fixture).await;
}
