//! Running a command under a lock.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use zk_recipes::machine::Event;
use zk_recipes::session::Client;
use zk_recipes::{
    Held, LockError, Mutex, MutexGuard, Options, PermitGuard, ReadGuard, RwLock, Semaphore,
    WriteGuard,
};

use crate::{Failure, complain, contents, seconds};

/// Exit code when the lock was not acquired, as flock(1) has it.
const NOT_ACQUIRED: u8 = 1;
/// Exit codes for commands that cannot be run, as shells have them.
const NOT_EXECUTABLE: u8 = 126;
const NOT_FOUND: u8 = 127;

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
    /// How many permits the semaphore has, if it does not exist yet
    #[arg(long, value_name = "N", requires = "permits")]
    of: Option<u32>,
    /// Wait no longer than this
    #[arg(long, value_name = "SECONDS", value_parser = seconds, conflicts_with = "try_only")]
    timeout: Option<Duration>,
    /// Do not wait at all
    #[arg(long = "try")]
    try_only: bool,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true)]
    command: Vec<String>,
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

    async fn release(self) -> Result<(), LockError> {
        match self {
            Self::Mutex(guard) => guard.release().await,
            Self::Read(guard) => guard.release().await,
            Self::Write(guard) => guard.release().await,
            Self::Permits(guard) => guard.release().await,
        }
    }
}

pub(crate) async fn run(client: &Client, arguments: Arguments) -> Result<ExitCode, Failure> {
    // From now on they are ours to pass on.
    let (mut interrupts, mut terminations) =
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let acquired = tokio::select! {
        acquired = acquire(client, &arguments) => acquired,
        _ = interrupts.recv() => return Ok(exit_code_of_signal(Signal::INT)),
        _ = terminations.recv() => return Ok(exit_code_of_signal(Signal::TERM)),
    };
    let guard = match acquired {
        Ok(guard) => guard,
        Err(error @ (LockError::Busy | LockError::TimedOut)) => {
            complain(&error);
            return Ok(ExitCode::from(NOT_ACQUIRED));
        }
        Err(error) => return Err(error.into()),
    };
    let mut child = match start(&arguments.command, guard.held()) {
        Ok(child) => child,
        Err(error) => {
            complain(&format_args!("{}: {error}", arguments.command[0]));
            let missing = error.kind() == std::io::ErrorKind::NotFound;
            guard.release().await?;
            return Ok(ExitCode::from(if missing { NOT_FOUND } else { NOT_EXECUTABLE }));
        }
    };
    let mut lost = Box::pin(guard.held().lost());
    let mut is_lost = false;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            loss = &mut lost, if !is_lost => {
                is_lost = true;
                complain(&format_args!("the lock is lost: {loss}"));
                send(&child, Signal::TERM);
            }
            _ = interrupts.recv() => send(&child, Signal::INT),
            _ = terminations.recv() => send(&child, Signal::TERM),
        }
    };
    match guard.release().await {
        // It was told when it happened.
        Ok(()) | Err(LockError::Lost(_)) => {}
        Err(error) => complain(&error),
    }
    Ok(exit_code(status))
}

async fn acquire(client: &Client, arguments: &Arguments) -> Result<Guard, LockError> {
    // Contenders with other names would not see us, nor we them, which is not what anybody wants.
    let stranger = Arc::new(OnceLock::new());
    let found = stranger.clone();
    let options = Options::new().data(description(arguments)).observer(move |event| match event {
        Event::Foreign(node) if contents::is_contender(node) => drop(found.set(node.clone())),
        _ => {}
    });
    let guard = acquire_with(client, arguments, options).await?;
    match stranger.get() {
        None => Ok(guard),
        Some(node) => {
            guard.release().await?;
            Err(LockError::Foreign { node: node.clone() })
        }
    }
}

async fn acquire_with(
    client: &Client,
    arguments: &Arguments,
    options: Options,
) -> Result<Guard, LockError> {
    let path = &arguments.path;
    let acquiring = async {
        if let Some(permits) = arguments.permits {
            let semaphore = Semaphore::with(client, path, arguments.of, options)?;
            let acquiring = match arguments.try_only {
                true => semaphore.try_acquire_many(permits).await,
                false => semaphore.acquire_many(permits).await,
            };
            return acquiring.map(Guard::Permits);
        }
        if !arguments.shared && !arguments.exclusive {
            let mutex = Mutex::with(client, path, options)?;
            let acquiring = match arguments.try_only {
                true => mutex.try_acquire().await,
                false => mutex.acquire().await,
            };
            return acquiring.map(Guard::Mutex);
        }
        let lock = RwLock::with(client, path, options)?;
        match (arguments.shared, arguments.try_only) {
            (true, true) => lock.try_read().await.map(Guard::Read),
            (true, false) => lock.read().await.map(Guard::Read),
            (false, true) => lock.try_write().await.map(Guard::Write),
            (false, false) => lock.write().await.map(Guard::Write),
        }
    };
    match arguments.timeout {
        None => acquiring.await,
        Some(timeout) => {
            tokio::time::timeout(timeout, acquiring).await.unwrap_or(Err(LockError::TimedOut))
        }
    }
}

/// What others see of us.
fn description(arguments: &Arguments) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    format!("{host} pid {}: {}", std::process::id(), arguments.command.join(" "))
}

fn start(command: &[String], held: &Held) -> std::io::Result<Child> {
    Command::new(&command[0])
        .args(&command[1..])
        .env("ZK_LOCK_TOKEN", held.fencing_token().0.to_string())
        .env("ZK_LOCK_NODE", held.node_path())
        .spawn()
}

/// It may have ended already.
fn send(child: &Child, signal: Signal) {
    let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    if let Some(Err(error)) = pid.map(|pid| kill_process(pid, signal)) {
        complain(&error);
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(i32::from(u8::MAX));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX))
}
