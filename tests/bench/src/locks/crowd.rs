//! Measures how many tasks of one client queue for one lock at once: `bench crowd`.

use std::io;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::task::JoinSet;
use zk_recipes::{Event, Mutex, Options};
use zk_session::Client;

use super::tap::{Tally, Tap};
use super::{Process, Server, start};

/// The most hand-overs that are measured.
const HAND_OVERS: usize = 100;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server to measure against.
    #[arg(long, value_enum, default_value = "memory")]
    server: Server,
    /// The numbers of tasks.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 100, 1_000, 10_000])]
    tasks: Vec<usize>,
}

/// One measuring process.
#[derive(Debug, Args)]
pub(crate) struct Measurement {
    at: String,
    path: String,
    tasks: usize,
}

pub(super) fn run(arguments: &Arguments) -> io::Result<()> {
    let (_running, at) = start(arguments.server)?;
    let tap = Tap::start(&at)?;
    println!("| tasks | requests | bytes received | until all wait | memory | hand-over |");
    println!("|---:|---:|---:|---:|---:|---:|");
    for tasks in &arguments.tasks {
        let mut timed = measuring(&at, *tasks, "timed")?;
        timed.line()?;
        let (waiting, hand_over) = (timed.line()?, timed.line()?);
        let mut counted = measuring(tap.address(), *tasks, "counted")?;
        counted.line()?;
        let before = tap.tally();
        counted.line()?;
        let traffic = tap.tally() - before;
        let Tally { requests, bytes_down, .. } = traffic;
        println!("| {tasks} | {requests} | {bytes_down} | {waiting} | {hand_over} |");
    }
    Ok(())
}

fn measuring(at: &str, tasks: usize, run: &str) -> io::Result<Process> {
    let mut command = Command::new(std::env::current_exe()?);
    let path = format!("/crowd-{tasks}-{run}");
    Process::start(command.args(["measure-crowd", at, &path, &tasks.to_string()]))
}

/// Prints a line before the tasks begin, one when all wait, and one when some have held the lock.
pub(super) fn measure(of: &Measurement) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let holder = Client::connect(&of.at).await.map_err(io::Error::other)?;
        let holder = Mutex::new(&holder, &of.path).map_err(io::Error::other)?;
        let held = holder.acquire().await.map_err(io::Error::other)?;
        let client = Client::connect(&of.at).await.map_err(io::Error::other)?;
        let (waiting, turns) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let counted = waiting.clone();
        let options = Options::new().observer(move |_, event| {
            if let Event::Waiting { .. } = event {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        let mutex = Mutex::with(&client, &of.path, options).map_err(io::Error::other)?;
        println!("begin");
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..of.tasks {
            let (mutex, turns) = (mutex.clone(), turns.clone());
            tasks.spawn(async move {
                let guard = mutex.acquire().await?;
                turns.fetch_add(1, Ordering::Relaxed);
                guard.release().await
            });
        }
        reach(&waiting, of.tasks).await;
        println!("{:.1} ms | {} KB", begun.elapsed().as_secs_f64() * 1e3, memory()?);
        // The watches are set, too.
        client.exists("/").await.map_err(io::Error::other)?;
        let hand_overs = of.tasks.min(HAND_OVERS);
        let begun = Instant::now();
        held.release().await.map_err(io::Error::other)?;
        reach(&turns, hand_overs).await;
        println!("{} µs", begun.elapsed().as_micros() / hand_overs as u128);
        Ok(())
    })
}

async fn reach(counter: &AtomicUsize, count: usize) {
    while counter.load(Ordering::Relaxed) < count {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Returns the peak memory of the process, in kilobytes.
fn memory() -> io::Result<String> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    most.map(|most| most.trim().to_owned()).ok_or_else(|| io::Error::other("no VmHWM"))
}
