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

use rustix::process::{Pid, Signal, WaitStatus};

use crate::exec;
use crate::settings::SECRETS;
use crate::signals::MaskChanges;

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
