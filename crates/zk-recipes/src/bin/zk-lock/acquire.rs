//! Acquires a lock for `run` and `hold`.

use std::convert::Infallible;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::future::{pending, ready};
use std::path::Path;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::watch;
use tokio::time::Instant;
use zk_recipes::session::proto::Acl;
use zk_recipes::session::{self, Client, RequestError, State};
use zk_recipes::{
    Event, Guard, Holding, LockError, Mutex, Options, ReadGuard, RecipeError, RwLock, Scheme,
    Semaphore, SemaphoreError, WriteGuard,
};

use crate::contents::{connection_lost, while_connected};
use crate::processes::sleep_until;
use crate::settings::{Settings, positive_seconds, seconds};
use crate::show::Owner;
use crate::text::json;
use crate::{
    Failure, OutputClosed, Printing, acl, code, contents, error_line, exit_code_of, lock_error,
    print_line, print_meanwhile, show,
};

/// How long to wait in any case for the end of a session, which takes a round trip.
const CLOSE_TIMEOUT: Duration = Duration::from_millis(500);
/// Shorter waits are not worth a report.
const REPORT_DELAY: Duration = Duration::from_secs(1);
/// How many characters of the program's name are published.
const MAX_PROGRAM_LENGTH: usize = 60;

#[derive(clap::Args)]
pub(crate) struct LockArguments {
    /// The path of the lock; it is created if it does not exist
    pub(crate) path: String,
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
    /// Report every event on the standard error as a JSON object, each on one line
    #[arg(long)]
    json: bool,
    /// While waiting for the lock, report who holds it after a second, and then at this interval
    #[arg(long, env = "ZK_LOCK_REPORT_INTERVAL", default_value = "60", value_name = "SECONDS", value_parser = positive_seconds)]
    report_interval: Duration,
    /// Do not wait for the lock, or for a connection that breaks meanwhile
    #[arg(short, long, visible_alias = "nb")]
    nonblock: bool,
    /// Wait no longer than this for the lock; 0 is the same as -n
    #[arg(short, long, visible_alias = "timeout", env = "ZK_LOCK_WAIT", value_name = "SECONDS", value_parser = seconds)]
    wait: Option<Duration>,
    /// Exit with this code if the lock was not acquired
    #[arg(short = 'E', long, env = "ZK_LOCK_CONFLICT_EXIT_CODE", value_name = "CODE", default_value_t = code::NOT_ACQUIRED)]
    conflict_exit_code: u8,
    /// Exit with this code if the lock was lost
    #[arg(long, env = "ZK_LOCK_LOST_EXIT_CODE", value_name = "CODE", default_value_t = code::LOST)]
    lost_exit_code: u8,
    /// Who may do what with the nodes that zk-lock creates, as in zkCli: scheme:id:permissions,...
    ///
    /// The lock node and its parents have this list, such as auth::cdrwa,world:anyone:r. Others can
    /// use the lock if they have r, c and d. Without it, everyone may do everything. The list of an
    /// existing node stays as it is.
    #[arg(long, env = "ZK_LOCK_ACL", value_name = "ACL", value_parser = acl::check)]
    acl: Option<String>,
}

impl LockArguments {
    /// Returns the time limit for the lock.
    fn limit(&self) -> Option<Duration> {
        self.wait.filter(|wait| !wait.is_zero())
    }

    fn tries_only(&self) -> bool {
        self.nonblock || self.wait.is_some_and(|wait| wait.is_zero())
    }

    /// Returns the access control list of the nodes that are created.
    pub(crate) fn acl(&self) -> Vec<Acl<'_>> {
        let parsed = self.acl.as_deref().and_then(|text| acl::parse(text).ok());
        parsed.unwrap_or_else(|| vec![Acl::OPEN])
    }

    /// Prints that the lock is lost, and why. That must not delay the end of the command.
    pub(crate) fn print_loss(&self, why: &dyn fmt::Display) -> Printing {
        let text = format!("the lock '{}' is lost: {why}", self.path);
        print_meanwhile(self.event("lost", &text, None))
    }

    /// Returns the line that reports an event, in words or as JSON.
    pub(crate) fn event(&self, event: &str, text: &str, guard: Option<&Guard>) -> String {
        let token = guard.map(|guard| guard.fencing_token().0);
        let node_path = guard.map(Guard::node_path);
        match self.json {
            // Text can be written as JSON.
            true => json(&Record { event, path: &self.path, text, token, node_path })
                .unwrap_or_default(),
            false => error_line(&text),
        }
    }

    /// Prints an event that is reported with `--verbose` or `--json`.
    pub(crate) fn print_detail(
        &self,
        is_verbose: bool,
        event: &str,
        text: &str,
        guard: Option<&Guard>,
    ) {
        if is_verbose || self.json {
            print_line(&self.event(event, text, guard));
        }
    }

    pub(crate) fn lost(&self) -> ExitCode {
        ExitCode::from(self.lost_exit_code)
    }

    /// Prints that another contender was in the way, and with `--json` any other error. Returns the
    /// exit code for it.
    pub(crate) fn finish(&self, result: Result<ExitCode, Failure>) -> Result<ExitCode, Failure> {
        match result {
            Err(failure) if NotAcquired::is_conflict(&failure) => {
                if !self.quiet {
                    print_line(&self.event("not_acquired", &failure.to_string(), None));
                }
                Ok(ExitCode::from(self.conflict_exit_code))
            }
            Err(failure) if self.json && !failure.is::<OutputClosed>() => {
                print_line(&self.event("failed", &failure.to_string(), None));
                Ok(ExitCode::from(exit_code_of(&failure)))
            }
            result => result,
        }
    }
}

/// An event, as JSON. The documentation lists the fields.
#[derive(Serialize)]
struct Record<'a> {
    event: &'a str,
    path: &'a str,
    text: &'a str,
    token: Option<i64>,
    node_path: Option<String>,
}

/// A held lock of any kind.
pub(crate) enum Held {
    /// A mutex, or permits of a semaphore.
    Plain(Guard),
    Read(ReadGuard),
    Write(WriteGuard),
}

impl Held {
    pub(crate) fn guard(&self) -> &Guard {
        match self {
            Self::Plain(guard) => guard,
            Self::Read(guard) => guard,
            Self::Write(guard) => guard,
        }
    }

    /// Releases the lock, and waits for the confirmation until `timeout`.
    pub(crate) async fn release(self, timeout: Duration) -> Result<(), RecipeError> {
        let released = match self {
            Self::Plain(guard) => guard.release(),
            Self::Read(guard) => guard.release(),
            Self::Write(guard) => guard.release(),
        };
        released.timeout(timeout).await
    }
}

pub(crate) fn is_lost(held: &Guard) -> bool {
    matches!(held.state(), Holding::Lost(_))
}

/// How an attempt has ended.
pub(crate) enum Attempt {
    Acquired(Client, Held),
    /// The lock is not held, and the session is closed.
    Ended(Result<ExitCode, Failure>),
}

/// Connects, and acquires the lock for a program, unless `end` returns first.
pub(crate) async fn acquire(
    settings: &Settings,
    arguments: &LockArguments,
    program: &OsStr,
    is_verbose: bool,
    end: impl Future<Output = Result<ExitCode, Failure>>,
) -> Attempt {
    let mut end = pin!(end);
    let client = tokio::select! {
        client = settings.connect() => match client {
            Ok(client) => client,
            Err(failure) => return Attempt::Ended(Err(failure)),
        },
        ended = &mut end => return Attempt::Ended(ended),
    };
    let begun = Instant::now();
    let deadline = arguments.limit().and_then(|limit| begun.checked_add(limit));
    let not_acquired = |is_connected| Err(NotAcquired::new(arguments, is_connected).into());
    let (waiting, is_waiting) = watch::channel(false);
    let reports = report_holder(&client, arguments, is_waiting.clone(), begun, is_verbose);
    let expired = expired(deadline, &client, is_waiting);
    let acquired = acquire_unmixed(&client, arguments, program, waiting);
    let acquired: Result<Held, Result<ExitCode, Failure>> = tokio::select! {
        acquired = before(expired, acquired) => match acquired {
            Some(Err(failure)) if arguments.tries_only() && is_connection_loss(&failure) => {
                Err(not_acquired(false))
            }
            Some(acquired) => acquired.map_err(Err),
            None => Err(not_acquired(matches!(client.state(), State::Connected { .. }))),
        },
        () = connection_lost(&client), if arguments.tries_only() => Err(not_acquired(false)),
        never = reports => match never {},
        ended = end => Err(ended),
    };
    match acquired {
        Ok(held) => {
            let (guard, seconds) = (held.guard(), begun.elapsed().as_secs_f64());
            let (token, node) = (guard.fencing_token().0, guard.node_path());
            let text = format!("acquired after {seconds:.6} s: token {token}, {node}");
            arguments.print_detail(is_verbose, "acquired", &text, Some(guard));
            Attempt::Acquired(client, held)
        }
        Err(result) => {
            let result = match result {
                Err(failure) => Err(NotAcquired::or(failure, &client, arguments).await),
                done => done,
            };
            close(client, ready(())).await;
            Attempt::Ended(result)
        }
    }
}

/// The lock was not acquired: another contender was in the way, or there was no connection.
#[derive(Debug)]
pub(crate) struct NotAcquired {
    path: String,
    why: String,
    /// Whether there was a connection at the end. If not, the reason is unknown.
    pub(crate) is_connected: bool,
}

impl NotAcquired {
    fn new(arguments: &LockArguments, is_connected: bool) -> Self {
        let why = match arguments.limit() {
            _ if !is_connected => "the connection to a server with a quorum is lost".to_owned(),
            Some(limit) => format!("it was not free within {} s", limit.as_secs_f64()),
            None => "it is taken".to_owned(),
        };
        Self { path: arguments.path.clone(), why, is_connected }
    }

    /// Returns whether another contender was in the way.
    fn is_conflict(failure: &Failure) -> bool {
        failure.downcast_ref().is_some_and(|failure: &Self| failure.is_connected)
    }

    /// Converts the error of an attempt if another contender was in the way, and asks who it is.
    async fn or(failure: Failure, client: &Client, arguments: &LockArguments) -> Failure {
        let is_taken = matches!(lock_error(&failure), Some(LockError::Busy | LockError::TimedOut));
        if !is_taken && !Self::is_conflict(&failure) {
            return failure;
        }
        let mut conflict = Self::new(arguments, true);
        let holder = show::holder(client, &arguments.path);
        if !arguments.quiet
            && let Ok(Some(holder)) = tokio::time::timeout(CLOSE_TIMEOUT, holder).await
        {
            conflict.why += &format!("; {holder}");
        }
        conflict.into()
    }
}

impl fmt::Display for NotAcquired {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, why, .. } = self;
        write!(f, "the lock '{path}' was not acquired: {why}")
    }
}

impl Error for NotAcquired {}

/// Reports who holds the lock, again and again, once another contender is ahead. Never returns.
async fn report_holder(
    client: &Client,
    arguments: &LockArguments,
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
        let holder = match while_connected(client, show::holder(client, &arguments.path)).await {
            None => "no server answers".to_owned(),
            Some(holder) => holder.unwrap_or_else(|| "the holder is not known".to_owned()),
        };
        let (path, seconds) = (&arguments.path, begun.elapsed().as_secs());
        let text = format!("waiting for the lock '{path}' for {seconds} s; {holder}");
        print_meanwhile(arguments.event("waiting", &text, None)).finished().await;
        tokio::time::sleep(arguments.report_interval).await;
    }
}

fn is_connection_loss(failure: &Failure) -> bool {
    let of_request = failure.downcast_ref::<RequestError>().map(|error| &error.reason);
    lock_error(failure) == Some(&LockError::NoConnection)
        || of_request == Some(&session::Error::ConnectionLost)
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
pub(crate) async fn close(client: Client, interrupt: impl Future) {
    let interrupted = async {
        tokio::time::sleep(CLOSE_TIMEOUT).await;
        interrupt.await;
    };
    tokio::select! {
        () = client.close() => {}
        () = interrupted => {}
    }
}

/// Acquires the lock, unless the path is used as another kind of lock. Contenders of different
/// kinds do not see each other, and both would hold it.
///
/// The later of two contenders sees the earlier one, so looking after the acquisition is enough.
/// Locks list their queue, and so look for all but semaphores, which are below nodes of their own.
async fn acquire_unmixed(
    client: &Client,
    arguments: &LockArguments,
    program: &OsStr,
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
    let (guard, may_be_semaphore) = match acquire_with(client, arguments, program, waiting).await {
        Ok(acquired) => acquired,
        Err(failure) => match lock_error(&failure) {
            Some(LockError::OtherLock { node, .. }) => return refuse(node),
            _ => return Err(failure),
        },
    };
    let other = match may_be_semaphore && arguments.permits.is_none() {
        true => contents::semaphore_contender(client, path).await?,
        false => None,
    };
    other.map_or(Ok(guard), |node| refuse(&node))
}

/// Returns the guard, and whether the list of the queue had nodes that may be those of a semaphore.
/// Sets `waiting` when other contenders are ahead.
async fn acquire_with(
    client: &Client,
    arguments: &LockArguments,
    program: &OsStr,
    waiting: watch::Sender<bool>,
) -> Result<(Held, bool), Failure> {
    let has_unknown_nodes = Arc::new(AtomicBool::new(false));
    let seen = has_unknown_nodes.clone();
    let acl = arguments.acl();
    let options = Options::new().data(description(program));
    let options = options.acl(&acl).parent_acl(&acl).observer(move |_, event| match event {
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
        Held::Plain(guard.map_err(|error| match error.reason {
            reason @ SemaphoreError::NoMaximum => {
                format!("'{path}': {reason}: set it with --of").into()
            }
            _ => Failure::from(error),
        })?)
    } else if !arguments.shared && !arguments.exclusive {
        let mutex = Mutex::with(client, path, options)?;
        Held::Plain(if at_once { mutex.try_acquire().await? } else { mutex.acquire().await? })
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
