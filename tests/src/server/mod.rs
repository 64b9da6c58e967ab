//! An in-memory ZooKeeper without sockets, clock or threads.
//!
//! An [`Ensemble`] has members that keep replicas of one tree and apply one totally ordered log of
//! transactions to them. It is driven from outside and does nothing by itself; the same inputs
//! lead to the same outputs, byte for byte. Its methods come in four kinds:
//!
//! - inputs, `handle_*`: a connection, bytes on it, its end, the passing of time;
//! - commands: [`kill`](Ensemble::kill), [`restart`](Ensemble::restart),
//!   [`hold`](Ensemble::hold), [`release`](Ensemble::release),
//!   [`expire_session`](Ensemble::expire_session);
//! - outputs, `poll_*`: what to send or close, and when to call
//!   [`handle_timeout`](Ensemble::handle_timeout) next. Fetch all of them after every input or
//!   command;
//! - getters, for tests and oracles.
//!
//! Time is a [`Duration`] since any start; it is also what nodes show as the time of a change, so a
//! start of 1970 makes those look right.
//!
//! It behaves as a server of version 3.8 does. A write is checked against the leader's tree, gets
//! its zxid and its place in the log, and is answered by the member it came from once that member
//! has applied it; notifications go out while it is applied, and so before that answer. Not there
//! yet: enforcement of ACLs, persistent watches, quotas, read-only mode, and every operation that
//! `zk-proto` has no record for; those are refused as unknown.
//!
//! It is stricter than a real server with what no client sends: trailing bytes in a request, text
//! that is not UTF-8, and a `check` outside a multi, which a real one (3.8.0) runs but answers only
//! if it fails. Children and the ephemerals of a session that ends are taken in the order of their
//! names, where a real server has no order.
//!
//! No input bytes make it panic.

mod acl;
mod config;
mod connection;
mod inspect;
mod log;
mod member;
mod outbox;
mod prepare;
mod quorum;
mod requests;
mod sessions;
mod tree;
mod watches;

use alloc::collections::BTreeMap;
use core::time::Duration;

use zk_proto::{DeleteRequest, MultiOp, SessionId, Zxid};

pub use acl::Grant;
pub use config::Config;
pub use connection::ConnId;
pub use outbox::{Counters, Output};
pub use tree::{Node, Tree};

use connection::Connection;
use log::{Entry, Log, Origin, Txn};
use member::Member;
use outbox::Outbox;
use prepare::Draft;
use sessions::Sessions;

/// An in-memory ZooKeeper; see the [module](self).
#[derive(Clone, Debug)]
pub struct Ensemble {
    config: Config,
    members: Vec<Member>,
    /// None without a majority; then nobody is served.
    leader: Option<usize>,
    log: Log,
    /// The last transaction proposed.
    zxid: Zxid,
    sessions: Sessions,
    connections: BTreeMap<ConnId, Connection>,
    next_conn: u64,
    outbox: Outbox,
    /// When to look for empty containers, if there are containers.
    container_check: Option<Duration>,
}

impl Ensemble {
    /// An ensemble with all members alive and a leader elected.
    pub fn new(config: Config) -> Self {
        let members = vec![Member::new(); config.members.max(1)];
        let sessions = Sessions::new(config.tick, config.seed);
        let mut ensemble = Self {
            config,
            members,
            leader: None,
            log: Log::default(),
            zxid: Zxid::ZERO,
            sessions,
            connections: BTreeMap::new(),
            next_conn: 0,
            outbox: Outbox::default(),
            container_check: None,
        };
        ensemble.elect(Duration::ZERO);
        ensemble
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// A client connects to a member. `None`: refused, since the member is down.
    pub fn handle_connect(&mut self, member: usize) -> Option<ConnId> {
        self.members.get(member).filter(|member| member.is_alive)?;
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        self.connections.insert(conn, Connection::new(member));
        Some(conn)
    }

    /// Bytes arrived: any piece of the stream, with the lengths that stand before frames.
    pub fn handle_bytes(&mut self, now: Duration, conn: ConnId, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.inbox.extend_from_slice(bytes);
            self.process(now, conn);
        }
    }

    /// The client closed the connection, or it broke. Its session lives on.
    pub fn handle_disconnect(&mut self, conn: ConnId) {
        self.forget(conn);
    }

    /// Time has passed: expires sessions and deletes empty containers.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.leader.is_none() {
            return;
        }
        while let Some(id) = self.sessions.overdue(now) {
            self.expire_session(now, id);
        }
        if self.container_check.is_some_and(|due| due <= now) {
            for path in self.tree().spent_containers() {
                let delete = MultiOp::Delete(DeleteRequest { path: &path, version: -1 });
                if let Ok(change) = Draft::new(self.tree(), SessionId::NONE).prepare(delete) {
                    self.propose(now, None, Txn::Write(change));
                }
            }
            self.container_check = None;
            self.plan_container_check(now);
        }
    }

    // ---- Commands ------------------------------------------------------------------------------

    /// Ends a session as if its time were up. Whether it existed, and there was a leader to do it.
    pub fn expire_session(&mut self, now: Duration, session: SessionId) -> bool {
        let expires = self.leader.is_some() && self.sessions.remove(session);
        if expires {
            self.propose(now, None, Txn::CloseSession(session));
        }
        expires
    }

    // ---- Outputs -------------------------------------------------------------------------------

    /// The next thing to do for connections, in the order in which it is to be done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, unless something comes first.
    pub fn poll_timeout(&self) -> Option<Duration> {
        self.leader?;
        self.sessions.next_deadline().into_iter().chain(self.container_check).min()
    }

    // ---- Replication ---------------------------------------------------------------------------

    /// Appends a transaction to the log. Every member that is neither down nor held applies it.
    fn propose(&mut self, now: Duration, origin: Option<Origin>, txn: Txn) {
        self.zxid = Zxid(self.zxid.0 + 1);
        self.append(now, origin, txn);
    }

    fn append(&mut self, now: Duration, origin: Option<Origin>, txn: Txn) {
        let time = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
        self.log.append(Entry { zxid: self.zxid, time, origin, txn });
        if let Some(origin) = origin
            && let Some(connection) = self.connections.get_mut(&origin.conn)
        {
            connection.resume_at = self.log.len();
        }
        for member in 0..self.members.len() {
            if !self.members[member].is_held || self.leader == Some(member) {
                self.catch_up(member);
            }
        }
        self.plan_container_check(now);
    }

    /// Lets a member apply what is new in the log, unless it is down.
    fn catch_up(&mut self, member: usize) {
        while self.members[member].is_alive
            && let Some(entry) = self.log.get(self.members[member].applied)
        {
            self.apply(member, &entry);
        }
        self.log.trim(self.members.iter().map(|member| member.applied).min().unwrap_or(0));
    }

    fn apply(&mut self, member: usize, entry: &Entry) {
        let consequences = self.members[member].apply(entry);
        for (listeners, notification) in consequences.notifications {
            for conn in listeners {
                if let Some(connection) = self.connections.get(&conn) {
                    self.outbox.notify(conn, connection.session(), notification.clone());
                }
            }
        }
        if let Some(Origin { conn, .. }) = entry.origin
            && let Some(connection) = self.connections.get(&conn)
            && connection.member == member
        {
            self.outbox.send(conn, connection.session(), consequences.reply);
        }
        if let Txn::CloseSession(session) = entry.txn {
            self.close_where(|connection| {
                connection.member == member && connection.session == Some(session)
            });
        }
    }

    fn plan_container_check(&mut self, now: Duration) {
        if self.container_check.is_none() && self.tree().has_containers() {
            let interval = self.config.container_check.as_millis().max(1);
            let due = (now.as_millis() / interval + 1) * interval;
            let due = Duration::from_millis(u64::try_from(due).unwrap_or(u64::MAX));
            self.container_check = Some(due);
        }
    }

    /// The leader's tree: what all members will have once they have applied the log.
    fn tree(&self) -> &Tree {
        &self.members[self.leader.unwrap_or_default()].tree
    }

    // ---- Connections ---------------------------------------------------------------------------

    /// Closes a connection from this side.
    fn close(&mut self, conn: ConnId) {
        if self.forget(conn) {
            self.outbox.close(conn);
        }
    }

    fn close_where(&mut self, condition: impl Fn(&Connection) -> bool) {
        let conns: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, connection)| condition(connection))
            .map(|(conn, _)| *conn)
            .collect();
        for conn in conns {
            self.close(conn);
        }
    }

    fn forget(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.remove(&conn) else { return false };
        self.members[connection.member].watches.forget(conn);
        self.sessions.detach(connection.session(), conn);
        true
    }
}
