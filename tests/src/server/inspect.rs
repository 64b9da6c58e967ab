//! Getters: what tests and oracles want to know.

use alloc::collections::BTreeSet;
use core::time::Duration;

use zk_proto::{SessionId, Zxid};

use super::Ensemble;
use super::connection::{ConnId, Connection};
use super::outbox::Counters;
use super::tree::{Node, Tree};

impl Ensemble {
    /// The leader; `None` without a majority.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// How many servers there are, alive or not.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Whether a server is alive.
    pub fn is_alive(&self, server: usize) -> bool {
        self.servers.get(server).is_some_and(|server| server.is_alive)
    }

    /// The last transaction of the ensemble.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// The last transaction that a server has applied, and so what it tells in replies.
    pub fn applied(&self, server: usize) -> Option<Zxid> {
        self.servers.get(server).map(|server| server.zxid)
    }

    /// The tree as one server has it.
    pub fn tree_of(&self, server: usize) -> Option<&Tree> {
        self.servers.get(server).map(|server| &server.tree)
    }

    /// All paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.tree().iter().map(|(path, _)| path)
    }

    /// A node, as the leader has it.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.tree().get(path)
    }

    /// The ephemeral nodes of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.tree().ephemerals(session)
    }

    /// The sessions that are alive.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.ids()
    }

    /// The timeout that was granted to a session, if it is alive.
    pub fn session_timeout(&self, session: SessionId) -> Option<Duration> {
        self.sessions.timeout(session)
    }

    /// The server that a session is connected to, if it is alive and connected.
    pub fn server_of(&self, session: SessionId) -> Option<usize> {
        let owner = self.sessions.owner(session).or_else(|| self.local_sessions.owner(session))?;
        self.connections.get(&owner).map(|connection| connection.server)
    }

    /// How many connections are open.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// How many watches are set, on all servers.
    pub fn watches(&self) -> usize {
        self.servers.iter().map(|server| server.watches.len()).sum()
    }

    /// Every path that is watched, and by which session.
    pub fn watched(&self) -> BTreeSet<(SessionId, &str)> {
        let of_one = |(conn, connection): (&ConnId, &Connection)| {
            let (session, server) = (connection.session(), &self.servers[connection.server]);
            server.watches.paths_of(*conn).map(move |path| (session, path)).collect::<Vec<_>>()
        };
        self.connections.iter().flat_map(of_one).collect()
    }

    /// What went over the wire altogether.
    pub fn counters(&self) -> &Counters {
        &self.outbox.total
    }

    /// What went over the wire for one session, also after its end.
    pub fn session_counters(&self, session: SessionId) -> Option<&Counters> {
        self.outbox.by_session.get(&session)
    }
}
