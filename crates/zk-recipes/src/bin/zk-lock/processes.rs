//! The processes of a command: all its descendants, including those in sessions of their own.
//!
//! On Linux this process adopts orphaned descendants, so all have ended when it has no child left.
//! Elsewhere orphans are out of reach, and only the command itself is tracked.

use std::collections::HashSet;
use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use tokio::signal::unix::{Signal as Stream, SignalKind, signal};
use tokio::time::Instant;

use crate::signals::{Signals, send};
use crate::witness::Witness;

/// The interval at which SIGKILL is repeated, for processes that were forked meanwhile.
const REPEAT: Duration = Duration::from_millis(50);
/// The most rounds of looking for new processes while a signal is sent: they may fork faster.
const MAX_ROUNDS: usize = 100;

/// A child of this process and its descendants.
pub(crate) struct Processes {
    children: Stream,
    /// Children that this process had before it became this program. They are left alone.
    before: HashSet<Pid>,
    child: Pid,
    status: Option<ExitStatus>,
    witness: Option<Witness>,
    /// The signals that have ended the witness.
    witnessed: Vec<Signal>,
}

impl Processes {
    /// Starts a child. May be called once in a process.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let children = signal(SignalKind::child())?;
        let before = tree::descendants(&HashSet::new()).into_iter().collect();
        let child = Pid::from_child(&command.spawn()?);
        let (witness, witnessed) = (None, Vec::new());
        Ok(Self { children, before, child, status: None, witness, witnessed })
    }

    /// Sets the witness, which is none of the processes.
    pub(crate) fn set_witness(&mut self, witness: Option<Witness>) {
        self.before.extend(witness.as_ref().map(Witness::process));
        self.witness = witness;
    }

    /// Returns the signals that have ended witnesses since the last call.
    pub(crate) fn take_witnessed(&mut self) -> Vec<Signal> {
        std::mem::take(&mut self.witnessed)
    }

    pub(crate) fn child(&self) -> Pid {
        self.child
    }

    /// Returns how the child has ended, if it has.
    pub(crate) fn status(&self) -> Option<ExitStatus> {
        self.status
    }

    /// Waits until at least one process has ended. Returns whether all have.
    pub(crate) async fn wait_any(&mut self) -> io::Result<bool> {
        self.children.recv().await;
        self.reap()
    }

    /// Looks for processes that have ended. Returns whether all have.
    fn reap(&mut self) -> io::Result<bool> {
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) if pid == self.child => {
                    self.status = Some(ExitStatus::from_raw(status.as_raw()));
                }
                Ok(Some((pid, status))) => self.other_ended(pid, status),
                Ok(None) => return Ok(!self.before.is_empty() && self.all().is_empty()),
                Err(Errno::CHILD) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn other_ended(&mut self, pid: Pid, status: WaitStatus) {
        if let Some(witness) = self.witness.take_if(|witness| witness.process() == pid) {
            self.before.remove(&pid);
            let (signal, next) = witness.ended(status);
            self.witnessed.extend(signal);
            self.set_witness(next);
        }
    }

    /// Sends `signal` to all processes, including those forked meanwhile.
    pub(crate) fn send_to_all(&self, signal: Signal) {
        self.send_to_all_outside(signal, None);
    }

    /// Sends `signal` to all processes that are not in this process group.
    pub(crate) fn send_to_all_outside(&self, signal: Signal, group: Option<Pid>) {
        let mut signalled = HashSet::new();
        for _ in 0..MAX_ROUNDS {
            let new: Vec<_> = self.all().into_iter().filter(|pid| signalled.insert(*pid)).collect();
            if new.is_empty() {
                return;
            }
            let outside = new.into_iter().filter(|pid| self.is_outside(*pid, group));
            outside.for_each(|pid| send(signal, pid));
        }
    }

    /// Returns whether a process is in another process group; `true` without a group.
    pub(crate) fn is_outside(&self, pid: Pid, group: Option<Pid>) -> bool {
        let is_inside =
            |group| tree::stat(&pid.to_string()).is_some_and(|it| it.group == Some(group));
        !group.is_some_and(is_inside)
    }

    fn all(&self) -> Vec<Pid> {
        let mut all = tree::descendants(&self.before);
        // The system may not report parents.
        if self.status.is_none() && !all.contains(&self.child) {
            all.push(self.child);
        }
        all
    }

    /// Ends all processes: by SIGTERM, and after `grace` by SIGKILL. Passes other signals on
    /// meanwhile.
    pub(crate) async fn end(&mut self, grace: Duration, signals: &mut Signals) -> io::Result<()> {
        // The last ones may have ended together with the child. No signal follows then.
        if self.reap()? {
            return Ok(());
        }
        self.send_to_all(Signal::TERM);
        let mut kill_at = Instant::now().checked_add(grace);
        loop {
            tokio::select! {
                all_ended = self.wait_any() => if all_ended? {
                    return Ok(());
                },
                () = sleep_until(kill_at) => {
                    self.send_to_all(Signal::KILL);
                    kill_at = Instant::now().checked_add(REPEAT);
                }
                received = signals.next() => {
                    let received = received?;
                    if !received.is_from_keyboard && received.signal != Signal::CONT {
                        self.send_to_all(received.signal);
                    }
                }
            }
        }
    }
}

/// Sleeps until `at`, or for ever without a time.
pub(crate) async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at).await,
        None => pending().await,
    }
}

/// Returns whether the system shows which processes descend from which.
pub(crate) fn shows_descendants() -> bool {
    cfg!(target_os = "linux") && tree::is_own_namespace()
}

/// Returns whether a process is stopped, as by Ctrl-Z; `false` if the system does not say.
pub(crate) fn is_stopped(pid: Pid) -> bool {
    tree::is_own_namespace()
        && tree::stat(&pid.to_string()).is_some_and(|process| process.state == "T")
}

mod tree {
    use std::collections::{HashMap, HashSet};

    use rustix::process::{Pid, getpid};

    pub(super) struct Process {
        pub(super) state: String,
        parent: Pid,
        /// `None` if it belongs to another PID namespace.
        pub(super) group: Option<Pid>,
    }

    /// Parses `12 (a name) S 7 ...`, where the name may contain anything.
    pub(super) fn stat(pid: &str) -> Option<Process> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (_, rest) = stat.rsplit_once(") ")?;
        let mut fields = rest.split(' ');
        let state = fields.next()?.to_owned();
        let mut pid = || Pid::from_raw(fields.next()?.parse().ok()?);
        Some(Process { state, parent: pid()?, group: pid() })
    }

    /// Returns whether `/proc` shows the PID namespace of this process. In another one, the same
    /// numbers belong to other processes.
    pub(super) fn is_own_namespace() -> bool {
        let own = getpid().as_raw_nonzero().to_string();
        std::fs::read_link("/proc/self").is_ok_and(|shown| shown.as_os_str() == own.as_str())
    }

    /// Returns the running descendants of this process, except for `except` and their descendants.
    /// Returns none if `/proc` belongs to another PID namespace.
    pub(super) fn descendants(except: &HashSet<Pid>) -> Vec<Pid> {
        if !is_own_namespace() {
            return Vec::new();
        }
        let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some((name, pid)) = name.to_str().and_then(|name| Some((name, name.parse().ok()?)))
            else {
                continue;
            };
            if let (Some(pid), Some(process)) = (Pid::from_raw(pid), stat(name)) {
                children.entry(process.parent).or_default().push(pid);
            }
        }
        let mut found = Vec::new();
        let mut parents = vec![getpid()];
        while let Some(parent) = parents.pop() {
            for pid in children.remove(&parent).into_iter().flatten() {
                if !except.contains(&pid) {
                    parents.push(pid);
                    found.push(pid);
                }
            }
        }
        found
    }
}
