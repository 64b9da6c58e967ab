//! Beside other implementations, on one lock: Apache Curator and kazoo, each contender a process.
//!
//! `ZK_INTEROP_ROUNDS` says how many turns are taken with each lock.

mod ours;
mod process;
mod turns;

use std::env;
use std::time::Duration;

use tokio::task::JoinSet;
use zk_testkit::contention::clients;
use zk_testkit::peers::{Peer, Runnable};
use zk_testkit::real;

use self::process::Process;
use self::turns::{Turn, overtaken, together, waited};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);
/// Nothing here takes so long unless somebody waits in vain.
const PATIENCE: Duration = Duration::from_secs(120);
const LOCK: &str = "/locks/shared with others";

/// What is contended for.
#[derive(Clone, Copy, Debug)]
enum Recipe {
    Mutex,
}

impl Recipe {
    /// The arguments of the programs of others behind the path.
    fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
        }
    }
}

/// Has processes of others and sessions of ours take turns with one lock, all at once.
async fn contend(at: &str, recipe: Recipe, others: &[&Runnable], ours: usize) -> Vec<Turn> {
    let wish = env::var("ZK_INTEROP_ROUNDS").ok().map(|rounds| rounds.parse().expect("a number"));
    let rounds = wish.unwrap_or(100_usize).div_ceil(others.len() + ours);
    let marker = |who: &str, number: usize| format!("/turns-of-{who}-{number}");
    let commands = others.iter().enumerate().map(|(number, other)| {
        let marker = marker("others", number);
        let arguments = [at, recipe.name(), LOCK, &rounds.to_string(), &marker];
        (*other, arguments.map(str::to_owned).to_vec())
    });
    let clients = clients(at, ours, SESSION_TIMEOUT).await;
    let mut processes = Process::start_all(commands.collect());

    let mut contenders = JoinSet::new();
    for process in &mut processes {
        contenders.spawn_blocking(process.go());
    }
    for (number, client) in clients.into_iter().enumerate() {
        contenders.spawn(ours::take_turns(client, recipe, rounds, marker("ours", number)));
    }
    let turns = tokio::time::timeout(PATIENCE, contenders.join_all()).await;
    let turns = turns.expect("somebody waits in vain").concat();
    processes.into_iter().for_each(Process::end);
    assert_eq!(turns.len(), rounds * (others.len() + ours));
    turns
}

/// What has to hold for exclusive turns and for shared ones.
fn judge(turns: &[Turn]) {
    assert_eq!((together(turns), overtaken(turns)), (vec![], vec![]));
    let waited = waited(turns);
    println!("{} turns, {waited} of them waited for", turns.len());
    assert!(waited > turns.len() / 2, "they hardly met");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mutex_is_shared_with_curator() {
    let Some(curator) = Peer::Curator.find_or_skip() else { return };
    let Some(ensemble) = real::ensemble_or_skip(1) else { return };
    let at = ensemble.connect_string();
    judge(&contend(&at, Recipe::Mutex, &[&curator, &curator], 2).await);
}
