//! An oracle that judges locks from the transaction logs of the servers alone.
//!
//! It replays the transactions. At each zxid, the holder of a lock is the owner of the first node in
//! its queue. No clock and no report of a client is involved.
//!
//! # What it judges
//!
//! - Each write to a [register](Place::register) must carry the token of the holder, and tokens must
//!   not decrease. This is the fenced write, so it needs no assumption about clients.
//! - A write to a [marker](Place::markers) records the token of a contender that believes it holds the
//!   lock. The contender is a second holder if its lock node exists at that zxid, and another node is
//!   first. If its lock node does not exist, the write proves nothing: a client that loses its lease
//!   deletes its node while the write may be on its way.
//! - A new lock node must not sort ahead of the first one in its queue.
//! - At the end, there is no node below a lock path, no ephemeral node and no session.
//! - All transactions fit together: versions are consecutive, changed nodes exist, and the session of
//!   each change is open. Otherwise the logs are incomplete, or the servers are wrong.

mod queue;
#[cfg(test)]
mod tests;
mod violation;

use core::fmt;
use std::collections::{BTreeMap, BTreeSet};

use zk_proto::{SessionId, Zxid, path};
use zk_recipes::machine::Scheme;

use self::queue::{LockNode, Queue};
pub use self::violation::Violation;
use crate::transaction_log::{Change, Logged};

/// The most violations that are kept, unless they concern a client.
const MAX_KEPT: usize = 100;
/// The parent of nodes that exist from the beginning.
const SYSTEM: &str = "/zookeeper";

/// A lock, and where its holders write.
#[derive(Clone, Debug)]
pub struct Place {
    /// The lock path.
    pub lock: &'static str,
    /// The names of the lock nodes.
    pub scheme: Scheme,
    /// The node that only the holder writes, in a transaction that checks its lock node. The data
    /// begins with its token, before a space.
    pub register: Option<&'static str>,
    /// Path prefixes of the nodes that a contender writes while it believes it holds the lock. The data
    /// is its token.
    pub markers: &'static [&'static str],
}

/// What is counted for each lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// The lock nodes that were created.
    pub nodes: u64,
    /// Those of them that became first.
    pub acquisitions: u64,
    /// Those of them whose contender has written to the register or a marker while first.
    pub turns: u64,
    /// Writes to the register.
    pub register_writes: u64,
    /// Writes to a marker by the holder.
    pub marker_writes: u64,
    /// Writes to a marker that prove nothing.
    pub unproven_writes: u64,
}

/// The tokens of a lock.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// Those of lock nodes that became first.
    pub acquired: BTreeSet<Zxid>,
    /// Those of them whose contender has written to the register or a marker while first.
    pub written: BTreeSet<Zxid>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    owner: Option<SessionId>,
    version: i32,
}

#[derive(Debug)]
struct Lock {
    place: Place,
    queue: Queue,
    counts: Counts,
    tokens: Tokens,
    /// The highest token in the register.
    token: Zxid,
}

impl Lock {
    /// Notes which lock node is first.
    fn note_first(&mut self) {
        if let Some(first) = self.queue.first() {
            self.tokens.acquired.insert(first.created);
        }
    }
}

/// Replays transactions, and judges them.
#[derive(Debug)]
pub struct LogOracle {
    locks: Vec<Lock>,
    nodes: BTreeMap<String, Node>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    sessions: BTreeSet<SessionId>,
    violations: Vec<Violation>,
    violation_count: u64,
}

impl LogOracle {
    /// Creates an oracle for an ensemble without nodes.
    pub fn new(places: Vec<Place>) -> Self {
        let lock = |place| Lock {
            place,
            queue: Queue::default(),
            counts: Counts::default(),
            tokens: Tokens::default(),
            token: Zxid::ZERO,
        };
        Self {
            locks: places.into_iter().map(lock).collect(),
            nodes: BTreeMap::new(),
            ephemerals: BTreeMap::new(),
            sessions: BTreeSet::new(),
            violations: Vec::new(),
            violation_count: 0,
        }
    }

    /// Applies the next transaction.
    pub fn apply(&mut self, logged: &Logged, change: &Change<'_>) {
        let Logged { zxid, session, .. } = *logged;
        match change {
            Change::OpenSession => {
                self.sessions.insert(session);
            }
            Change::CloseSession { paths } => self.close(zxid, session, paths),
            Change::Failed(_) => {}
            Change::Multi(parts) => {
                if !parts.iter().any(|part| matches!(part, Change::Failed(_))) {
                    parts.iter().for_each(|part| self.apply(logged, part));
                }
            }
            change => {
                // Servers themselves delete containers.
                let is_open = session == SessionId::NONE || self.sessions.contains(&session);
                self.expect(is_open, zxid, || format!("session {session} is not open"));
                self.change(zxid, session, change);
            }
        }
    }

    fn change(&mut self, zxid: Zxid, session: SessionId, change: &Change<'_>) {
        match *change {
            Change::Create { path, is_ephemeral, .. } => {
                let owner = is_ephemeral.then_some(session);
                let node = Node { owner, version: 0 };
                let is_new = self.nodes.insert(path.to_owned(), node).is_none();
                self.expect(is_new, zxid, || format!("{path} exists already"));
                self.expect_node(zxid, path::parent(path).unwrap_or("/"));
                if let Some(owner) = owner {
                    self.ephemerals.entry(owner).or_default().insert(path.to_owned());
                }
                self.enqueue(zxid, path);
            }
            Change::Delete { path } => {
                let existed = self.delete(path);
                self.expect(existed, zxid, || format!("{path} does not exist"));
            }
            Change::SetData { path, data, version } if !path.starts_with(SYSTEM) => {
                self.expect_node(zxid, path);
                if let Some(node) = self.nodes.get_mut(path) {
                    let before = core::mem::replace(&mut node.version, version);
                    let is_next = before.wrapping_add(1) == version;
                    let what = || format!("version {before} of {path} becomes {version}");
                    self.expect(is_next, zxid, what);
                }
                self.judge_write(zxid, path, data.unwrap_or_default());
            }
            Change::Check { path } | Change::SetAcl { path } => self.expect_node(zxid, path),
            _ => {}
        }
    }

    fn expect_node(&mut self, zxid: Zxid, path: &str) {
        let exists = path == "/" || path.starts_with(SYSTEM) || self.nodes.contains_key(path);
        self.expect(exists, zxid, || format!("{path} does not exist"));
    }

    /// Notes a contradiction, unless a transaction fits.
    fn expect(&mut self, fits: bool, zxid: Zxid, what: impl FnOnce() -> String) {
        if !fits {
            self.violation(Violation::Contradiction { zxid, what: what() });
        }
    }

    fn close(&mut self, zxid: Zxid, session: SessionId, paths: &[&str]) {
        // A server may log it twice.
        self.sessions.remove(&session);
        for path in paths {
            let existed = self.delete(path);
            self.expect(existed, zxid, || format!("{path} of {session} does not exist"));
        }
        // Older servers list none.
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.delete(&path);
        }
    }

    fn enqueue(&mut self, zxid: Zxid, path: &str) {
        let Some((lock, sequence)) = self.locks.iter_mut().find_map(|lock| {
            let name = path.strip_prefix(lock.place.lock)?.strip_prefix('/')?;
            let sequence = lock.place.scheme.parse(name)?.sequence;
            Some((lock, sequence))
        }) else {
            return;
        };
        lock.counts.nodes += 1;
        let node = LockNode::new(zxid, path);
        let overtaken = lock.queue.enqueue(sequence, node);
        lock.note_first();
        if let Some(first) = overtaken {
            self.violation(Violation::Overtaken { zxid, node: path.into(), first });
        }
    }

    /// Returns whether the node existed.
    fn delete(&mut self, path: &str) -> bool {
        let Some(node) = self.nodes.remove(path) else { return false };
        if let Some(owner) = node.owner
            && let Some(paths) = self.ephemerals.get_mut(&owner)
        {
            paths.remove(path);
        }
        let parent = path::parent(path);
        for lock in self.locks.iter_mut().filter(|lock| Some(lock.place.lock) == parent) {
            lock.queue.remove(path);
            lock.note_first();
        }
        true
    }

    /// Judges a write to a register or a marker.
    fn judge_write(&mut self, zxid: Zxid, path: &str, data: &[u8]) {
        let written = self.locks.iter_mut().find_map(|lock| {
            let is_register = lock.place.register == Some(path);
            let is_marker = lock.place.markers.iter().any(|prefix| path.starts_with(prefix));
            (is_register || is_marker).then_some((lock, is_register))
        });
        let Some((Lock { queue, counts, tokens, token: highest, .. }, is_register)) = written
        else {
            return;
        };
        let token = str::from_utf8(data).ok().and_then(|data| match is_register {
            true => data.split_once(' ').map(|(token, _)| token),
            false => Some(data),
        });
        let Some(token) = token.and_then(|token| token.parse().ok()).map(Zxid) else {
            let what = || format!("{path} contains {}", data.escape_ascii());
            return self.expect(false, zxid, what);
        };
        let holder = queue.first().map(|first| first.created);
        let is_holder = holder == Some(token);
        if is_holder {
            tokens.written.insert(token);
        }
        let (written, mut found) = (path.to_owned(), Vec::new());
        if is_register {
            counts.register_writes += 1;
            let highest = core::mem::replace(highest, token.max(*highest));
            if token < highest {
                let register = written.clone();
                found.push(Violation::TokenBack { zxid, register, token, highest });
            }
            if !is_holder {
                found.push(Violation::LateWrite { zxid, register: written, token, holder });
            }
        } else if is_holder {
            counts.marker_writes += 1;
        } else if let Some(first) = queue.first().filter(|_| queue.has(token)) {
            let first = first.path.clone();
            found.push(Violation::TwoHolders { zxid, marker: written, token, first });
        } else {
            counts.unproven_writes += 1;
        }
        found.into_iter().for_each(|found| self.violation(found));
    }

    fn violation(&mut self, violation: Violation) {
        self.violation_count += 1;
        let is_contradiction = matches!(violation, Violation::Contradiction { .. });
        if self.violations.len() < MAX_KEPT || !is_contradiction {
            self.violations.push(violation);
        }
    }

    /// Returns the number of open sessions.
    pub fn open_sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Judges the end of the log. Returns the verdict.
    pub fn conclude(mut self) -> Verdict {
        let is_below = |path: &str, lock: &Lock| path::parent(path) == Some(lock.place.lock);
        let is_left = |path: &str, node: &Node| {
            node.owner.is_some() || self.locks.iter().any(|lock| is_below(path, lock))
        };
        let left = self.nodes.iter().filter(|(path, node)| is_left(path, node));
        let left: Vec<_> = left.map(|(path, _)| path.clone()).collect();
        left.into_iter().for_each(|node| self.violation(Violation::NodeLeft { node }));
        for session in core::mem::take(&mut self.sessions) {
            self.violation(Violation::SessionLeft { session });
        }
        let Self { locks, violations, violation_count, .. } = self;
        let counts = |lock: &Lock| Counts {
            acquisitions: lock.tokens.acquired.len() as u64,
            turns: lock.tokens.written.len() as u64,
            ..lock.counts
        };
        let counts = locks.iter().map(|lock| (lock.place.lock, counts(lock))).collect();
        let tokens = locks.into_iter().map(|lock| (lock.place.lock, lock.tokens)).collect();
        Verdict { counts, tokens, violations, violation_count }
    }
}

/// What an oracle has found.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What is counted for each lock path.
    pub counts: BTreeMap<&'static str, Counts>,
    /// The tokens of each lock path.
    pub tokens: BTreeMap<&'static str, Tokens>,
    /// The first violations.
    pub violations: Vec<Violation>,
    /// The number of violations.
    pub violation_count: u64,
}

impl Verdict {
    /// Returns what is counted for a lock path.
    pub fn counts(&self, lock: &str) -> Counts {
        self.counts.get(lock).copied().unwrap_or_default()
    }

    /// Returns what contradicts the report of clients that they have acquired the lock with some
    /// tokens, and have written with others.
    pub fn contradictions(&self, lock: &str, acquired: &[Zxid], written: &[Zxid]) -> Vec<String> {
        let known = self.tokens.get(lock).cloned().unwrap_or_default();
        let mut found = Vec::new();
        for (what, reported, known) in
            [("acquired", acquired, known.acquired), ("written", written, known.written)]
        {
            let missing: Vec<_> = reported.iter().filter(|token| !known.contains(token)).collect();
            if let Some(first) = missing.first() {
                let count = missing.len();
                found.push(format!("{lock}: {count} not {what} by the logs, such as {first}"));
            }
        }
        let twice = acquired.len() - acquired.iter().collect::<BTreeSet<_>>().len();
        if twice > 0 {
            found.push(format!("{lock}: {twice} tokens acquired twice"));
        }
        found
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} violations", self.violation_count)?;
        for (lock, counts) in &self.counts {
            let Counts { nodes, acquisitions, turns, .. } = counts;
            let Counts { register_writes, marker_writes, unproven_writes, .. } = counts;
            write!(
                f,
                "; {lock}: {nodes} lock nodes, {acquisitions} acquisitions, {turns} turns with a \
                 write, {register_writes} register writes, {marker_writes} marker writes by the \
                 holder, {unproven_writes} that prove nothing"
            )?;
        }
        Ok(())
    }
}
