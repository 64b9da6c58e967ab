//! Measures how many clients of many processes come back after a restart of a real ensemble.
//!
//! `cargo run -p zk-testkit --example fleet -- [sessions] [processes] [timeout-ms] [java]`
//!
//! Each session holds a lock and watches ten nodes. All three servers are killed at the same time and
//! started again. Prints what it cost. The counters of connections are those of the whole system.
//! With `java`, sessions wait before their attempts as Java's client does.

use std::error::Error;
use std::future::Future;
use std::io::{BufRead as _, BufReader, Write as _};
use std::pin::Pin;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use std::{env, fs, io, thread};

use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use zk_recipes::{Holding, Mutex};
use zk_session::{Client, Connect, ServerAddress, State, TcpConnect};
use zk_testkit::real::{RealEnsemble, Settings};

type Failure = Box<dyn Error + Send + Sync>;

const SERVERS: usize = 3;
const WATCHES: usize = 10;
/// The argument for Java's rule.
const JAVA: &str = "java";
/// How many sessions of a process begin at the same time.
const AT_ONCE: usize = 32;

fn unix_ms() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis())
}

// ---- A process with sessions ---------------------------------------------------------------------

/// Waits before each attempt as Java's client does: for a random time below 1 s, and 1 s longer
/// after a round in which all servers failed.
#[derive(Default)]
struct JavaConnect {
    connect: TcpConnect,
    /// Attempts since a server has served the session.
    attempts: u64,
}

impl Connect for JavaConnect {
    type Transport = <TcpConnect as Connect>::Transport;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<Self::Transport>> + Send>> {
        let is_next_round = self.attempts > 0 && self.attempts.is_multiple_of(SERVERS as u64);
        self.attempts += 1;
        let delay = fastrand::u64(..1_000) + u64::from(is_next_round) * 1_000;
        let connecting = self.connect.connect(server);
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(delay)).await;
            connecting.await
        })
    }

    fn addresses(&mut self, servers: &[ServerAddress]) -> Vec<usize> {
        self.connect.addresses(servers)
    }

    fn served(&mut self, server: &ServerAddress) {
        self.attempts = 0;
        self.connect.served(server);
    }
}

/// Begins a session. When it was lost and is back, returns the time and whether the lock is held.
async fn hold(
    at: Arc<str>,
    number: usize,
    timeout: Duration,
    is_java: bool,
    begin: Arc<Semaphore>,
    ready: tokio::sync::mpsc::Sender<()>,
) -> Result<(u128, bool, bool), Failure> {
    let permit = begin.acquire().await?;
    let builder = Client::builder(&at).session_timeout(timeout);
    let builder = builder.connect_timeout(Duration::from_secs(300));
    let client = match is_java {
        true => builder.connect_with(JavaConnect::default()).await?,
        false => builder.connect().await?,
    };
    let guard = Mutex::new(&client, &format!("/fleet/{number}"))?.acquire().await?;
    let mut watches = Vec::new();
    for watch in 0..WATCHES {
        watches.push(client.exists_and_watch(&format!("/fleet-{number}-{watch}")).await?);
    }
    drop(permit);
    let mut states = client.states();
    ready.send(()).await?;
    drop(ready);
    states.wait_for(|state| !matches!(state, State::Connected { .. })).await?;
    states.wait_for(|s| matches!(s, State::Connected { .. } | State::Ended(_))).await?;
    let back = unix_ms();
    tokio::time::sleep(timeout).await;
    let lost = matches!(guard.state(), Holding::Lost(_));
    let expired = matches!(client.state(), State::Ended(_));
    std::mem::forget((guard, watches));
    Ok((back, lost, expired))
}

#[tokio::main(flavor = "current_thread")]
async fn run_sessions(
    at: &str,
    first: usize,
    count: usize,
    timeout: Duration,
    is_java: bool,
) -> Result<(), Failure> {
    let (ready, mut all_ready) = tokio::sync::mpsc::channel(1);
    let begin = Arc::new(Semaphore::new(AT_ONCE));
    let mut sessions = JoinSet::new();
    for number in first..first + count {
        sessions.spawn(hold(at.into(), number, timeout, is_java, begin.clone(), ready.clone()));
    }
    drop(ready);
    let mut number = 0;
    while all_ready.recv().await.is_some() {
        number += 1;
    }
    println!("ready {number}");
    while let Some(seen) = sessions.join_next().await {
        let (back, lost, expired) = seen??;
        println!("{back} {lost} {expired}");
    }
    Ok(())
}

// ---- The ensemble and the measurement ------------------------------------------------------------

/// Returns a counter of the system: of `Tcp` or `TcpExt`.
fn counter(file: &str, table: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let mut rows = text.lines().filter(|line| line.starts_with(table)).map(str::split_whitespace);
    let (Some(names), Some(values)) = (rows.next(), rows.next()) else { return 0 };
    let mut both = names.zip(values);
    both.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
}

fn attempts() -> u64 {
    counter("/proc/net/snmp", "Tcp:", "ActiveOpens")
}

fn overflows() -> u64 {
    counter("/proc/net/netstat", "TcpExt:", "ListenOverflows")
}

fn start_processes(
    at: &str,
    sessions: usize,
    processes: usize,
    timeout: usize,
    is_java: bool,
) -> io::Result<Vec<(Child, BufReader<ChildStdout>)>> {
    let each = sessions / processes;
    let start = |process| {
        let mut child = Command::new(env::current_exe()?)
            .arg("sessions")
            .arg(at)
            .args([process * each, each, timeout].map(|number| number.to_string()))
            .args(is_java.then_some(JAVA))
            .stdout(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Ok((child, BufReader::new(output)))
    };
    (0..processes).map(start).collect()
}

fn measure(
    sessions: usize,
    processes: usize,
    timeout: usize,
    is_java: bool,
) -> Result<(), Failure> {
    let extra = "maxClientCnxns=0\n".into();
    // Servers grant up to twenty ticks.
    let tick = Duration::from_millis(timeout as u64 / 10);
    let settings = Settings { servers: SERVERS, tick, extra, ..Settings::default() };
    let mut ensemble = RealEnsemble::with_settings(settings)?;
    let began = Instant::now();
    let at = ensemble.connect_string();
    let mut children = start_processes(&at, sessions, processes, timeout, is_java)?;
    let mut held = 0;
    for (_, output) in &mut children {
        let mut line = String::new();
        output.read_line(&mut line)?;
        held +=
            line.trim().strip_prefix("ready ").and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
    }
    println!("{held} sessions hold their locks after {:?}", began.elapsed());
    let done = Arc::new(AtomicBool::new(false));
    let peak = thread::spawn({
        let done = done.clone();
        move || {
            let (mut peak, mut before) = (0, attempts());
            while !done.load(Ordering::Relaxed) {
                thread::sleep(Duration::from_secs(1));
                let now = attempts();
                (peak, before) = (peak.max(now - before), now);
            }
            peak
        }
    });
    let (first_attempts, first_overflows) = (attempts(), overflows());
    let killed = unix_ms();
    for server in 0..SERVERS {
        ensemble.kill(server)?;
    }
    ensemble.restart_all()?;
    ensemble.wait_until_all_serve()?;
    let up = unix_ms();
    let (mut back, mut lost, mut expired) = (Vec::new(), 0, 0);
    for (mut child, output) in children {
        for line in output.lines() {
            let line = line?;
            let mut words = line.split(' ');
            back.push(words.next().and_then(|it| it.parse::<u128>().ok()).unwrap_or(0));
            lost += usize::from(words.next() == Some("true"));
            expired += usize::from(words.next() == Some("true"));
        }
        child.kill()?;
        child.wait()?;
    }
    done.store(true, Ordering::Relaxed);
    back.sort_unstable();
    let after = |place: usize| back.get(place).map_or(0.0, |at| (*at as f64 - killed as f64) / 1e3);
    println!(
        "servers serve after {:.1} s; half of {} sessions are back after {:.1} s, all after {:.1} s; {lost} locks \
         and {expired} sessions lost; {} attempts, at most {} a second; {} overflows of listeners",
        (up - killed) as f64 / 1e3,
        back.len(),
        after(back.len() / 2),
        after(back.len().saturating_sub(1)),
        attempts() - first_attempts,
        peak.join().map_err(|_| "no panic")?,
        overflows() - first_overflows,
    );
    io::stdout().flush()?;
    Ok(())
}

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let number = |place: usize, default: usize| {
        arguments.get(place).and_then(|argument| argument.parse().ok()).unwrap_or(default)
    };
    let is_java = arguments.last().is_some_and(|last| last == JAVA);
    if arguments.first().is_some_and(|first| first == "sessions") {
        let timeout = Duration::from_millis(number(4, 10_000) as u64);
        return run_sessions(&arguments[1], number(2, 0), number(3, 1), timeout, is_java);
    }
    measure(number(0, 5_000), number(1, 8), number(2, 10_000), is_java)
}
