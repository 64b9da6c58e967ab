//! Interoperation with Apache Curator and kazoo on one lock, each contender a process.
//!
//! `ZK_INTEROP_ROUNDS` sets the number of acquisitions of each lock (40 by default, 100 with
//! `ZK_LONG`).

mod meet;
mod ours;

use std::time::Duration;

use tokio::task::JoinSet;
use zk_proto::NodeKind;
use zk_recipes::machine::{Event, Scheme, UnknownNodePolicy};
use zk_recipes::{Attempt, LockError, Mutex, Options};
use zk_testkit::contention::clients;
use zk_testkit::peers::{Peer, Process, Runnable};
use zk_testkit::real;
use zk_testkit::suite::{is_long, number};
use zk_testkit::turns::{Turn, most_at_once, overtaken, together, waited};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Nothing here takes as long without a deadlock.
const HANG_TIMEOUT: Duration = Duration::from_secs(120);
const LOCK: &str = "/locks/shared with others";

/// The recipe that all contenders use.
#[derive(Clone, Copy, Debug)]
enum Recipe {
    Mutex(Scheme),
    ReadWrite(Scheme),
    Semaphore(u32),
}

impl Recipe {
    /// Returns the last arguments for the programs of other implementations.
    fn arguments(self) -> (&'static str, Option<String>) {
        match self {
            Self::Mutex(Scheme::ZOOKEEPER_RECIPE) => ("write-lock", None),
            Self::Mutex(_) => ("mutex", None),
            Self::ReadWrite(_) => ("read-write", None),
            Self::Semaphore(permits) => ("semaphore", Some(permits.to_string())),
        }
    }
}

/// Runs processes of others and sessions of ours, which contend for one lock.
async fn contend(at: &str, recipe: Recipe, others: &[&Runnable], ours: usize) -> Vec<Turn> {
    let rounds = number("ZK_INTEROP_ROUNDS").unwrap_or(if is_long() { 100 } else { 40 }) as usize;
    let rounds = rounds.div_ceil(others.len() + ours);
    let marker = |who: &str, number: usize| format!("/turns-of-{who}-{number}");
    let commands = others.iter().enumerate().map(|(number, other)| {
        let marker = marker("others", number);
        let (name, last) = recipe.arguments();
        let arguments = [at, name, LOCK, &rounds.to_string(), &marker].map(str::to_owned);
        (*other, arguments.into_iter().chain(last).collect())
    });
    let clients = clients(at, ours, SESSION_TIMEOUT).await;
    let mut processes = Process::start_all(commands.collect());

    let mut contenders = JoinSet::new();
    for process in &mut processes {
        let turns = process.go().map(|turn| turn.expect("a turn"));
        contenders.spawn_blocking(|| turns.collect());
    }
    for (number, client) in clients.into_iter().enumerate() {
        contenders.spawn(ours::take_turns(client, recipe, rounds, marker("ours", number)));
    }
    let turns = tokio::time::timeout(HANG_TIMEOUT, contenders.join_all()).await;
    let turns = turns.expect("a contender waits for ever").concat();
    processes.into_iter().for_each(Process::end);
    assert_eq!(turns.len(), rounds * (others.len() + ours));
    turns
}

/// Runs two processes and two sessions of ours on each of these recipes, and checks their turns.
async fn share(peer: Peer, recipes: &[Recipe]) {
    let Some(peer) = peer.find_or_skip() else { return };
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let client = clients(&at, 1, SESSION_TIMEOUT).await.remove(0);
    for (number, recipe) in recipes.iter().enumerate() {
        let chroot = format!("/{number}");
        client.create(&chroot, b"", NodeKind::Persistent).await.expect("created");
        let turns = contend(&format!("{at}{chroot}"), *recipe, &[&peer, &peer], 2).await;
        let (most, waited) = (most_at_once(&turns), waited(&turns));
        println!("{recipe:?}: {} turns, {waited} waits, at most {most} at once", turns.len());
        assert_eq!((together(&turns), overtaken(&turns)), (vec![], vec![]), "{recipe:?}");
        match recipe {
            Recipe::Mutex(_) => assert!(waited > turns.len() / 2, "almost no contention"),
            Recipe::ReadWrite(_) => assert!(most > 1, "no two readers at once"),
            Recipe::Semaphore(permits) => assert_eq!(most, *permits as usize),
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_shared_with_curator_and_zookeeper() {
    let recipes = [
        Recipe::Mutex(Scheme::CURATOR_MUTEX),
        Recipe::Mutex(Scheme::GO_ZK),
        Recipe::Mutex(Scheme::ZOOKEEPER_RECIPE),
        Recipe::ReadWrite(Scheme::CURATOR_READ_WRITE),
        Recipe::Semaphore(2),
    ];
    share(Peer::Curator, &recipes).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn locks_are_shared_with_kazoo() {
    let recipes = [Recipe::Mutex(Scheme::KAZOO_MUTEX), Recipe::ReadWrite(Scheme::KAZOO_READ_WRITE)];
    share(Peer::Kazoo, &recipes).await;
}

/// Curator would sort kazoo's nodes by their GUID, and kazoo does not see Curator's nodes. A
/// contender with the names of one reports those of the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_another_implementation_are_reported_and_refused() {
    let Some(kazoo) = Peer::Kazoo.find_or_skip() else { return };
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    let arguments = [&at, "mutex", LOCK, "1000000", "/turns-of-kazoo"].map(str::to_owned);
    let mut kazoo = Process::start_all(vec![(&kazoo, arguments.to_vec())]);
    // Its turns do not matter. It runs until it is killed.
    let turns = kazoo[0].go();
    let _turns = tokio::task::spawn_blocking(|| turns.count());

    let client = clients(&at, 1, SESSION_TIMEOUT).await.remove(0);
    let strict = Mutex::new(&client, LOCK).expect("a valid path");
    // Between its turns it has no node.
    let refused = async {
        loop {
            match strict.acquire().await {
                Ok(guard) => guard.release().await.expect("released"),
                Err(error) => break error,
            }
        }
    };
    let error =
        tokio::time::timeout(HANG_TIMEOUT, refused).await.expect("no node of kazoo was found");
    let LockError::OtherLock { node, scheme } = &error.reason else { panic!("{error}") };
    assert!(node.contains("__lock__") && scheme.parse(node).is_some(), "{error}");
    println!("{error}");

    let (report, mut reports) = tokio::sync::mpsc::unbounded_channel();
    let observer = move |_: Attempt<'_>, event: &Event| {
        if let Event::UnknownNode(node) = event {
            // The receiver may have been dropped after the first report.
            let _ = report.send(node.clone());
        }
    };
    let lenient = Options::new().unknown_nodes(UnknownNodePolicy::Ignore).observer(observer);
    let lenient = Mutex::with(&client, LOCK, lenient).expect("a valid path");
    let noticed = async {
        while reports.is_empty() {
            lenient.acquire().await.expect("acquired").release().await.expect("released");
        }
        reports.recv().await.expect("one exists")
    };
    let node = tokio::time::timeout(HANG_TIMEOUT, noticed).await.expect("no report");
    assert!(node.contains("__lock__"), "{node}");
}
