//! An in-memory ZooKeeper without sockets, clock or threads.
//!
//! An [`Ensemble`] has servers that keep replicas of one tree and apply one totally ordered log of
//! transactions to them. It is driven from outside and does nothing by itself; the same inputs
//! lead to the same outputs, byte for byte. Its methods come in four kinds:
//!
//! - inputs, `handle_*`: a connection, bytes on it, its end, the passing of time;
//! - commands: [`kill`](Ensemble::kill), [`restart`](Ensemble::restart),
//!   [`cut_off`](Ensemble::cut_off), [`reunite`](Ensemble::reunite),
//!   [`hold`](Ensemble::hold), [`release`](Ensemble::release),
//!   [`expire_session`](Ensemble::expire_session), [`set_counter`](Ensemble::set_counter);
//! - outputs, `poll_*`: what to send or close, and when to call
//!   [`handle_timeout`](Ensemble::handle_timeout) next. Fetch all of them after every input or
//!   command;
//! - getters, for tests and oracles.
//!
//! Time is a [`Duration`] since any start; it is also what nodes show as the time of a change, so a
//! start of 1970 makes those look right.
//!
//! It behaves as a server of a [`Version`] does. A write is checked against the leader's tree, gets
//! its zxid and its place in the log, and is answered by the server it came from once that server
//! has applied it; notifications go out while it is applied, and so before that answer. Not there:
//! quotas, and a change of the servers by `reconfig`.
//!
//! It is stricter than a real server with what no client sends: trailing bytes in a request, and
//! text that is not UTF-8. Children and the ephemerals of a session that ends are taken in the order
//! of their names, where a real server has no order; `auth` and `sasl` are answered in their turn,
//! where a real server may answer them before what came earlier.
//!
//! No input bytes make it panic.

mod acl;
mod auth;
mod config;
mod connection;
mod creation;
mod credentials;
mod handshake;
mod inspect;
mod log;
mod modes;
mod outbox;
mod prepare;
mod quorum;
mod read_only;
mod reads;
mod reaper;
mod replica;
mod requests;
mod sessions;
mod tree;
mod version;
mod watches;
mod words;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use rustc_hash::FxHashMap;
use zk_proto::{Perms, SessionId, Zxid};

pub use acl::Grant;
pub use config::Config;
pub use connection::ConnId;
pub use outbox::{Counters, Output};
pub use tree::{Node, Tree};
pub use version::Version;

use connection::Connection;
use log::{Change, Entry, Log, Origin, Txn};
use outbox::Outbox;
use replica::{Notification, Replica};
use sessions::Sessions;

/// An in-memory ZooKeeper; see the [module](self).
#[derive(Clone, Debug)]
pub struct Ensemble {
    config: Config,
    servers: Vec<Replica>,
    /// None without a majority; then nobody is served.
    leader: Option<usize>,
    log: Log,
    /// The last transaction proposed.
    zxid: Zxid,
    sessions: Sessions,
    /// Those that read-only servers made, each known to that server alone.
    local_sessions: Sessions,
    connections: FxHashMap<ConnId, Connection>,
    next_conn: u64,
    outbox: Outbox,
    /// When to look for nodes to delete, if there are any that are deleted some day.
    container_check: Option<Duration>,
}

impl Ensemble {
    /// An ensemble with all servers alive and a leader elected.
    pub fn new(config: Config) -> Self {
        let servers = vec![Replica::new(config.version); config.servers.max(1)];
        let sessions = Sessions::new(config.tick, config.seed);
        let local_sessions = Sessions::local(config.tick, config.seed);
        let mut ensemble = Self {
            config,
            servers,
            leader: None,
            log: Log::default(),
            zxid: Zxid::ZERO,
            sessions,
            local_sessions,
            connections: FxHashMap::default(),
            next_conn: 0,
            outbox: Outbox::default(),
            container_check: None,
        };
        ensemble.elect(Duration::ZERO);
        ensemble
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// A client on this machine connects to a server. `None`: refused, since the server is down.
    pub fn handle_connect(&mut self, server: usize) -> Option<ConnId> {
        self.handle_connect_from(server, Ipv4Addr::LOCALHOST.into())
    }

    /// A client connects to a server from an address. `None`: refused, since the server is down, or
    /// closed at once, since there are too many connections from there.
    pub fn handle_connect_from(&mut self, server: usize, address: IpAddr) -> Option<ConnId> {
        self.servers.get(server).filter(|server| server.is_alive)?;
        if let Some(limit) = self.config.max_connections {
            let connections = self.connections.values();
            let same = connections
                .filter(|connection| (connection.server, connection.address) == (server, address));
            if same.count() >= limit {
                return None;
            }
        }
        let conn = ConnId(self.next_conn);
        self.next_conn += 1;
        self.connections.insert(conn, Connection::new(server, address));
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

    /// Time has passed: expires sessions, and deletes containers and nodes whose time is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        self.expire_local_sessions(now);
        if self.leader.is_none() {
            return;
        }
        while let Some(id) = self.sessions.overdue(now) {
            self.expire_session(now, id);
        }
        self.reap(now);
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

    /// Pretends that so many children were created below a node: the next sequential one gets that
    /// number. Whether there is such a node, and a leader.
    ///
    /// For tests of what happens after 2^31 of them (ZOOKEEPER-3249).
    pub fn set_counter(&mut self, now: Duration, path: &str, counter: i32) -> bool {
        let exists = self.leader.is_some() && self.tree().get(path).is_some();
        if exists {
            let change = Change::SetCounter { path: path.into(), counter };
            self.propose(now, None, Txn::Write(change));
        }
        exists
    }

    // ---- Outputs -------------------------------------------------------------------------------

    /// Has so many of the next watch events of a session get lost that are about nodes below this path,
    /// as by a fault of its server. The watches are used up.
    pub fn swallow_events(&mut self, session: SessionId, below: &'static str, count: u64) {
        self.outbox.swallowed.insert(session, (below, count));
    }

    /// The next thing to do for connections, in the order in which it is to be done.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called, unless something comes first.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let led = self.leader.and(self.sessions.next_deadline());
        let led = led.into_iter().chain(self.leader.and(self.container_check));
        led.chain(self.local_sessions.next_deadline()).min()
    }

    // ---- Replication ---------------------------------------------------------------------------

    /// Appends a transaction to the log. Every server that is neither down nor held applies it.
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
        for server in 0..self.servers.len() {
            if !self.servers[server].is_held || self.leader == Some(server) {
                self.catch_up(server);
            }
        }
        self.plan_reaping(now);
    }

    /// Lets a server apply what is new in the log, unless it is down or cut off.
    fn catch_up(&mut self, server: usize) {
        while self.servers[server].is_in_touch()
            && let Some(entry) = self.log.get(self.servers[server].applied)
        {
            self.apply(server, &entry);
        }
        self.log.trim(self.servers.iter().map(|server| server.applied).min().unwrap_or(0));
    }

    fn apply(&mut self, server: usize, entry: &Entry) {
        let is_here = |origin: &Origin| {
            self.connections.get(&origin.conn).is_some_and(|connection| connection.server == server)
        };
        let asked = entry.origin.filter(is_here);
        let consequences = self.servers[server].apply(entry, asked.map(|origin| origin.xid));
        for Notification { listeners, guard, frame } in consequences.notifications {
            for conn in listeners {
                if let Some(connection) = self.connections.get(&conn)
                    && guard
                        .as_ref()
                        .is_none_or(|acl| acl::permits(acl, Perms::READ, &connection.identities))
                {
                    self.outbox.notify(conn, connection.session(), frame.clone());
                }
            }
        }
        if let Some(Origin { conn, .. }) = asked
            && let Some(connection) = self.connections.get(&conn)
            && let Some(reply) = consequences.reply
        {
            self.outbox.send(conn, connection.session(), reply);
        }
        if let Txn::CloseSession(session) = entry.txn {
            self.close_where(|connection| {
                connection.server == server && connection.session == Some(session)
            });
        }
    }

    /// The leader's tree: what all servers will have once they have applied the log. While there is
    /// no leader, that of whoever has applied most.
    fn tree(&self) -> &Tree {
        let applied = |server: &usize| self.servers[*server].applied;
        let leader = self.leader.or_else(|| (0..self.servers.len()).max_by_key(applied));
        &self.servers[leader.unwrap_or_default()].tree
    }

    // ---- Connections ---------------------------------------------------------------------------

    /// Closes a connection from this side.
    fn close(&mut self, conn: ConnId) {
        if self.forget(conn) {
            self.outbox.close(conn);
        }
    }

    fn close_where(&mut self, condition: impl Fn(&Connection) -> bool) {
        for conn in self.conns_where(condition) {
            self.close(conn);
        }
    }

    /// The connections of which that is true, the oldest first.
    fn conns_where(&self, condition: impl Fn(&Connection) -> bool) -> Vec<ConnId> {
        let found = self.connections.iter().filter(|(_, connection)| condition(connection));
        let mut conns: Vec<_> = found.map(|(conn, _)| *conn).collect();
        conns.sort_unstable();
        conns
    }

    fn forget(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.remove(&conn) else { return false };
        self.servers[connection.server].watches.forget(conn);
        let session = connection.session();
        self.table_of(session).detach(session, conn);
        true
    }
}
