//! Passes signals on to the processes of the command that have not received them.

use std::time::Duration;

use nix::unistd::getpgrp;
use rustix::process::{Pid, Signal};
use tokio::time::Instant;

use crate::processes::Processes;
use crate::signals::{Received, send};

/// How long it takes until all have a signal that was sent to each of them, and this is noticed.
const MOMENT: Duration = Duration::from_millis(100);

/// How long a supervisor holds a signal back before it passes it on to the keeper: half of
/// [`MOMENT`], since either process may be late.
pub(crate) const HEAD_START: Duration = Duration::from_millis(50);

/// A signal that is not passed on yet.
struct HeldSignal {
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
pub(crate) struct Shared(Vec<HeldSignal>);

impl Shared {
    fn entry(&mut self, signal: Signal) -> &mut HeldSignal {
        let at = self.0.iter().position(|held| held.signal == signal).unwrap_or_else(|| {
            let due = Instant::now() + MOMENT;
            let (is_received, is_everywhere, is_shared) = (false, false, false);
            self.0.push(HeldSignal { signal, due, is_received, is_everywhere, is_shared });
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
