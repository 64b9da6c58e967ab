//! The process that a shell sees as `zk-lock run`.
//!
//! ```text
//! zk-lock run             the supervisor: stopped and continued with the job of its shell
//!   zk-lock-keeper        keeps the session, also while the job is stopped
//!     the command         in the supervisor's process group, as under flock(1)
//! ```
//!
//! Either of the two ends the command if the other is killed. The keeper notices the end of its
//! supervisor. The supervisor adopts the processes of a killed keeper.

use std::io::{self, PipeWriter, Read as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::Signal;

use crate::processes::Processes;
use crate::settings::{CONFIG_TEXT, LONGEST_TEXT, Settings};
use crate::signals::{Signals, send};
use crate::{Failure, Usage, exec, run};

pub(crate) async fn run(
    arguments: &run::Arguments,
    settings: &Settings,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::handle_inherited()?;
    let (mut granted, theirs) = io::pipe()?;
    fcntl_setfd(&theirs, FdFlags::empty())?;
    let mut processes = Processes::spawn(&mut keeper(settings, &signals, &theirs)?)?;
    drop(theirs);
    let mut is_interrupted = false;
    let status = loop {
        tokio::select! {
            received = signals.next() => {
                let received = received?;
                is_interrupted |= received.signal == Signal::INT;
                // The keyboard has sent it to the keeper as well, while the keeper is in the
                // foreground.
                if !received.is_from_keyboard {
                    send(received.signal, processes.child());
                }
            }
            ended = processes.wait_any() => {
                ended?;
                if let Some(status) = processes.status() {
                    break status;
                }
            }
        }
    };
    if let Some(signal) = status.signal() {
        let printed = arguments.print_loss(&format_args!("signal {signal} ended its keeper"));
        // The keeper was the only writer, so this does not block.
        let mut timeout = String::new();
        granted.read_to_string(&mut timeout)?;
        let timeout = timeout.parse().map_or(settings.session_timeout, Duration::from_millis);
        // The remaining lease is unknown. The keeper has sent to a server within a third of the
        // timeout.
        let grace = arguments.kill_after().unwrap_or(timeout / 3);
        processes.end(grace, &mut signals).await?;
        printed.finish().await;
        return Ok(arguments.lost());
    }
    // The interrupt that has ended the keeper was sent to both at once. It may not have been read.
    while let Some(received) = signals.pending()? {
        is_interrupted |= received.signal == Signal::INT;
    }
    // Shells leave a loop or a script only if an interrupt has ended the command.
    if is_interrupted && status.code() == Some(run::code_of(Signal::INT)) {
        signals.end_process(Signal::INT);
    }
    Ok(run::exit_code(status))
}

/// Returns the command that starts this program again, with the same arguments and settings.
fn keeper(
    settings: &Settings,
    signals: &Signals,
    granted: &PipeWriter,
) -> Result<Command, Failure> {
    let mut keeper = exec::this_program()?;
    keeper.arg0(KEEPER).args(["--supervisor", &std::process::id().to_string()]);
    keeper.args(["--granted", &granted.as_raw_fd().to_string()]);
    keeper.args(signals.mask_changes().arguments()).args(std::env::args_os().skip(1));
    match &settings.config_text {
        Some(text) if text.len() > LONGEST_TEXT => {
            let longest = LONGEST_TEXT / 1000;
            return Err(Usage::new(format!("the configuration is longer than {longest} KB")).into());
        }
        Some(text) => keeper.env(CONFIG_TEXT, text),
        None => keeper.env_remove(CONFIG_TEXT),
    };
    Ok(keeper)
}

/// The keeper's name in lists of processes, which `killall zk-lock` does not match.
const KEEPER: &str = "zk-lock-keeper";
