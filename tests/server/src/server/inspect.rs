//! Getters for tests and oracles.

use alloc::collections::BTreeSet;
use core::time::Duration;

use zk_proto::{SessionId, Zxid};

use super::Ensemble;
use super::connection::{ConnId, Connection};
use super::keeper::Keeper;
use super::outbox::Counters;
use super::tree::{Node, Tree};
use super::version::Version;

impl Ensemble {
    /// Returns the release whose behaviour is shown.
    pub fn version(&self) -> Version {
        self.config.version
    }

    /// Returns the ClickHouse Keeper whose rules are added, if any.
    pub fn keeper(&self) -> Option<Keeper> {
        self.config.keeper
    }

    /// Returns the leader, or `None` without a quorum.
    pub fn leader(&self) -> Option<usize> {
        self.leader
    }

    /// Returns the number of servers, alive or not, also those that have left the ensemble.
    pub fn servers(&self) -> usize {
        self.servers.len()
    }

    /// Returns the members of the ensemble, alive or not.
    pub fn members(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|server| !self.servers[*server].has_left)
    }

    /// Returns whether a server is alive.
    pub fn is_alive(&self, server: usize) -> bool {
        self.servers.get(server).is_some_and(|server| server.is_alive)
    }

    /// Returns the last transaction of the ensemble.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    /// Returns the last transaction that a server has applied, which its replies report.
    pub fn applied(&self, server: usize) -> Option<Zxid> {
        self.servers.get(server).map(|server| server.zxid)
    }

    /// Returns the tree of one server.
    pub fn tree_of(&self, server: usize) -> Option<&Tree> {
        self.servers.get(server).map(|server| &server.tree)
    }

    /// Returns all paths, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.tree().iter().map(|(path, _)| path)
    }

    /// Returns a node of the leader's tree.
    pub fn node(&self, path: &str) -> Option<&Node> {
        self.tree().get(path)
    }

    /// Returns the ephemeral nodes of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.tree().ephemerals(session)
    }

    /// Returns the live sessions.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> {
        self.sessions.ids()
    }

    /// Returns the granted timeout of a live session.
    pub fn session_timeout(&self, session: SessionId) -> Option<Duration> {
        self.sessions.timeout(session)
    }

    /// Returns the server that a live session is connected to.
    pub fn server_of(&self, session: SessionId) -> Option<usize> {
        let owner = self.sessions.owner(session).or_else(|| self.local_sessions.owner(session))?;
        self.connections.get(&owner).map(|connection| connection.server)
    }

    /// Returns how many connections servers have accepted so far.
    pub fn accepted(&self) -> u64 {
        self.next_conn
    }

    /// Returns the number of open connections.
    pub fn connections(&self) -> usize {
        self.connections.len()
    }

    /// Returns the number of watches on all servers.
    pub fn watches(&self) -> usize {
        self.servers.iter().map(|server| server.watches.len()).sum()
    }

    /// Returns all watched paths, with the sessions that watch them.
    pub fn watched(&self) -> BTreeSet<(SessionId, &str)> {
        let of_one = |(conn, connection): (&ConnId, &Connection)| {
            let (session, server) = (connection.session(), &self.servers[connection.server]);
            server.watches.paths_of(*conn).map(move |path| (session, path)).collect::<Vec<_>>()
        };
        self.connections.iter().flat_map(of_one).collect()
    }

    /// Returns the traffic of all sessions.
    pub fn counters(&self) -> &Counters {
        &self.outbox.total
    }

    /// Returns the traffic of one session, also after its end.
    pub fn session_counters(&self, session: SessionId) -> Option<&Counters> {
        self.outbox.by_session.get(&session)
    }
}
