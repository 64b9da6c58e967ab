//! Compares lock implementations: `bench locks`.
//!
//! Each measurement runs in its own process. A proxy counts the traffic of all clients alike, in a
//! separate run from the times.

mod contenders;
mod crowd;
mod figures;
mod floor;
mod held;
mod ours;
mod ours_blocking;
mod tap;
mod turns;
mod work;
mod zookeeper_client;

use std::io::{self, BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};

use clap::{Args, Subcommand, ValueEnum};
use tokio::runtime;
use zk_testkit::peers::{Peer, Program, Runnable};
use zk_testkit::real::RealEnsemble;
use zk_testkit::serve::Embedded;

use self::figures::{Table, Timing};
use self::tap::{Tally, Tap};
use self::work::{Kind, Work};

#[derive(Debug, Subcommand)]
pub(crate) enum LockCommand {
    /// Compares the performance of lock implementations.
    ///
    /// The floor is the baseline: the bare requests of a mutex on our client, without a lock around
    /// them. It always lists the contenders; our lock skips the list when one client acquires it
    /// again and again (docs/locks.md).
    ///
    /// Times run from before a release to after the next acquisition of the same lock. Without
    /// contention that is release plus acquire, otherwise a hand-over. For a quick result, use
    /// `--server memory --work alone`.
    ///
    /// Curator and kazoo are included if `tests/setup-real.sh` has installed them. The crate
    /// zookeeper-client needs the feature `peers`.
    Locks(Arguments),
    /// Measures a session that holds very many locks.
    ///
    /// Prints their memory, and the CPU time of the client for a reconnect and for the drop of all
    /// guards.
    Held(held::Arguments),
    /// Measures how the tasks of few processes take turns with one lock, with and without local
    /// hand-over.
    ///
    /// The wait of a task that has not come to its turn at the end counts, too. Requests are counted
    /// in a run of their own, through a proxy.
    Turns(turns::Arguments),
    /// Internal: runs one process of it.
    #[command(hide = true)]
    MeasureTurns(turns::Measurement),
    /// Measures how many tasks of one client queue for one lock at once, each with a node.
    ///
    /// Prints their requests, the bytes they receive, the time and memory until all wait, and the
    /// time of a hand-over.
    Crowd(crowd::Arguments),
    /// Internal: runs one process of it.
    #[command(hide = true)]
    MeasureCrowd(crowd::Measurement),
    /// Internal: runs the in-memory server.
    #[command(hide = true)]
    ServeLocks,
    /// Internal: runs one measurement and prints its figures.
    #[command(hide = true)]
    MeasureLocks { client: InProcess, at: String, path: String, kind: Kind, scale: f64 },
}

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The servers to measure against; both by default.
    #[arg(long)]
    server: Vec<Server>,
    /// The number of repetitions; the table shows medians.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// A factor for the number of acquisitions of every measurement.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Measures only these clients.
    #[arg(long)]
    client: Vec<String>,
    /// Measures only this kind of work.
    #[arg(long)]
    work: Vec<Kind>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Server {
    /// A real ZooKeeper, from Debian's packages.
    Zookeeper,
    /// The in-memory server.
    Memory,
}

/// A client that is part of this program.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum InProcess {
    ZkRecipes,
    /// The bare requests of a mutex, on the same client.
    Floor,
    /// The mutex with our own naming scheme.
    ZkRecipesPrivate,
    /// The blocking client; only for work with one contender.
    ZkRecipesBlocking,
    ZookeeperClient,
}

pub(crate) fn run(command: &LockCommand) -> io::Result<()> {
    match command {
        LockCommand::Locks(arguments) => compare(arguments),
        LockCommand::Held(arguments) => held::run(arguments),
        LockCommand::ServeLocks => serve(),
        LockCommand::Turns(arguments) => turns::run(arguments),
        LockCommand::Crowd(arguments) => crowd::run(arguments),
        LockCommand::MeasureCrowd(measurement) => crowd::measure(measurement),
        LockCommand::MeasureTurns(measurement) => turns::measure(measurement),
        LockCommand::MeasureLocks { client, at, path, kind, scale } => {
            let work = kind.work(*scale);
            let timing = match client {
                InProcess::ZkRecipes => contenders::measure::<zk_session::Client>(at, path, work),
                InProcess::Floor => contenders::measure::<floor::Floor>(at, path, work),
                InProcess::ZkRecipesPrivate => contenders::measure::<ours::Private>(at, path, work),
                InProcess::ZkRecipesBlocking => {
                    contenders::measure::<zk_session::blocking::Client>(at, path, work)
                }
                InProcess::ZookeeperClient => {
                    contenders::measure::<::zookeeper_client::Client>(at, path, work)
                }
            };
            println!("{}", timing?);
            Ok(())
        }
    }
}

fn serve() -> io::Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let embedded = Embedded::start(1).await?;
        println!("{}", embedded.connect_string());
        core::future::pending().await
    })
}

/// A measured implementation.
enum Client {
    InProcess(&'static str),
    Program(&'static str, Runnable),
}

impl Client {
    fn all() -> Vec<Self> {
        let ours = ["zk-recipes", "zk-recipes-private", ours_blocking::NAME, floor::NAME];
        let mut all = Vec::from(ours.map(Self::InProcess));
        all.push(Self::InProcess("zookeeper-client"));
        for (name, peer) in [("curator", Peer::Curator), ("kazoo", Peer::Kazoo)] {
            match peer.find() {
                Ok(runnable) => all.push(Self::Program(name, runnable)),
                Err(reason) => eprintln!("without {name}: {reason}"),
            }
        }
        all
    }

    fn name(&self) -> &'static str {
        match self {
            Self::InProcess(name) | Self::Program(name, _) => name,
        }
    }

    /// Returns whether it supports a kind of work.
    fn does(&self, kind: Kind) -> bool {
        match self {
            Self::InProcess(ours_blocking::NAME) => kind.work(1.0).contenders() == 1,
            Self::InProcess(_) => true,
            Self::Program(..) => kind.work(1.0).waits,
        }
    }

    fn command(&self, at: &str, path: &str, kind: Kind, scale: f64) -> io::Result<Command> {
        match self {
            Self::InProcess(name) => {
                let mut command = Command::new(std::env::current_exe()?);
                command.args(["measure-locks", name, at, path, &kind.name(), &scale.to_string()]);
                Ok(command)
            }
            Self::Program(_, runnable) => {
                let mut command = runnable.command(Program::Measure);
                let Work { sessions, locks, hold, warm_up, measured, .. } = kind.work(scale);
                let counts = [sessions, locks, warm_up, measured].map(|count| count.to_string());
                command.args([at, path]).args(counts).arg(hold.to_string());
                Ok(command)
            }
        }
    }
}

fn compare(arguments: &Arguments) -> io::Result<()> {
    let servers = match arguments.server.as_slice() {
        [] => Server::value_variants(),
        some => some,
    };
    for server in servers {
        let (_running, at) = start(*server)?;
        let table = compare_on(&at, arguments)?;
        let Arguments { rounds, scale, .. } = arguments;
        println!("\n{server:?}, medians of {rounds} rounds, scale {scale}\n{table}\n");
    }
    Ok(())
}

/// Starts a server. Returns the guard that keeps it running, and its address.
fn start(server: Server) -> io::Result<(Box<dyn core::any::Any>, String)> {
    match server {
        Server::Zookeeper => {
            let ensemble = RealEnsemble::start(1)?;
            let at = ensemble.connect_string();
            Ok((Box::new(ensemble), at))
        }
        Server::Memory => {
            let mut command = Command::new(std::env::current_exe()?);
            let mut process = Process::start(command.arg("serve-locks"))?;
            let at = process.line()?;
            Ok((Box::new(process), at))
        }
    }
}

fn compare_on(at: &str, arguments: &Arguments) -> io::Result<Table> {
    let tap = Tap::start(at)?;
    let mut clients = Client::all();
    clients.retain(|client| {
        let mut names = arguments.client.iter();
        arguments.client.is_empty() || names.any(|name| *name == client.name())
    });
    if clients.is_empty() {
        return Err(io::Error::other("unknown client"));
    }
    let mut table = Table::default();
    for kind in Kind::value_variants() {
        if !arguments.work.is_empty() && !arguments.work.contains(kind) {
            continue;
        }
        for round in 0..=arguments.rounds {
            // Rotates the order, so that each client follows each other one.
            clients.rotate_left(1);
            for client in clients.iter().filter(|client| client.does(*kind)) {
                // A separate lock path, unaffected by earlier measurements.
                let path = format!("/bench-{}-{}-{round}", client.name(), kind.name());
                let at = if round == 0 { tap.address() } else { at };
                let command = client.command(at, &path, *kind, arguments.scale)?;
                let (timing, tally) = measure(command, &tap)?;
                if round == 0 {
                    let per = kind.work(arguments.scale).measured;
                    table.add_traffic(client.name(), *kind, tally, per);
                } else {
                    eprintln!("{} {}: {timing}", client.name(), kind.name());
                    table.add_timing(client.name(), *kind, timing);
                }
            }
        }
    }
    Ok(table)
}

/// Runs a measuring process. Returns its timing and the traffic through the tap.
fn measure(mut command: Command, tap: &Tap) -> io::Result<(Timing, Tally)> {
    let mut process = Process::start(&mut command)?;
    let (mut before, mut after) = (Tally::default(), Tally::default());
    loop {
        match process.line()?.as_str() {
            "begin" => before = tap.tally(),
            "end" => after = tap.tally(),
            line => {
                let timing = line.parse().map_err(|()| io::Error::other(line.to_owned()))?;
                return Ok((timing, after - before));
            }
        }
    }
}

/// A child process, killed when dropped.
struct Process {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Process {
    fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().ok_or_else(|| io::Error::other("no output"))?;
        Ok(Self { child, output: BufReader::new(output) })
    }

    fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        match self.output.read_line(&mut line)? {
            0 => Err(io::Error::other("a process ended without printing its figures")),
            _ => Ok(line.trim().to_owned()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
