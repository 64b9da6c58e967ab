//! Runs a command under a lock.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs::File;
use std::future::{pending, ready};
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::unistd::{getpgrp, getsid};
use rustix::process::{Pid, Signal, setpgid};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};
use zk_recipes::session::{self, Client, RequestError, State};
use zk_recipes::{
    Event, Guard, Holding, LockError, Loss, Mutex, Options, ReadGuard, RecipeError, RwLock, Scheme,
    Semaphore, SemaphoreError, WriteGuard,
};

use crate::lease::{Lease, RESERVE_DIVISOR};
use crate::processes::{Processes, is_stopped, shows_descendants, sleep_until};
use crate::release::{self, Requests};
use crate::settings::{SECRETS, Settings, positive_seconds, seconds};
use crate::show::Owner;
use crate::signals::{MaskChanges, Received, Signals};
use crate::witness::{Shared, Witness, pass_on};
use crate::{
    Failure, Printing, acl, code, contents, exec, lock_error, print_error, print_error_meanwhile,
    show,
};

/// How long to wait in any case for the end of a session, which takes a round trip.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Shorter waits are not worth a report.
const REPORT_DELAY: Duration = Duration::from_secs(1);
/// How many characters of the program's name are published.
const MAX_PROGRAM_LENGTH: usize = 60;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The path of the lock; it is created if it does not exist
    path: String,
    /// Hold a read/write lock for reading, together with other readers
    #[arg(short, long, overrides_with = "exclusive", conflicts_with = "permits")]
    shared: bool,
    /// Hold a read/write lock for writing; without -s and -x, the lock is a mutex
    #[arg(
        short = 'x',
        visible_short_alias = 'e',
        long,
        overrides_with = "shared",
        conflicts_with = "permits"
    )]
    exclusive: bool,
    /// Hold this many permits of a semaphore
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    permits: Option<u32>,
    /// How many permits the semaphore has; sets the number of a new semaphore, and is compared with
    /// that of an existing one
    #[arg(long, value_name = "N", requires = "permits")]
    of: Option<u32>,
    /// Do not report who holds the lock while waiting for it, or that it was not acquired
    #[arg(short, long)]
    quiet: bool,
    /// While waiting for the lock, report who holds it after a second, and then at this interval
    #[arg(long, env = "ZK_LOCK_REPORT_INTERVAL", default_value = "60", value_name = "SECONDS", value_parser = positive_seconds)]
    report_interval: Duration,
    /// Do not wait for the lock, or for a connection that breaks meanwhile
    #[arg(short, long, visible_alias = "nb")]
    nonblock: bool,
    /// Wait no longer than this for the lock; 0 is the same as -n
    #[arg(short, long, visible_alias = "timeout", env = "ZK_LOCK_WAIT", value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// Release the lock when the command itself ends, and leave its other processes alone
    #[arg(short = 'o', long)]
    close: bool,
    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, env = "ZK_LOCK_CONFLICT_EXIT_CODE", value_name = "CODE", default_value_t = code::NOT_ACQUIRED)]
    conflict_exit_code: u8,
    /// When the lock is lost, how long the command has between SIGTERM and SIGKILL; by default, as
    /// long as the servers keep the session
    #[arg(long, env = "ZK_LOCK_KILL_AFTER", value_name = "SECONDS", value_parser = seconds)]
    kill_after: Option<Duration>,
    /// Exit with this code if the lock was lost, whatever the command returns
    #[arg(long, env = "ZK_LOCK_LOST_EXIT_CODE", value_name = "CODE", default_value_t = code::LOST)]
    lost_exit_code: u8,
    /// Who may do what with the nodes that this run creates, as in zkCli: scheme:id:permissions,...
    ///
    /// The lock node and its parents have this list, such as auth::cdrwa,world:anyone:r. Others can
    /// use the lock if they have r, c and d. Without it, everyone may do everything. The list of an
    /// existing node stays as it is.
    #[arg(long, env = "ZK_LOCK_ACL", value_name = "ACL", value_parser = acl::check)]
    acl: Option<String>,
    /// Run this command line by the shell, $SHELL or /bin/sh
    #[arg(short = 'c', long = "command", value_name = "COMMAND", conflicts_with = "command")]
    command_line: Option<OsString>,
    /// The command and its arguments
    #[arg(required_unless_present = "command_line", trailing_var_arg = true)]
    command: Vec<OsString>,
}

impl Arguments {
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns the time limit for the lock.
    fn limit(&self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }

    fn tries_only(&self) -> bool {
        self.nonblock || self.wait.is_some_and(|wait| wait.is_zero())
    }

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

    /// Prints that the lock is lost, and why. That must not delay the end of the command.
    pub(crate) fn print_loss(&self, why: &dyn fmt::Display) -> Printing {
        print_error_meanwhile(format!("the lock '{}' is lost: {why}", self.path))
    }

    pub(crate) fn kill_after(&self) -> Option<Duration> {
        self.kill_after
    }

    pub(crate) fn lost(&self) -> ExitCode {
        ExitCode::from(self.lost_exit_code)
    }
}

/// A held lock of any kind.
enum Held {
    Mutex(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
    Permits(Guard),
}

impl Held {
    fn guard(&self) -> &Guard {
        match self {
            Self::Mutex(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
            Self::Permits(guard) => guard,
        }
    }

    /// Releases the lock, and waits for the confirmation until `timeout`.
    async fn release(self, timeout: Duration) -> Result<(), RecipeError> {
        match self {
            Self::Mutex(guard) => guard.release().timeout(timeout).await,
            Self::Read(guard) => guard.release().timeout(timeout).await,
            Self::Write(guard) => guard.release().timeout(timeout).await,
            Self::Permits(guard) => guard.release().timeout(timeout).await,
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
    match result {
        Err(failure) if failure.is::<Conflict>() => {
            if !arguments.quiet {
                print_error(&failure);
            }
            Ok(ExitCode::from(arguments.conflict_exit_code))
        }
        result => result,
    }
}

/// Returns whether another contender was in the way.
fn is_not_acquired(failure: &Failure) -> bool {
    let timed_out = failure.downcast_ref::<TimedOut>();
    timed_out.is_some_and(|timed_out| timed_out.is_connected)
        || matches!(lock_error(failure), Some(LockError::Busy | LockError::TimedOut))
}

/// Another contender was in the way.
#[derive(Debug)]
struct Conflict {
    path: String,
    why: String,
    /// Who it is, if that is known.
    holder: Option<String>,
}

impl Conflict {
    /// Converts the error of an attempt if it is one, and asks who is in the way.
    async fn or(failure: Failure, client: &Client, arguments: &Arguments) -> Failure {
        if !is_not_acquired(&failure) {
            return failure;
        }
        let holder = show::holder(client, &arguments.path);
        let holder = match arguments.quiet {
            true => None,
            false => tokio::time::timeout(CLOSE_TIMEOUT, holder).await.ok().flatten(),
        };
        let why = match arguments.limit() {
            Some(limit) => format!("it was not free within {} s", limit.as_secs_f64()),
            None => "it is taken".to_owned(),
        };
        Self { path: arguments.path.clone(), why, holder }.into()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, why, holder } = self;
        write!(f, "the lock '{path}' was not acquired: {why}")?;
        holder.iter().try_for_each(|holder| write!(f, "; {holder}"))
    }
}

impl Error for Conflict {}

/// Reports who holds the lock, again and again, once another contender is ahead. Never returns.
async fn report_holder(
    client: &Client,
    arguments: &Arguments,
    mut is_waiting: watch::Receiver<bool>,
    begun: Instant,
    is_verbose: bool,
) -> Infallible {
    if arguments.quiet || is_waiting.wait_for(|is_waiting| *is_waiting).await.is_err() {
        return pending().await;
    }
    if !is_verbose {
        tokio::time::sleep(REPORT_DELAY).await;
    }
    loop {
        let holder = show::holder(client, &arguments.path).await;
        let holder = holder.unwrap_or_else(|| "the holder is not known".to_owned());
        let (path, seconds) = (&arguments.path, begun.elapsed().as_secs());
        let text = format!("waiting for the lock '{path}' for {seconds} s; {holder}");
        print_error_meanwhile(text).finished().await;
        tokio::time::sleep(arguments.report_interval).await;
    }
}

/// The connection is lost, and `--nonblock` does not wait for another.
#[derive(Debug)]
pub(crate) struct NotConnected {
    path: String,
}

impl fmt::Display for NotConnected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path } = self;
        write!(
            f,
            "the lock '{path}' was not acquired: the connection to a server with a quorum is lost"
        )
    }
}

impl Error for NotConnected {}

fn is_connection_loss(failure: &Failure) -> bool {
    let of_request = failure.downcast_ref::<RequestError>().map(|error| &error.reason);
    lock_error(failure) == Some(&LockError::NoConnection)
        || of_request == Some(&session::Error::ConnectionLost)
}

/// Waits until the connection is lost.
async fn connection_lost(client: &Client) {
    let is_lost = |state: &State| !matches!(state, State::Connected { .. } | State::Ended(_));
    if client.states().wait_for(is_lost).await.is_err() {
        // Requests fail by the end of the session, so this need not report it.
        pending::<()>().await;
    }
}

/// The time limit has passed.
#[derive(Debug)]
pub(crate) struct TimedOut {
    path: String,
    /// Whether there was a connection at the end. If not, the reason is unknown.
    pub(crate) is_connected: bool,
}

impl fmt::Display for TimedOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = "the connection to a server with a quorum is lost";
        write!(f, "the lock '{}' was not acquired: {why}", self.path)
    }
}

impl Error for TimedOut {}

async fn acquire_and_run(
    settings: &Settings,
    arguments: &Arguments,
    supervisor: &mut Supervisor,
    is_verbose: bool,
) -> Result<ExitCode, Failure> {
    let client = tokio::select! {
        client = settings.connect() => client?,
        signal = supervisor.end_signal() => return Ok(exit_code_of_signal(signal?)),
    };
    let begun = Instant::now();
    let deadline = arguments.limit().and_then(|limit| begun.checked_add(limit));
    let timed_out = |is_connected| TimedOut { path: arguments.path.clone(), is_connected };
    let not_connected = || NotConnected { path: arguments.path.clone() };
    let (waiting, is_waiting) = watch::channel(false);
    let reports = report_holder(&client, arguments, is_waiting.clone(), begun, is_verbose);
    let expired = expired(deadline, &client, is_waiting);
    let acquired = tokio::select! {
        acquired = before(expired, acquire(&client, arguments, waiting)) => match acquired {
            Some(Err(failure)) if arguments.tries_only() && is_connection_loss(&failure) => {
                Err(Err(not_connected().into()))
            }
            Some(acquired) => acquired.map_err(Err),
            None => {
                let is_connected = matches!(client.state(), State::Connected { .. });
                Err(Err(timed_out(is_connected).into()))
            }
        },
        () = connection_lost(&client), if arguments.tries_only() => {
            Err(Err(not_connected().into()))
        }
        never = reports => match never {},
        signal = supervisor.end_signal() => Err(signal.map(exit_code_of_signal).map_err(Failure::from)),
    };
    match acquired {
        Ok(guard) => {
            if is_verbose {
                let (held, seconds) = (guard.guard(), begun.elapsed().as_secs_f64());
                let (token, node) = (held.fencing_token().0, held.node_path());
                print_error(&format_args!("acquired after {seconds:.6} s: token {token}, {node}"));
            }
            let mut guard = Some(guard);
            let result = run_with(&mut guard, arguments, &client, supervisor).await;
            // The end of the session releases the lock, without a request more.
            close(client, supervisor.end_signal()).await;
            drop(guard);
            result
        }
        Err(result) => {
            let result = match result {
                Err(failure) => Err(Conflict::or(failure, &client, arguments).await),
                done => done,
            };
            close(client, ready(())).await;
            result
        }
    }
}

/// Waits for the deadline, and then until the lock is known to be held by another contender: a
/// free lock is acquired, however short the limit.
async fn expired(
    deadline: Option<Instant>,
    client: &Client,
    mut is_waiting: watch::Receiver<bool>,
) {
    sleep_until(deadline).await;
    tokio::select! {
        _ = is_waiting.wait_for(|is_waiting| *is_waiting) => {}
        () = connection_lost(client) => {}
    }
}

/// Returns the output of `work`, or `None` if `expired` returns first.
async fn before<T>(expired: impl Future, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        _ = expired => None,
    }
}

/// Ends the session, which deletes the lock node. After [`CLOSE_TIMEOUT`], `interrupt` ends the
/// wait; the servers then expire the session after its timeout.
async fn close(client: Client, interrupt: impl Future) {
    let interrupted = async {
        tokio::time::sleep(CLOSE_TIMEOUT).await;
        interrupt.await;
    };
    tokio::select! {
        () = client.close() => {}
        () = interrupted => {}
    }
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
) -> Result<ExitCode, Failure> {
    let Some(held) = guard.as_ref().map(Held::guard) else { return Ok(arguments.lost()) };
    let mut lost = pin!(held.lost());
    // The user stopped the job before the command began: do not start it.
    while supervisor.is_stopped() && !is_lost(held) {
        tokio::select! {
            loss = &mut lost => supervisor.printed = Some(arguments.print_loss(&loss)),
            signal = supervisor.end_or_continue() => if let Some(signal) = signal? {
                return Ok(exit_code_of_signal(signal));
            },
        }
    }
    if is_lost(held) {
        return Ok(arguments.lost());
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
                supervisor.printed = Some(arguments.print_loss(&loss));
                break true;
            }
            received = supervisor.signals.next() => {
                let received = received?;
                if !supervisor.is_alive() {
                    let path = &arguments.path;
                    let text = format!("zk-lock was killed, so the command under '{path}' is ended");
                    supervisor.printed = Some(print_error_meanwhile(text));
                    break true;
                }
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
    match processes.status() {
        Some(status) if !has_lost(guard) => Ok(exit_code(status)),
        _ => Ok(arguments.lost()),
    }
}

fn is_lost(held: &Guard) -> bool {
    matches!(held.state(), Holding::Lost(_))
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

/// Acquires the lock, unless the path is used as another kind of lock. Contenders of different
/// kinds do not see each other, and both would hold it.
///
/// The later of two contenders sees the earlier one, so looking after the acquisition is enough.
/// Locks list their queue, and so look for all but semaphores, which are below nodes of their own.
async fn acquire(
    client: &Client,
    arguments: &Arguments,
    waiting: watch::Sender<bool>,
) -> Result<Held, Failure> {
    let path = &arguments.path;
    let refuse = |node: &str| {
        let how = match Scheme::recognize(node) {
            _ if arguments.permits.is_some() => ": leave out --permits",
            Some(Scheme::CURATOR_READ_WRITE) => ": use -s or -x",
            Some(Scheme::CURATOR_MUTEX) => ": leave out -s and -x",
            _ => "",
        };
        Err(format!("{path} is used as another kind of lock, by '{node}'{how}").into())
    };
    let (guard, may_be_semaphore) = match acquire_with(client, arguments, waiting).await {
        Ok(acquired) => acquired,
        Err(failure) => match lock_error(&failure) {
            Some(LockError::OtherLock { node, .. }) => return refuse(node),
            _ => return Err(failure),
        },
    };
    let other = match guard {
        Held::Permits(_) => None,
        _ if may_be_semaphore => contents::semaphore_contender(client, path).await?,
        _ => None,
    };
    other.map_or(Ok(guard), |node| refuse(&node))
}

/// Returns the guard, and whether the list of the queue had nodes that may be those of a semaphore.
/// Sets `waiting` when other contenders are ahead.
async fn acquire_with(
    client: &Client,
    arguments: &Arguments,
    waiting: watch::Sender<bool>,
) -> Result<(Held, bool), Failure> {
    let has_unknown_nodes = Arc::new(AtomicBool::new(false));
    let seen = has_unknown_nodes.clone();
    let mut options = Options::new().data(description(&arguments.command()[0]));
    if let Some(acl) = arguments.acl.as_deref().and_then(|text| acl::parse(text).ok()) {
        options = options.acl(&acl).parent_acl(&acl);
    }
    let options = options.observer(move |_, event| match event {
        Event::UnknownNode(_) => seen.store(true, Ordering::Relaxed),
        Event::Waiting { .. } => drop(waiting.send_replace(true)),
        _ => {}
    });
    let path = &arguments.path;
    let at_once = arguments.tries_only();
    let guard = if let Some(permits) = arguments.permits {
        let semaphore = Semaphore::with(client, path, arguments.of, options)?.refuse_other_locks();
        let guard = match at_once {
            true => semaphore.try_acquire_many(permits).await,
            false => semaphore.acquire_many(permits).await,
        };
        Held::Permits(guard.map_err(|error| match error.reason {
            reason @ SemaphoreError::NoMaximum => {
                format!("'{path}': {reason}: set it with --of").into()
            }
            _ => Failure::from(error),
        })?)
    } else if !arguments.shared && !arguments.exclusive {
        let mutex = Mutex::with(client, path, options)?;
        Held::Mutex(if at_once { mutex.try_acquire().await? } else { mutex.acquire().await? })
    } else {
        let lock = RwLock::with(client, path, options)?;
        match (arguments.shared, at_once) {
            (true, true) => Held::Read(lock.try_read().await?),
            (true, false) => Held::Read(lock.read().await?),
            (false, true) => Held::Write(lock.try_write().await?),
            (false, false) => Held::Write(lock.write().await?),
        }
    };
    Ok((guard, has_unknown_nodes.load(Ordering::Relaxed)))
}

/// Returns the data of the lock node. Everyone who can connect can read it, so it has no arguments.
fn description(program: &OsStr) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let program = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let program: String = program.chars().take(MAX_PROGRAM_LENGTH).collect();
    Owner { host: &host, pid: std::os::unix::process::parent_id(), program: &program }.format()
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

fn exit_code_of_signal(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(code_of(signal)).unwrap_or(u8::MAX))
}
