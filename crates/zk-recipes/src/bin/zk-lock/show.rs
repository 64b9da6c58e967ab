//! Shows contenders: `ls` and `watch`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_recipes::session::Client;
use zk_recipes::{LockMode, QueueEntry};

use crate::Failure;
use crate::contents::{self, Contents};
use crate::text::{cell, line};

/// How long a server may take to list its connections.
const CONS_TIMEOUT: Duration = Duration::from_secs(1);

pub(crate) async fn ls(client: &Client, path: &str) -> Result<ExitCode, Failure> {
    // Servers delete the path of an unused lock.
    let contents = contents::read(client, path).await?.unwrap_or_default();
    if contents.entries.is_empty() {
        print(&format!("{}: no holder, no waiters\n", line(path)))?;
        return Ok(ExitCode::SUCCESS);
    }
    let table = table(&contents, &addresses(client).await);
    print(&format!("{}: {}\n{table}", line(path), contents.kinds.join(" and ")))?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) async fn watch(client: &Client, path: &str) -> Result<ExitCode, Failure> {
    let mut changes = client.watch_recursively(path).await?;
    let mut shown: Vec<String> = Vec::new();
    loop {
        let contents = contents::read(client, path).await?.unwrap_or_default();
        // In the order of the queue.
        let lines: Vec<_> = contents.entries.iter().map(describe).collect();
        let [old, new] = [&shown, &lines].map(|lines| lines.iter().collect::<BTreeSet<_>>());
        for line in shown.iter().filter(|line| !new.contains(line)) {
            print(&format!("- {line}\n"))?;
        }
        for line in lines.iter().filter(|line| !old.contains(line)) {
            print(&format!("+ {line}\n"))?;
        }
        shown = lines;
        // Also after a gap: the next look shows the missed changes.
        changes.next().await?;
    }
}

/// Writes to the standard output, and flushes.
pub(crate) fn print(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Describes a contender on one line.
pub(crate) fn describe(entry: &QueueEntry) -> String {
    format!("{} {} {}", state(entry), cell(&entry.node), owner(entry.data.as_deref()))
}

fn state(entry: &QueueEntry) -> String {
    match (&entry.waits_for, entry.mode) {
        (None, LockMode::Exclusive) => "holds".to_owned(),
        (None, LockMode::Shared) => "holds, shared".to_owned(),
        (Some(_), LockMode::Exclusive) => "waits".to_owned(),
        (Some(_), LockMode::Shared) => "waits, shared".to_owned(),
    }
}

/// Returns the data of a contender's node, escaped and shortened to 60 characters.
pub(crate) fn owner(data: Option<&[u8]>) -> String {
    match data.map(String::from_utf8_lossy).as_deref().map(str::trim) {
        None => "(not readable)".to_owned(),
        Some("") => "-".to_owned(),
        Some(text) => cell(&text.chars().take(60).collect::<String>()),
    }
}

fn table(contents: &Contents, addresses: &BTreeMap<i64, String>) -> String {
    let mut rows = vec![
        ["STATE", "NODE", "WATCHES", "OWNER", "ADDRESS", "AGE", "TOKEN"]
            .map(str::to_owned)
            .to_vec(),
    ];
    for entry in &contents.entries {
        let address = addresses.get(&entry.session.0).cloned();
        rows.push(vec![
            state(entry),
            cell(&entry.node),
            entry.waits_for.as_deref().map_or("-".to_owned(), |node| cell(sequence_number(node))),
            owner(entry.data.as_deref()),
            address.unwrap_or(format!("session {:#x}", entry.session.0)),
            age(entry.since),
            // In decimal, as in ZK_LOCK_TOKEN.
            entry.token.0.to_string(),
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max();
    let widths: Vec<_> = (0..rows[0].len()).map(|column| width(column).unwrap_or(0)).collect();
    let line = |row: &Vec<String>| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    rows.iter().map(line).collect()
}

/// Returns the sequence number in a node's name, or the name. The number is enough to find the
/// line, and leaves room for the other columns.
fn sequence_number(node: &str) -> &str {
    match node.split_at_checked(node.len().saturating_sub(10)) {
        Some((_, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => number,
        _ => node,
    }
}

/// Returns the time since `since`, by the local clock, which may differ from the servers'.
fn age(since: i64) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = now.saturating_sub(u64::try_from(since / 1000).unwrap_or(0));
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// Returns the address of each session, as far as the servers allow the command `cons`.
async fn addresses(client: &Client) -> BTreeMap<i64, String> {
    let mut addresses = BTreeMap::new();
    for server in client.servers().iter() {
        let asked = tokio::time::timeout(CONS_TIMEOUT, connections(&server.to_string())).await;
        if let Ok(Ok(answer)) = asked {
            addresses.extend(answer.lines().filter_map(session_and_address));
        }
    }
    addresses
}

async fn connections(server: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(b"cons").await?;
    let mut answer = String::new();
    stream.take(1 << 24).read_to_string(&mut answer).await?;
    Ok(answer)
}

/// Parses ` /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x100000123,...`.
fn session_and_address(line: &str) -> Option<(i64, String)> {
    let (connection, rest) = line.trim().split_once("](")?;
    let (_, sid) = rest.split_once("sid=0x")?;
    let digits = sid.split(|c: char| !c.is_ascii_hexdigit()).next()?;
    // Since Java 14, an IPv6 address has brackets of its own.
    let (name_and_address, _) = connection.rsplit_once('[')?;
    let (_, address) = name_and_address.split_once('/')?;
    Some((u64::from_str_radix(digits, 16).ok()?.cast_signed(), cell(&shortest(address))))
}

/// Returns `[0:0:0:0:0:0:0:1]:51234` and `0:0:0:0:0:0:0:1:51234` as `[::1]:51234`, and other
/// addresses unchanged.
fn shortest(address: &str) -> String {
    let parsed = address.rsplit_once(':').and_then(|(host, port)| {
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Some(SocketAddr::new(host.parse().ok()?, port.parse().ok()?))
    });
    parsed.map_or_else(|| address.to_owned(), |address| address.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_cons_has_the_session_and_its_address() {
        let line = " /127.0.0.1:39204[1](queued=0,recved=4,sent=4,sid=0xff00000000000001,lop=PING)";
        let session = 0xff00_0000_0000_0001_u64.cast_signed();
        assert_eq!(session_and_address(line), Some((session, "127.0.0.1:39204".to_owned())));
        for (shown, address) in [
            ("/[0:0:0:0:0:0:0:1]:39204", "[::1]:39204"),
            ("/0:0:0:0:0:0:0:1:39204", "[::1]:39204"),
            ("/[2001:db8:0:0:0:0:0:7]:1", "[2001:db8::7]:1"),
            ("/[fe80:0:0:0:0:0:0:1%eth0]:9", "[fe80:0:0:0:0:0:0:1%eth0]:9"),
            ("printer.example/10.0.0.7:80", "10.0.0.7:80"),
            ("/\u{202e}hostile", r"\u{202e}hostile"),
        ] {
            let line = format!(" {shown}[1](queued=0,recved=4,sent=4,sid=0x1f,lop=PING,est=1)");
            assert_eq!(session_and_address(&line), Some((0x1f, address.to_owned())));
        }
        assert_eq!(session_and_address(" /127.0.0.1:39204[0](queued=0,recved=1,sent=0)"), None);
        assert_eq!(
            session_and_address("cons is not executed because it is not in the whitelist."),
            None
        );
    }
}
