//! Runs many sessions and locks for a long time, while servers restart and sessions expire. Fails
//! if memory, tasks, file descriptors or watches grow, or if anything is left at the end.
//!
//! The ensemble is the in-memory one, in a process of its own, or the one at `--at`. A warm-up of a
//! fifth of the time does not count. Of the rest, the greatest values of the second half may exceed
//! those of the first half by a twentieth, and a constant.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use tokio::runtime::Handle;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{sleep, timeout};
use zk_recipes::Mutex;
use zk_session::Client;
use zk_testkit::serve::Embedded;

/// Long enough for sessions to survive the restart of a server.
const SESSION_TIMEOUT: Duration = Duration::from_secs(30);
/// How long everything may take to disappear at the end.
const HANG_TIMEOUT: Duration = Duration::from_secs(60);
/// How long an attempt may wait for a lock.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs many sessions and locks for a long time.
#[derive(Clone, Debug, Parser)]
struct Arguments {
    /// How long it runs, in seconds.
    #[arg(long, env = "ZK_SOAK_SECONDS", default_value = "600")]
    seconds: u64,
    /// How often figures are printed, in seconds. By default ten minutes, or six times in a shorter
    /// run.
    #[arg(long)]
    interval: Option<u64>,
    /// The number of sessions.
    #[arg(long, default_value = "1000")]
    sessions: usize,
    /// The number of locks that are held at a time.
    #[arg(long, default_value = "10000")]
    locks: usize,
    /// The connect string of a running ensemble.
    #[arg(long)]
    at: Option<String>,
    /// Serves the in-memory ensemble until the end of standard input.
    #[arg(long, hide = true)]
    serve: bool,
}

fn main() -> io::Result<ExitCode> {
    let arguments = Arguments::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    if arguments.serve {
        return runtime.block_on(serve()).map(|()| ExitCode::SUCCESS);
    }
    let server = arguments.at.is_none().then(Server::start).transpose()?;
    let at = arguments.at.clone().or(server.as_ref().map(|server| server.at.clone()));
    let at = at.expect("one of both");
    let grown = runtime.block_on(soak(&arguments, &at));
    if grown.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    grown.iter().for_each(|what| println!("FAILED: {what}"));
    Ok(ExitCode::FAILURE)
}

/// The in-memory ensemble in a process of its own, which ends with its standard input.
struct Server {
    process: Child,
    at: String,
}

impl Server {
    fn start() -> io::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("--serve").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let mut at = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut at)?;
        Ok(Self { process, at: at.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.process.stdin.take());
        // It ends by itself.
        let _ = self.process.wait();
    }
}

/// Serves. One server restarts every half minute, and a session ends every second.
async fn serve() -> io::Result<()> {
    let embedded = Embedded::start(3).await?;
    println!("{}", embedded.connect_string());
    io::stdout().flush()?;
    let faults = async {
        for second in 0_usize.. {
            sleep(Duration::from_secs(1)).await;
            let server = second / 30 % 3;
            match second % 30 {
                20 => embedded.kill(server),
                22 => embedded.restart(server).await?,
                _ => {}
            }
            let sessions: Vec<_> = embedded.with(|ensemble| ensemble.sessions().collect());
            if let Some(session) = fastrand::choice(sessions) {
                embedded.expire_session(session);
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = faults => ended,
        ended = spawn_blocking(|| io::stdin().read_to_end(&mut Vec::new())) => {
            ended?.map(drop)
        }
    }
}

/// Runs the load. Returns what has grown, or was left at the end.
async fn soak(arguments: &Arguments, at: &str) -> Vec<String> {
    let baseline = Sample::take(at).await;
    println!("{:>7}  {}", "seconds", Sample::HEAD);
    println!("{:>7}  {baseline}", "before");
    let clients = connect(at, arguments.sessions).await;
    let (done, stopped) = (Arc::new(AtomicU64::new(0)), tokio::sync::watch::channel(false));
    let mut workers = JoinSet::new();
    for client in &clients {
        let worker = Worker {
            client: client.clone(),
            // A quarter of them is held.
            paths: arguments.locks * 4,
            quota: arguments.locks.div_ceil(arguments.sessions),
            stopped: stopped.1.clone(),
            done: done.clone(),
        };
        workers.spawn(worker.run());
    }

    let interval = Duration::from_secs(arguments.interval.unwrap_or(600));
    let duration = Duration::from_secs(arguments.seconds);
    let interval = if arguments.interval.is_some() { interval } else { interval.min(duration / 6) };
    let (start, mut samples, mut printed) = (Instant::now(), Vec::new(), 0);
    while start.elapsed() < duration {
        sleep((duration / 200).max(Duration::from_secs(1))).await;
        let sample = Sample::take(at).await;
        samples.push((start.elapsed(), sample));
        if start.elapsed() >= interval * (printed + 1) {
            printed += 1;
            let (requests, renewals, reconnects) = totals(&clients);
            println!(
                "{:>7}  {sample}  {} steps, {requests} requests, {renewals} renewals, {reconnects} \
                 connections",
                start.elapsed().as_secs(),
                done.load(Ordering::Relaxed),
            );
        }
    }
    let mut failed = growth(&samples, duration);
    if done.load(Ordering::Relaxed) == 0 {
        failed.push("nothing was done".to_owned());
    }
    drop(samples);

    stopped.0.send_replace(true);
    while let Some(worker) = workers.join_next().await {
        worker.expect("no panic");
    }
    let mut closing: JoinSet<_> = clients.into_iter().map(Client::close).collect();
    while closing.join_next().await.is_some() {}
    drop((closing, workers));
    failed.extend(left(at, baseline).await);
    failed
}

async fn connect(at: &str, sessions: usize) -> Vec<Client> {
    let mut clients = Vec::new();
    while clients.len() < sessions {
        let connect = |_| {
            let builder = Client::builder(at).session_timeout(SESSION_TIMEOUT).renew(true);
            tokio::spawn(builder.connect_timeout(HANG_TIMEOUT).connect())
        };
        let connecting: Vec<_> = (0..50.min(sessions - clients.len())).map(connect).collect();
        for client in connecting {
            clients.push(client.await.expect("no panic").expect("a server answers"));
        }
    }
    clients
}

/// Returns the numbers of requests, renewals and connections.
fn totals(clients: &[Client]) -> (u64, u64, u64) {
    let each = clients.iter().map(Client::statistics);
    each.fold((0, 0, 0), |(requests, renewals, connections), one| {
        (requests + one.requests, renewals + one.renewals, connections + one.connections)
    })
}

/// One task for each session.
struct Worker {
    client: Client,
    paths: usize,
    quota: usize,
    stopped: tokio::sync::watch::Receiver<bool>,
    done: Arc<AtomicU64>,
}

impl Worker {
    async fn run(self) {
        let mut held = VecDeque::new();
        while !*self.stopped.borrow() {
            let path = format!("/soak/{}", fastrand::usize(..self.paths));
            let mutex = Mutex::new(&self.client, &path).expect("a valid path");
            // Errors are those of servers and sessions that end.
            match fastrand::u8(..12) {
                // Given up while it waits, or just when it has the lock.
                0 => drop(timeout(PATIENCE / 100, mutex.acquire()).await),
                1 => held.extend(mutex.try_acquire().await),
                2 => drop(self.client.exists_and_watch(&path).await),
                3 => drop(self.client.get_children(&path).await),
                4 => drop(held.pop_front()),
                _ if held.len() >= self.quota => {
                    if let Some(guard) = held.pop_front() {
                        drop(guard.release().timeout(PATIENCE).await);
                    }
                }
                _ => held.extend(mutex.acquire().timeout(PATIENCE).await),
            }
            held.retain(|guard| !guard.is_lost());
            self.done.fetch_add(1, Ordering::Relaxed);
        }
        for guard in held {
            drop(guard.release().timeout(PATIENCE).await);
        }
    }
}

/// What may grow.
#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    /// The resident memory of this process, in KiB.
    memory: u64,
    tasks: u64,
    descriptors: u64,
    /// Watches, as the servers count them.
    watches: u64,
    /// Ephemeral nodes, as the servers count them.
    nodes: u64,
}

impl Sample {
    const HEAD: &str = "  memory  tasks    fds  watches   locks";

    async fn take(at: &str) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let memory = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let memory = memory.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        let descriptors = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        let servers: Vec<_> = at.split(',').map(str::to_owned).collect();
        let monitors = spawn_blocking(|| servers.into_iter().filter_map(monitor).collect());
        let monitors: Vec<String> = monitors.await.expect("no panic");
        let figures = |name: &str| -> Vec<u64> {
            let lines = monitors.iter().flat_map(|monitor| monitor.lines());
            lines.filter_map(|line| line.strip_prefix(name)?.trim().parse().ok()).collect()
        };
        Self {
            memory: memory.expect("/proc/self/status"),
            tasks: Handle::current().metrics().num_alive_tasks() as u64,
            descriptors: descriptors as u64,
            watches: figures("zk_watch_count").iter().sum(),
            nodes: figures("zk_ephemerals_count").into_iter().max().unwrap_or(0),
        }
    }

    fn max(self, other: Self) -> Self {
        Self {
            memory: self.memory.max(other.memory),
            tasks: self.tasks.max(other.tasks),
            descriptors: self.descriptors.max(other.descriptors),
            watches: self.watches.max(other.watches),
            nodes: self.nodes.max(other.nodes),
        }
    }
}

impl fmt::Display for Sample {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { memory, tasks, descriptors, watches, nodes } = self;
        let memory = memory / 1024;
        write!(f, "{memory:>4} MiB {tasks:>6} {descriptors:>6} {watches:>8} {nodes:>7}")
    }
}

/// Returns the metrics of a server, unless it is down.
fn monitor(server: String) -> Option<String> {
    let mut stream = TcpStream::connect(server).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    stream.write_all(b"mntr").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Returns what has grown after the warm-up.
fn growth(samples: &[(Duration, Sample)], duration: Duration) -> Vec<String> {
    let within = |from: u32, to: u32| {
        let times = duration * from / 10..duration * to / 10;
        let samples = samples.iter().filter(|(time, _)| times.contains(time));
        samples.map(|(_, sample)| *sample).fold(Sample::default(), Sample::max)
    };
    let (first, last) = (within(2, 6), within(6, 10));
    let figures = [
        ("memory", first.memory, last.memory, 8 * 1024),
        ("tasks", first.tasks, last.tasks, 50),
        ("file descriptors", first.descriptors, last.descriptors, 50),
        ("watches", first.watches, last.watches, 500),
        ("locks", first.nodes, last.nodes, 500),
    ];
    let grown =
        figures.into_iter().filter(|(_, first, last, more)| *last > first + first / 20 + more);
    grown.map(|(what, first, last, _)| format!("{what}: {first}, and later {last}")).collect()
}

/// Waits until nothing is left but what was there before. Returns what is.
async fn left(at: &str, before: Sample) -> Option<String> {
    let end = Instant::now() + HANG_TIMEOUT;
    loop {
        let Sample { tasks, descriptors, watches, nodes, .. } = Sample::take(at).await;
        // The descriptors of the runtime itself may have come since.
        let is_clean = tasks <= before.tasks && descriptors <= before.descriptors + 4;
        if is_clean && watches <= before.watches && nodes <= before.nodes {
            println!("nothing is left");
            return None;
        }
        if Instant::now() > end {
            return Some(format!(
                "{tasks} tasks, {descriptors} file descriptors, {watches} watches and {nodes} \
                 nodes are left"
            ));
        }
        sleep(Duration::from_millis(100)).await;
    }
}
