//! The sessions of the ensemble: those that each server serves, by its command `cons`, and those that
//! have not ended, by `dump`.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use zk_recipes::session::Client;

use crate::text::cell;

/// How long a server may take to answer.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer to read, in bytes.
const MAX_LENGTH: u64 = 1 << 24;

/// A session, as the server that serves it describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Connection {
    /// The address of the client, escaped.
    pub(crate) address: String,
    /// The time when it connected, by the server's clock: milliseconds since 1970.
    pub(crate) established: Option<i64>,
    /// The session timeout.
    pub(crate) timeout: Option<Duration>,
    /// The time of the last reply to it, in milliseconds by a clock of the server that only counts
    /// its own time.
    pub(crate) last_reply: Option<i64>,
    /// The server, by its place in the connection string.
    pub(crate) server: usize,
}

/// What the servers report of their sessions.
pub(crate) struct Sessions {
    pub(crate) connections: BTreeMap<i64, Connection>,
    /// The servers that did not answer, or do not allow `cons`, and why.
    pub(crate) silent: Vec<(String, String)>,
}

impl Sessions {
    pub(crate) const NONE: Self = Self { connections: BTreeMap::new(), silent: Vec::new() };

    /// Asks again, and keeps sessions that have ended meanwhile.
    pub(crate) async fn ask_again(&mut self, client: &Client) {
        let Self { connections, silent } = ask(client).await;
        self.connections.extend(connections);
        self.silent = silent;
    }
}

/// Asks all servers for the sessions that they serve.
pub(crate) async fn ask(client: &Client) -> Sessions {
    let mut sessions = Sessions::NONE;
    for (number, server) in client.servers().iter().enumerate() {
        let name = server.to_string();
        match ask_server(&name, "cons").await {
            Ok(answer) => {
                let lines = answer.lines().filter_map(|line| session(line, number));
                sessions.connections.extend(lines);
            }
            Err(reason) => sessions.silent.push((name, reason)),
        }
    }
    sessions
}

/// A session that has not ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Life {
    /// When the leader will end it if its client stays silent, in words of the leader, escaped.
    pub(crate) until: Option<String>,
    pub(crate) timeout: Option<Duration>,
}

/// The sessions that have not ended, on all servers.
#[derive(Debug, Default)]
pub(crate) struct Living {
    pub(crate) lives: BTreeMap<i64, Life>,
    /// Whether the leader, which decides on their ends, is among those that have answered.
    pub(crate) is_complete: bool,
}

/// Asks all servers for the sessions that have not ended.
pub(crate) async fn living(client: &Client) -> Living {
    let mut living = Living::default();
    for server in client.servers().iter() {
        let Ok(answer) = ask_server(&server.to_string(), "dump").await else { continue };
        // Only the leader, or a single server, knows when sessions expire.
        living.is_complete |= answer.contains("Session Sets");
        for (session, life) in lives(&answer) {
            let known = living.lives.entry(session).or_default();
            known.until = known.until.take().or(life.until);
            known.timeout = known.timeout.or(life.timeout);
        }
    }
    living
}

/// Returns the answer of a server to a command of four letters, or why there is none.
async fn ask_server(server: &str, word: &str) -> Result<String, String> {
    let asked = tokio::time::timeout(TIMEOUT, four_letters(server, word)).await;
    match asked.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
        Ok(answer) if answer.contains("not in the whitelist") => {
            Err("4lw.commands.whitelist does not allow it".to_owned())
        }
        Ok(answer) if answer.contains("not currently serving requests") => {
            Err("it serves no requests".to_owned())
        }
        Ok(answer) => Ok(answer),
        Err(error) => Err(error.to_string()),
    }
}

async fn four_letters(server: &str, word: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(word.as_bytes()).await?;
    let mut answer = String::new();
    stream.take(MAX_LENGTH).read_to_string(&mut answer).await?;
    match answer.is_empty() {
        true => Err(io::ErrorKind::UnexpectedEof.into()),
        false => Ok(answer),
    }
}

/// Parses the sessions of an answer to `dump`. The leader, or a single server, lists them by the time
/// at which they expire; a follower lists them with their timeouts:
///
/// ```text
/// 1 expire at Mon Nov 23 06:41:49 UTC 2026:
///         0x100000123
/// 0x100000123     4000ms
/// ```
fn lives(dump: &str) -> BTreeMap<i64, Life> {
    let sessions = dump.lines().take_while(|line| !line.starts_with("ephemeral nodes"));
    let mut lives = BTreeMap::new();
    let mut until = None;
    for line in sessions {
        if let Some((_, at)) = line.split_once(" expire at ") {
            until = Some(cell(at.trim_end_matches(':')));
        }
        let mut words = line.split_whitespace();
        let session = words.next().and_then(|word| word.strip_prefix("0x"));
        let Some(Ok(session)) = session.map(|digits| u64::from_str_radix(digits, 16)) else {
            continue;
        };
        let timeout = words.next().and_then(|word| word.strip_suffix("ms")?.parse().ok());
        let life = Life { until: until.clone(), timeout: timeout.map(Duration::from_millis) };
        lives.insert(session.cast_signed(), life);
    }
    lives
}

/// Parses ` /127.0.0.1:51234[1](queued=0,recved=9,sent=9,sid=0x100000123,...)`.
fn session(line: &str, server: usize) -> Option<(i64, Connection)> {
    let (connection, rest) = line.trim().split_once("](")?;
    let fields: BTreeMap<_, _> =
        rest.trim_end_matches(')').split(',').filter_map(|field| field.split_once('=')).collect();
    let session = fields.get("sid")?.strip_prefix("0x")?;
    let session = u64::from_str_radix(session, 16).ok()?.cast_signed();
    let number = |name| fields.get(name).and_then(|text: &&str| text.parse::<i64>().ok());
    let timeout = number("to").and_then(|timeout| u64::try_from(timeout).ok());
    // Since Java 14, an IPv6 address has brackets of its own.
    let (name_and_address, _) = connection.rsplit_once('[')?;
    let (_, address) = name_and_address.split_once('/')?;
    let connection = Connection {
        address: cell(&shortest(address)),
        established: number("est"),
        timeout: timeout.map(Duration::from_millis),
        last_reply: number("lresp"),
        server,
    };
    Some((session, connection))
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
mod tests;
