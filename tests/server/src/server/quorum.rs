//! Servers that fail, return or lag.

use core::net::SocketAddr;
use core::time::Duration;

use zk_proto::Zxid;

use super::Ensemble;
use super::log::{Change, Txn};

impl Ensemble {
    /// Kills a server: its connections break, and it applies nothing until
    /// [`restart`](Self::restart). It keeps its tree, as a real server keeps its disk.
    ///
    /// If it was the leader, another server takes over at once in a new epoch, and all connections
    /// to all servers break, as on a real ensemble. Without a quorum there is no leader. Then all
    /// connections break, new ones are closed or served read-only, and no session of the ensemble
    /// expires.
    pub fn kill(&mut self, now: Duration, server: usize) {
        if let Some(killed) = self.servers.get_mut(server) {
            killed.is_alive = false;
            self.close_where(|connection| connection.server == server);
            self.elect(now);
        }
    }

    /// Starts a server again. It catches up with the log before it serves. If no server can read the
    /// log, or it has left the ensemble, it stays down.
    pub fn restart(&mut self, now: Duration, server: usize) {
        if self.is_log_unreadable {
            return;
        }
        if let Some(restarted) = self.servers.get_mut(server).filter(|server| !server.has_left) {
            restarted.is_alive = true;
            self.catch_up(server);
            self.elect(now);
        }
    }

    /// Isolates a server until it is [reunited](Self::reunite) with the others. It stays alive, but
    /// its connections break, and it cannot lead. It then serves nothing or, in read-only mode,
    /// stale reads.
    ///
    /// Clients notice that at once. For a holder that cannot know of its loss,
    /// [hold](Self::hold) its server, and expire its session.
    pub fn cut_off(&mut self, now: Duration, server: usize) {
        if let Some(lost) = self.servers.get_mut(server) {
            lost.is_cut_off = true;
            self.close_where(|connection| connection.server == server);
            self.elect(now);
        }
    }

    /// Connects an isolated server to the others again. It forgets its local sessions, and catches
    /// up with the log before it serves.
    pub fn reunite(&mut self, now: Duration, server: usize) {
        if let Some(found) = self.servers.get_mut(server).filter(|server| server.is_cut_off) {
            found.is_cut_off = false;
            self.close_where(|connection| connection.server == server);
            self.local_sessions.forget_of(server);
            self.catch_up(server);
            self.elect(now);
        }
    }

    /// Loses all data of all servers, as if they were stopped, wiped and started again.
    pub fn wipe(&mut self, now: Duration) {
        self.replace(now, Self::new(self.config.clone()));
    }

    /// Replaces the data of all servers by that of a clone from earlier, as if they were stopped,
    /// restored from a backup and started again. Sessions are part of the data.
    ///
    /// Several servers begin a new epoch then, so clients may take the history for a newer one. A
    /// standalone server has no epochs.
    pub fn restore(&mut self, now: Duration, backup: &Self) {
        let mut data = backup.clone();
        data.close_where(|_| true);
        data.leader = None;
        data.elect(now);
        self.replace(now, data);
    }

    fn replace(&mut self, now: Duration, data: Self) {
        self.close_where(|_| true);
        let Self { servers, leader, log, zxid, local_sessions, container_check, .. } = data;
        (self.servers, self.leader, self.log, self.zxid) = (servers, leader, log, zxid);
        (self.local_sessions, self.container_check) = (local_sessions, container_check);
        self.sessions = data.sessions.after(&self.sessions);
        self.sessions.touch_all(now);
    }

    /// Replaces a member of the ensemble by a new server, as an administrator does by `reconfig`. The
    /// old one leaves for good, as if killed. `/zookeeper/config` then shows the new one, whose
    /// address for clients is `address`.
    ///
    /// Returns the number of the new server, or `None` without a leader or such a member, or if
    /// [`client_addresses`](super::Config::client_addresses) has not those of all servers.
    pub fn replace_member(
        &mut self,
        now: Duration,
        old: usize,
        address: SocketAddr,
    ) -> Option<usize> {
        let new = self.servers.len();
        let leader = self.leader.filter(|_| self.config.client_addresses.len() == new)?;
        self.servers.get_mut(old).filter(|old| !old.has_left)?.has_left = true;
        self.servers.push(self.servers[leader].copy());
        self.config.client_addresses.push(address);
        let data = self.config.members(self.members(), Zxid(self.zxid.0 + 1));
        let change = Change::SetData { path: "/zookeeper/config".into(), data: Some(data) };
        self.propose(now, None, Txn::Write(change));
        self.kill(now, old);
        Some(new)
    }

    /// Makes a follower lag: it applies nothing new until [`release`](Self::release) or
    /// [`step`](Self::step). It serves stale reads, and the answers to writes through it wait. Has
    /// no effect while the server leads.
    pub fn hold(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.is_held = true;
        }
    }

    /// Lets a held server catch up.
    pub fn release(&mut self, now: Duration, server: usize) {
        if let Some(released) = self.servers.get_mut(server) {
            released.is_held = false;
            self.catch_up(server);
            self.resume(now, server);
        }
    }

    /// Lets a held server apply one more transaction. Returns whether there was one.
    pub fn step(&mut self, now: Duration, server: usize) -> bool {
        let entry = self
            .servers
            .get(server)
            .filter(|server| server.is_in_touch())
            .and_then(|server| self.log.get(server.applied));
        if let Some(entry) = &entry {
            self.apply(server, entry);
            self.resume(now, server);
        }
        entry.is_some()
    }

    /// Handles the requests that waited for the server to catch up.
    fn resume(&mut self, now: Duration, server: usize) {
        for conn in self.conns_where(|connection| connection.server == server) {
            self.process(now, conn);
        }
    }

    /// Elects a leader if a quorum is alive and connected, and removes it otherwise.
    pub(super) fn elect(&mut self, now: Duration) {
        let is_in_touch = |server: &usize| self.servers[*server].is_in_touch();
        let alive: Vec<usize> = self.members().filter(is_in_touch).collect();
        let is_quorum = alive.len() * 2 > self.members().count();
        if is_quorum && self.leader.is_some_and(|leader| alive.contains(&leader)) {
            return;
        }
        self.close_where(|connection| alive.contains(&connection.server));
        // Any of them can lead, since all know the log.
        self.leader = alive.last().copied().filter(|_| is_quorum);
        if self.leader.is_none() {
            return;
        }
        for server in alive {
            self.catch_up(server);
            // No other server knows its local sessions.
            self.local_sessions.forget_of(server);
        }
        self.sessions.touch_all(now);
        // A standalone server has no epochs.
        if self.servers.len() > 1 {
            self.zxid = Zxid((i64::from(self.zxid.epoch()) + 1) << 32);
            self.append(now, None, Txn::NewEpoch);
        }
    }
}
