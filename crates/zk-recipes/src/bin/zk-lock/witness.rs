//! Tells signals to `zk-lock` alone from signals that the command has received as well.
//!
//! A signal does not show whether it was sent to one process, to its process group (`kill %1`), or
//! to every process of a service (systemd). So the keeper starts another process in the group of
//! the command: `cat`, which reads from a pipe for ever. Nobody sends it signals of its own. A
//! signal to the group, or to every process, ends it, and the keeper starts the next one.
//!
//! It is no `zk-lock`: `killall /usr/bin/zk-lock` would end it, and does not reach the command.

use std::io::{self, PipeWriter};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use nix::unistd::getpgrp;
use rustix::process::{Pid, Signal, WaitStatus};
use tokio::time::Instant;

use crate::exec;
use crate::processes::Processes;
use crate::settings::SECRETS;
use crate::signals::{MaskChanges, Received, send};

/// How long it takes until all have a signal that was sent to each of them, and this is noticed.
const MOMENT: Duration = Duration::from_millis(100);

/// The process that shares the signals of the command's process group.
pub(crate) struct Witness {
    group: Pid,
    mask_changes: MaskChanges,
    process: Pid,
    _stdin: PipeWriter,
}

impl Witness {
    /// Starts the process. May fail where processes are limited; then no signal counts as shared.
    pub(crate) fn start(group: Pid, mask_changes: &MaskChanges) -> io::Result<Self> {
        let (stdin, writer) = io::pipe()?;
        let mut cat = exec::command(&["cat".into()], mask_changes)?;
        for secret in SECRETS {
            cat.env_remove(secret);
        }
        cat.process_group(group.as_raw_nonzero().get());
        cat.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null());
        let process = Pid::from_child(&cat.spawn()?);
        Ok(Self { group, mask_changes: mask_changes.clone(), process, _stdin: writer })
    }

    pub(crate) fn process(&self) -> Pid {
        self.process
    }

    /// Returns the signal that has ended the process, and the next process.
    pub(crate) fn ended(self, status: WaitStatus) -> (Option<Signal>, Option<Self>) {
        let Some(raw) = status.terminating_signal() else { return (None, None) };
        (Signal::from_named_raw(raw), Self::start(self.group, &self.mask_changes).ok())
    }
}

/// A signal that is not passed on yet.
struct Held {
    signal: Signal,
    due: Instant,
    /// Whether `zk-lock` has received it.
    is_received: bool,
    /// Whether a keeper in another process group has received it from elsewhere.
    is_everywhere: bool,
    /// Whether the process group of the command has received it.
    is_shared: bool,
}

/// The signals of the last moment.
#[derive(Default)]
pub(crate) struct Shared(Vec<Held>);

impl Shared {
    fn entry(&mut self, signal: Signal) -> &mut Held {
        let at = self.0.iter().position(|held| held.signal == signal).unwrap_or_else(|| {
            let due = Instant::now() + MOMENT;
            let (is_received, is_everywhere, is_shared) = (false, false, false);
            self.0.push(Held { signal, due, is_received, is_everywhere, is_shared });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Notes a signal to this keeper, which its supervisor may have passed on.
    pub(crate) fn received(&mut self, received: Received, supervisor: Pid, group: Option<Pid>) {
        let held = self.entry(received.signal);
        held.is_received = true;
        held.is_everywhere |= received.sender != supervisor.as_raw_nonzero().get()
            && group.is_some_and(|group| group.as_raw_nonzero().get() != getpgrp().as_raw());
    }

    /// Notes a signal that has ended the witness.
    pub(crate) fn witnessed(&mut self, signal: Signal) {
        self.entry(signal).is_shared = true;
    }

    /// Returns when to call [`Self::pass_on`].
    pub(crate) fn due(&self) -> Option<Instant> {
        self.0.iter().map(|held| held.due).min()
    }

    /// Passes signals on to the processes that have not received them.
    pub(crate) fn pass_on(
        &mut self,
        processes: &Processes,
        group: Option<Pid>,
        supervisor_is_stopped: bool,
    ) {
        let now = Instant::now();
        self.0.retain_mut(|held| {
            if held.due > now {
                return true;
            }
            if !held.is_received && supervisor_is_stopped {
                // It passes the signal on when it continues.
                held.due = now + MOMENT;
                return true;
            }
            if held.is_received && !(held.is_shared && held.is_everywhere) {
                pass_on(held.signal, processes, group.filter(|_| held.is_shared));
            }
            false
        });
    }
}

/// Passes a signal on to all processes, but those of the group that has received it.
pub(crate) fn pass_on(signal: Signal, processes: &Processes, except: Option<Pid>) {
    match (signal, processes.status()) {
        (Signal::CONT, _) => {}
        // Their meaning depends on the program.
        (Signal::USR1 | Signal::USR2, None) => {
            if processes.is_outside(processes.child(), except) {
                send(signal, processes.child());
            }
        }
        // The command's PID may belong to another process by now.
        (Signal::USR1 | Signal::USR2, Some(_)) => {}
        // The remaining processes ran in the background, where shells make them ignore interrupts.
        (Signal::INT | Signal::QUIT, Some(_)) => processes.send_to_all(Signal::TERM),
        (signal, _) => processes.send_to_all_outside(signal, except),
    }
}
