//! Servers that fail, come back or fall behind.

use core::time::Duration;

use zk_proto::Zxid;

use super::Ensemble;
use super::log::Txn;

impl Ensemble {
    /// Kills a server: its connections break, and it applies nothing until
    /// [`restart`](Self::restart). It keeps its tree, as a real one keeps its disk.
    ///
    /// When it was the leader, another one takes over at once in a new epoch, and the connections
    /// to all servers break, as they do on a real ensemble. Without a majority there is no leader:
    /// all connections break, new ones are closed or, in read-only mode, served without writes, and
    /// no session of the ensemble expires.
    pub fn kill(&mut self, now: Duration, server: usize) {
        if let Some(killed) = self.servers.get_mut(server) {
            killed.is_alive = false;
            self.close_where(|connection| connection.server == server);
            self.elect(now);
        }
    }

    /// Starts a server again. It has caught up with the log before it serves anybody.
    pub fn restart(&mut self, now: Duration, server: usize) {
        if let Some(restarted) = self.servers.get_mut(server) {
            restarted.is_alive = true;
            self.catch_up(server);
            self.elect(now);
        }
    }

    /// Has a server lose touch with all others, until it is [reunited](Self::reunite) with them.
    /// It is alive: its connections break, as does the leadership if it has it, and then it serves
    /// nobody or, in read-only mode, reads from the past.
    pub fn cut_off(&mut self, now: Duration, server: usize) {
        if let Some(lost) = self.servers.get_mut(server) {
            lost.is_cut_off = true;
            self.close_where(|connection| connection.server == server);
            self.elect(now);
        }
    }

    /// Puts a server in touch with the others again. It forgets the sessions that it has made up,
    /// and has caught up with the log before it serves anybody.
    pub fn reunite(&mut self, now: Duration, server: usize) {
        if let Some(found) = self.servers.get_mut(server).filter(|server| server.is_cut_off) {
            found.is_cut_off = false;
            self.close_where(|connection| connection.server == server);
            self.local_sessions.forget_of(server);
            self.catch_up(server);
            self.elect(now);
        }
    }

    /// Makes a follower lag: it applies nothing new until [`release`](Self::release) or
    /// [`step`](Self::step). It still serves reads, from the past, while writes through it wait
    /// for their answer. Has no effect on the leader, for as long as it leads.
    pub fn hold(&mut self, server: usize) {
        if let Some(server) = self.servers.get_mut(server) {
            server.is_held = true;
        }
    }

    /// Lets a server that was held catch up.
    pub fn release(&mut self, now: Duration, server: usize) {
        if let Some(released) = self.servers.get_mut(server) {
            released.is_held = false;
            self.catch_up(server);
            self.resume(now, server);
        }
    }

    /// Lets a server that is held apply one more transaction. Whether there was one.
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

    /// Goes on with requests that waited for the server to catch up.
    fn resume(&mut self, now: Duration, server: usize) {
        for conn in self.conns_where(|connection| connection.server == server) {
            self.process(now, conn);
        }
    }

    /// Sees to it that there is a leader exactly if a majority is alive and in touch.
    pub(super) fn elect(&mut self, now: Duration) {
        let is_in_touch = |server: &usize| self.servers[*server].is_in_touch();
        let alive: Vec<usize> = (0..self.servers.len()).filter(is_in_touch).collect();
        if self.leader.is_some_and(|leader| alive.contains(&leader))
            && alive.len() * 2 > self.servers.len()
        {
            return;
        }
        self.close_where(|connection| alive.contains(&connection.server));
        // Which one does not matter: what is in the log is known to all.
        self.leader = alive.last().copied().filter(|_| alive.len() * 2 > self.servers.len());
        if self.leader.is_none() {
            return;
        }
        for server in alive {
            self.catch_up(server);
            // What a read-only server made up is not known to anybody else.
            self.local_sessions.forget_of(server);
        }
        self.sessions.touch_all(now);
        // A server that is alone knows no epochs.
        if self.servers.len() > 1 {
            self.zxid = Zxid((i64::from(self.zxid.epoch()) + 1) << 32);
            self.append(now, None, Txn::NewEpoch);
        }
    }
}
