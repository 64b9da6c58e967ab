//! Sessions on three real servers, under faults: servers are killed, paused, partitioned and upgraded.
//!
//! It runs if one of `ZK_LONG`, `ZK_SEED` and `ZK_CHAOS_SECONDS` is set.
//!
//! `ZK_CHAOS_SECONDS` sets the duration (25 by default), `ZK_CHAOS_HOLDERS` the number of
//! contenders besides the services (8 by default), and `ZK_SEED` the seed. Of ten contenders, two
//! share a lock with names of kazoo, and the others have one with names of Curator. The seed
//! determines the faults and the actions of the sessions, but not the behaviour of the servers.
//! With `ZK_CHAOS_SECURE`, the servers speak TLS with Netty and demand SASL. With
//! `ZK_CHAOS_ISOLATED`, which needs Linux and root, packets between servers get lost, and disks
//! fill up. `ZK_CHAOS_CONFIG` has lines for the configuration of the servers, separated by commas.
//! `ZK_CHAOS_VERSIONS=3.6.3,3.8.0,3.9.5` starts with the first version, and lets faults upgrade the
//! servers, and downgrade them again. Without `ZK_CHAOS_SECURE`, half of the sessions, and all
//! contenders but the services, connect through a proxy that cuts connections. `ZK_CHAOS_FAULTS`
//! selects kinds of faults, by their own names or those of the simulator, such as
//! `KillLeader,pause`. With the feature `observed`, the metrics and the log of the run are printed
//! at its end.

mod access;
mod contender;
mod faults;
mod histories;
mod holders;
mod ledger;
mod logs;
mod operator;
mod processes;
mod seat;
mod servers;
mod services;

use core::any::Any;
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::time::Instant;

use tempfile::TempDir;
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinHandle, block_in_place};
use zk_session::proto::NodeKind;
use zk_session::{Client, Outcome};
use zk_testkit::proxy::Proxy;
use zk_testkit::real::RealEnsemble;
use zk_testkit::skipped::skip;
use zk_testkit::suite::{long_or_skip, number};
use zk_testkit::watchdog::Watchdog;

use self::access::Access;
use self::faults::Faults;
use self::holders::{Contest, Holders, Place};
use self::ledger::Ledger;
use self::operator::Operator;
use self::seat::{Found, Seat};
use self::servers::{assert_same, ephemerals};
use self::services::Services;

const SEATS: usize = 32;
const COUNTERS: usize = 16;
/// The number of clients that renew their sessions.
const SERVICES: usize = 6;
const SESSION_TIMEOUT: Duration = Duration::from_secs(6);
/// How long a healed ensemble may take until every session is served and has its events.
const HANG_TIMEOUT: Duration = Duration::from_secs(180);
/// The node that all sessions watch, and that changes once during each fault.
const BELL: &str = "/chaos/bell";
/// The parent of an ephemeral node for each session.
const LIVING: &str = "/chaos/living";

fn counter(number: usize) -> String {
    format!("/chaos/counter-{number}")
}

/// How the message of a panic begins if the servers differ.
const OF_SERVERS: &str = "a finding about the servers";

#[test]
fn sessions_keep_their_guarantees_while_servers_die() {
    let is_asked_for = ["ZK_SEED", "ZK_CHAOS_SECONDS"].into_iter().any(|it| number(it).is_some());
    if !is_asked_for && !long_or_skip() {
        return;
    }
    let Some(Err(panic)) = chaos(Planted::Nothing) else { return };
    let message = panic.downcast_ref::<String>().filter(|it| it.contains(OF_SERVERS));
    // A run with a given duration fails, since it was cut short.
    match message {
        Some(message) if number("ZK_CHAOS_SECONDS").is_none() => skip(message.replace('\n', " ")),
        _ => resume_unwind(panic),
    }
}

/// The failure that a test of this test adds to the run.
#[derive(Clone, Copy, PartialEq)]
enum Planted {
    Nothing,
    /// One contender has another lock, and writes to the register of the others.
    LockOfOne,
    /// All contenders wait, and the run fails.
    EndlessWait,
}

#[test]
#[ignore = "a minute"]
fn a_contender_without_the_lock_is_found() {
    let Some(result) = chaos(Planted::LockOfOne) else { return };
    let panic = result.expect_err("violations");
    let message = panic.downcast_ref::<String>().map_or("", String::as_str);
    if message.contains(OF_SERVERS) {
        return skip(message.replace('\n', " "));
    }
    assert!(message.contains("the lock is not linearizable"), "{message}");
    assert!(message.contains("the register is not linearizable"), "{message}");
}

#[test]
#[ignore = "half a minute"]
fn a_run_that_fails_ends_although_contenders_wait() {
    let _watchdog = Watchdog::start();
    let Some(result) = chaos(Planted::EndlessWait) else { return };
    let panic = result.expect_err("the planted failure");
    assert_eq!(panic.downcast_ref(), Some(&"planted"));
}

/// Runs chaos. `None`: no ZooKeeper.
fn chaos(planted: Planted) -> Option<Result<(), Box<dyn Any + Send>>> {
    let directory = TempDir::with_prefix("chaos-").expect("a directory");
    let (mut ensemble, access) = access::start(3, directory.path())?;
    // The ensemble and the proxy outlive the runtime, so that contenders end, also after a panic.
    let (proxied, proxy) = access.through_a_proxy();
    let proxy = proxy.map(Arc::new);
    let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.expect("threads");
    let run = || runtime.block_on(run(&mut ensemble, &access, &proxied, proxy.clone(), planted));
    let result = catch_unwind(AssertUnwindSafe(run));
    // After a panic, threads may wait for a lock that no server frees any more.
    runtime.shutdown_timeout(SESSION_TIMEOUT);
    Some(result)
}

async fn run(
    ensemble: &mut RealEnsemble,
    access: &Access,
    proxied: &Access,
    proxy: Option<Arc<Proxy>>,
    planted: Planted,
) {
    let seed = number("ZK_SEED").unwrap_or_else(|| fastrand::u64(..));
    let duration = Duration::from_secs(number("ZK_CHAOS_SECONDS").unwrap_or(25));
    println!("{} s of chaos; to repeat: {}", duration.as_secs(), command(seed));
    let mut rng = fastrand::Rng::with_seed(seed);
    let operator = Arc::new(Operator::start());

    prepare(&access.connect().await).await;
    let ledger = Arc::new(Ledger::new(COUNTERS));
    let (stop, stopped) = watch::channel(false);
    let mut receivers = Vec::new();
    let mut seats: Vec<JoinHandle<Found>> = Vec::new();
    for number in 0..SEATS {
        let (bell, receiver) = watch::channel(0);
        let access = if number % 2 == 0 { access } else { proxied };
        let seat = Seat::new(number, access, rng.fork(), ledger.clone(), bell, stopped.clone());
        seats.push(tokio::spawn(seat.run()));
        receivers.push(receiver);
    }

    let holders = number("ZK_CHAOS_HOLDERS").unwrap_or(8) as usize;
    let lock_of_one = (planted == Planted::LockOfOne).then_some("/chaos-lock-of-one");
    let contest = Contest::new(Place::CURATOR, lock_of_one, stopped.clone());
    let with_kazoo = Contest::new(Place::KAZOO, None, stopped);
    let pairs = holders / 10;
    let beside_kazoo = Holders::start_with_kazoo(pairs, proxied, &with_kazoo);
    let mut holders = Holders::start(holders - 2 * pairs, proxied, &contest);
    // Each minute, or three times in a shorter run.
    let interval = Duration::from_secs(60).min(duration / 3);
    let services =
        Services::start(SERVICES, interval, access, &contest, rng.fork(), operator.clone());
    let mut services = services.await;
    holders.0.extend(services.contend(&contest));
    if planted == Planted::EndlessWait {
        wait_behind_a_node(&access.connect().await).await;
        panic!("planted");
    }
    let began = Instant::now();
    let mut faults = Faults::new(rng, proxy);
    while began.elapsed() < duration {
        let ringing = tokio::spawn(ring(access.clone()));
        block_in_place(|| faults.strike(ensemble)).expect("the ensemble comes back");
        let rung = ringing.await.expect("no panic");
        wait_until_all_received(&mut receivers, rung).await;
        let fault = faults.last();
        assert_same(access, ensemble, &fault).await;
        // Servers that differ later are not to blame for what is found by now.
        let by_now = [ledger.violations(), contest.histories.violations()].concat();
        assert_eq!([by_now, with_kazoo.histories.violations()].concat(), [""; 0]);
        services.wait_until_settled(access, ensemble, &fault).await;
        operator.pause();
        let (count, renewals) = (faults.count(), services.renewals());
        println!(
            "{} s: {count} faults, now {fault}; {renewals} renewals",
            began.elapsed().as_secs()
        );
    }
    stop.send_replace(true);
    let mut found = Vec::new();
    for seat in seats {
        found.push(seat.await.expect("no panic"));
    }
    assert_same(access, ensemble, "the last pause").await;

    let held = [holders.finish().await, beside_kazoo.finish().await];
    let served = services.finish().await;
    judge(&access.connect().await, &ledger, &found).await;
    let sum = |figure: fn(&Found) -> u64| found.iter().map(figure).sum::<u64>();
    println!("{ledger}");
    println!(
        "{} faults ({faults}); {} connections, {} sessions expired, {} watch events",
        faults.count(),
        sum(|found| found.connections),
        sum(|found| found.expired.len() as u64),
        sum(|found| found.events),
    );
    println!("{served}");
    operator.print();
    let mut violations = ledger.violations();
    violations.extend(faults.unreadable());
    for (contest, held) in [contest, with_kazoo].iter().zip(&held) {
        let (lengths, wrong) = contest.histories.conclude();
        violations.extend(wrong);
        println!("{}: {held}", contest.place.lock);
        println!(
            "histories: {} operations on the lock, {} on the register",
            lengths[0], lengths[1]
        );
    }
    assert_eq!(violations, [""; 0]);
    let [held, beside_kazoo] = &held;
    let double_holders = [&held.double_holders[..], &beside_kazoo.double_holders];
    assert_eq!((double_holders.concat(), served.double_leaders), (vec![], vec![]));
    assert_eq!([held.unproven(), beside_kazoo.unproven()].concat(), [""; 0]);
    assert!(!served.terms.is_empty(), "no service has led");
    for found in found {
        found.client.close().await;
    }
    wait_until_nothing_is_left(access, ensemble).await;
    let reports = [
        (Place::CURATOR.lock, &held.tokens[..], &held.proven[..]),
        (Place::KAZOO.lock, &beside_kazoo.tokens, &beside_kazoo.proven),
        (services::ELECTION, &[], &served.terms),
    ];
    logs::judge(ensemble, &reports).await;
}

/// Returns the output of a task that ends by itself.
async fn ended<T>(task: JoinHandle<T>) -> T {
    let output = tokio::time::timeout(HANG_TIMEOUT, task).await;
    output.expect("it does not hang").expect("no panic")
}

/// Returns the command that repeats the faults of this run.
fn command(seed: u64) -> String {
    let is_of_run = |name: &str| name.starts_with("ZK_CHAOS_") || name == "ZK_VERSIONS";
    let set: BTreeMap<_, _> = env::vars().filter(|(name, _)| is_of_run(name)).collect();
    let set: String = set.iter().map(|(name, value)| format!("{name}={value} ")).collect();
    format!(
        "ZK_REAL=require ZK_SEED={seed} {set}cargo test -p zk-testkit --test real chaos -- --nocapture"
    )
}

async fn prepare(client: &Client) {
    client.ensure_path(LIVING).await.expect("no fault yet");
    for (node, data) in
        [(BELL, &b""[..]), (Place::CURATOR.register, b"0 0"), (Place::KAZOO.register, b"0 0")]
    {
        client.create(node, data, NodeKind::Persistent).await.expect("no fault yet");
    }
    for number in 0..COUNTERS {
        let data = ledger::Entry::FIRST.to_string();
        let create = client.create(&counter(number), data.as_bytes(), NodeKind::Persistent);
        create.await.expect("no fault yet");
    }
}

/// Creates a node ahead of all contenders, which nobody deletes, and gives them time to wait for it.
async fn wait_behind_a_node(client: &Client) {
    let name = "_c_00000000-0000-4000-8000-000000000000-lock-0000000000";
    let node = format!("{}/{name}", Place::CURATOR.lock);
    client.create_all(&node, b"", NodeKind::Persistent).await.expect("no fault yet");
    tokio::time::sleep(SESSION_TIMEOUT).await;
}

/// Changes the bell during a fault. Returns its version, which all sessions must receive.
async fn ring(access: Access) -> i32 {
    tokio::time::sleep(Duration::from_millis(500)).await;
    loop {
        // A separate session each time, since it may expire.
        let client = access.connect().await;
        match client.set_data(BELL, b"", None).await {
            Ok(stat) => return stat.version,
            Err(error) => assert_eq!(error.outcome(), Outcome::Unknown, "{error}"),
        }
    }
}

/// The bell does not change meanwhile, so no later event hides a lost watch.
async fn wait_until_all_received(receivers: &mut [watch::Receiver<i32>], rung: i32) {
    let all = async {
        for (seat, receiver) in receivers.iter_mut().enumerate() {
            let rung = receiver.wait_for(|version| *version >= rung).await;
            rung.map(drop).unwrap_or_else(|_| panic!("seat {seat} has ended"));
        }
    };
    let received = tokio::time::timeout(HANG_TIMEOUT, all).await;
    let late: Vec<_> =
        (0..receivers.len()).filter(|seat| *receivers[*seat].borrow() < rung).collect();
    assert!(received.is_ok(), "seats {late:?} did not receive version {rung} of the bell");
}

/// Checks that the final state is consistent with all outcomes.
async fn judge(client: &Client, ledger: &Ledger, found: &[Found]) {
    client.sync("/").await.expect("the ensemble serves");
    for number in 0..COUNTERS {
        let (data, stat) = client.get_data(&counter(number)).await.expect("the node exists");
        ledger.settle(number, stat.version, &data);
    }
    let (living, _) = client.get_children(LIVING).await.expect("the node exists");
    let living: BTreeSet<_> = living.into_iter().collect();
    let expected: BTreeSet<_> = found.iter().map(|found| found.node.clone()).collect();
    assert_eq!(living, expected, "the live sessions of the ensemble and of the clients");
}

/// Waits until no server has a lock node, another ephemeral node, or a watch.
async fn wait_until_nothing_is_left(access: &Access, ensemble: &mut RealEnsemble) {
    let left = |ensemble: &RealEnsemble| {
        let mut left = ephemerals(ensemble)?;
        for server in 0..3 {
            let monitor = ensemble.four_letter(server, "mntr").ok()?;
            let watches = monitor.lines().filter(|line| line.starts_with("zk_watch_count"));
            let left_here = watches.filter(|line| !line.ends_with("\t0"));
            left.extend(left_here.map(|line| format!("server {server}: {line}")));
        }
        Some(left)
    };
    let end = Instant::now() + HANG_TIMEOUT;
    loop {
        let found = block_in_place(|| left(&*ensemble));
        if found.as_ref().is_some_and(Vec::is_empty) {
            break;
        }
        if Instant::now() > end {
            assert_same(access, ensemble, "the end of all sessions").await;
            panic!("{found:#?} is left");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_same(access, ensemble, "the end of all sessions").await;
}
