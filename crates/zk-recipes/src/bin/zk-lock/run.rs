//! Running a command under a lock.

use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::future::ready;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::Signal;
use tokio::time::Instant;
use zk_recipes::session::Client;
use zk_recipes::{
    Held, LockError, Mutex, MutexGuard, Options, PermitGuard, ReadGuard, RwLock, Scheme, Semaphore,
    WriteGuard,
};

use crate::signals::{self, Signals};
use crate::{Failure, complain, contents, seconds, tied};

/// Exit code when the lock was not acquired, as flock(1) has it.
const NOT_ACQUIRED: u8 = 1;
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
    /// How many permits the semaphore has: its number if it does not exist yet, and checked if it does
    #[arg(long, value_name = "N", requires = "permits")]
    of: Option<u32>,
    /// Wait no longer than this, for servers as for the lock
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "try_only")]
    timeout: Option<Duration>,
    /// Do not wait for the lock at all; for servers it does, as long as the session timeout
    #[arg(long = "try")]
    try_only: bool,
    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, value_name = "CODE", default_value_t = NOT_ACQUIRED)]
    conflict_exit_code: u8,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn path(&self) -> &str {
        &self.path
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
    arguments: Arguments,
) -> Result<ExitCode, Failure> {
    match acquire_and_run(connect, &arguments).await {
        Err(failure) if is_not_acquired(&failure) => {
            complain(&failure);
            Ok(ExitCode::from(arguments.conflict_exit_code))
        }
        done => done,
    }
}

fn is_not_acquired(failure: &Failure) -> bool {
    failure.is::<NoServer>()
        || matches!(failure.downcast_ref(), Some(LockError::Busy | LockError::TimedOut))
}

/// Whoever runs out of time before there is a session.
#[derive(Debug)]
struct NoServer;

impl fmt::Display for NoServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("no server has answered in time, so the lock was not acquired")
    }
}

impl Error for NoServer {}

async fn acquire_and_run(
    connect: impl Future<Output = Result<Client, Failure>>,
    arguments: &Arguments,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::take()?;
    let deadline = arguments.timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let client = tokio::select! {
        client = before(deadline, connect) => client.map_err(no_server)?,
        signal = signals.next() => return Ok(exit_code_of_signal(signal)),
    };
    let acquired = tokio::select! {
        acquired = before(deadline, acquire(&client, arguments)) => acquired.map_err(Err),
        signal = signals.next() => Err(Ok(exit_code_of_signal(signal))),
    };
    match acquired {
        Ok(guard) => {
            let done = run_with(guard.held(), &mut signals, &arguments.command).await;
            close(client, signals.next()).await;
            done
        }
        Err(done) => {
            close(client, ready(())).await;
            done
        }
    }
}

fn no_server(failure: Failure) -> Failure {
    if is_not_acquired(&failure) { NoServer.into() } else { failure }
}

/// What comes of it in time.
async fn before<T>(
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match deadline {
        None => work.await,
        Some(deadline) => {
            tokio::time::timeout_at(deadline, work).await.map_err(|_| LockError::TimedOut)?
        }
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

async fn run_with(
    held: &Held,
    signals: &mut Signals,
    command: &[OsString],
) -> Result<ExitCode, Failure> {
    let mut child = tied::command(command)?
        .env("ZK_LOCK_TOKEN", held.fencing_token().0.to_string())
        .env("ZK_LOCK_NODE", held.node_path())
        .spawn()?;
    let mut lost = pin!(held.lost());
    let mut is_lost = false;
    loop {
        tokio::select! {
            status = child.wait() => return Ok(exit_code(status?)),
            loss = &mut lost, if !is_lost => {
                is_lost = true;
                complain(&format_args!("the lock is lost: {loss}"));
                signals::send(Signal::TERM, &child);
            }
            signal = signals.next() => signals::pass_on(signal, &child),
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
        Err(LockError::NoMaximum) => {
            return Err(format!("{}: say it with --of", LockError::NoMaximum).into());
        }
        Err(error) => return Err(error.into()),
    };
    match contents::stranger(client, path, own).await? {
        None => Ok(guard),
        Some(node) => Err(refuse(&node).into()),
    }
}

async fn acquire_with(client: &Client, arguments: &Arguments) -> Result<Guard, LockError> {
    let options = Options::new().data(description(&arguments.command[0]));
    let path = &arguments.path;
    let at_once = arguments.try_only;
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
    format!("{host} pid {}: {program}", std::process::id())
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(i32::from(u8::MAX));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX))
}
