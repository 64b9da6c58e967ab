//! Recipes that are used once, beside Curator and kazoo: elections, barriers, revocation, counts.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::process::{Child, ChildStdout, Stdio};
use std::time::Duration;

use tokio::task::spawn_blocking;
use zk_recipes::{Barrier, DoubleBarrier, LeaderElection, Mutex, Options, Scheme, Semaphore};
use zk_session::Client;
use zk_testkit::contention::clients;
use zk_testkit::peers::{Peer, Program, Runnable};
use zk_testkit::real::{self, RealEnsemble};

use super::{HANG_TIMEOUT, SESSION_TIMEOUT};

const MOMENT: Duration = Duration::from_millis(100);

/// A server, another implementation, and a client of ours.
struct World {
    ensemble: RealEnsemble,
    peer: Runnable,
    client: Client,
}

impl World {
    async fn new_or_skip(peer: Peer) -> Option<Self> {
        let peer = peer.find_or_skip()?;
        let ensemble = real::ensemble_or_skip(1)?;
        let client = clients(&ensemble.connect_string(), 1, SESSION_TIMEOUT).await.remove(0);
        Some(Self { ensemble, peer, client })
    }

    /// Starts a process of the other implementation.
    fn other(&self, recipe: &str, path: &str) -> Other {
        let mut command = self.peer.command(Program::Meet);
        command.args([&*self.ensemble.connect_string(), recipe, path]);
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        Other { process, lines: Some(lines) }
    }
}

struct Other {
    process: Child,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Other {
    /// Waits until the process has done a step.
    async fn has(&mut self, step: &str) {
        let mut lines = self.lines.take().expect("an earlier step");
        let line = spawn_blocking(move || (lines.next(), lines));
        let line = tokio::time::timeout(HANG_TIMEOUT, line).await.expect("it waits for ever");
        let (line, lines) = line.expect("no panic");
        assert_eq!(line.expect("a line").expect("text"), step);
        self.lines = Some(lines);
    }

    /// Lets the process go on.
    fn go(&mut self) {
        self.process.stdin.as_mut().expect("piped").write_all(b"\n").expect("it reads");
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The other implementation has entered a queue that ours leads, leads in turn, and resigns.
async fn take_turns_in_leading(world: &World, recipe: &str, election: &LeaderElection) {
    let candidate = election.stand();
    let term = candidate.elected().await.expect("elected");
    let mut other = world.other(recipe, election.path());
    while election.participants().await.expect("listed").len() < 2 {
        tokio::time::sleep(MOMENT).await;
    }
    if recipe == "latch" {
        other.has("leader is ours").await;
        let participants = election.participants().await.expect("listed");
        let names: Vec<_> = participants.into_iter().filter_map(|entry| entry.data).collect();
        assert_eq!(names, ["ours", "curator"]);
    }
    candidate.close().await.expect("resigned");
    other.has("leads").await;
    let candidate = election.stand();
    let early = candidate.elected().timeout(MOMENT).await;
    assert!(early.is_err(), "two leaders");
    other.go();
    other.has("resigned").await;
    assert!(candidate.elected().await.expect("elected").token > term.token);
}

/// A barrier that the other implementation closes, and then one of ours.
async fn wait_for_each_other(world: &World, barrier: &Barrier) {
    let mut other = world.other("barrier", barrier.path());
    other.has("closed").await;
    assert!(barrier.is_closed().await.expect("read"));
    other.go();
    barrier.wait().await.expect("opened");
    other.has("opened").await;
    barrier.close().await.expect("closed");
    other.go();
    // It waits by then, or finds the barrier open: no message says which.
    tokio::time::sleep(MOMENT).await;
    barrier.open().await.expect("opened");
    other.has("passed").await;
}

fn election(world: &World, path: &str, scheme: Scheme) -> LeaderElection {
    let options = Options::new().scheme(scheme).data("ours");
    LeaderElection::with(&world.client, path, options).expect("a valid path")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn there_is_one_leader_beside_a_latch_and_a_selector_of_curator() {
    let Some(world) = World::new_or_skip(Peer::Curator).await else { return };
    let latch = election(&world, "/latch", Scheme::CURATOR_LEADER);
    take_turns_in_leading(&world, "latch", &latch).await;
    let selector = election(&world, "/selector", Scheme::CURATOR_MUTEX);
    take_turns_in_leading(&world, "selector", &selector).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn barriers_are_shared_with_curator() {
    let Some(world) = World::new_or_skip(Peer::Curator).await else { return };
    let barrier = Barrier::new(&world.client, "/barrier").expect("a valid path");
    wait_for_each_other(&world, &barrier).await;

    let barrier = DoubleBarrier::new(&world.client, "/both", 2).expect("a valid path");
    let mut other = world.other("double-barrier", "/both");
    other.has("comes").await;
    let inside = barrier.enter().await.expect("entered");
    other.has("in").await;
    inside.leave().await.expect("left");
    other.has("out").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_election_and_a_barrier_are_shared_with_kazoo() {
    let Some(world) = World::new_or_skip(Peer::Kazoo).await else { return };
    let election = election(&world, "/election", Scheme::KAZOO_MUTEX);
    take_turns_in_leading(&world, "election", &election).await;
    let barrier = Barrier::new(&world.client, "/barrier").expect("a valid path");
    wait_for_each_other(&world, &barrier).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn curator_asks_for_a_release_releases_when_asked_and_reads_the_permits() {
    let Some(world) = World::new_or_skip(Peer::Curator).await else { return };
    let mutex = Mutex::with(&world.client, "/mutex", Options::new().revocable());
    let mutex = mutex.expect("a valid path");
    let guard = mutex.acquire().await.expect("acquired");
    let mut other = world.other("revoke", &guard.node_path());
    other.has("asked").await;
    guard.revoked().await;
    guard.release().await.expect("released");

    let mut other = world.other("revocable", "/mutex");
    other.has("holds").await;
    let holder = mutex.contenders().await.expect("listed").remove(0);
    mutex.revoke(&holder.node).await.expect("asked");
    other.has("released").await;
    drop(mutex.acquire().await.expect("acquired"));

    let semaphore = Semaphore::new(&world.client, "/downloads", 7).expect("a valid path");
    drop(semaphore.acquire().await.expect("acquired"));
    world.other("count", "/downloads/max").has("count is 7").await;
}
