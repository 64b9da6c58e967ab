//! An in-memory ZooKeeper without sockets, clock or threads.
//!
//! An [`Ensemble`] has servers that keep replicas of one tree and apply one totally ordered log of
//! transactions. The caller drives it: it does nothing by itself, and equal inputs lead to equal
//! outputs, byte for byte. It has four kinds of methods:
//!
//! - inputs, `handle_*`: a connection, its bytes and its end, and the passing of time;
//! - commands: [`kill`](Ensemble::kill), [`restart`](Ensemble::restart),
//!   [`cut_off`](Ensemble::cut_off), [`reunite`](Ensemble::reunite), [`hold`](Ensemble::hold),
//!   [`release`](Ensemble::release), [`replace_member`](Ensemble::replace_member), [`wipe`](Ensemble::wipe), [`restore`](Ensemble::restore),
//!   [`expire_session`](Ensemble::expire_session), [`set_counter`](Ensemble::set_counter);
//! - outputs, `poll_*`: what to send or close, and when to call
//!   [`handle_timeout`](Ensemble::handle_timeout) next. Fetch all of them after every input or
//!   command;
//! - getters, for tests and oracles.
//!
//! Time is a [`Duration`] since any start. Nodes show it as the time of a change, so choose 1970 to
//! make those look right.
//!
//! The ensemble behaves like servers of a [`Version`]:
//! - A write is checked against the leader's tree, and gets its zxid and its place in the log.
//! - Each server applies the log in order, and sends watch events as it does.
//! - The server of the client's connection answers after it has applied the write, so after those
//!   events.
//! - Since 3.6, the end of a session whose ephemeral paths take more than two frames stops all servers
//!   for good (ZOOKEEPER-4306).
//! - Not implemented: quotas, and changes of the members by `reconfig`. Members change by
//!   [`replace_member`](Ensemble::replace_member).
//!
//! It differs from a real server in these points:
//! - It refuses trailing bytes in a request, and text that is not UTF-8.
//! - Children, and the ephemerals of a session that ends, are in the order of their names. A real
//!   server has no order.
//! - It answers `auth` and `sasl` in order. A real server may answer them before earlier requests.
//!
//! No input makes it panic.

mod acl;
mod auth;
mod children;
mod config;
mod connection;
mod creation;
mod credentials;
mod dialect;
mod handshake;
mod inspect;
mod keeper;
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
#[cfg(feature = "sasl")]
mod sasl;
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
pub use keeper::Keeper;
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
    /// `None` without a quorum; then only read-only servers serve.
    leader: Option<usize>,
    log: Log,
    /// The last proposed transaction.
    zxid: Zxid,
    sessions: Sessions,
    /// Local sessions, each known only to the read-only server that created it.
    local_sessions: Sessions,
    connections: FxHashMap<ConnId, Connection>,
    next_conn: u64,
    outbox: Outbox,
    /// Whether the log has a transaction that no server can read. Then none serves again.
    is_log_unreadable: bool,
    /// When to look for expired containers and nodes with a time to live, if there are any.
    container_check: Option<Duration>,
}

impl Ensemble {
    /// Returns an ensemble with all servers alive and a leader elected.
    pub fn new(config: Config) -> Self {
        let servers = vec![
            Replica::new(config.version, config.keeper, config.first_members());
            config.servers.max(1)
        ];
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
            is_log_unreadable: false,
            container_check: None,
        };
        ensemble.elect(Duration::ZERO);
        ensemble
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// Accepts a connection from the loopback address. Returns `None` if the server is down.
    pub fn handle_connect(&mut self, server: usize) -> Option<ConnId> {
        self.handle_connect_from(server, Ipv4Addr::LOCALHOST.into())
    }

    /// Accepts a connection from an address. Returns `None` if the server is down, or if the
    /// address has too many connections.
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

    /// Handles received bytes: any piece of the stream of frames.
    pub fn handle_bytes(&mut self, now: Duration, conn: ConnId, bytes: &[u8]) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            let (first, _) = connection.times.unwrap_or((now, now));
            connection.times = Some((first, now));
            connection.inbox.receive(bytes);
            self.process(now, conn);
        }
    }

    /// Handles the end of a connection. Its session stays alive.
    pub fn handle_disconnect(&mut self, conn: ConnId) {
        self.forget(conn);
    }

    /// Handles the passing of time: expires sessions, and deletes containers and nodes whose time
    /// has passed.
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

    /// Expires a session. Returns whether it existed and there was a leader.
    pub fn expire_session(&mut self, now: Duration, session: SessionId) -> bool {
        let expires = self.leader.is_some() && self.sessions.remove(session);
        if expires {
            self.end_session(now, None, session);
        }
        expires
    }

    /// Pretends that `counter` children were created below a node, so that the next sequence number
    /// is `counter`. Returns whether the node exists and there is a leader.
    ///
    /// For tests of sequence numbers beyond 2^31 (ZOOKEEPER-3249).
    pub fn set_counter(&mut self, now: Duration, path: &str, counter: i32) -> bool {
        let exists = self.leader.is_some() && self.tree().get(path).is_some();
        if exists {
            let change = Change::SetCounter { path: path.into(), counter };
            self.propose(now, None, Txn::Write(change));
        }
        exists
    }

    // ---- Outputs -------------------------------------------------------------------------------

    /// Loses the next `count` watch events of a session that concern nodes below a path, like a
    /// faulty server. Their watches are gone.
    pub fn swallow_events(&mut self, session: SessionId, below: &'static str, count: u64) {
        self.outbox.swallowed.insert(session, (below, count));
    }

    /// Returns the next output, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.poll()
    }

    /// Returns when to call [`handle_timeout`](Self::handle_timeout), unless an input comes first.
    pub fn poll_timeout(&self) -> Option<Duration> {
        let led = self.leader.and(self.sessions.next_deadline());
        let led = led.into_iter().chain(self.leader.and(self.container_check));
        led.chain(self.local_sessions.next_deadline()).min()
    }

    // ---- Replication ---------------------------------------------------------------------------

    /// Ends a session, by a transaction with the paths of its ephemeral nodes.
    fn end_session(&mut self, now: Duration, origin: Option<Origin>, session: SessionId) {
        let paths = self.tree().ephemerals(session);
        let length = paths.map(|path| path.len() + size_of::<i32>()).sum::<usize>();
        // `BinaryInputArchive` adds as much again as `jute.maxbuffer.extrasize`, by default.
        if self.config.version.logs_closed_paths() && length > 2 * self.config.frame_limit {
            self.is_log_unreadable = true;
            for server in 0..self.servers.len() {
                self.kill(now, server);
            }
            return;
        }
        self.propose(now, origin, Txn::CloseSession(session));
    }

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

    /// Applies the new entries of the log to a server, unless it is down or cut off.
    fn catch_up(&mut self, server: usize) {
        while self.servers[server].is_in_touch()
            && let Some(entry) = self.log.get(self.servers[server].applied)
        {
            self.apply(server, &entry);
        }
        let applied = self.members().map(|member| self.servers[member].applied);
        self.log.trim(applied.min().unwrap_or(0));
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

    /// Returns the leader's tree, or the most advanced one while there is no leader. All servers
    /// will have this tree once they have applied the log.
    fn tree(&self) -> &Tree {
        let applied = |server: &usize| self.servers[*server].applied;
        let leader = self.leader.or_else(|| (0..self.servers.len()).max_by_key(applied));
        &self.servers[leader.unwrap_or_default()].tree
    }

    // ---- Connections ---------------------------------------------------------------------------

    /// Closes a connection from the server's side.
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

    /// Returns the connections that meet a condition, in the order of their creation.
    fn conns_where(&self, condition: impl Fn(&Connection) -> bool) -> Vec<ConnId> {
        let found = self.connections.iter().filter(|(_, connection)| condition(connection));
        let mut conns: Vec<_> = found.map(|(conn, _)| *conn).collect();
        conns.sort_unstable();
        conns
    }

    fn forget(&mut self, conn: ConnId) -> bool {
        let Some(connection) = self.connections.remove(&conn) else { return false };
        self.outbox.forget(conn);
        self.servers[connection.server].watches.forget(conn);
        let session = connection.session();
        self.table_of(session).detach(session, conn);
        true
    }
}
