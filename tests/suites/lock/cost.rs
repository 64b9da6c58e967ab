//! The cost of locks, counted on the wire. The clock stands still: on a busy machine there would be
//! more pings, and more renewed watches of long holders.

use std::time::Duration;

use zk_proto::OpCode;
use zk_recipes::{
    LockError, LockRequest, MultiLock, Mutex, Options, Owner, ReentrantMutex, RwLock, Semaphore,
};
use zk_session::Client;
use zk_testkit::contention::{Contention, clients};
use zk_testkit::serve::Embedded;
use zk_testkit::wire::CountedConnect;

use super::frozen::Frozen;
use super::{LOCK, SESSION_TIMEOUT, begun, client, watches};

/// Returns a client, and the counts of what it sends and receives.
pub(super) async fn counted_client(embedded: &Embedded) -> (CountedConnect, Client) {
    let counted = CountedConnect::default();
    let builder = Client::builder(&embedded.connect_string());
    let client = builder.connect_with(counted.clone()).await.expect("connected");
    (counted, client)
}

#[tokio::test]
async fn a_free_lock_costs_one_round_trip_and_its_release_another() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (counted, client) = counted_client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    // The first acquisition creates the lock path and its parent.
    let before = (counted.tally(), client.statistics().requests);
    let guard = mutex.acquire().await.expect("acquired");
    assert_eq!(
        counted.tally().round_trips - before.0.round_trips,
        3,
        "to create the lock path and its parent"
    );
    assert_eq!(client.statistics().requests - before.1, 4 + 2, "create, list, twice; and both");
    guard.release().await.expect("released");

    let before = (counted.tally(), client.statistics().requests);
    let guard = mutex.acquire().await.expect("acquired");
    assert_eq!(counted.tally().round_trips - before.0.round_trips, 1, "to acquire");
    guard.release().await.expect("released");
    assert_eq!(counted.tally().round_trips - before.0.round_trips, 2, "to acquire and release");
    assert_eq!(client.statistics().requests - before.1, 3, "create, list, delete");
    assert_eq!(counted.tally().writes - before.0.writes, 2, "one write for all requests");

    // No other contender comes.
    for _ in 0..8 {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    }
    let before = (counted.tally().round_trips, client.statistics().requests);
    mutex.acquire().await.expect("acquired").release().await.expect("released");
    assert_eq!(counted.tally().round_trips - before.0, 2, "to acquire and release");
    assert_eq!(client.statistics().requests - before.1, 2, "create, delete");
    let counters = embedded.with(|ensemble| ensemble.counters().clone());
    assert_eq!(counters.requests(OpCode::CREATE2), 12, "one failed, since there was no lock path");
    assert_eq!(counters.notifications, 0);
}

#[tokio::test]
async fn a_kept_lock_costs_nothing_alone_and_another_client_one_round_trip() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (counted, ours) = counted_client(&embedded).await;
    let (of_other, other) = counted_client(&embedded).await;
    let options = Options::new().keep_idle(Duration::from_secs(60));
    let mutex = Mutex::with(&ours, LOCK, options).expect("a valid path");
    let plain = Mutex::new(&other, LOCK).expect("a valid path");
    plain.acquire().await.expect("acquired").release().await.expect("released");

    let before = ours.statistics().requests;
    let guard = mutex.acquire().await.expect("acquired");
    // Behind the list that watches the queue.
    guard.validate().await.expect("held");
    guard.release().await.expect("kept");
    assert_eq!(ours.statistics().requests - before, 4, "create, list, watch, and the check");
    let before = (counted.tally(), ours.statistics().requests);
    for _ in 0..100 {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    }
    assert_eq!(ours.statistics().requests, before.1);
    assert_eq!(counted.tally(), before.0);

    let before = (of_other.tally().round_trips, ours.statistics().requests);
    plain.acquire().await.expect("given up").release().await.expect("released");
    assert_eq!(ours.statistics().requests - before.1, 1, "delete");
    let to_acquire = of_other.tally().round_trips - before.0 - 1;
    // Create and list, then the watch, whose event says that it is held.
    assert_eq!(to_acquire, 2);
}

#[tokio::test]
async fn a_dropped_lock_is_acquired_again_by_two_requests_in_one_round_trip() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (counted, client) = counted_client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    let take_turns = async |turns: u32| {
        for _ in 0..turns {
            drop(mutex.acquire().await.expect("acquired"));
        }
    };
    // By then no other contender is expected.
    take_turns(10).await;
    let before = (counted.tally(), client.statistics().requests);
    take_turns(10).await;
    assert_eq!(client.statistics().requests - before.1, 20, "delete and create");
    assert_eq!(counted.tally().round_trips - before.0.round_trips, 10);
    assert_eq!(counted.tally().writes - before.0.writes, 10, "one write for both");
}

#[tokio::test]
async fn the_list_is_skipped_without_contention_and_a_wrong_hint_costs_once() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (counted, client) = counted_client(&embedded).await;
    let other = super::client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    let others = Mutex::new(&other, LOCK).expect("a valid path");
    let turn = async |mutex: &Mutex| {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    };
    // The first acquisition creates the lock path.
    turn(&mutex).await;
    for (run, round_trips, requests) in [
        // Alternating acquisitions, as without any hint.
        (1, 2, 3),
        (2, 4, 6),
        (8, 16, 24),
        // Nine acquisitions are needed to notice that no other contender comes; later ones skip the
        // list. The first of the next run relies on that wrongly, and needs its list after all.
        (9, 18 + 1, 27),
        (10, 20 + 1, 30 - 1),
        (20, 40 + 1, 60 - 11),
    ] {
        for again in 0..4 {
            turn(&others).await;
            let before = (counted.tally().round_trips, client.statistics().requests);
            for _ in 0..run {
                turn(&mutex).await;
            }
            let taken =
                (counted.tally().round_trips - before.0, client.statistics().requests - before.1);
            if again > 0 {
                assert_eq!(taken, (round_trips, requests), "run of {run}");
            }
        }
    }
}

/// Returns the number of requests of a late turn.
async fn requests_of_a_late_turn(client: &Client, turn: impl AsyncFn()) -> u64 {
    let mut requests = 0;
    for _ in 0..15 {
        let before = client.statistics().requests;
        turn().await;
        requests = client.statistics().requests - before;
    }
    requests
}

#[tokio::test]
async fn all_recipes_with_a_hint_skip_the_list() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let read_write = RwLock::new(&client, "/locks/shared").expect("a valid path");
    let reentrant = ReentrantMutex::new(&client, "/locks/reentrant").expect("a valid path");
    let part = Mutex::new(&client, "/locks/part").expect("a valid path");
    let several = MultiLock::new([LockRequest::from(&part)]).expect("one session");
    let write = async || {
        read_write.write().await.expect("acquired").release().await.expect("released");
    };
    let read = async || {
        read_write.read().await.expect("acquired").release().await.expect("released");
    };
    let again = async || {
        reentrant
            .acquire_as(Owner::unique())
            .await
            .expect("acquired")
            .release()
            .await
            .expect("released");
    };
    let all = async || {
        several.acquire().await.expect("acquired").release().await.expect("released");
    };
    assert_eq!(requests_of_a_late_turn(&client, write).await, 2, "create, delete");
    assert_eq!(requests_of_a_late_turn(&client, read).await, 2, "create, delete");
    assert_eq!(requests_of_a_late_turn(&client, again).await, 2, "create, delete");
    assert_eq!(requests_of_a_late_turn(&client, all).await, 2, "create, delete");
}

/// A caller that drops a guard and acquires again never waits for its own old node: the deletion is
/// submitted before the drop returns, so before the next create.
#[tokio::test]
async fn a_lock_whose_guard_was_dropped_is_free_for_the_next_attempt() {
    const TURNS: u64 = 20;
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let client = client(&embedded).await;
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    let read_write = RwLock::new(&client, "/locks/shared").expect("a valid path");
    let reentrant = ReentrantMutex::new(&client, "/locks/reentrant").expect("a valid path");
    let semaphore = Semaphore::new(&client, "/locks/permits", 1).expect("a valid path");
    let part = Mutex::new(&client, "/locks/part").expect("a valid path");
    let several = MultiLock::new([LockRequest::from(&part)]).expect("one session");
    for turn in 0..TURNS {
        // The first turn creates the parents.
        let lists = embedded.with(|ensemble| ensemble.counters().requests(OpCode::GET_CHILDREN));
        let guard = mutex.acquire().await.expect("acquired");
        let before = client.statistics().requests;
        drop(guard);
        assert_eq!(client.statistics().requests - before, 1, "the deletion");
        let guard = mutex.acquire().await.expect("acquired");
        let listed = embedded.with(|ensemble| ensemble.counters().requests(OpCode::GET_CHILDREN));
        assert!(listed - lists <= 2 + u64::from(turn == 0) * 2, "no lists but with the creates");
        drop(guard);
        drop(read_write.write().await.expect("acquired"));
        drop(reentrant.acquire_as(Owner::unique()).await.expect("acquired"));
        drop(semaphore.acquire().await.expect("acquired"));
        drop(several.acquire().await.expect("acquired"));
    }
    let counters = embedded.with(|ensemble| ensemble.counters().clone());
    assert_eq!(counters.notifications, 0, "no waits");
    assert_eq!(watches(&embedded), 0);
}

#[tokio::test]
async fn a_recreated_lock_path_is_not_taken_for_the_old_one() {
    let embedded = Embedded::start(1).await.expect("loopback");
    let (client, other) = (client(&embedded).await, client(&embedded).await);
    let mutex = Mutex::new(&client, LOCK).expect("a valid path");
    for _ in 0..12 {
        mutex.acquire().await.expect("acquired").release().await.expect("released");
    }
    // Numbers 0 to 11 were used. As many are created below a new lock path, and the last one stays.
    // Ours gets number 12, as if no other had come.
    other.delete(LOCK, None).await.expect("an empty lock path");
    let others = Mutex::new(&other, LOCK).expect("a valid path");
    for _ in 0..11 {
        others.acquire().await.expect("acquired").release().await.expect("released");
    }
    let guard = others.acquire().await.expect("acquired");
    assert_eq!(guard.node().rsplit('-').next(), Some("0000000011"));
    let waiting = mutex.acquire().timeout(Duration::from_millis(100)).await;
    assert!(matches!(&waiting, Err(error) if error.reason == LockError::TimedOut), "{waiting:?}");
    guard.release().await.expect("released");
}

#[tokio::test]
async fn fifty_waiters_are_woken_one_at_a_time() {
    const WAITERS: usize = 50;
    let _frozen = Frozen::start();
    let embedded = Embedded::start(3).await.expect("loopback");
    let holder = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiters = clients(&embedded.connect_string(), WAITERS, SESSION_TIMEOUT).await;
    let contention = Contention { path: LOCK.into(), rounds: 1, hold: Duration::ZERO };
    let running = {
        let waiters = waiters.clone();
        tokio::spawn(async move { contention.run(&waiters, |_| async {}).await })
    };
    // Each watches its predecessor, and the second in line also its own node.
    let are_queued = |embedded: &Embedded| watches(embedded) == WAITERS + 1;
    super::eventually(&embedded, "50 waiters are queued", are_queued).await;
    guard.release().await.expect("released");
    let oracle = running.await.expect("no panic").expect("no contender fails");
    assert_eq!((oracle.acquisitions(), oracle.violations()), (WAITERS, vec![]));
    let notifications = embedded.with(|ensemble| ensemble.counters().notifications);
    println!("{WAITERS} hand-overs with up to {WAITERS} waiters: {notifications} notifications");
    // The first one was the second in line, so the deletion of its node fires its own watch.
    assert_eq!(notifications, WAITERS as u64 + 1);
}

#[tokio::test]
async fn the_second_in_line_needs_no_request_to_take_over() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let (holder, waiter) = (client(&embedded).await, client(&embedded).await);
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let waiting = tokio::spawn(Mutex::new(&waiter, LOCK).expect("valid").acquire());
    super::eventually(&embedded, "both watches are set", |embedded| watches(embedded) == 2).await;
    let before = waiter.statistics();
    guard.release().await.expect("released");
    let _guard = waiting.await.expect("no panic").expect("acquired");
    let after = waiter.statistics();
    assert_eq!(after.requests, before.requests);
    assert_eq!(after.notifications, before.notifications + 1);
}

/// Returns the requests of the ensemble so far by operation, and its events.
fn done(embedded: &Embedded) -> Vec<u64> {
    let opcodes = [
        OpCode::CREATE2,
        OpCode::GET_CHILDREN,
        OpCode::EXISTS,
        OpCode::GET_DATA,
        OpCode::SYNC,
        OpCode::MULTI,
        OpCode::DELETE,
    ];
    embedded.with(|ensemble| {
        let counters = ensemble.counters();
        let requests = opcodes.iter().map(|opcode| counters.requests(*opcode));
        requests.chain([counters.notifications]).collect()
    })
}

fn since(embedded: &Embedded, before: &[u64]) -> Vec<u64> {
    done(embedded).iter().zip(before).map(|(now, before)| now - before).collect()
}

/// Returns how many lists of the queue this many simultaneous attempts of one client need.
fn lists_of(attempts: usize) -> usize {
    attempts.min(4 + 1)
}

/// Measures this many waiters on ten sessions, and their turns.
async fn mutex_with(waiters: usize) {
    let embedded = Embedded::start(1).await.expect("loopback");
    let clients = clients(&embedded.connect_string(), 10.min(waiters), SESSION_TIMEOUT).await;
    let holder = client(&embedded).await;
    let guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let before = done(&embedded);
    let waiting: Vec<_> = (0..waiters)
        .map(|place| {
            let mutex = Mutex::new(&clients[place % clients.len()], LOCK).expect("valid");
            let acquiring = begun(mutex.acquire());
            tokio::spawn(async move {
                let guard = acquiring.await.expect("acquired");
                guard.release().await.expect("released");
            })
        })
        .collect();
    // Each watches its predecessor, and the second in line also its own node. Of many attempts of
    // one client, four list the queue alone, and the others share a list.
    let n = waiters as u64;
    let lists: usize =
        (0..clients.len()).map(|client| lists_of((waiters - client).div_ceil(clients.len()))).sum();
    let are_queued = |embedded: &Embedded| since(embedded, &before)[1] == lists as u64 + n + 1;
    super::eventually(&embedded, "all watches are set", are_queued).await;
    let entered = since(&embedded, &before);
    assert_eq!((entered[0], entered[7]), (n, 0), "creations and events to enter");

    let before = done(&embedded);
    guard.release().await.expect("released");
    for contender in waiting {
        contender.await.expect("no panic");
    }
    let served = since(&embedded, &before);
    // One event wakes each waiter. All but the second in line list again, and are first. The second
    // in line also watches its own node; the next one shares that watch if it has the same session.
    assert_eq!(served[6], n + 1, "deletions");
    assert!((n..=n + 1).contains(&served[7]), "events: {served:?}");
    assert_eq!(served[1], n - 1, "lists");
    assert_eq!(served[2..6], [0; 4], "no other requests");
    println!("{waiters} waiters of a mutex: entered {entered:?}, served {served:?}");
}

#[tokio::test]
async fn the_cost_of_a_mutex_does_not_depend_on_the_number_of_waiters() {
    let _frozen = Frozen::start();
    for waiters in [1, 10, 100] {
        mutex_with(waiters).await;
    }
}

#[tokio::test]
async fn a_thousand_waiters_are_woken_one_at_a_time() {
    let _frozen = Frozen::start();
    mutex_with(1000).await;
}

/// Measures this many readers behind a writer, and then a writer behind them.
async fn read_write_with(readers: usize) {
    let embedded = Embedded::start(1).await.expect("loopback");
    let clients = clients(&embedded.connect_string(), readers.min(10), SESSION_TIMEOUT).await;
    let lock = |client| RwLock::new(client, LOCK).expect("valid");
    let holder = client(&embedded).await;
    let writer = lock(&holder).write().await.expect("acquired");
    let waiting: Vec<_> = (0..readers)
        .map(|place| tokio::spawn(begun(lock(&clients[place % clients.len()]).read())))
        .collect();
    // Readers of one session share their watch.
    super::eventually(&embedded, "all are queued", |embedded| {
        super::lock_nodes(embedded).len() == readers + 1 && watches(embedded) >= clients.len()
    })
    .await;
    // Nothing else is in flight, so every contender that has listed has set its watch.
    let n = readers as u64;
    let lists = clients.len() * lists_of(readers.div_ceil(clients.len()));
    let listed = |embedded: &Embedded| done(embedded)[1] >= n + lists as u64;
    super::eventually(&embedded, "all watch", listed).await;
    let before = done(&embedded);
    writer.release().await.expect("released");
    let mut guards = Vec::new();
    for reader in waiting {
        guards.push(reader.await.expect("no panic").expect("acquired"));
    }
    let served = since(&embedded, &before);
    assert_eq!(served[7], clients.len() as u64, "one event for each session");
    let last = begun(lock(&holder).write());
    super::eventually(&embedded, "the writer watches the last of them", |embedded| {
        super::lock_nodes(embedded).len() == readers + 1 && watches(embedded) > 0
    })
    .await;
    let last = tokio::spawn(last);
    // In the order of the queue; a writer that waits for several readers wakes in between.
    guards.sort_by_key(|guard| guard.fencing_token());
    for guard in guards {
        guard.release().await.expect("released");
    }
    last.await.expect("no panic").expect("acquired").release().await.expect("released");
    let all = since(&embedded, &before);
    assert!(all[7] - served[7] <= 1, "the writer is woken once");
    println!("{readers} readers behind a writer: {served:?}");
}

#[tokio::test]
async fn a_writer_wakes_the_readers_behind_it_and_they_wake_one_writer() {
    let _frozen = Frozen::start();
    for readers in [1, 10, 100] {
        read_write_with(readers).await;
    }
}

/// Round trips, requests and events of one client during a measurement.
struct Bill {
    counted: CountedConnect,
    client: Client,
    before: (u64, u64, u64),
}

impl Bill {
    async fn of(embedded: &Embedded) -> Self {
        let (counted, client) = counted_client(embedded).await;
        Self { counted, client, before: (0, 0, 0) }
    }

    fn now(&self) -> (u64, u64, u64) {
        let statistics = self.client.statistics();
        (self.counted.tally().round_trips, statistics.requests, statistics.notifications)
    }

    fn begin(&mut self) {
        self.before = self.now();
    }

    /// Returns the counts since the beginning.
    fn total(&self) -> (u64, u64, u64) {
        let (before, now) = (self.before, self.now());
        (now.0 - before.0, now.1 - before.1, now.2 - before.2)
    }
}

#[tokio::test]
async fn trying_a_held_lock_costs_one_request() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let holder = client(&embedded).await;
    let _guard = Mutex::new(&holder, LOCK).expect("valid").acquire().await.expect("acquired");
    let mut bill = Bill::of(&embedded).await;
    let mutex = Mutex::new(&bill.client, LOCK).expect("valid");
    bill.begin();
    assert_eq!(mutex.try_acquire().await.expect_err("taken").reason, LockError::Busy);
    assert_eq!(bill.total(), (1, 1, 0));
}

#[tokio::test]
async fn a_downgrade_and_an_upgrade_cost_one_round_trip_each() {
    let _frozen = Frozen::start();
    let embedded = Embedded::start(1).await.expect("loopback");
    let mut bill = Bill::of(&embedded).await;
    let lock = RwLock::new(&bill.client, LOCK).expect("valid");
    let writer = lock.write().await.expect("acquired");
    bill.begin();
    let reader = writer.downgrade().await.expect("held");
    assert_eq!(bill.total(), (1, 1, 0), "one transaction");
    bill.begin();
    let writer = reader.try_upgrade().await.expect("alone");
    // The deletion of the reader's node is sent, and not awaited.
    assert_eq!((bill.total().0, bill.total().2), (1, 0));
    writer.release().await.expect("held");
    let counters = embedded.with(|ensemble| ensemble.counters().clone());
    assert_eq!(counters.requests(OpCode::DELETE), 2, "of the reader and of the writer");
}
