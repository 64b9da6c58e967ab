//! The process that a shell sees as `zk-lock run`.
//!
//! ```text
//! zk-lock run             the supervisor: is stopped and continued with the job of its shell
//!   zk-lock-keeper        keeps the session, goes on while the job is stopped
//!     the command         in the supervisor's process group, as under flock(1)
//! ```
//!
//! Each of the two survives the other for as long as it takes to end the command: the keeper
//! notices when its supervisor is gone, and the supervisor adopts what a killed keeper leaves
//! behind.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::process::Signal;

use crate::processes::Processes;
use crate::signals::{Signals, send};
use crate::{Failure, run, tied};

pub(crate) async fn run(
    arguments: &run::Arguments,
    session_timeout: Duration,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::take()?;
    let mut processes = Processes::spawn(&mut keeper(&signals.blocked())?)?;
    let status = loop {
        tokio::select! {
            ended = processes.some_ended() => {
                ended?;
                if let Some(status) = processes.status() {
                    break status;
                }
            }
            received = signals.next() => {
                let received = received?;
                // The keeper has it from the keyboard as well, while that concerns it.
                if !received.is_from_keyboard {
                    send(received.signal, processes.child());
                }
            }
        }
    };
    if let Some(signal) = status.signal() {
        arguments.complain_of_loss(&format_args!("its keeper was ended by signal {signal}"));
        // Nothing tells what was left of the lease. Servers hear of a session every third of its
        // timeout.
        let grace = arguments.kill_after().unwrap_or(session_timeout / 3);
        processes.end(grace, &mut signals).await?;
        return Ok(arguments.lost());
    }
    // Shells leave a loop or a script only for a command that an interrupt has ended.
    if status.code() == Some(run::code_of(Signal::INT)) {
        signals.end_by(Signal::INT);
    }
    Ok(run::exit_code(status))
}

/// What starts this program again, with the same arguments.
fn keeper(taken: &str) -> std::io::Result<Command> {
    let mut keeper = tied::this_program()?;
    keeper.arg0(KEEPER).args(["--supervisor", &std::process::id().to_string()]);
    if !taken.is_empty() {
        keeper.args(["--taken", taken]);
    }
    keeper.args(std::env::args_os().skip(1));
    Ok(keeper)
}

/// The keeper's name in lists of processes. `killall zk-lock` does not mean it, and need not.
const KEEPER: &str = "zk-lock-keeper";
