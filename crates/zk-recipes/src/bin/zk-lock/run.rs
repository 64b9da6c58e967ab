//! Runs a command under a lock.

mod job;

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::unistd::{getpgrp, getsid};
use rustix::process::{Pid, Signal, setpgid};
use tokio::time::Instant;
use zk_recipes::Guard;
use zk_recipes::session::Client;

use self::job::Job;
use crate::acquire::{Attempt, LockArguments, acquire, close};
use crate::lease::Lease;
use crate::processes::{is_stopped, shows_descendants};
use crate::settings::{Settings, positive_seconds, seconds};
use crate::signals::{MaskChanges, Received, Signals};
use crate::witness::Witness;
use crate::{Failure, Printing, exec, once};

/// The signals by which users and services end programs.
const ENDS: [Signal; 4] = [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT];

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) lock: LockArguments,
    /// Release the lock when the command itself ends, and leave its other processes alone
    #[arg(short = 'o', long)]
    close: bool,
    /// When the lock is lost, how long the command has between SIGTERM and SIGKILL; by default, as
    /// long as the servers keep the session
    #[arg(long, env = "ZK_LOCK_KILL_AFTER", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) kill_after: Option<Duration>,
    /// Hold the lock at least this long, such as 10m, even if the command ends sooner
    ///
    /// So hosts whose clocks differ less do not run a job one after another. The time begins when
    /// the lock is acquired. A signal to end zk-lock or the command, and `zk-lock release`, release
    /// the lock at once. If zk-lock is killed, the servers release it after the session timeout.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    at_least: Option<Duration>,
    /// Do nothing, and exit with 0, if a command has succeeded under this lock within this time,
    /// such as 1h
    ///
    /// The node PATH-last-success remembers when a command under this option has exited with 0, and
    /// stays. Delete it to run the command again. The clock of the ensemble's leader counts: if that
    /// of the next leader differs, so does the time. A success is not remembered if zk-lock is
    /// killed, or the lock is lost or released before. The node has the list of --acl, which must
    /// permit w as well.
    #[arg(long, value_name = "TIME", value_parser = positive_seconds, conflicts_with_all = ["shared", "permits"])]
    once_per: Option<Duration>,
    /// Run this command line by the shell, $SHELL or /bin/sh
    #[arg(short = 'c', long = "command", value_name = "COMMAND", conflicts_with = "command")]
    command_line: Option<OsString>,
    /// The command and its arguments
    #[arg(required_unless_present = "command_line", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    /// Returns the program and its arguments.
    fn command(&self) -> Vec<OsString> {
        match &self.command_line {
            None => self.command.clone(),
            Some(line) => {
                let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
                vec![shell.unwrap_or_else(|| "/bin/sh".into()), "-c".into(), line.clone()]
            }
        }
    }
}

pub(crate) async fn run(
    settings: &Settings,
    arguments: &Arguments,
    mut supervisor: Supervisor,
    is_verbose: bool,
) -> Result<ExitCode, Failure> {
    let result = acquire_and_run(settings, arguments, &mut supervisor, is_verbose).await;
    if let Some(printed) = supervisor.printed {
        printed.finish().await;
    }
    arguments.lock.finish(result)
}

async fn acquire_and_run(
    settings: &Settings,
    arguments: &Arguments,
    supervisor: &mut Supervisor,
    is_verbose: bool,
) -> Result<ExitCode, Failure> {
    let end = async { Ok(exit_code_of_signal(supervisor.end_signal().await?)) };
    let program = &arguments.command()[0];
    let (client, held) = match acquire(settings, &arguments.lock, program, is_verbose, end).await {
        Attempt::Acquired(client, held) => (client, held),
        Attempt::Ended(result) => return result,
    };
    let begun = Instant::now();
    let skipped = skipped(held.guard(), arguments, &client, supervisor, is_verbose).await;
    let mut held = Some(held);
    let result = match skipped {
        Ok(None) => {
            let guard = &mut held;
            Job { guard, arguments, client: &client, supervisor, begun }.run().await
        }
        Ok(Some(code)) => Ok(code),
        Err(failure) => Err(failure),
    };
    // The end of the session releases the lock, without a request more.
    close(client, supervisor.end_signal()).await;
    drop(held);
    result
}

/// Returns an exit code if the command is not to run: it has succeeded lately, the lock is lost, or
/// a signal ends this process.
async fn skipped(
    guard: &Guard,
    arguments: &Arguments,
    client: &Client,
    supervisor: &mut Supervisor,
    is_verbose: bool,
) -> Result<Option<ExitCode>, Failure> {
    let Some(period) = arguments.once_per else { return Ok(None) };
    let path = &arguments.lock.path;
    let elapsed = tokio::select! {
        elapsed = once::since_success(client, path) => elapsed?,
        loss = guard.lost() => {
            supervisor.printed = Some(arguments.lock.print_loss(&loss));
            return Ok(Some(arguments.lock.lost()));
        }
        signal = supervisor.end_signal() => return Ok(Some(exit_code_of_signal(signal?))),
    };
    let Some(elapsed) = elapsed.filter(|elapsed| *elapsed < period) else { return Ok(None) };
    let seconds = elapsed.as_secs_f64();
    let text = format!("skipped: a command under '{path}' has succeeded {seconds} s ago");
    arguments.lock.print_detail(is_verbose, "skipped", &text, None);
    Ok(Some(ExitCode::SUCCESS))
}

/// The process that has started this one; see [`crate::supervise`].
pub(crate) struct Supervisor {
    pid: Pid,
    /// `None` if the group belongs to another PID namespace, and so has no number here.
    group: Option<Pid>,
    lease: Lease,
    signals: Signals,
    /// A message that is being printed.
    printed: Option<Printing>,
}

impl Supervisor {
    /// Makes this process the keeper of the supervisor's lock.
    pub(crate) fn new(pid: i32, lease: Lease, mask_changes: &MaskChanges) -> Result<Self, Failure> {
        let signals = Signals::inherit(mask_changes)?;
        exec::end_with_parent(pid)?;
        #[cfg(target_os = "linux")]
        rustix::thread::set_name(c"zk-lock-keeper")?;
        let pid = Pid::from_raw(pid).ok_or("invalid process id")?;
        let group = Pid::from_raw(getpgrp().as_raw());
        Ok(Self { pid, group, lease, signals, printed: None })
    }

    fn start_witness(&self) -> Option<Witness> {
        let group = self.group.filter(|_| shows_descendants())?;
        Witness::start(group, self.signals.mask_changes()).ok()
    }

    fn is_alive(&self) -> bool {
        exec::is_child_of(self.pid.as_raw_nonzero().get())
    }

    fn is_stopped(&self) -> bool {
        is_stopped(self.pid)
    }

    /// Waits for a signal that ends the program while no command runs.
    async fn end_signal(&mut self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.end_or_continue().await? {
                return Ok(signal);
            }
        }
    }

    /// Waits for a signal that ends the program after its command.
    async fn last_signal(&mut self) -> io::Result<Signal> {
        loop {
            let Received { signal, .. } = self.signals.next().await?;
            if ENDS.contains(&signal) {
                return Ok(signal);
            }
        }
    }

    async fn end_or_continue(&mut self) -> io::Result<Option<Signal>> {
        let Received { signal, .. } = self.signals.next().await?;
        Ok((signal != Signal::CONT).then_some(signal))
    }

    /// Leaves the job's process group while the command runs. Signals of the keyboard then do not
    /// reach this process, and `kill -9` of the job leaves it to end the others.
    ///
    /// Stays in the first group of a session on a terminal. A terminal does not stop that group,
    /// since no shell could continue it; a parent in another group would change this.
    fn leave_group(&self) {
        let is_first = getsid(None).is_ok_and(|session| session == getpgrp());
        if self.group.is_some() && !(is_first && File::open("/dev/tty").is_ok()) {
            // If this fails, `kill -9` of the job ends the keeper as well.
            let _ = setpgid(None, None);
        }
    }

    /// Returns to the job's process group.
    fn enter_group(&self) {
        if self.group.is_some() {
            let _ = setpgid(None, self.group);
        }
    }
}

pub(crate) fn exit_code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(signal).unwrap_or(i32::from(u8::MAX));
    ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
}

/// Returns the exit code for an end by a signal.
pub(crate) fn code_of(signal: Signal) -> i32 {
    128 + signal.as_raw()
}

pub(crate) fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(code_of(signal)).unwrap_or(u8::MAX))
}
