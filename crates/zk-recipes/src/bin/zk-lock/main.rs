//! `zk-lock`: locks of a ZooKeeper ensemble, from the command line.

mod acl;
mod acquire;
mod contents;
mod doctor;
mod exec;
mod generate;
mod hold;
mod lease;
mod once;
mod passing;
mod processes;
mod release;
mod run;
mod sessions;
mod settings;
mod show;
mod signals;
mod supervise;
mod text;
mod top;
mod witness;

use std::error::Error;
use std::fmt;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use tokio::sync::oneshot;
use zk_recipes::session::proto::path;
use zk_recipes::session::{Client, ConnectError};
use zk_recipes::{LockError, RecipeError, SemaphoreError};

use crate::acquire::{LockArguments, NotAcquired};
use crate::lease::Lease;
use crate::run::Supervisor;
use crate::settings::Settings;
use crate::signals::MaskChanges;

/// An error, printed on one line.
type Failure = Box<dyn Error>;

/// The exit codes of `zk-lock` itself. Commands rarely use them; they are those of `sysexits.h`, if
/// flock(1) has no other.
pub(crate) mod code {
    /// The lock was not acquired, as with flock(1). Of `ls --quiet`: the lock is held. Of `break`:
    /// the answer was no. Of `doctor`: there is a problem.
    pub(crate) const NOT_ACQUIRED: u8 = 1;
    /// The command line, the configuration file or the environment is wrong.
    pub(crate) const USAGE: u8 = 64;
    /// No server answers.
    pub(crate) const NO_SERVER: u8 = 69;
    /// Any other error.
    pub(crate) const FAILED: u8 = 70;
    /// The lock was lost.
    pub(crate) const LOST: u8 = 73;
    /// The command cannot be run, as in shells.
    pub(crate) const NOT_EXECUTABLE: u8 = 126;
    /// The command is not found, as in shells.
    pub(crate) const NOT_FOUND: u8 = 127;
}

/// The command line, the configuration file or the environment is wrong.
#[derive(Debug)]
pub(crate) struct Usage(String);

impl Usage {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Usage {}

/// The reader of the standard output has gone, as with `| head`.
#[derive(Debug)]
pub(crate) struct OutputClosed;

impl OutputClosed {
    /// Converts an error of the standard output.
    pub(crate) fn or(error: std::io::Error) -> Failure {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self.into(),
            _ => error.into(),
        }
    }
}

impl fmt::Display for OutputClosed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the reader of the standard output has gone")
    }
}

impl Error for OutputClosed {}

/// The commands that acquire a lock, and have options with environment variables.
pub(crate) const LOCKING: [&str; 2] = ["run", "hold"];

const EXIT_CODES: &str = "\
Exit codes:
  0      success; of `ls --quiet`: the lock is free;
         of `run --once-per`: the command was skipped
  1      `run`, `hold`: the lock was not acquired (-E sets another code)
         `ls --quiet`: the lock is held; `break`: you answered no;
         `doctor`: there is a problem
  64     the arguments, the environment or the configuration file are wrong
  69     no server answers
  70     any other error
  73     `run`, `hold`: the lock was lost (--lost-exit-code sets another code)
  126    `run`: the command cannot be run
  127    `run`: the command is not found
  128+n  `run`: signal n ended the command or zk-lock
         `hold`: signal n ended zk-lock before it had the lock
  Otherwise, `run` exits with the code of the command.

Options with an environment variable can also be set in the configuration file, one
`name = value` a line, without the dashes. The command line has precedence over the
environment, and the environment over the file.";

const EXAMPLES: &str = "\
Examples:
  zk-lock run /locks/backup ./backup.sh        one at a time, on whatever host it runs
  zk-lock run -n /locks/backup ./backup.sh     not at all if another one is running
  zk-lock run -w 2.5 /locks/log -c 'date >> /mnt/log'
  zk-lock run -s /locks/index ./search         beside other readers; -x is for writers
  zk-lock run --once-per 20h /locks/nightly ./nightly.sh
  zk-lock run --permits 1 --of 4 /downloads curl -O https://example.com/
  zk-lock ls --json /locks/backup | jq .owner";

/// Locks of a ZooKeeper ensemble: hold one while a command runs, and show holders and waiters.
#[derive(Parser)]
#[command(name = "zk-lock", version, propagate_version = true, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(flatten)]
    settings: Settings,
    /// Report what happens; of `ls`: show all of each contender
    #[arg(short, long, global = true)]
    verbose: bool,
    /// Within `run`: the process that has started this one as the keeper of its lock
    #[arg(long, hide = true)]
    supervisor: Option<i32>,
    /// Within `run`: the descriptor of the memory that supervisor and keeper share
    #[arg(long, hide = true, requires = "supervisor")]
    lease: Option<i32>,
    #[command(flatten)]
    mask_changes: MaskChanges,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run a command while holding a lock, as flock(1) does, and pass on its exit code
    ///
    /// The environment of the command has the fencing token of the lock in ZK_LOCK_TOKEN, and the
    /// path of the lock node, without the chroot, in ZK_LOCK_NODE. It has no ZK_LOCK_AUTH and no
    /// ZK_LOCK_SASL_PASSWORD.
    ///
    /// zk-lock holds the lock until every process of the command has ended, including background
    /// processes and daemons; with -o, until the command itself has. Then it releases the lock. If
    /// no server answers, the lock is free after the session timeout.
    ///
    /// Signals: SIGTERM, SIGHUP, SIGINT and SIGQUIT are passed on to every process of the command,
    /// SIGUSR1 and SIGUSR2 to the command itself, until it has ended. Processes that have received
    /// the signal as well, as by `kill %1` or from systemd, do not get it again. Signals that are ignored when
    /// zk-lock starts stay ignored, as with nohup(1), except SIGPIPE. Ctrl-C, Ctrl-Z, fg and bg work as without
    /// zk-lock. A stopped job keeps its lock.
    ///
    /// Loss: the lock is lost if its node is deleted, its session ends, or no server confirms the
    /// session for the session timeout. Every process then gets SIGTERM, and SIGKILL after
    /// --kill-after. The exit code is 73 (or --lost-exit-code), whatever the command returns. If one
    /// of its two processes is killed, fails, or is stopped until the lock is lost, the other one
    /// ends the command in the same way.
    ///
    /// zk-lock cannot end processes that you may not signal, or processes that another service
    /// starts (at, cron, systemd-run, docker run). It also cannot end the processes that remain if
    /// both of its own processes are killed at once. On systems other than Linux, it signals and
    /// waits for the command itself only.
    ///
    /// Everyone who can connect to the ensemble can read the name of this host, the process id, and
    /// the name of the program. Its arguments are not published.
    #[command(after_help = EXAMPLES)]
    Run(run::Arguments),
    /// Hold a lock until the standard input ends, for a program in any language
    ///
    /// Prints the fencing token on one line when the lock is held. Holds it until the standard input
    /// ends, also because the program that has the other end of the pipe has died, or until a signal.
    /// Then it releases the lock, and exits with 0.
    ///
    /// The end of the standard output is the end of the lock. If it comes before you close the
    /// input, the lock is lost (exit code 73), or a signal has ended zk-lock: end your work. A
    /// process that is stopped cannot notice that, so pass the token to what you change.
    ///
    /// Ctrl-C is left to the program, unless the standard input is a terminal. Ctrl-Z does not stop
    /// zk-lock. Everyone who can connect to the ensemble can read the name of this host, and the
    /// process id and the name of the program.
    Hold(LockArguments),
    /// Within the command of `run`: release the lock, while the command continues
    ///
    /// Returns when the lock is released; a later loss no longer ends the command. The descriptors
    /// that ZK_LOCK_RELEASE names must be open: sudo(8), for example, closes them.
    ///
    /// Exits with 70 if the release is not confirmed: because the lock is lost, because no server
    /// answers within the session timeout, or because zk-lock was killed. If the session still
    /// exists then, the servers release the lock when it expires.
    Release,
    /// Show the holders of a lock and its waiters
    ///
    /// A program that lets several attempts share one node (local hand-over) shows as one
    /// contender.
    Ls(show::ListArguments),
    /// Show the holders of a lock and its waiters, and every change, until interrupted or expired
    Watch(show::WatchArguments),
    /// Remove a contender, which then loses the lock or its place in the queue
    ///
    /// To remove a waiter of a semaphore, remove its node `...-lock-...`. If only its permit node
    /// is removed, it creates another.
    Break(BreakArguments),
    /// Examine a lock that seems stuck, and advise; nothing is changed
    ///
    /// Asks who holds the lock and who waits, whether their clients are connected (by the command
    /// `cons`, where the servers allow it), and looks for nodes, numbers, timeouts and clocks that
    /// are out of order. Exits with 1 if there is a problem.
    Doctor(doctor::Arguments),
    /// Show all locks below a path, live: holders, waiters, and hand-overs per second
    Top(top::Arguments),
    /// Write manual pages and shell completions
    #[command(hide = true)]
    Generate(generate::Arguments),
    /// Within `run`: become the command
    #[command(hide = true)]
    Exec(exec::Arguments),
}

impl Command {
    fn path(&self) -> Option<&str> {
        match self {
            Self::Run(arguments) => Some(&arguments.lock.path),
            Self::Hold(arguments) => Some(&arguments.path),
            Self::Ls(arguments) => Some(&arguments.path),
            Self::Watch(arguments) => Some(&arguments.path),
            Self::Break(arguments) => Some(&arguments.path),
            Self::Doctor(arguments) => Some(&arguments.path),
            Self::Top(arguments) => Some(&arguments.path),
            Self::Release | Self::Exec(_) | Self::Generate(_) => None,
        }
    }
}

#[derive(Args)]
struct BreakArguments {
    /// The path of the lock
    path: String,
    /// The node to remove, by its name or as `ls` shows it
    #[arg(long)]
    node: String,
    /// Do not ask for confirmation
    #[arg(long)]
    yes: bool,
}

impl Arguments {
    /// Parses the command line, and again with the defaults of the configuration file.
    fn load() -> Result<Self, Failure> {
        let arguments = Self::from_arg_matches(&full_command().try_get_matches()?)?;
        if matches!(arguments.command, Command::Exec(_) | Command::Release) {
            return Ok(arguments);
        }
        let is_keeper = arguments.supervisor.is_some();
        let (command, text) = arguments.settings.with_file(full_command(), is_keeper)?;
        let mut arguments = Self::from_arg_matches(&command.try_get_matches()?)?;
        arguments.settings.config_text = text;
        if let Some(path) = arguments.command.path() {
            path::validate(path).map_err(|error| Usage(format!("'{path}': {error}")))?;
        }
        Ok(arguments)
    }
}

/// Returns the declaration of all arguments. Its help shows no values of variables.
fn full_command() -> clap::Command {
    let hide = |command: clap::Command| command.mut_args(|arg| arg.hide_env_values(true));
    LOCKING.into_iter().fold(hide(Arguments::command()), |all, name| all.mut_subcommand(name, hide))
}

fn main() -> ExitCode {
    print_panics();
    match std::panic::catch_unwind(|| Arguments::load().and_then(start)) {
        Ok(Ok(code)) => code,
        Ok(Err(failure)) => ExitCode::from(report(&failure)),
        Err(_) => ExitCode::from(code::FAILED),
    }
}

/// Returns why a recipe failed, if that can happen to every lock.
fn lock_error(failure: &Failure) -> Option<&LockError> {
    let of_lock = failure.downcast_ref::<RecipeError>().and_then(RecipeError::lock_error);
    of_lock.or_else(|| failure.downcast_ref::<RecipeError<SemaphoreError>>()?.lock_error())
}

/// Prints an error, and returns the exit code.
fn report(failure: &Failure) -> u8 {
    if let Some(error) = failure.downcast_ref::<clap::Error>() {
        return match error.print() {
            _ if error.use_stderr() => code::USAGE,
            Ok(()) => 0,
            Err(error) => report(&OutputClosed::or(error)),
        };
    }
    // This is no error of `zk-lock`.
    if failure.is::<OutputClosed>() {
        return 0;
    }
    print_error(failure);
    exit_code_of(failure)
}

/// Returns the exit code of `zk-lock` itself for an error.
fn exit_code_of(failure: &Failure) -> u8 {
    let not_acquired = failure.downcast_ref::<NotAcquired>();
    match failure.downcast_ref::<ConnectError>() {
        Some(ConnectError::Address(_)) => code::USAGE,
        Some(ConnectError::Unreachable { .. } | ConnectError::Tls { .. }) => code::NO_SERVER,
        _ if failure.is::<Usage>() => code::USAGE,
        _ if not_acquired.is_some_and(|it| !it.is_connected) => code::NO_SERVER,
        _ => code::FAILED,
    }
}

fn start(arguments: Arguments) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(execute(arguments));
    // Dropping the runtime would wait for a lookup of a host name.
    runtime.shutdown_background();
    done
}

async fn execute(arguments: Arguments) -> Result<ExitCode, Failure> {
    let Arguments { settings, verbose, supervisor, lease, mask_changes, command } = arguments;
    let look = || settings.connect_to_look();
    match command {
        Command::Run(run) => match supervisor {
            None => run.lock.finish(supervise::run(&run, &settings).await),
            Some(pid) => {
                let lease = Lease::inherit(lease.ok_or("no shared memory")?)?;
                let supervisor = Supervisor::new(pid, lease, &mask_changes)?;
                run::run(&settings, &run, supervisor, verbose).await
            }
        },
        Command::Hold(arguments) => hold::run(&settings, &arguments, verbose).await,
        Command::Release => release::run().await,
        Command::Ls(arguments) => show::ls(&look().await?, &arguments, verbose).await,
        Command::Watch(arguments) => show::watch(&look().await?, &arguments).await,
        Command::Break(arguments) => break_lock(&look().await?, &arguments).await,
        Command::Doctor(arguments) => doctor::run(&settings, &arguments).await,
        Command::Top(arguments) => top::run(&look().await?, &arguments).await,
        Command::Generate(arguments) => generate::run(&arguments),
        Command::Exec(arguments) => Ok(exec::run(&arguments)),
    }
}

async fn break_lock(client: &Client, arguments: &BreakArguments) -> Result<ExitCode, Failure> {
    let BreakArguments { path, node, yes } = arguments;
    let candidates = match contents::possible_paths(path, node) {
        none if none.is_empty() => contents::paths_of_label(client, path, node).await?,
        paths => paths,
    };
    for candidate in candidates {
        let name = candidate.rsplit('/').next().unwrap_or(node);
        if !yes {
            let Some(contender) = show::contender(client, path, name).await? else { continue };
            let path = text::line(path);
            let question = format!("{contender}Remove it from {path}? [y/N] ");
            show::print(&question).map_err(|failure| match failure.is::<OutputClosed>() {
                // Exit code 0 reports a removal.
                true => format!("nothing was removed: {failure}").into(),
                false => failure,
            })?;
            if !matches!(answer().await?.trim(), "y" | "Y" | "yes") {
                show::print("Nothing was removed.\n")?;
                return Ok(ExitCode::from(code::NOT_ACQUIRED));
            }
        }
        if contents::found(client.delete(&candidate, None).await)?.is_some() {
            show::print(&format!("Removed {name}.\n"))?;
            return Ok(ExitCode::SUCCESS);
        }
    }
    Err(format!("there is no contender '{node}' in {path}").into())
}

/// Reads a line of the standard input. The session stays alive meanwhile.
async fn answer() -> Result<String, Failure> {
    let line = || std::io::stdin().lines().next().transpose();
    Ok(tokio::task::spawn_blocking(line).await??.unwrap_or_default())
}

/// Makes a panic one line on the standard error, like an error.
///
/// Some libraries panic where the system has no descriptor or no thread left.
fn print_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let payload = panic.payload();
        let text = payload.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
        print_error(&text.unwrap_or("internal error"));
    }));
}

/// Prints a line in a thread of its own, since this blocks while nobody reads the standard error.
fn print_meanwhile(line: String) -> Printing {
    let (printed, is_printed) = oneshot::channel();
    let print = move || {
        print_line(&line);
        printed.send(())
    };
    // Nothing is printed without a thread: what else is to be done must not wait.
    let _ = std::thread::Builder::new().spawn(print);
    Printing(is_printed)
}

/// A message that is being printed.
struct Printing(oneshot::Receiver<()>);

impl Printing {
    /// How long to wait in the end for somebody who reads.
    const LIMIT: Duration = Duration::from_secs(1);

    /// Waits until it is printed.
    async fn finished(self) {
        // Printing does not fail.
        let _ = self.0.await;
    }

    /// Waits until it is printed, or gives up.
    async fn finish(self) {
        let _ = tokio::time::timeout(Self::LIMIT, self.finished()).await;
    }
}

/// Prints an error.
fn print_error(what: &dyn fmt::Display) {
    print_line(&error_line(what));
}

/// Returns an error as it is printed.
fn error_line(what: &dyn fmt::Display) -> String {
    format!("zk-lock: {}\n", text::line(&what.to_string()))
}

/// Prints a line, if the standard error is open.
fn print_line(line: &str) {
    let _ = std::io::stderr().write_all(line.as_bytes());
}
