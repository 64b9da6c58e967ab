//! Measures how the tasks of few processes take turns with one lock: `bench turns`.

use std::collections::BTreeMap;
use std::io;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Args;
use cpu_time::ProcessTime;
use tokio::task::JoinSet;
use zk_recipes::{HandOver, Options};
use zk_session::Client;
use zk_testkit::peers::{Peer, Program, Runnable};

use super::contenders::{Lock, Locks};
use super::tap::Tap;
use super::{Process, Server, start};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The server to measure against.
    #[arg(long, value_enum, default_value = "memory")]
    server: Server,
    /// The time of a measurement, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u64,
    /// The numbers of tasks in each process.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 8, 64, 1_000])]
    tasks: Vec<usize>,
    /// The numbers of processes.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2])]
    processes: Vec<usize>,
    /// The times for which each task holds the lock, in milliseconds.
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    work: Vec<u64>,
    /// The clients: `off`, `on` and `kept` are ours, without local hand-over, with it, and with idle
    /// locks that are kept; `zookeeper-client`, `curator` and `kazoo` are others, the last two with
    /// threads.
    #[arg(long, value_delimiter = ',', default_values_t = ["off", "on"].map(str::to_owned))]
    client: Vec<String>,
}

/// One measuring process.
#[derive(Clone, Debug, Args)]
pub(crate) struct Measurement {
    client: String,
    at: String,
    path: String,
    tasks: usize,
    work: u64,
    seconds: u64,
}

#[derive(Clone, Copy, Default)]
struct Figures {
    turns: f64,
    /// In milliseconds.
    longest: f64,
    /// In microseconds a turn.
    processor: f64,
}

pub(super) fn run(arguments: &Arguments) -> io::Result<()> {
    let programs = programs(&arguments.client)?;
    let (_running, at) = start(arguments.server)?;
    let tap = Tap::start(&at)?;
    println!(
        "| tasks | processes | work | client | turns a second, each process | requests a turn | longest wait | CPU a turn |"
    );
    println!("|---:|---:|---:|---|---:|---:|---:|---:|");
    let Arguments { seconds, .. } = *arguments;
    for (number, (tasks, processes, work, client)) in cases(arguments).into_iter().enumerate() {
        let run = |at: &str, run: usize, seconds| {
            let path = format!("/turns-{number}-{run}");
            let of =
                Measurement { client: client.clone(), at: at.into(), path, tasks, work, seconds };
            measure_all(&of, processes, programs.get(&client))
        };
        let figures = run(&at, 0, seconds)?;
        let before = tap.tally();
        let counted = run(tap.address(), 1, 1)?;
        let requests = (tap.tally() - before).requests as f64;
        let turns: f64 = counted.iter().map(|figures| figures.turns).sum();
        let rates: Vec<_> =
            figures.iter().map(|f| format!("{:.0}", f.turns / seconds as f64)).collect();
        let longest = figures.iter().map(|f| f.longest).fold(0.0, f64::max);
        let processor = figures.iter().map(|f| f.processor).fold(0.0, f64::max);
        println!(
            "| {tasks} | {processes} | {work} ms | {client} | {} | {:.2} | {longest:.0} ms | {processor:.0} µs |",
            rates.join(" + "),
            requests / turns,
        );
    }
    Ok(())
}

fn cases(arguments: &Arguments) -> Vec<(usize, usize, u64, String)> {
    let mut cases = Vec::new();
    for tasks in &arguments.tasks {
        for processes in &arguments.processes {
            for work in &arguments.work {
                for client in &arguments.client {
                    cases.push((*tasks, *processes, *work, client.clone()));
                }
            }
        }
    }
    cases
}

/// Returns the programs of the clients that have one.
fn programs(clients: &[String]) -> io::Result<BTreeMap<String, Runnable>> {
    let peers = [("curator", Peer::Curator), ("kazoo", Peer::Kazoo)];
    let wanted = peers.into_iter().filter(|(name, _)| clients.iter().any(|client| client == name));
    let find = |(name, peer): (&str, Peer)| Ok((name.into(), peer.find()?));
    wanted.map(find).collect::<Result<_, String>>().map_err(io::Error::other)
}

fn measure_all(
    of: &Measurement,
    processes: usize,
    program: Option<&Runnable>,
) -> io::Result<Vec<Figures>> {
    let Measurement { client, at, path, tasks, work, seconds } = of;
    let start = |_| {
        let mut command = match program {
            Some(program) => program.command(Program::Turns),
            None => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["measure-turns", client]);
                command
            }
        };
        command.args([at, path]);
        command.args([tasks.to_string(), work.to_string(), seconds.to_string()]);
        Process::start(&mut command)
    };
    let mut running = (0..processes).map(start).collect::<io::Result<Vec<_>>>()?;
    let figures = running.iter_mut().map(|process| {
        let line = process.line()?;
        let figures: Result<Vec<f64>, _> = line.split(' ').map(str::parse).collect();
        match figures.as_deref() {
            Ok(&[turns, longest, processor]) => Ok(Figures { turns, longest, processor }),
            _ => Err(io::Error::other(line)),
        }
    });
    figures.collect()
}

pub(super) fn measure(of: &Measurement) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(async {
        match of.client.as_str() {
            "zookeeper-client" => {
                type Peer = ::zookeeper_client::Client;
                let client = <Peer as Locks>::connect(&of.at).await?;
                take_turns(|| Locks::lock(&client, &of.path), of).await
            }
            mode => {
                let client = Client::connect(&of.at).await.map_err(io::Error::other)?;
                let options = match mode {
                    "on" => Options::new().local_hand_over(HandOver::default()),
                    "kept" => Options::new()
                        .local_hand_over(HandOver::default())
                        .keep_idle(Duration::from_secs(1)),
                    _ => Options::new(),
                };
                let mutex = zk_recipes::Mutex::with(&client, &of.path, options);
                let mutex = mutex.map_err(io::Error::other)?;
                take_turns(|| Ok(mutex.clone()), of).await
            }
        }
    })?;
    println!("{} {} {}", figures.turns, figures.longest, figures.processor);
    Ok(())
}

struct Progress {
    is_over: AtomicBool,
    turns: AtomicU64,
    longest: AtomicU64,
    waiting: Mutex<Vec<Option<Instant>>>,
}

async fn take_turns<L: Lock>(
    lock: impl Fn() -> io::Result<L>,
    of: &Measurement,
) -> io::Result<Figures> {
    let progress = Arc::new(Progress {
        is_over: AtomicBool::new(false),
        turns: AtomicU64::new(0),
        longest: AtomicU64::new(0),
        waiting: Mutex::new(vec![None; of.tasks]),
    });
    let (began, processor) = (Instant::now(), ProcessTime::now());
    let mut tasks = JoinSet::new();
    for number in 0..of.tasks {
        tasks.spawn(take_turn(lock()?, number, Duration::from_millis(of.work), progress.clone()));
    }
    tokio::time::sleep(Duration::from_secs(of.seconds)).await;
    let elapsed = began.elapsed();
    let turns = progress.turns.load(Ordering::Relaxed);
    progress.is_over.store(true, Ordering::Relaxed);
    let waiting = progress.waiting.lock().expect("no panic").clone();
    let unfinished = waiting.into_iter().flatten().map(|since| since.elapsed()).max();
    let unfinished = unfinished.unwrap_or_default().as_secs_f64() * 1e3;
    let longest = progress.longest.load(Ordering::Relaxed) as f64 / 1e3;
    let processor = processor.elapsed().as_secs_f64() * 1e6 / turns.max(1) as f64;
    tasks.abort_all();
    while tasks.join_next().await.is_some() {}
    let turns = turns as f64 * of.seconds as f64 / elapsed.as_secs_f64();
    Ok(Figures { turns, longest: longest.max(unfinished), processor })
}

async fn take_turn(
    lock: impl Lock,
    number: usize,
    work: Duration,
    progress: Arc<Progress>,
) -> io::Result<()> {
    let note = |since| progress.waiting.lock().expect("no panic")[number] = since;
    while !progress.is_over.load(Ordering::Relaxed) {
        let begun = Instant::now();
        note(Some(begun));
        let held = lock.acquire().await?;
        note(None);
        let waited = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        progress.longest.fetch_max(waited, Ordering::Relaxed);
        progress.turns.fetch_add(1, Ordering::Relaxed);
        if work.is_zero() {
            tokio::task::yield_now().await;
        } else {
            tokio::time::sleep(work).await;
        }
        lock.release(held).await?;
    }
    Ok(())
}
