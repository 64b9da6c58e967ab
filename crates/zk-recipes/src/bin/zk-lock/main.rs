//! `zk-lock`: locks of a ZooKeeper ensemble, from the command line.

mod contents;
mod run;
mod show;
mod signals;
mod tied;

use std::error::Error;
use std::fmt;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use zk_recipes::session::Client;
use zk_recipes::session::proto::path;

/// What went wrong, in one line.
type Failure = Box<dyn Error>;

/// Exit code for whatever is no lock that is taken, and no outcome of a command.
const TROUBLE: u8 = 2;

/// Locks of a ZooKeeper ensemble: hold one while a command runs, and see who holds and waits.
#[derive(Parser)]
#[command(name = "zk-lock", version, max_term_width = 100)]
struct Arguments {
    /// The ensemble: host:port,host:port/chroot
    #[arg(long, global = true, default_value = "127.0.0.1:2181", value_name = "HOSTS")]
    connect: String,
    /// How long the ensemble keeps the locks of a process that it does not hear of, in seconds
    #[arg(long, global = true, default_value = "10", value_name = "SECONDS", value_parser = some_seconds)]
    session_timeout: Duration,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command while holding a lock, as flock(1) does; its exit code is passed on
    ///
    /// The command finds the fencing token of the lock in ZK_LOCK_TOKEN, and the lock's node, as
    /// seen below the chroot, in ZK_LOCK_NODE. It is sent SIGTERM when the lock is lost, or cannot
    /// be trusted since no server was reached for the session timeout; on Linux, also when this
    /// program is killed. Signals that would end this program are passed on to it, but for those
    /// of the keyboard: the terminal sends them to both.
    ///
    /// Everybody who can connect can read who holds the lock or waits for it: the name of this
    /// host, the process id, and the name of the program that is run, without its arguments.
    ///
    /// When the command has ended, so does the session, and the lock is free. If no server can be
    /// reached, or a signal ends the wait for an answer, it is free after the session timeout.
    ///
    /// Exits as the command does, with 128 and the number of the signal that ended it; with 126
    /// or 127 if it cannot be run or found; with 1 (or -E) if the lock was not acquired in time,
    /// and with 2 if something else went wrong.
    Run(run::Arguments),
    /// Show who holds a lock and who waits for it
    Ls(Path),
    /// Show who holds a lock and who waits for it, and every change, until interrupted or expired
    Watch(Path),
    /// Remove somebody from a lock, who then loses it or its place
    ///
    /// Whoever waits for permits of a semaphore is removed by its node `...-lock-...`; a lease that it
    /// has created meanwhile is made anew.
    Break(BreakArguments),
    /// Within `run`: become the command
    #[command(hide = true)]
    Tied(tied::Arguments),
}

impl Command {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Run(arguments) => Some(arguments.path()),
            Self::Ls(Path { path }) | Self::Watch(Path { path }) => Some(path),
            Self::Break(arguments) => Some(&arguments.path),
            Self::Tied(_) => None,
        }
    }
}

#[derive(Args)]
struct Path {
    /// The path of the lock
    path: String,
}

#[derive(Args)]
struct BreakArguments {
    /// The path of the lock
    path: String,
    /// The node to remove, as `ls` shows it
    #[arg(long)]
    node: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

/// A time in seconds, as the arguments have it.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn some_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("must be more than nothing".to_string()),
        seconds => Ok(seconds),
    }
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(code) => code,
        // Nobody listens any more, as with `| head`.
        Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            complain(&failure);
            ExitCode::from(TROUBLE)
        }
    }
}

fn is_broken_pipe(failure: &Failure) -> bool {
    let error = failure.downcast_ref::<std::io::Error>();
    error.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

fn start(arguments: Arguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(execute(arguments));
    // Or it would wait for a host's name that is still looked up.
    runtime.shutdown_background();
    done
}

async fn execute(arguments: Arguments) -> Result<ExitCode, Failure> {
    arguments.command.path().map_or(Ok(()), path::validate)?;
    let builder = Client::builder(&arguments.connect).session_timeout(arguments.session_timeout);
    let connect = async { Ok::<_, Failure>(builder.connect().await?) };
    match arguments.command {
        Command::Run(arguments) => run::run(connect, arguments).await,
        Command::Ls(Path { path }) => show::ls(&connect.await?, &path).await,
        Command::Watch(Path { path }) => show::watch(&connect.await?, &path).await,
        Command::Break(arguments) => break_lock(&connect.await?, &arguments).await,
        Command::Tied(arguments) => Ok(tied::run(&arguments)),
    }
}

async fn break_lock(client: &Client, arguments: &BreakArguments) -> Result<ExitCode, Failure> {
    let BreakArguments { path, node, yes } = arguments;
    let contents = contents::read(client, path).await?.unwrap_or_default();
    let Some(entry) = contents.entries.iter().find(|entry| entry.name() == node) else {
        return Err(format!("there is no contender '{node}' in {path}").into());
    };
    if !yes {
        show::say(&format!("{}\nRemove it from {path}? [y/N] ", show::describe(entry)))?;
        if !matches!(answer().await?.trim(), "y" | "Y" | "yes") {
            show::say("Nothing was removed.\n")?;
            return Ok(ExitCode::from(1));
        }
    }
    client.delete(&path::child(&entry.directory, node), None).await?;
    show::say(&format!("Removed {node}.\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// A line of the standard input. The session goes on meanwhile.
async fn answer() -> Result<String, Failure> {
    let line = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(line).await??.unwrap_or_default())
}

fn complain(what: &dyn fmt::Display) {
    eprintln!("zk-lock: {what}");
}
