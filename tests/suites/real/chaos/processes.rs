//! Contenders in processes of their own: `zk-lock`, Curator and kazoo.
//!
//! In each turn, a process prints the path of its lock node and its fencing token, and holds the
//! lock until it reads a line. Meanwhile the test writes, with a session of its own, in a transaction
//! that checks the lock node.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;
use zk_session::blocking::Client;
use zk_session::proto::Zxid;
use zk_testkit::explained::zk_lock;
use zk_testkit::linearizable::OnLock;
use zk_testkit::peers::{Peer, Program, Runnable};
use zk_testkit::turns::{Kind, Turn};

use super::SESSION_TIMEOUT;
use super::access::Access;
use super::contender::Contender;
use super::holders::{Account, Contest};

/// What a command does in its turn.
const TURN: &str = r#"echo "$ZK_LOCK_NODE $ZK_LOCK_TOKEN"; read line"#;

/// How to start a contender.
#[derive(Clone)]
pub(super) enum Starter {
    /// A process for each turn: `zk-lock`, at this path.
    Launcher(PathBuf),
    /// A process for all turns.
    Peer(Peer, Arc<Runnable>),
}

impl Starter {
    pub(super) fn launcher() -> Self {
        Self::Launcher(zk_lock())
    }

    /// Returns `None` if the peer is not installed.
    pub(super) fn peer(peer: Peer) -> Option<Self> {
        peer.find_or_skip().map(|program| Self::Peer(peer, Arc::new(program)))
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Launcher(_) => "zk-lock",
            Self::Peer(Peer::Curator, _) => "Curator",
            Self::Peer(Peer::Kazoo, _) => "kazoo",
        }
    }

    fn start(&self, at: &str, lock: &str) -> Process {
        let mut command = match self {
            Self::Launcher(program) => {
                let mut command = Command::new(program);
                command.args(["--connect", at]);
                command.args(["--session-timeout", &SESSION_TIMEOUT.as_secs().to_string()]);
                command.args(["run", lock, "--", "sh", "-c", TURN]);
                command
            }
            Self::Peer(_, peer) => {
                let mut command = peer.command(Program::Hold);
                command.args([at, lock, &SESSION_TIMEOUT.as_millis().to_string()]);
                command
            }
        };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // As shells do. Without it, the end of a command of `zk-lock` can orphan the group of this
        // test. Linux sends SIGHUP to such a group if a process in it is stopped, as paused servers
        // are.
        command.process_group(0);
        let mut child = command.spawn().expect("a process");
        let output = BufReader::new(child.stdout.take().expect("piped")).lines();
        let errors = child.stderr.take().expect("piped");
        Process { child, output: Some(output), errors }
    }

    /// Returns the exit codes of a process that ended as it should, or because of the servers.
    const fn exit_codes(&self) -> &'static [i32] {
        match self {
            // No server, and a lost lock.
            Self::Launcher(_) => &[0, 69, 73],
            Self::Peer(..) => &[0],
        }
    }
}

/// A contender in its own process. Killed when dropped.
struct Process {
    child: Child,
    /// `None` while a thread reads it.
    output: Option<Lines<BufReader<ChildStdout>>>,
    errors: ChildStderr,
}

impl Process {
    /// Returns the next line, or `None` at the end. Kills the process if the test has failed: it may
    /// wait for a lock that no server frees any more.
    async fn line(&mut self, contest: &Contest) -> Option<String> {
        let mut output = self.output.take()?;
        let read = spawn_blocking(move || (output.next(), output));
        tokio::select! {
            read = read => {
                let (line, output) = read.expect("no panic");
                self.output = Some(output);
                line.map(|line| line.expect("text"))
            }
            () = contest.wait_for_failure() => {
                // It may have ended by itself.
                let _ = self.child.kill();
                None
            }
        }
    }
}

/// Takes turns until the test ends. A process that failing servers have ended is followed by another.
pub(super) async fn contend(starter: &Starter, access: &Access, contest: &Contest) -> Account {
    let mut account = Account::of(starter.name());
    let client =
        <Client as Contender>::builder(access).renew(true).connect().expect("a server answers");
    while !contest.is_over() {
        let process = starter.start(&access.at, contest.place.lock);
        let (code, errors) = take_turns(process, &client, contest, &mut account).await;
        if !code.is_some_and(|code| starter.exit_codes().contains(&code)) {
            let violation = format!("{} ended with {code:?}: {errors}", starter.name());
            contest.histories.violation(violation);
        }
    }
    account.connections = client.statistics().connections;
    account.sessions = 1 + client.statistics().renewals;
    client.close();
    account
}

/// Returns the exit code of the process, and what it says of errors. That is less than a pipe holds.
async fn take_turns(
    mut process: Process,
    client: &Client,
    contest: &Contest,
    account: &mut Account,
) -> (Option<i32>, String) {
    let histories = &contest.histories;
    let mut input = process.child.stdin.take().expect("piped");
    let mut asked = histories.now();
    // The turn that ends before the next one begins.
    let mut last = None;
    while let Some(line) = process.line(contest).await {
        if let Some((from, token)) = last.take() {
            histories.lock(from, Some(histories.now()), OnLock::Release(token));
        }
        let Some((node, token)) = parse(&line) else {
            histories.violation(format!("not a node and its token: {line:?}"));
            continue;
        };
        account.tokens.push(token);
        let acquired = histories.now();
        let fenced = client.transaction().check(node, None);
        if let Some((from, zxid)) = histories.write(token, fenced).await {
            histories.lock(asked, Some(acquired), OnLock::Acquire(token.0));
            let Zxid(at) = zxid;
            account.turns.push(Turn {
                kind: Kind::Exclusive,
                place: token.0,
                enter: at,
                leave: at,
            });
            last = Some((from, token.0));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
        asked = histories.now();
        let next = if contest.is_over() { "end\n" } else { "next\n" };
        // It may have ended with its lock.
        let _ = input.write_all(next.as_bytes());
    }
    let code = process.child.wait().expect("it has ended").code();
    if let Some((from, token)) = last {
        let released = (code == Some(0)).then(|| histories.now());
        histories.lock(from, released, OnLock::Release(token));
    }
    let mut errors = String::new();
    let _ = process.errors.read_to_string(&mut errors);
    (code, errors)
}

fn parse(line: &str) -> Option<(&str, Zxid)> {
    let (node, token) = line.split_once(' ')?;
    Some((node, Zxid(token.parse().ok()?)))
}

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended, unless a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
