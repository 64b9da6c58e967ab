//! Examines a lock that seems stuck, without writing anything: `doctor`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::Serialize;
use zk_recipes::Scheme;
use zk_recipes::session::proto::{ErrorCode, SessionId};
use zk_recipes::session::{Client, ServerKind};

use crate::contents::{self, Contender, Contents, label};
use crate::processes::is_stopped;
use crate::sessions::{self, Connection, Life, Living, Sessions};
use crate::settings::Settings;
use crate::show::{HIGH_SEQUENCE, Owner, age, age_of, owner, print, session, width};
use crate::text::{cell, json, line, wrap};
use crate::{Failure, OutputClosed, code};

/// The most waiters and unknown nodes that are listed.
const MAX_LISTED: usize = 10;
/// Longer sessions keep the locks of dead processes for longer than most people expect.
const LONG_TIMEOUT: Duration = Duration::from_secs(60);
/// The last sequence number.
const END: u32 = i32::MAX.cast_unsigned();
/// A difference of clocks that makes ages wrong.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(1);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The path of the lock
    pub(crate) path: String,
    /// Print a JSON object for each finding, and for the advice, each on one line
    #[arg(long)]
    json: bool,
}

/// A finding, or the advice, as JSON. The documentation lists the fields.
#[derive(Serialize)]
struct Record<'a> {
    path: &'a str,
    level: &'a str,
    text: &'a str,
}

/// What is known of a lock.
struct Facts<'a> {
    path: &'a str,
    /// Whether the lock path exists.
    exists: bool,
    contents: &'a Contents,
    sessions: &'a Sessions,
    /// The sessions that had not ended after the contents were read.
    living: &'a Living,
    /// The children of the lock path that are no contenders.
    unknown: &'a [String],
    /// When nodes were last written by the servers' clock, if their sessions are unknown: milliseconds
    /// since 1970.
    written: &'a BTreeMap<String, i64>,
    /// By how many milliseconds the servers' clock is ahead, if they say.
    clock: Option<i64>,
    server_kind: ServerKind,
}

/// A level, and a text.
type Finding = (&'static str, String);

const PROBLEM: &str = "problem";

fn ok(text: impl Into<String>) -> Finding {
    ("ok", text.into())
}

fn note(text: impl Into<String>) -> Finding {
    ("note", text.into())
}

fn problem(text: impl Into<String>) -> Finding {
    (PROBLEM, text.into())
}

pub(crate) async fn run(settings: &Settings, arguments: &Arguments) -> Result<ExitCode, Failure> {
    let result = examine(settings, arguments).await;
    if let Err(failure) = &result
        && arguments.json
        && !failure.is::<OutputClosed>()
    {
        // Without an object, a filter would see no problem.
        let (path, level, text) = (&*arguments.path, PROBLEM, &failure.to_string());
        print(&json(&Record { path, level, text })?)?;
    }
    result
}

async fn examine(
    settings: &Settings,
    Arguments { path, json }: &Arguments,
) -> Result<ExitCode, Failure> {
    let before = milliseconds();
    let client = settings.connect_to_look().await?;
    let after = milliseconds();
    let mut sessions = sessions::ask(&client).await;
    let contents = contents::read(&client, path).await?;
    let exists = contents.is_some();
    let contents = contents.unwrap_or_default();
    let clocks = clocks(settings, &client, &contents, &sessions).await;
    let is_listed = |contender: &Contender| sessions.connections.contains_key(&contender.session.0);
    if !clocks.is_empty() || !contents.contenders.iter().all(is_listed) {
        // Also for contenders that have come in between.
        sessions.ask_again(&client).await;
    }
    let living = sessions::living(&client).await;
    let written = match sessions.silent.is_empty() {
        true => BTreeMap::new(),
        false => written(&client, path, &contents).await?,
    };
    // Semaphores have these three.
    let is_semaphore = contents.children.iter().any(|child| child == "max");
    let is_known = |child: &str| is_semaphore && ["leases", "locks", "max"].contains(&child);
    let is_shown = |child: &str| contents.contenders.iter().any(|one| one.node == child);
    let is_unknown = |child: &&String| {
        Scheme::recognize(child).is_none() && !is_known(child) && !is_shown(child)
    };
    let unknown: Vec<_> = contents.children.iter().filter(is_unknown).cloned().collect();
    let own = sessions.connections.get(&client.session_id().0);
    let clock = own.and_then(|own| own.established).map(|at| at - at.clamp(before, after));
    let facts = Facts {
        path,
        exists,
        contents: &contents,
        sessions: &sessions,
        living: &living,
        unknown: &unknown,
        written: &written,
        clock,
        server_kind: client.server_kind(),
    };
    let findings = facts.findings();
    let servers = client.servers().iter().map(ToString::to_string).collect::<Vec<_>>();
    print(&match json {
        true => facts.records(&findings)?,
        false => facts.report(&servers, &findings, width()),
    })?;
    for clock in clocks {
        clock.close().await;
    }
    let is_well = findings.iter().all(|(level, _)| *level != PROBLEM);
    Ok(ExitCode::from(if is_well { 0 } else { code::NOT_ACQUIRED }))
}

/// Connects to the other servers that contenders are connected to. A session of our own that has
/// just been served shows the clock by which a server measures silence.
async fn clocks(
    settings: &Settings,
    client: &Client,
    contents: &Contents,
    sessions: &Sessions,
) -> Vec<Client> {
    let server = |session: SessionId| Some(sessions.connections.get(&session.0)?.server);
    let own = server(client.session_id());
    let of_contenders = contents.contenders.iter().map(|contender| server(contender.session));
    let others: BTreeSet<_> = of_contenders.filter(|other| *other != own).flatten().collect();
    let mut clocks = Vec::new();
    for server in others {
        if let Some(server) = client.servers().get(server)
            && let Ok(client) = settings.connect_to(&server.to_string(), None).await
        {
            clocks.push(client);
        }
    }
    clocks
}

/// Returns when the nodes of the first contenders were written, if after their creation. Their
/// clients were alive then, unless another client has written.
async fn written(
    client: &Client,
    path: &str,
    contents: &Contents,
) -> Result<BTreeMap<String, i64>, Failure> {
    let mut written = BTreeMap::new();
    for contender in contents.contenders.iter().take(MAX_LISTED) {
        let Contender { kind, node, .. } = contender;
        let Some(node) = contents::node_path(path, kind, node) else { continue };
        match client.exists(&node).await {
            Ok(Some(stat)) if stat.mzxid > stat.czxid => {
                written.insert(contender.node.clone(), stat.mtime);
            }
            Ok(_) => {}
            // Servers since 3.9 need permission to read.
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(written)
}

fn milliseconds() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Whether the client of a session is there.
#[derive(Clone, Copy)]
enum Liveness<'a> {
    /// No session owns the node.
    NoSession,
    Connected(&'a Connection),
    /// The session has ended since its node was read. The servers delete the node.
    Ended,
    /// All servers were asked, and none serves it.
    NotConnected(Option<&'a Life>),
    /// Some servers do not say which sessions they serve. Some may say that it has not ended.
    Unknown(Option<&'a Life>),
}

impl Facts<'_> {
    fn liveness(&self, contender: &Contender) -> Liveness<'_> {
        let session = contender.session;
        let life = self.living.lives.get(&session.0);
        match self.sessions.connections.get(&session.0) {
            _ if session == SessionId::NONE => Liveness::NoSession,
            _ if life.is_none() && self.living.is_complete => Liveness::Ended,
            Some(connection) => Liveness::Connected(connection),
            None if self.sessions.silent.is_empty() => Liveness::NotConnected(life),
            None => Liveness::Unknown(life),
        }
    }

    /// Returns the whole report, in lines of `width` columns.
    fn report(&self, servers: &[String], findings: &[Finding], width: usize) -> String {
        let findings = findings.iter().map(|(level, text)| format!("{level:8}{text}\n"));
        let facts = format!("{}\n{}", self.contenders(servers), findings.collect::<String>());
        // Deeper than the lines about sessions.
        let facts = facts.lines().map(|text| wrap(text, width, "          ") + "\n");
        format!("{}\n{}\n", facts.collect::<String>(), wrap(&self.advice(), width, ""))
    }

    /// Returns the findings and the advice, as JSON.
    fn records(&self, findings: &[Finding]) -> io::Result<String> {
        let record = |level: &str, text: &str| json(&Record { path: self.path, level, text });
        let findings = findings.iter().map(|(level, text)| record(level, text));
        findings.chain([record("advice", &self.advice())]).collect()
    }

    fn holders(&self) -> impl Iterator<Item = &Contender> {
        self.contents.contenders.iter().filter(|contender| contender.is_holder())
    }

    fn waiters(&self) -> impl Iterator<Item = &Contender> {
        self.contents.contenders.iter().filter(|contender| !contender.is_holder())
    }

    /// Describes the holders and the first waiters.
    fn contenders(&self, servers: &[String]) -> String {
        let kinds = match self.contents.kinds.is_empty() {
            true => "no contenders".to_owned(),
            false => self.contents.kinds.join(" and "),
        };
        let mut text = format!("{}: {kinds}\n", line(self.path));
        for (who, contenders) in [
            ("holder", self.holders().collect::<Vec<_>>()),
            ("waiter", self.waiters().collect::<Vec<_>>()),
        ] {
            for contender in contenders.iter().take(MAX_LISTED) {
                let (node, owner) =
                    (cell(&label(&contender.node)), owner(contender.data.as_deref()));
                text += &format!("{who:8}{node}, {} old: {owner}\n", age(contender));
                let (id, connection) = (session(contender), self.session(contender, servers));
                text += &format!("        session {id}{connection}\n");
            }
            if contenders.len() > MAX_LISTED {
                text += &format!("        and {} more\n", contenders.len() - MAX_LISTED);
            }
        }
        text
    }

    fn session(&self, contender: &Contender, servers: &[String]) -> String {
        match self.liveness(contender) {
            Liveness::NoSession => String::new(),
            Liveness::Ended => ", which has ended".to_owned(),
            Liveness::NotConnected(life) => match until(life) {
                Some(until) => format!(", not connected, expires at {until}"),
                None => ", not connected".to_owned(),
            },
            Liveness::Unknown(life) => {
                let is_alive = if life.is_some() { ", alive" } else { "" };
                let written = self.written.get(&contender.node);
                let written = written.map(|at| format!("; wrote {} ago", age_of(*at)));
                format!("{is_alive}, connected or not{}", written.unwrap_or_default())
            }
            Liveness::Connected(connection) => {
                let server = servers.get(connection.server).map_or("?", |server| server);
                let timeout = connection.timeout.map(|timeout| format!(", timeout {timeout:?}"));
                let from = &connection.address;
                format!(", connected from {from} to {server}{}", timeout.unwrap_or_default())
            }
        }
    }

    /// Returns for how long a server has not replied to a session. Its other sessions show its
    /// clock.
    fn silence(&self, connection: &Connection) -> Option<Duration> {
        let of_server =
            self.sessions.connections.values().filter(|other| other.server == connection.server);
        let newest = of_server.filter_map(|other| other.last_reply).max()?;
        let silence = newest.saturating_sub(connection.last_reply?);
        u64::try_from(silence).ok().map(Duration::from_millis)
    }

    /// Returns for how long the client of a session has been silent, if it is too long: clients send
    /// pings within a third of the timeout.
    fn long_silence(&self, connection: &Connection) -> Option<(Duration, Duration)> {
        let (silence, timeout) = (self.silence(connection)?, connection.timeout?);
        (silence > timeout / 2).then_some((silence, timeout))
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        if self.server_kind == ServerKind::Keeper {
            let text = "the servers seem to be ClickHouse Keeper: a client that loses its connection \
                        loses its locks, and their nodes stay until the session timeout";
            findings.push(note(text));
        }
        if !self.exists {
            let text = "the path does not exist: servers delete the path of an unused lock";
            findings.push(note(text));
        }
        if self.contents.kinds.len() > 1 {
            let text = "locks of several kinds use this path and do not exclude each other";
            findings.push(problem(text));
        }
        self.examine_sessions(&mut findings);
        self.examine_nodes(&mut findings);
        let silent = self.sessions.silent.iter();
        findings.extend(silent.map(|(server, reason)| {
            note(format!("{} does not list its sessions: {}", line(server), line(reason)))
        }));
        findings.push(examine_clock(self.clock.or_else(|| self.clock_of_nodes())));
        findings
    }

    /// Returns by how much the servers' clock is ahead at least, if nodes were created in the future.
    fn clock_of_nodes(&self) -> Option<i64> {
        let newest = self.contents.contenders.iter().map(|contender| contender.since).max()?;
        Some(newest.saturating_sub(milliseconds())).filter(|ahead| *ahead > 0)
    }

    fn examine_sessions(&self, findings: &mut Vec<Finding>) {
        let mut all_connected = true;
        for contender in &self.contents.contenders {
            let node = cell(&label(&contender.node));
            let liveness = self.liveness(contender);
            if let Some((pid, what)) = idle_process(contender) {
                let text = format!("the process of {node}, {pid} on this host, {what}");
                findings.push(problem(text));
            }
            all_connected &= matches!(liveness, Liveness::Connected(_));
            let finding = match liveness {
                Liveness::Connected(connection) => {
                    self.examine_connection(connection, &node, findings);
                    continue;
                }
                Liveness::NoSession => {
                    problem(format!("no session owns {node}, so no server deletes it"))
                }
                Liveness::Ended => {
                    note(format!("the session of {node} has ended: the servers delete {node}"))
                }
                Liveness::NotConnected(_) => problem(format!(
                    "the client of {node} is not connected: it has died or lost the network"
                )),
                Liveness::Unknown(Some(_)) => note(format!(
                    "the session of {node} is alive; whether its client is connected is unknown"
                )),
                Liveness::Unknown(None) => note(format!(
                    "{node} exists, so its session had not ended; whether its client is \
                     connected is unknown"
                )),
            };
            findings.push(finding);
        }
        if all_connected && !self.contents.contenders.is_empty() {
            findings.push(ok("the clients of all contenders are connected"));
        }
    }

    fn examine_connection(&self, connection: &Connection, node: &str, findings: &mut Vec<Finding>) {
        if let Some((silence, _)) = self.long_silence(connection) {
            let silent = format!("the client of {node} has been silent for {silence:?}");
            findings.push(problem(silent + ": it may be stopped"));
        }
        if let Some(timeout) = connection.timeout.filter(|timeout| *timeout >= LONG_TIMEOUT) {
            let text = format!("if the client of {node} dies, its node stays for {timeout:?}");
            findings.push(note(text));
        }
    }

    fn examine_nodes(&self, findings: &mut Vec<Finding>) {
        for child in self.unknown.iter().take(MAX_LISTED) {
            let child = cell(child);
            findings.push(note(format!("the node '{child}' is no contender, and is ignored")));
        }
        if self.unknown.len() > MAX_LISTED {
            findings.push(note(format!("and {} more nodes", self.unknown.len() - MAX_LISTED)));
        }
        let contenders = || self.contents.contenders.iter();
        for contender in contenders().filter(|contender| contender.data.is_none()) {
            let node = cell(&label(&contender.node));
            findings.push(note(format!("{node} cannot be read with these credentials")));
        }
        let sequence = |node: &str| Some(Scheme::recognize(node)?.parse(node)?.sequence.0);
        let sequences = contenders().filter_map(|contender| sequence(&contender.node));
        // Negative numbers follow the last one.
        let highest = sequences.map(|number| u32::try_from(number).unwrap_or(END)).max();
        // Also numbers of nodes that are gone.
        let last = highest.max(self.contents.next_sequence.checked_sub(1));
        let instead = match self.contents.contenders.is_empty() {
            true => "delete the path while it is empty",
            false => "move to another path",
        };
        findings.extend(last.map(|last| match last < HIGH_SEQUENCE {
            true => ok(format!("sequence numbers: {last} of {END}")),
            false => problem(format!("sequence numbers end soon: {last} of {END}; {instead}")),
        }));
    }

    /// Returns what to do, in a sentence.
    fn advice(&self) -> String {
        let path = line(self.path);
        if self.contents.kinds.len() > 1 {
            return "Give each kind of lock a path of its own.".to_owned();
        }
        let Some(holder) = self.holders().next() else {
            return match self.waiters().next() {
                None => {
                    "The lock is free: if a client waits, it uses another path, chroot or ensemble."
                        .to_owned()
                }
                Some(_) => "Nobody holds the lock at this moment: look again.".to_owned(),
            };
        };
        let worst = self.holders().find(|holder| match self.liveness(holder) {
            Liveness::Connected(connection) => self.long_silence(connection).is_some(),
            _ => true,
        });
        let holder = worst.unwrap_or(holder);
        let node = cell(&label(&holder.node));
        let remove = format!("`zk-lock break {path} --node {node}`");
        let liveness = self.liveness(holder);
        if let Liveness::Connected(connection) = liveness
            && let Some((silence, timeout)) = self.long_silence(connection)
        {
            let left = timeout.saturating_sub(silence);
            return format!(
                "Wait for {left:?}: unless the holder's process, at {}, continues, its session expires.",
                connection.address
            );
        }
        match liveness {
            Liveness::NoSession => {
                format!("Find out who made {node}, and remove it: {remove}.")
            }
            Liveness::Ended => {
                "Look again: the session of the holder has ended, and the servers delete its node."
                    .to_owned()
            }
            Liveness::NotConnected(life) => {
                let until = until(life).map(|until| format!("Wait until {until}"));
                let until = until.unwrap_or_else(|| "Wait for one session timeout".to_owned());
                format!("{until}: then the servers delete the node of the holder.")
            }
            Liveness::Unknown(_) => {
                "Look for the holder's process; to see here whether it is connected, allow `cons` \
                 and `dump` in 4lw.commands.whitelist."
                    .to_owned()
            }
            Liveness::Connected(_) if let Some((pid, "is stopped")) = idle_process(holder) => {
                format!(
                    "The holder is stopped: `kill -CONT {pid}` continues it, and `kill -9 {pid}` ends it."
                )
            }
            Liveness::Connected(connection) => format!(
                "The lock is busy: look at the holder's process, at {}; if it hangs, end it, or else {remove}.",
                connection.address
            ),
        }
    }
}

/// Returns the process of a contender, if it is one of this host that has ended or is stopped, and which
/// of them. With containers, hosts of one name may be several.
fn idle_process(contender: &Contender) -> Option<(u32, &'static str)> {
    let data = contender.data.as_deref().map(String::from_utf8_lossy)?;
    let Owner { host, pid, .. } = Owner::parse(&data)?;
    if host != rustix::system::uname().nodename().to_string_lossy() {
        return None;
    }
    let process = Pid::from_raw(pid.try_into().ok()?)?;
    if test_kill_process(process) == Err(Errno::SRCH) {
        return Some((pid, "has ended"));
    }
    is_stopped(process).then_some((pid, "is stopped"))
}

/// Returns when a session ends if its client stays silent, by the leader's clock.
fn until(life: Option<&Life>) -> Option<&str> {
    life?.until.as_deref()
}

fn examine_clock(milliseconds: Option<i64>) -> Finding {
    match milliseconds.map(i64::unsigned_abs).map(Duration::from_millis) {
        None => note("the clocks were not compared"),
        Some(difference) if difference < CLOCK_TOLERANCE => {
            ok("this machine's clock agrees with its server's")
        }
        Some(difference) => problem(format!(
            "this machine's clock differs from its server's by {difference:?}, and so do ages"
        )),
    }
}

#[cfg(test)]
mod tests;
