//! Running a command under a lock.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::future::{pending, ready};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::unistd::{getpgrp, getsid};
use rustix::process::{Pid, Signal, setpgid};
use tokio::time::Instant;
use zk_recipes::session::{self, Client, ConnectError, RequestError, State};
use zk_recipes::{
    Held, Holding, LockError, Mutex, MutexGuard, Options, PermitGuard, ReadGuard, RecipeError,
    RwLock, Scheme, Semaphore, WriteGuard,
};

use crate::processes::{Processes, is_stopped};
use crate::signals::{Received, Signals, send};
use crate::{Failure, complain, contents, explain, seconds, tied};

/// Exit code when the lock was not acquired, as flock(1) has it.
const NOT_ACQUIRED: u8 = 1;
/// Exit code when the lock was lost, which no command returns by habit.
const LOST: u8 = 73;
/// Which part of the session timeout a command has at least to end after SIGTERM. The lease ends
/// earlier than the session by as much.
const LEAST_GRACE: u32 = 20;
/// How long the end of a session is waited for whatever happens; it takes a round trip.
const FAREWELL: Duration = Duration::from_millis(500);
/// How much of a program's name others see, in characters.
const PROGRAM_LENGTH: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The path of the lock; it is created if it is missing
    path: String,
    /// Hold a read/write lock for reading, with others
    #[arg(long, conflicts_with_all = ["exclusive", "permits"])]
    shared: bool,
    /// Hold a read/write lock for writing; without this, the lock is a mutex
    #[arg(long, conflicts_with = "permits")]
    exclusive: bool,
    /// Hold so many permits of a semaphore
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    permits: Option<u32>,
    /// How many permits the semaphore has: its number if it does not exist yet, and checked if it
    /// does
    #[arg(long, value_name = "N", requires = "permits")]
    of: Option<u32>,
    /// Wait no longer than this, for servers as for the lock; 0 is the same as --try
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "try_only")]
    timeout: Option<Duration>,
    /// Do not wait for the lock, nor for a connection that is lost; the first server is waited for as
    /// long as the session timeout
    #[arg(long = "try")]
    try_only: bool,
    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = NOT_ACQUIRED)]
    conflict_exit_code: u8,
    /// When the lock is lost, how long the command has between SIGTERM and SIGKILL; by default, as
    /// long as the servers keep the session
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    kill_after: Option<Duration>,
    /// Exit with this code if the lock was lost, whatever the command returns
    #[arg(long, value_name = "CODE", default_value_t = LOST)]
    lost_exit_code: u8,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// How long to wait for servers and the lock, where both have one limit.
    pub(crate) fn limit(&self) -> Option<Duration> {
        self.timeout.filter(|timeout| !timeout.is_zero())
    }

    fn tries_only(&self) -> bool {
        self.try_only || self.timeout.is_some_and(|timeout| timeout.is_zero())
    }

    /// Says that the lock is lost, and why.
    pub(crate) fn complain_of_loss(&self, why: &dyn fmt::Display) {
        complain(&format_args!("the lock '{}' is lost: {why}", self.path));
    }

    pub(crate) fn kill_after(&self) -> Option<Duration> {
        self.kill_after
    }

    pub(crate) fn lost(&self) -> ExitCode {
        ExitCode::from(self.lost_exit_code)
    }
}

/// A lock of any kind that is held.
enum Guard {
    Mutex(MutexGuard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(PermitGuard),
}

impl Guard {
    fn held(&self) -> &Held {
        match self {
            Self::Mutex(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permits(guard) => guard,
        }
    }
}

pub(crate) async fn run(
    connect: impl Future<Output = Result<Client, Failure>>,
    arguments: &Arguments,
    mut supervisor: Supervisor,
) -> Result<ExitCode, Failure> {
    match acquire_and_run(connect, arguments, &mut supervisor).await {
        Err(failure) if is_not_acquired(&failure, arguments) => {
            complain(&explain(&failure));
            Ok(ExitCode::from(arguments.conflict_exit_code))
        }
        done => done,
    }
}

fn is_not_acquired(failure: &Failure, arguments: &Arguments) -> bool {
    let reason = failure.downcast_ref::<RecipeError>().map(|error| &error.reason);
    let unreachable = failure.downcast_ref::<ConnectError>();
    failure.is::<TooLate>()
        || failure.is::<NotConnected>()
        || matches!(reason, Some(LockError::Busy | LockError::TimedOut))
        || matches!(unreachable, Some(ConnectError::Unreachable { .. })) && arguments.tries_only()
}

/// The connection is lost, and `--try` waits for none.
#[derive(Debug)]
struct NotConnected {
    path: String,
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path } = self;
        write!(
            f,
            "the lock '{path}' was not acquired: there is no connection to a quorum of servers"
        )
    }
}

impl Error for NotConnected {}

fn is_loss_of_connection(failure: &Failure) -> bool {
    let of_recipe = failure.downcast_ref::<RecipeError>().map(|error| &error.reason);
    let of_request = failure.downcast_ref::<RequestError>().map(|error| &error.reason);
    of_recipe == Some(&LockError::NoConnection)
        || of_request == Some(&session::Error::ConnectionLost)
}

/// Waits until the connection is lost.
async fn loss_of_connection(client: &Client) {
    let is_lost = |state: &State| !matches!(state, State::Connected { .. } | State::Ended(_));
    if client.states().wait_for(is_lost).await.is_err() {
        // The end of the session fails whatever is asked.
        pending::<()>().await;
    }
}

/// The time limit has passed.
#[derive(Debug)]
struct TooLate {
    path: String,
    /// Whether the lock was asked for, so that it is not for want of a server.
    is_connected: bool,
}

impl fmt::Display for TooLate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.is_connected {
            true => "it was not free in time",
            false => "no server has answered in time",
        };
        write!(f, "the lock '{}' was not acquired: {why}", self.path)
    }
}

impl Error for TooLate {}

async fn acquire_and_run(
    connect: impl Future<Output = Result<Client, Failure>>,
    arguments: &Arguments,
    supervisor: &mut Supervisor,
) -> Result<ExitCode, Failure> {
    let deadline = arguments.limit().and_then(|limit| Instant::now().checked_add(limit));
    let too_late = |is_connected| TooLate { path: arguments.path.clone(), is_connected };
    let client = tokio::select! {
        client = before(deadline, connect) => client.unwrap_or_else(|| Err(too_late(false).into()))?,
        signal = supervisor.wants_end() => return Ok(exit_code_of_signal(signal?)),
    };
    let not_connected = || NotConnected { path: arguments.path.clone() };
    let acquired = tokio::select! {
        acquired = before(deadline, acquire(&client, arguments)) => match acquired {
            Some(Err(failure)) if arguments.tries_only() && is_loss_of_connection(&failure) => {
                Err(Err(not_connected().into()))
            }
            Some(acquired) => acquired.map_err(Err),
            None => {
                let is_connected = matches!(client.state(), State::Connected { .. });
                Err(Err(too_late(is_connected).into()))
            }
        },
        () = loss_of_connection(&client), if arguments.tries_only() => {
            Err(Err(not_connected().into()))
        }
        signal = supervisor.wants_end() => Err(signal.map(exit_code_of_signal).map_err(Failure::from)),
    };
    match acquired {
        Ok(guard) => {
            let done = run_with(guard.held(), arguments, &client, supervisor).await;
            close(client, supervisor.wants_end()).await;
            done
        }
        Err(done) => {
            close(client, ready(())).await;
            done
        }
    }
}

/// What comes of it, if it comes in time.
async fn before<T>(deadline: Option<Instant>, work: impl Future<Output = T>) -> Option<T> {
    match deadline {
        None => Some(work.await),
        Some(deadline) => tokio::time::timeout_at(deadline, work).await.ok(),
    }
}

/// Ends the session, and with it whatever we hold and wherever we wait. Once the ensemble has had
/// the time for it, `cut` ends the wait; it then finds out by itself, after the session timeout.
async fn close(client: Client, cut: impl Future) {
    let cut = async {
        tokio::time::sleep(FAREWELL).await;
        cut.await;
    };
    tokio::select! {
        () = client.close() => {}
        () = cut => {}
    }
}

/// Runs the command, and returns when all its processes have ended.
async fn run_with(
    held: &Held,
    arguments: &Arguments,
    client: &Client,
    supervisor: &mut Supervisor,
) -> Result<ExitCode, Failure> {
    let mut lost = pin!(held.lost());
    // The user stopped the job before the command began: do not start it.
    while supervisor.is_stopped() && !is_lost(held) {
        tokio::select! {
            loss = &mut lost => arguments.complain_of_loss(&loss),
            signal = supervisor.wants_end_or_continues() => if let Some(signal) = signal? {
                return Ok(exit_code_of_signal(signal));
            },
        }
    }
    if is_lost(held) {
        return Ok(arguments.lost());
    }
    let mut command = tied::command(&arguments.command, &supervisor.signals.blocked())?;
    command.env("ZK_LOCK_TOKEN", held.fencing_token().0.to_string());
    command.env("ZK_LOCK_NODE", held.node_path());
    if let Some(group) = supervisor.group {
        command.process_group(group.as_raw_nonzero().get());
    }
    // Before there is anything that `kill -9` of the job could leave behind.
    supervisor.leave_group();
    let mut processes = Processes::spawn(&mut command)?;
    let must_end = loop {
        tokio::select! {
            ended = processes.some_ended() => {
                if ended? {
                    break false;
                }
                if processes.status().is_some() {
                    supervisor.enter_group();
                }
            }
            loss = &mut lost => {
                arguments.complain_of_loss(&loss);
                break true;
            }
            received = supervisor.signals.next() => {
                let received = received?;
                if !supervisor.is_there() {
                    let path = &arguments.path;
                    complain(&format_args!("zk-lock was killed, so its command under '{path}' is ended"));
                    break true;
                }
                pass_on(received, &processes);
            }
        }
    };
    if must_end {
        let left = || held.lease().unwrap_or_else(Instant::now) - Instant::now();
        let least = client.session_timeout() / LEAST_GRACE;
        let grace = arguments.kill_after.unwrap_or_else(|| left().max(least));
        processes.end(grace, &mut supervisor.signals).await?;
    }
    match processes.status() {
        Some(status) if !is_lost(held) => Ok(exit_code(status)),
        _ => Ok(arguments.lost()),
    }
}

fn is_lost(held: &Held) -> bool {
    matches!(held.state(), Holding::Lost(_))
}

/// Sends the command what was sent to `zk-lock`, unless it has it already.
fn pass_on(received: Received, processes: &Processes) {
    match (received.signal, processes.status()) {
        (Signal::CONT, _) => {}
        // They mean something to one program.
        (signal @ (Signal::USR1 | Signal::USR2), _) => send(signal, processes.child()),
        (_, None) if received.is_from_keyboard => {}
        // What is left ran in the background, where shells have interrupts ignored.
        (Signal::INT | Signal::QUIT, Some(_)) => processes.send_to_all(Signal::TERM),
        (signal, _) => processes.send_to_all(signal),
    }
}

/// The process that has started this one; see [`crate::supervise`].
pub(crate) struct Supervisor {
    pid: Pid,
    /// Not if it is a group of another PID namespace, which has no number here.
    group: Option<Pid>,
    signals: Signals,
}

impl Supervisor {
    /// Makes this process the keeper of the supervisor's lock.
    pub(crate) fn new(pid: i32, taken: &[i32]) -> Result<Self, Failure> {
        let signals = Signals::inherit(taken)?;
        tied::die_with(pid)?;
        #[cfg(target_os = "linux")]
        rustix::thread::set_name(c"zk-lock-keeper")?;
        let pid = Pid::from_raw(pid).ok_or("no process has this number")?;
        Ok(Self { pid, group: Pid::from_raw(getpgrp().as_raw()), signals })
    }

    fn is_there(&self) -> bool {
        tied::is_child_of(self.pid.as_raw_nonzero().get())
    }

    fn is_stopped(&self) -> bool {
        is_stopped(self.pid)
    }

    /// Waits for a signal that ends the program while no command runs.
    async fn wants_end(&mut self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.wants_end_or_continues().await? {
                return Ok(signal);
            }
        }
    }

    async fn wants_end_or_continues(&mut self) -> io::Result<Option<Signal>> {
        let Received { signal, .. } = self.signals.next().await?;
        Ok((signal != Signal::CONT).then_some(signal))
    }

    /// While the command runs, what the keyboard says is not for this process. And `kill -9` of a
    /// job, which is for all of the group, leaves somebody who can end the others.
    ///
    /// Not in a session's first group: a terminal does not stop it, as no shell could continue it.
    /// That would change if the command had a parent in another group.
    fn leave_group(&self) {
        let is_first = getsid(None).is_ok_and(|session| session == getpgrp());
        if self.group.is_some() && !(is_first && File::open("/dev/tty").is_ok()) {
            // Whatever refuses that, it works without, only not as well.
            let _ = setpgid(None, None);
        }
    }

    /// As it was before the command was started.
    fn enter_group(&self) {
        if self.group.is_some() {
            let _ = setpgid(None, self.group);
        }
    }
}

/// Contenders for another kind of lock would not see us, nor we them, which is not what anybody
/// wants. Whoever comes later of two sees the other, so it is enough to look behind our own node;
/// before it, so that nothing is created in vain.
async fn acquire(client: &Client, arguments: &Arguments) -> Result<Guard, Failure> {
    let own = match (arguments.permits, arguments.shared || arguments.exclusive) {
        (Some(_), _) => None,
        (None, true) => Some(Scheme::CURATOR_READ_WRITE),
        (None, false) => Some(Scheme::CURATOR_MUTEX),
    };
    let path = &arguments.path;
    let refuse = |node: &str| format!("{path} is held as another kind of lock, by '{node}'");
    if let Some(node) = contents::stranger(client, path, own).await? {
        return Err(refuse(&node).into());
    }
    let guard = match acquire_with(client, arguments).await {
        Ok(guard) => guard,
        Err(error) if error.reason == LockError::NoMaximum => {
            return Err(format!("{error}: say it with --of").into());
        }
        Err(error) => return Err(error.into()),
    };
    match contents::stranger(client, path, own).await? {
        None => Ok(guard),
        Some(node) => Err(refuse(&node).into()),
    }
}

async fn acquire_with(client: &Client, arguments: &Arguments) -> Result<Guard, RecipeError> {
    let options = Options::new().data(description(&arguments.command[0]));
    let path = &arguments.path;
    let at_once = arguments.tries_only();
    if let Some(permits) = arguments.permits {
        let semaphore = Semaphore::with(client, path, arguments.of, options)?;
        return match at_once {
            true => semaphore.try_acquire_many(permits).await.map(Guard::Permits),
            false => semaphore.acquire_many(permits).await.map(Guard::Permits),
        };
    }
    if !arguments.shared && !arguments.exclusive {
        let mutex = Mutex::with(client, path, options)?;
        return match at_once {
            true => mutex.try_acquire().await.map(Guard::Mutex),
            false => mutex.acquire().await.map(Guard::Mutex),
        };
    }
    let lock = RwLock::with(client, path, options)?;
    match (arguments.shared, at_once) {
        (true, true) => lock.try_read().await.map(Guard::Read),
        (true, false) => lock.read().await.map(Guard::Read),
        (false, true) => lock.try_write().await.map(Guard::Write),
        (false, false) => lock.write().await.map(Guard::Write),
    }
}

/// What others see of us: everybody who can connect, so it has no arguments.
fn description(program: &OsStr) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let program: String = program.chars().take(PROGRAM_LENGTH).collect();
    format!("{host} pid {}: {program}", std::os::unix::process::parent_id())
}

pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(i32::from(u8::MAX));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// The exit code that stands for the end by a signal.
pub(crate) fn code_of(signal: Signal) -> i32 {
    128 + signal.as_raw()
}

fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(code_of(signal)).unwrap_or(u8::MAX))
}
