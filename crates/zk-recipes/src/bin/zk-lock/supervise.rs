//! The process that a shell sees as `zk-lock run`.
//!
//! ```text
//! zk-lock run             the supervisor: stopped and continued with the job of its shell
//!   zk-lock-keeper        keeps the session, also while the job is stopped
//!     the command         in the supervisor's process group, as under flock(1)
//! ```
//!
//! Either of the two ends the command if the other is killed. The keeper notices the end of its
//! supervisor. The supervisor adopts the processes of a keeper that has ended. It kills a keeper
//! that is stopped, or does not run, until the [lease](crate::lease) has ended.

use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitCode};

use rustix::process::Signal;
use tokio::time::Instant;

use crate::lease::Lease;
use crate::passing::HEAD_START;
use crate::processes::{Processes, sleep_until};
use crate::settings::{CONFIG_TEXT, LONGEST_TEXT, Settings};
use crate::signals::{Signals, send};
use crate::{Failure, Usage, exec, run};

pub(crate) async fn run(
    arguments: &run::Arguments,
    settings: &Settings,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::handle_inherited()?;
    let lease = Lease::create()?;
    let mut processes = Processes::spawn(&mut keeper(settings, &signals, &lease)?)?;
    let mut is_interrupted = false;
    // When to pass a signal on to the keeper. One sent to every process is to reach it first: that shows
    // the sender.
    let mut held: Vec<(Signal, Instant)> = Vec::new();
    // `None`: the lease has ended, and the keeper has not ended the command.
    let ended = loop {
        // Not only after the interval, which signals cut short.
        if lease.has_passed()? {
            // The command must not wait until the keeper has ended.
            send(Signal::KILL, processes.child());
            break None;
        }
        tokio::select! {
            received = signals.next() => {
                let received = received?;
                is_interrupted |= received.signal == Signal::INT;
                // The keyboard has sent it to the keeper as well, while the keeper is in the
                // foreground.
                let is_held = held.iter().any(|(signal, _)| *signal == received.signal);
                if !received.is_from_keyboard && !is_held {
                    held.push((received.signal, Instant::now() + HEAD_START));
                }
            }
            () = sleep_until(held.first().map(|(_, due)| *due)) => {
                let (signal, _) = held.remove(0);
                send(signal, processes.child());
            }
            () = tokio::time::sleep(lease.interval()?) => {}
            ended = processes.wait_any() => {
                ended?;
                if processes.status().is_some() {
                    break processes.status();
                }
            }
        }
    };
    let is_lost = ended.is_none_or(|status| status.signal().is_some()) || lease.runs()?;
    let (Some(status), false) = (ended, is_lost) else {
        let cause = match ended.map(|status| (status.signal(), status.code())) {
            None => "its keeper has not run until the lease ended".to_owned(),
            Some((Some(signal), _)) => format!("signal {signal} ended its keeper"),
            Some((None, code)) => {
                format!("its keeper has failed, with exit code {}", code.unwrap_or(-1))
            }
        };
        let printed = arguments.lock.print_loss(&cause);
        let grace = lease.grace()?.unwrap_or(settings.session_timeout);
        processes.end(arguments.kill_after.unwrap_or(grace), &mut signals).await?;
        printed.finish().await;
        return Ok(arguments.lock.lost());
    };
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
fn keeper(settings: &Settings, signals: &Signals, lease: &Lease) -> Result<Command, Failure> {
    let mut keeper = exec::this_program()?;
    keeper.arg0(KEEPER).args(["--supervisor", &std::process::id().to_string()]);
    keeper.args(["--lease", &lease.descriptor().to_string()]);
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
