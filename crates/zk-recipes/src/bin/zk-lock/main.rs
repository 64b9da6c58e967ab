//! `zk-lock`: locks of a ZooKeeper ensemble, from the command line.

mod contents;
mod processes;
mod run;
mod show;
mod signals;
mod supervise;
mod text;
mod tied;

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use zk_recipes::session::Client;
use zk_recipes::session::proto::{ErrorCode, path};

use crate::run::Supervisor;

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
    /// Within `run`: the process that has started this one to keep a lock for it
    #[arg(long, hide = true)]
    supervisor: Option<i32>,
    /// Within `run`: the signals that it has taken
    #[arg(long, hide = true, value_delimiter = ',')]
    taken: Vec<i32>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command while holding a lock, as flock(1) does; its exit code is passed on
    ///
    /// The command finds the fencing token of the lock in ZK_LOCK_TOKEN, and the lock's node, as
    /// seen below the chroot, in ZK_LOCK_NODE.
    ///
    /// zk-lock holds the lock until every process of the command has ended, including background
    /// processes and daemons. Then the lock is free; if no server can be reached, it is free after
    /// the session timeout.
    ///
    /// Signals: SIGTERM, SIGHUP, SIGINT and SIGQUIT are passed on to every process of the command,
    /// SIGUSR1 and SIGUSR2 to the command itself. Signals that are ignored when zk-lock starts stay
    /// ignored, as with nohup(1). Ctrl-C, Ctrl-Z, fg and bg work as without zk-lock. A stopped job
    /// keeps its lock.
    ///
    /// Loss: if the lock is lost, or no server confirms it for the session timeout, every process
    /// gets SIGTERM, and those that are left get SIGKILL after --kill-after. The exit code is then
    /// 73 (or --lost-exit-code), whatever the command returns. If zk-lock itself is killed, the
    /// processes are ended in the same way.
    ///
    /// zk-lock cannot end processes of other users that you may not signal, processes that another
    /// service starts (at, cron, systemd-run, docker run), or those left when both of its own
    /// processes are killed at once. On systems other than Linux only the command itself is
    /// signalled and waited for.
    ///
    /// Everyone who can connect can read who holds the lock or waits for it: the name of this host,
    /// the process id, and the name of the program that is run, without its arguments.
    ///
    /// Exits as the command does, with 128 plus the number of the signal that ended it; with 126
    /// or 127 if it cannot be run or found; with 1 (or -E) if the lock was not acquired in time, or
    /// with --try or --timeout, if no server could be reached; with 73 (or --lost-exit-code) if the
    /// lock was lost; with 2 if something else went wrong.
    Run(run::Arguments),
    /// Show who holds a lock and who waits for it
    Ls(Path),
    /// Show who holds a lock and who waits for it, and every change, until interrupted or expired
    Watch(Path),
    /// Remove somebody from a lock, who then loses it or its place
    ///
    /// A contender that waits for permits of a semaphore is removed by its node `...-lock-...`. If
    /// only its lease is removed, it creates another.
    ///
    /// Exits with 0 if the node was removed; with 1 if the answer was no; with 2 if there is no
    /// such node or something else went wrong.
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
    /// The node to remove, as `ls` shows it; no other node is read
    #[arg(long)]
    node: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

impl Arguments {
    /// How long to wait for the first server.
    fn connect_timeout(&self) -> Duration {
        match &self.command {
            // Its own limit is for servers, too.
            Command::Run(run) if run.limit().is_some() => Duration::MAX,
            _ => self.session_timeout,
        }
    }
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
            complain(&explain(&failure));
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
    if let Some(path) = arguments.command.path() {
        path::validate(path).map_err(|error| format!("'{path}': {error}"))?;
    }
    let builder = Client::builder(&arguments.connect).session_timeout(arguments.session_timeout);
    let builder = builder.connect_timeout(arguments.connect_timeout());
    let connect = async { Ok::<_, Failure>(builder.connect().await?) };
    match arguments.command {
        Command::Run(run) => match arguments.supervisor {
            None => supervise::run(&run, arguments.session_timeout).await,
            Some(pid) => run::run(connect, &run, Supervisor::new(pid, &arguments.taken)?).await,
        },
        Command::Ls(Path { path }) => show::ls(&connect.await?, &path).await,
        Command::Watch(Path { path }) => show::watch(&connect.await?, &path).await,
        Command::Break(arguments) => break_lock(&connect.await?, &arguments).await,
        Command::Tied(arguments) => Ok(tied::run(&arguments)),
    }
}

async fn break_lock(client: &Client, arguments: &BreakArguments) -> Result<ExitCode, Failure> {
    let BreakArguments { path, node, yes } = arguments;
    for place in contents::places(path, node) {
        if !yes {
            let owner = match client.get_data(&place).await {
                Ok((data, _)) => show::owner(Some(&data)),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => continue,
                // Removing needs no permission to read.
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => show::owner(None),
                Err(error) => return Err(error.into()),
            };
            let path = text::line(path);
            show::say(&format!("{node} {owner}\nRemove it from {path}? [y/N] "))?;
            if !matches!(answer().await?.trim(), "y" | "Y" | "yes") {
                show::say("Nothing was removed.\n")?;
                return Ok(ExitCode::from(1));
            }
        }
        match client.delete(&place, None).await {
            Ok(()) => {
                show::say(&format!("Removed {node}.\n"))?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(format!("there is no contender '{node}' in {path}").into())
}

/// A line of the standard input. The session goes on meanwhile.
async fn answer() -> Result<String, Failure> {
    let line = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(line).await??.unwrap_or_default())
}

/// Prints an error and its causes on one line.
fn explain(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut next = failure.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        // Errors of other crates often print their source themselves.
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    text
}

/// Says what is wrong, if anybody listens.
fn complain(what: &dyn fmt::Display) {
    let _ = writeln!(std::io::stderr(), "zk-lock: {}", text::line(&what.to_string()));
}
