//! Members that fail, come back or fall behind.

use core::time::Duration;

use zk_proto::Zxid;

use super::Ensemble;
use super::log::Txn;

impl Ensemble {
    /// Kills a member: its connections break, and it applies nothing until
    /// [`restart`](Self::restart). It keeps its tree, as a real one keeps its disk.
    ///
    /// When it was the leader, another one takes over at once in a new epoch, and the connections
    /// to all members break, as they do on a real ensemble. Without a majority there is no leader:
    /// all connections break, new ones are closed or, in read-only mode, served without writes, and
    /// no session of the ensemble expires.
    pub fn kill(&mut self, now: Duration, member: usize) {
        if let Some(killed) = self.members.get_mut(member) {
            killed.is_alive = false;
            self.close_where(|connection| connection.member == member);
            self.elect(now);
        }
    }

    /// Starts a member again. It has caught up with the log before it serves anybody.
    pub fn restart(&mut self, now: Duration, member: usize) {
        if let Some(restarted) = self.members.get_mut(member) {
            restarted.is_alive = true;
            self.catch_up(member);
            self.elect(now);
        }
    }

    /// Has a member lose touch with all others, until it is [reunited](Self::reunite) with them.
    /// It is alive: its connections break, as does the leadership if it has it, and then it serves
    /// nobody or, in read-only mode, reads from the past.
    pub fn cut_off(&mut self, now: Duration, member: usize) {
        if let Some(lost) = self.members.get_mut(member) {
            lost.is_cut_off = true;
            self.close_where(|connection| connection.member == member);
            self.elect(now);
        }
    }

    /// Puts a member in touch with the others again. It forgets the sessions that it has made up,
    /// and has caught up with the log before it serves anybody.
    pub fn reunite(&mut self, now: Duration, member: usize) {
        if let Some(found) = self.members.get_mut(member).filter(|member| member.is_cut_off) {
            found.is_cut_off = false;
            self.close_where(|connection| connection.member == member);
            self.local_sessions.forget_of(member);
            self.catch_up(member);
            self.elect(now);
        }
    }

    /// Makes a follower lag: it applies nothing new until [`release`](Self::release) or
    /// [`step`](Self::step). It still serves reads, from the past, while writes through it wait
    /// for their answer. Has no effect on the leader, for as long as it leads.
    pub fn hold(&mut self, member: usize) {
        if let Some(member) = self.members.get_mut(member) {
            member.is_held = true;
        }
    }

    /// Lets a member that was held catch up.
    pub fn release(&mut self, now: Duration, member: usize) {
        if let Some(released) = self.members.get_mut(member) {
            released.is_held = false;
            self.catch_up(member);
            self.resume(now, member);
        }
    }

    /// Lets a member that is held apply one more transaction. Whether there was one.
    pub fn step(&mut self, now: Duration, member: usize) -> bool {
        let entry = self
            .members
            .get(member)
            .filter(|member| member.is_in_touch())
            .and_then(|member| self.log.get(member.applied));
        if let Some(entry) = &entry {
            self.apply(member, entry);
            self.resume(now, member);
        }
        entry.is_some()
    }

    /// Goes on with requests that waited for the member to catch up.
    fn resume(&mut self, now: Duration, member: usize) {
        for conn in self.conns_where(|connection| connection.member == member) {
            self.process(now, conn);
        }
    }

    /// Sees to it that there is a leader exactly if a majority is alive and in touch.
    pub(super) fn elect(&mut self, now: Duration) {
        let is_in_touch = |member: &usize| self.members[*member].is_in_touch();
        let alive: Vec<usize> = (0..self.members.len()).filter(is_in_touch).collect();
        if self.leader.is_some_and(|leader| alive.contains(&leader))
            && alive.len() * 2 > self.members.len()
        {
            return;
        }
        self.close_where(|connection| alive.contains(&connection.member));
        // Which one does not matter: what is in the log is known to all.
        self.leader = alive.last().copied().filter(|_| alive.len() * 2 > self.members.len());
        if self.leader.is_none() {
            return;
        }
        for member in alive {
            self.catch_up(member);
            // What a read-only member made up is not known to anybody else.
            self.local_sessions.forget_of(member);
        }
        self.sessions.touch_all(now);
        // A server that is alone knows no epochs.
        if self.members.len() > 1 {
            self.zxid = Zxid((i64::from(self.zxid.epoch()) + 1) << 32);
            self.append(now, None, Txn::NewEpoch);
        }
    }
}
