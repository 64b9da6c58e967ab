//! Runs a command under a lock.

use std::ffi::OsString;
use std::fs::File;
use std::future::pending;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::unistd::{getpgrp, getsid};
use rustix::process::{Pid, Signal, setpgid};
use tokio::time::{Instant, MissedTickBehavior, interval};
use zk_recipes::session::Client;
use zk_recipes::{Guard, Holding, Loss};

use crate::acquire::{Attempt, Held, LockArguments, acquire, close, is_lost};
use crate::lease::{Lease, RESERVE_DIVISOR};
use crate::passing::{Shared, pass_on};
use crate::processes::{Processes, is_stopped, shows_descendants, sleep_until};
use crate::release::{self, Requests};
use crate::settings::{SECRETS, Settings, positive_seconds, seconds};
use crate::signals::{MaskChanges, Received, Signals};
use crate::witness::Witness;
use crate::{Failure, Printing, exec, once, print_line, print_meanwhile};

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
        Ok(None) => run_with(&mut held, arguments, &client, supervisor, begun).await,
        Ok(Some(code)) => Ok(code),
        Err(failure) => Err(failure),
    };
    // The end of the session releases the lock, without a request more.
    close(client, supervisor.end_signal()).await;
    drop(held);
    result
}

/// Releases the lock for the command, and ends the session.
///
/// Without a confirmation, the requests are dropped, which fails them. The servers then expire the
/// session after its timeout.
async fn release_early(guard: Held, requests: Requests, client: Client) {
    match guard.release(client.session_timeout()).await {
        Ok(()) => drop(tokio::join!(client.close(), requests.confirm())),
        Err(_) => {
            drop(requests);
            client.close().await;
        }
    }
}

/// Waits until the command asks for the release.
async fn requested(requests: &mut Option<Requests>) {
    match requests {
        Some(requests) => requests.next().await,
        None => pending().await,
    }
}

/// Runs the command, and returns when all its processes have ended. Takes the guard if the command
/// releases the lock.
async fn run_with(
    guard: &mut Option<Held>,
    arguments: &Arguments,
    client: &Client,
    supervisor: &mut Supervisor,
    begun: Instant,
) -> Result<ExitCode, Failure> {
    let Some(held) = guard.as_ref().map(Held::guard) else { return Ok(arguments.lock.lost()) };
    let mut lost = pin!(held.lost());
    // The user stopped the job before the command began: do not start it.
    while supervisor.is_stopped() && !is_lost(held) {
        tokio::select! {
            loss = &mut lost => supervisor.printed = Some(arguments.lock.print_loss(&loss)),
            signal = supervisor.end_or_continue() => if let Some(signal) = signal? {
                return Ok(exit_code_of_signal(signal));
            },
        }
    }
    if is_lost(held) {
        return Ok(arguments.lock.lost());
    }
    let mut command = exec::command(&arguments.command(), supervisor.signals.mask_changes())?;
    for secret in SECRETS {
        command.env_remove(secret);
    }
    command.env("ZK_LOCK_TOKEN", held.fencing_token().0.to_string());
    command.env("ZK_LOCK_NODE", held.node_path());
    let (requests, inherited) = release::channel()?;
    command.env(release::VARIABLE, inherited.descriptors());
    if let Some(group) = supervisor.group {
        command.process_group(group.as_raw_nonzero().get());
    }
    let witness = supervisor.start_witness();
    // Before there is any process that `kill -9` of the job could leave behind.
    supervisor.leave_group();
    supervisor.lease.begin(client)?;
    let spawned = Processes::spawn(&mut command);
    if spawned.is_err() {
        supervisor.lease.finish()?;
    }
    let mut processes = spawned?;
    drop(inherited);
    // Only a witness that started before the command shares all its signals.
    processes.set_witness(witness);
    let mut shared = Shared::default();
    let mut requests = Some(requests);
    let has_lost =
        |guard: &Option<Held>| guard.as_ref().is_some_and(|guard| is_lost(guard.guard()));
    // The supervisor knows the end of the lease with a delay as short as the reserve.
    let reserve = client.session_timeout() / RESERVE_DIVISOR;
    let mut ticks = interval(reserve.max(Duration::from_millis(1)));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_signalled = false;
    let must_end = loop {
        tokio::select! {
            _ = ticks.tick(), if guard.is_some() => if !has_lost(guard) {
                supervisor.lease.extend(client)?;
            },
            ended = processes.wait_any() => {
                processes.take_witnessed().into_iter().for_each(|signal| shared.witnessed(signal));
                let has_ended = processes.status().is_some();
                if ended? || (arguments.close && has_ended) {
                    break false;
                }
                if has_ended {
                    supervisor.enter_group();
                }
            }
            // A lost lock is not released. The next round reports the loss.
            () = requested(&mut requests) => {
                if !has_lost(guard)
                    && let (Some(guard), Some(requests)) = (guard.take(), requests.take())
                {
                    supervisor.lease.release()?;
                    tokio::spawn(release_early(guard, requests, client.clone()));
                }
            }
            loss = &mut lost, if guard.is_some() => {
                supervisor.printed = Some(arguments.lock.print_loss(&loss));
                break true;
            }
            received = supervisor.signals.next() => {
                let received = received?;
                if !supervisor.is_alive() {
                    let path = &arguments.lock.path;
                    let text = format!("zk-lock was killed, so the command under '{path}' is ended");
                    let line = arguments.lock.event("killed", &text, None);
                    supervisor.printed = Some(print_meanwhile(line));
                    break true;
                }
                is_signalled |= ENDS.contains(&received.signal);
                if received.is_from_keyboard {
                    // The command has received it as well, if it has not ended.
                    if processes.status().is_some() {
                        pass_on(received.signal, &processes, None);
                    }
                } else if received.signal != Signal::CONT {
                    shared.received(received, supervisor.pid, supervisor.group);
                }
            }
            () = sleep_until(shared.due()) => {
                shared.pass_on(&processes, supervisor.group, supervisor.is_stopped());
            }
        }
    };
    // Nothing reads the requests any more. Open pipes would keep `zk-lock release` waiting.
    drop(requests);
    if must_end {
        // A session that has ended keeps nothing. The lease is that of the next one.
        let state = guard.as_ref().map(|guard| guard.guard().state());
        let has_ended = matches!(state, Some(Holding::Lost(Loss::Ended(_))));
        let lease = || client.lease().filter(|_| !has_ended).unwrap_or_else(Instant::now);
        let left = || lease() - Instant::now();
        // The command has at least the reserve to end.
        let grace = arguments.kill_after.unwrap_or_else(|| left().max(reserve));
        supervisor.lease.end_within(grace.saturating_add(Duration::from_secs(1)))?;
        processes.end(grace, &mut supervisor.signals).await?;
    }
    supervisor.lease.finish()?;
    let Some(status) = processes.status().filter(|_| !has_lost(guard)) else {
        return Ok(arguments.lock.lost());
    };
    if guard.is_none() && arguments.once_per.is_some() {
        let text = "the command has released the lock, so its success is not remembered";
        print_line(&arguments.lock.event("not_remembered", text, None));
    } else if guard.is_some() && !must_end {
        supervisor.enter_group();
        let at_least = arguments.at_least.filter(|_| !is_signalled);
        let completed = complete(arguments, client, status, begun, at_least);
        tokio::select! {
            // If there is nothing to wait for, the exit code is that of the command.
            biased;
            completed = completed => completed?,
            loss = &mut lost => {
                supervisor.printed = Some(arguments.lock.print_loss(&loss));
                return Ok(arguments.lock.lost());
            }
            signal = supervisor.last_signal() => return Ok(exit_code_of_signal(signal?)),
        }
    }
    Ok(exit_code(status))
}

/// Remembers that the command has succeeded, and waits.
async fn complete(
    arguments: &Arguments,
    client: &Client,
    status: ExitStatus,
    begun: Instant,
    at_least: Option<Duration>,
) -> Result<(), Failure> {
    if arguments.once_per.is_some() && status.success() {
        once::remember(client, &arguments.lock).await?;
    }
    if let Some(time) = at_least {
        sleep_until(begun.checked_add(time)).await;
    }
    Ok(())
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
