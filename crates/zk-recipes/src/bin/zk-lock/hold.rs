//! Holds a lock for the program that has started this one: `hold`.
//!
//! The two ends of the pipes report to each other: the end of the standard input is the end of the
//! program, and the end of the standard output that of the lock.

use std::ffi::OsString;
use std::io::{self, IsTerminal as _};
use std::os::unix::process::parent_id;
use std::process::ExitCode;

use nix::unistd::close as close_descriptor;
use rustix::process::Signal;
use tokio::task::{JoinHandle, spawn_blocking};
use zk_recipes::Guard;

use crate::acquire::{Attempt, LockArguments, acquire, close};
use crate::processes::shows_descendants;
use crate::run::exit_code_of_signal;
use crate::settings::Settings;
use crate::signals::{Received, Signals};
use crate::{Failure, show};

const STDOUT: i32 = 1;

pub(crate) async fn run(
    settings: &Settings,
    arguments: &LockArguments,
    is_verbose: bool,
) -> Result<ExitCode, Failure> {
    let mut program = Program::new()?;
    let end = async {
        match program.ended().await? {
            Some(signal) => Ok(exit_code_of_signal(signal)),
            None => {
                let path = &arguments.path;
                let why = "the standard input has ended";
                Err(format!("the lock '{path}' was not acquired: {why}").into())
            }
        }
    };
    let attempt = acquire(settings, arguments, &parent(), is_verbose, end).await;
    let (client, held) = match attempt {
        Attempt::Acquired(client, held) => (client, held),
        Attempt::Ended(result) => return arguments.finish(result),
    };
    let result = hold(held.guard(), arguments, &mut program).await;
    close(client, end_signal(&mut program.signals)).await;
    result
}

async fn hold(
    guard: &Guard,
    arguments: &LockArguments,
    program: &mut Program,
) -> Result<ExitCode, Failure> {
    show::print(&format!("{}\n", guard.fencing_token().0))?;
    let (ended, loss) = tokio::select! {
        loss = guard.lost() => (Ok(arguments.lost()), Some(loss)),
        ended = program.ended() => (ended.map(|_| ExitCode::SUCCESS), None),
    };
    // First of all: the program may be at work, and the rest may take a moment.
    close_descriptor(STDOUT)?;
    if let Some(loss) = loss {
        arguments.print_loss(&loss).finish().await;
    }
    ended
}

/// The program that has started this one.
struct Program {
    signals: Signals,
    /// Reads the standard input to its end.
    input: JoinHandle<io::Result<u64>>,
}

impl Program {
    fn new() -> io::Result<Self> {
        Signals::block_stops()?;
        let signals = Signals::handle_inherited()?;
        let input = spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink()));
        Ok(Self { signals, input })
    }

    /// Waits for the end of the standard input, or for a signal that ends this process. May return
    /// once.
    async fn ended(&mut self) -> Result<Option<Signal>, Failure> {
        tokio::select! {
            ended = &mut self.input => ended?.map(|_| None).map_err(Failure::from),
            signal = end_signal(&mut self.signals) => signal.map(Some).map_err(Failure::from),
        }
    }
}

/// Waits for a signal that ends this process. The program gets those of the keyboard as well, and
/// decides what to do about them.
async fn end_signal(signals: &mut Signals) -> io::Result<Signal> {
    let has_program = !io::stdin().is_terminal();
    loop {
        let Received { signal, is_from_keyboard, .. } = signals.next().await?;
        if signal != Signal::CONT && !(is_from_keyboard && has_program) {
            return Ok(signal);
        }
    }
}

/// Returns the name of the program, if the system shows it.
fn parent() -> OsString {
    let name = std::fs::read_to_string(format!("/proc/{}/comm", parent_id()));
    match name {
        Ok(name) if shows_descendants() => name.trim_end().into(),
        _ => "a program".into(),
    }
}
