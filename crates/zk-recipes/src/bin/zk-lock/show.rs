//! Shows contenders: `ls` and `watch`.

use std::collections::BTreeSet;
use std::future::ready;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::termios::tcgetwinsize;
use serde::Serialize;
use zk_recipes::LockMode;
use zk_recipes::session::Client;

use crate::contents::{self, Contender, Contents, despite_outages};
use crate::sessions::{self, Sessions};
use crate::text::{cell, json as json_line, line};
use crate::{Failure, OutputClosed, code, print_error};

/// The width of a table if the output is no terminal.
const WIDTH: usize = 80;
/// The sequence number from which to move to another path. The last is 2147483647.
pub(crate) const HIGH_SEQUENCE: u32 = 2_000_000_000;
/// The longest owner that is shown, in characters.
const MAX_OWNER: usize = 60;

#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// The path of the lock
    pub(crate) path: String,
    /// Print a JSON object for each contender, each on one line
    #[arg(long)]
    json: bool,
    /// Print nothing, and exit with 0 if the lock is free, with 1 if it is held
    #[arg(short, long, conflicts_with_all = ["json", "verbose"])]
    quiet: bool,
}

#[derive(clap::Args)]
pub(crate) struct WatchArguments {
    /// The path of the lock
    pub(crate) path: String,
    /// Print a JSON object for each contender that comes or goes, each on one line
    #[arg(long)]
    json: bool,
}

pub(crate) async fn ls(
    client: &Client,
    arguments: &ListArguments,
    is_verbose: bool,
) -> Result<ExitCode, Failure> {
    let ListArguments { path, json, quiet } = arguments;
    // Servers delete the path of an unused lock.
    let contents = contents::read(client, path).await?;
    let next = contents.as_ref().map(|contents| contents.next_sequence);
    let contents = contents.unwrap_or_default();
    let contenders = &contents.contenders;
    if *quiet {
        let is_held = contenders.iter().any(|contender| contender.is_holder());
        return Ok(ExitCode::from(if is_held { code::NOT_ACQUIRED } else { 0 }));
    }
    let sessions = match *json || is_verbose {
        true => sessions::ask(client).await,
        false => Sessions::NONE,
    };
    if *json {
        let records = contenders.iter().map(|contender| Record::new(path, contender, &sessions));
        print(&records.map(|record| json_line(&record)).collect::<io::Result<String>>()?)?;
    } else if contenders.is_empty() {
        // Semaphores have such a child.
        let is_semaphore = contents.children.iter().any(|child| child == "max");
        let is_parent = !contents.children.is_empty() && !is_semaphore;
        let below = match is_parent {
            true => format!("Locks below it: `zk-lock top {}`\n", line(path)),
            false => String::new(),
        };
        let next = next.map(|next| format!("; the next sequence number is {next}"));
        print(&format!(
            "{}: no holder, no waiters{}\n{below}",
            line(path),
            next.unwrap_or_default()
        ))?;
    } else {
        let details = || contenders.iter().map(|contender| details(contender, &sessions)).collect();
        let shown: String = if is_verbose { details() } else { table(&contents, width()) };
        print(&format!("{}: {}\n{shown}", line(path), contents.kinds.join(" and ")))?;
    }
    if contents.next_sequence >= HIGH_SEQUENCE {
        let next = contents.next_sequence;
        print_error(&format_args!(
            "the sequence numbers of '{path}' end soon: the next is {next}, the last {}",
            i32::MAX
        ));
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn watch(
    client: &Client,
    arguments: &WatchArguments,
) -> Result<ExitCode, Failure> {
    let WatchArguments { path, json } = arguments;
    let mut changes = client.watch_recursively(path).await?;
    let mut shown = Contents::default();
    loop {
        let contents = despite_outages(|| contents::read(client, path)).await?.unwrap_or_default();
        let [old, new] = [&shown, &contents]
            .map(|contents| contents.contenders.iter().map(describe).collect::<BTreeSet<_>>());
        // In the order of the queue.
        let changed = |contents: &Contents, other: &BTreeSet<String>, change, sign| {
            let changed = contents.contenders.iter().filter(|one| !other.contains(&describe(one)));
            let lines = changed.map(|one| match json {
                true => json_line(&Record::of_change(path, one, change)),
                false => Ok(format!("{sign} {}\n", describe(one))),
            });
            lines.collect::<io::Result<String>>()
        };
        print(&changed(&shown, &new, "removed", '-')?)?;
        print(&changed(&contents, &old, "added", '+')?)?;
        shown = contents;
        // Also after a gap: the next look shows the missed changes.
        changes.next().await?;
        // One look shows the changes of all updates that have arrived.
        loop {
            tokio::select! {
                biased;
                update = changes.next() => drop(update?),
                () = ready(()) => break,
            }
        }
    }
}

/// Writes to the standard output, and flushes.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(OutputClosed::or)
}

/// Describes a contender on one line.
fn describe(contender: &Contender) -> String {
    format!("{} {} {}", state(contender), cell(&contender.node), owner(contender.data.as_deref()))
}

/// Describes all of the contender with the node `name`, if it is there.
pub(crate) async fn contender(
    client: &Client,
    path: &str,
    name: &str,
) -> Result<Option<String>, Failure> {
    let contents = contents::read(client, path).await?.unwrap_or_default();
    let Some(one) = contents.contenders.iter().find(|one| one.node == name) else {
        return Ok(None);
    };
    Ok(Some(details(one, &sessions::ask(client).await)))
}

/// Describes all of a contender, on several lines.
fn details(contender: &Contender, sessions: &Sessions) -> String {
    let waits_for = contender.waits_for.as_deref().map(|node| format!(", for {}", cell(node)));
    let connection = sessions.connections.get(&contender.session.0);
    let address = connection.map(|connection| format!(" from {}", connection.address));
    format!(
        "{} {}{}\n    session {}{}, {} old\n    token {}, czxid {:#x}\n    {}\n",
        state(contender),
        cell(&contender.node),
        waits_for.unwrap_or_default(),
        session(contender),
        address.unwrap_or_default(),
        age(contender),
        contender.token.0,
        contender.token.0,
        owner(contender.data.as_deref()),
    )
}

fn state(contender: &Contender) -> &'static str {
    match (&contender.waits_for, contender.mode) {
        (None, LockMode::Exclusive) => "holds",
        (None, LockMode::Shared) => "holds, shared",
        (Some(_), LockMode::Exclusive) => "waits",
        (Some(_), LockMode::Shared) => "waits, shared",
    }
}

/// Returns the session. No server deletes a node without one.
pub(crate) fn session(contender: &Contender) -> String {
    match contender.session.0 {
        0 => "none".to_owned(),
        session => format!("{session:#x}"),
    }
}

/// Returns the data of a contender's node, escaped and shortened.
pub(crate) fn owner(data: Option<&[u8]>) -> String {
    match data.map(String::from_utf8_lossy).as_deref().map(str::trim) {
        None => "(not readable)".to_owned(),
        Some("") => "-".to_owned(),
        Some(text) => cell(&text.chars().take(MAX_OWNER).collect::<String>()),
    }
}

/// The data of a node that `zk-lock run` has created.
pub(crate) struct Owner<'a> {
    pub(crate) host: &'a str,
    pub(crate) pid: u32,
    pub(crate) program: &'a str,
}

impl<'a> Owner<'a> {
    pub(crate) fn format(&self) -> String {
        let Self { host, pid, program } = self;
        format!("{host} pid {pid}: {program}")
    }

    pub(crate) fn parse(data: &'a str) -> Option<Self> {
        let (host, rest) = data.split_once(" pid ")?;
        let (pid, program) = rest.split_once(": ")?;
        Some(Self { host, pid: pid.parse().ok()?, program })
    }
}

/// Says who holds the lock at `path`, and how old its node is: how long it has held the lock, after a
/// wait, is known to nobody else. Returns `None` if nobody does, or if that
/// cannot be read.
pub(crate) async fn holder(client: &Client, path: &str) -> Option<String> {
    let contents = contents::read(client, path).await.ok()??;
    let mut holders = contents.contenders.iter().filter(|one| one.is_holder());
    let first = holders.next()?;
    let (age, label) = (age(first), cell(&contents::label(&first.node)));
    let more = match holders.count() {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    Some(match owner(first.data.as_deref()) {
        none if none == "-" => format!("held by {label}, whose node is {age} old{more}"),
        owner => format!("held by {owner} ({label}), whose node is {age} old{more}"),
    })
}

/// Returns the width of the terminal.
pub(crate) fn width() -> usize {
    let size = tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
    size.map_or(WIDTH, |size| size.ws_col.into())
}

/// Returns a table that fits into `width` columns, unless names and numbers are longer than usual.
/// The owner is cut.
fn table(contents: &Contents, width: usize) -> String {
    let mut rows = vec![["STATE", "NODE", "AGE", "SESSION", "TOKEN", "OWNER"].map(str::to_owned)];
    for contender in &contents.contenders {
        let state = if contender.is_holder() { "holds" } else { "waits" };
        rows.push([
            state.to_owned(),
            cell(&contents::label(&contender.node)),
            age(contender),
            session(contender),
            // In decimal, as in ZK_LOCK_TOKEN.
            contender.token.0.to_string(),
            owner(contender.data.as_deref()),
        ]);
    }
    columns(&rows, width)
}

/// Aligns the cells of rows in columns. The last column is cut where a row exceeds `width`.
pub(crate) fn columns<const N: usize>(rows: &[[String; N]], width: usize) -> String {
    let longest = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..N).map(|column| longest(column).unwrap_or(0)).collect();
    let line = |row: &[String; N]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        let line = cells.collect::<Vec<_>>().join("  ");
        let cut: String = match line.trim_end().chars().count() > width {
            true => line.chars().take(width.saturating_sub(1)).chain(['+']).collect(),
            false => line,
        };
        format!("{}\n", cut.trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns the seconds since then, in milliseconds since 1970, by the local clock, which may differ
/// from the servers'.
fn seconds_since(milliseconds: i64) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    now.saturating_sub(u64::try_from(milliseconds / 1000).unwrap_or(0))
}

pub(crate) fn age(contender: &Contender) -> String {
    age_of(contender.since)
}

/// Returns the time since then, in milliseconds since 1970, in words.
pub(crate) fn age_of(milliseconds: i64) -> String {
    match seconds_since(milliseconds) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7200 => format!("{}m", seconds / 60),
        seconds @ 7200..172_800 => format!("{}h", seconds / 3600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// A contender as JSON. The documentation lists the fields.
#[derive(Serialize)]
struct Record<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    change: Option<&'static str>,
    path: &'a str,
    kind: &'a str,
    state: &'static str,
    mode: &'static str,
    node: &'a str,
    node_path: Option<String>,
    waits_for: Option<&'a str>,
    session: Option<String>,
    czxid: Option<String>,
    token: Option<i64>,
    since_ms: Option<i64>,
    age_s: Option<u64>,
    owner: Option<String>,
    host: Option<String>,
    pid: Option<u32>,
    program: Option<String>,
    address: Option<&'a str>,
}

impl<'a> Record<'a> {
    fn new(lock: &'a str, contender: &'a Contender, sessions: &'a Sessions) -> Self {
        let owner =
            contender.data.as_deref().map(|data| String::from_utf8_lossy(data).into_owned());
        let parsed = owner.as_deref().and_then(Owner::parse);
        let connection = sessions.connections.get(&contender.session.0);
        // The servers may refuse to describe a node.
        let is_described = contender.token.0 != 0;
        Self {
            change: None,
            path: lock,
            kind: contender.kind,
            state: if contender.is_holder() { "holds" } else { "waits" },
            mode: match contender.mode {
                LockMode::Exclusive => "exclusive",
                LockMode::Shared => "shared",
            },
            node: &contender.node,
            node_path: contents::node_path(lock, contender.kind, &contender.node),
            waits_for: contender.waits_for.as_deref(),
            session: (contender.session.0 != 0).then(|| session(contender)),
            czxid: is_described.then(|| format!("{:#x}", contender.token.0)),
            token: is_described.then_some(contender.token.0),
            since_ms: is_described.then_some(contender.since),
            age_s: is_described.then(|| seconds_since(contender.since)),
            host: parsed.as_ref().map(|owner| owner.host.to_owned()),
            pid: parsed.as_ref().map(|owner| owner.pid),
            program: parsed.as_ref().map(|owner| owner.program.to_owned()),
            owner,
            address: connection.map(|connection| connection.address.as_str()),
        }
    }

    fn of_change(lock: &'a str, contender: &'a Contender, change: &'static str) -> Self {
        const NO_SESSIONS: &Sessions = &Sessions::NONE;
        Self { change: Some(change), ..Self::new(lock, contender, NO_SESSIONS) }
    }
}
