//! `zk-lock`: locks of a ZooKeeper ensemble, from the command line.

mod contents;
mod exec;
mod processes;
mod run;
mod show;
mod signals;
mod supervise;
mod text;

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use zk_recipes::session::Client;
use zk_recipes::session::proto::{ErrorCode, path};

use crate::run::Supervisor;

/// An error, printed on one line.
type Failure = Box<dyn Error>;

/// Exit code for errors other than a lock that was not acquired or was lost.
const FAILED: u8 = 2;

/// Locks of a ZooKeeper ensemble: hold one while a command runs, and show holders and waiters.
#[derive(Parser)]
#[command(name = "zk-lock", version, max_term_width = 100)]
struct Arguments {
    /// The ensemble: host:port,host:port/chroot
    #[arg(long, global = true, default_value = "127.0.0.1:2181", value_name = "HOSTS")]
    connect: String,
    /// Session timeout in seconds: how long the ensemble keeps the locks of a process that has gone
    #[arg(long, global = true, default_value = "10", value_name = "SECONDS", value_parser = positive_seconds)]
    session_timeout: Duration,
    /// Within `run`: the process that has started this one as the keeper of its lock
    #[arg(long, hide = true)]
    supervisor: Option<i32>,
    /// Within `run`: the signals that the supervisor handles
    #[arg(long, hide = true, value_delimiter = ',')]
    handled: Vec<i32>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command while holding a lock, as flock(1) does, and pass on its exit code
    ///
    /// The environment of the command has the fencing token of the lock in ZK_LOCK_TOKEN, and the
    /// path of the lock node, without the chroot, in ZK_LOCK_NODE.
    ///
    /// zk-lock holds the lock until every process of the command has ended, including background
    /// processes and daemons. Then it releases the lock. If no server answers, the lock is free
    /// after the session timeout.
    ///
    /// Signals: SIGTERM, SIGHUP, SIGINT and SIGQUIT are passed on to every process of the command,
    /// SIGUSR1 and SIGUSR2 to the command itself. Signals that are ignored when zk-lock starts stay
    /// ignored, as with nohup(1). Ctrl-C, Ctrl-Z, fg and bg work as without zk-lock. A stopped job
    /// keeps its lock.
    ///
    /// Loss: the lock is lost if its node is deleted, its session ends, or no server confirms the
    /// session for the session timeout. Every process then gets SIGTERM, and SIGKILL after
    /// --kill-after. The exit code is 73 (or --lost-exit-code), whatever the command returns. If
    /// zk-lock itself is killed, the processes are ended in the same way.
    ///
    /// zk-lock cannot end processes that you may not signal, or processes that another service
    /// starts (at, cron, systemd-run, docker run). It also cannot end the processes that remain if
    /// both of its own processes are killed at once. On systems other than Linux, it signals and
    /// waits for the command itself only.
    ///
    /// Everyone who can connect to the ensemble can read the name of this host, the process id, and
    /// the name of the program. Its arguments are not published.
    ///
    /// The exit code is that of the command, or 128 plus the number of the signal that ended it. It
    /// is 126 if the command cannot be run, and 127 if it is not found. It is 1 (or -E) if the lock
    /// was not acquired in time, or if no server answered within --try or --timeout. It is 73 (or
    /// --lost-exit-code) if the lock was lost, and 2 for any other error.
    Run(run::Arguments),
    /// Show the holders of a lock and its waiters
    Ls(Path),
    /// Show the holders of a lock and its waiters, and every change, until interrupted or expired
    Watch(Path),
    /// Remove a contender, which then loses the lock or its place in the queue
    ///
    /// To remove a waiter of a semaphore, remove its node `...-lock-...`. If only its permit node
    /// is removed, it creates another.
    ///
    /// Exits with 0 if the node was removed; with 1 if you answered no; with 2 if there is no such
    /// node, or for any other error.
    Break(BreakArguments),
    /// Within `run`: become the command
    #[command(hide = true)]
    Exec(exec::Arguments),
}

impl Command {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Run(arguments) => Some(arguments.path()),
            Self::Ls(Path { path }) | Self::Watch(Path { path }) => Some(path),
            Self::Break(arguments) => Some(&arguments.path),
            Self::Exec(_) => None,
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
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl Arguments {
    /// Returns how long to wait for the first server.
    fn connect_timeout(&self) -> Duration {
        match &self.command {
            // The time limit of the command applies instead.
            Command::Run(run) if run.limit().is_some() => Duration::MAX,
            _ => self.session_timeout,
        }
    }
}

/// Parses a time in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_string())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

fn positive_seconds(text: &str) -> Result<Duration, String> {
    match seconds(text)? {
        Duration::ZERO => Err("must be greater than 0".to_string()),
        seconds => Ok(seconds),
    }
}

fn main() -> ExitCode {
    match start(Arguments::parse()) {
        Ok(code) => code,
        // The reader of the pipe has gone, as with `| head`.
        Err(failure) if is_broken_pipe(&failure) => ExitCode::SUCCESS,
        Err(failure) => {
            print_error(&explain(&failure));
            ExitCode::from(FAILED)
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
    // Dropping the runtime would wait for a lookup of a host name.
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
            Some(pid) => run::run(connect, &run, Supervisor::new(pid, &arguments.handled)?).await,
        },
        Command::Ls(Path { path }) => show::ls(&connect.await?, &path).await,
        Command::Watch(Path { path }) => show::watch(&connect.await?, &path).await,
        Command::Break(arguments) => break_lock(&connect.await?, &arguments).await,
        Command::Exec(arguments) => Ok(exec::run(&arguments)),
    }
}

async fn break_lock(client: &Client, arguments: &BreakArguments) -> Result<ExitCode, Failure> {
    let BreakArguments { path, node, yes } = arguments;
    for candidate in contents::possible_paths(path, node) {
        if !yes {
            let owner = match client.get_data(&candidate).await {
                Ok((data, _)) => show::owner(Some(&data)),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => continue,
                // Deleting needs no permission to read.
                Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => show::owner(None),
                Err(error) => return Err(error.into()),
            };
            let path = text::line(path);
            show::print(&format!("{node} {owner}\nRemove it from {path}? [y/N] "))?;
            if !matches!(answer().await?.trim(), "y" | "Y" | "yes") {
                show::print("Nothing was removed.\n")?;
                return Ok(ExitCode::from(1));
            }
        }
        match client.delete(&candidate, None).await {
            Ok(()) => {
                show::print(&format!("Removed {node}.\n"))?;
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(format!("there is no contender '{node}' in {path}").into())
}

/// Reads a line of the standard input. The session stays alive meanwhile.
async fn answer() -> Result<String, Failure> {
    let line = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(line).await??.unwrap_or_default())
}

/// Returns an error and its causes on one line.
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

/// Prints an error, if the standard error is open.
fn print_error(what: &dyn fmt::Display) {
    let _ = writeln!(std::io::stderr(), "zk-lock: {}", text::line(&what.to_string()));
}
