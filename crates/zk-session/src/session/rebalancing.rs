//! Changes to the list of servers during a session.

use super::*;

/// # Commands about servers
impl<T> Session<T> {
    /// Replaces the list of servers by one of `count` servers. For each old server, in their order,
    /// `kept` holds its index in the new list, or `None` if it is gone.
    ///
    /// The session keeps its connection or moves to another server, at random. If all clients of an
    /// ensemble do this, they spread evenly over its servers. If its server is gone, the session
    /// always moves. A session that is being closed moves only then, and the close may be lost.
    ///
    /// Servers have their new indices from now on. Actions and events that were polled before have
    /// the old ones, and so does the [`Event::Disconnected`] of a connection that this call closes.
    ///
    /// ```
    /// use zk_session::session::{Config, Session};
    /// use zk_session::time::Instant;
    ///
    /// let mut session: Session<()> = Session::new(Instant::START, Config::new(2, 42));
    /// // Server 0 keeps its index, server 1 is gone, and two servers are new.
    /// session.update_servers(Instant::START, &[Some(0), None], 3);
    /// ```
    pub fn update_servers(&mut self, now: Instant, kept: &[Option<usize>], count: usize) {
        self.replace_servers(now, kept, count, true);
    }

    /// Replaces the list of servers. Moves to another one only if `moves`, or if its own is gone.
    pub(crate) fn replace_servers(
        &mut self,
        now: Instant,
        kept: &[Option<usize>],
        count: usize,
        moves: bool,
    ) {
        self.recorder.update_servers(now, kept, count, moves);
        if self.ended.is_some() && !self.is_expired() {
            return;
        }
        let old = kept.iter().take(self.servers.names());
        let kept: Vec<_> = old.map(|new| new.filter(|new| *new < count)).collect();
        let renumbered = |server: usize| kept.get(server).copied().flatten();
        (self.history, self.refusals) = (History::default(), Refusals::default());
        let leaves = self.servers.update(&kept, count, self.server());
        // Actions that were not polled need the new indices.
        self.actions.retain_mut(|action| match action {
            Action::Connect(server) | Action::Probe(server) => match renumbered(*server) {
                Some(new) => {
                    *server = new;
                    true
                }
                None => false,
            },
            Action::Disconnect => true,
        });
        // A move only spreads the load, and would lose the close.
        let stays =
            (self.closing || !moves) && self.server().is_some_and(|it| renumbered(it).is_some());
        if leaves && !stays {
            return self.disconnect(now, Cause::Rebalanced);
        }
        let before = self.state();
        if let Some(connection) = &mut self.connection {
            connection.server = renumbered(connection.server).unwrap_or(connection.server);
        }
        if self.state() != before {
            self.events.push_back(Event::State(self.state()));
        }
        if self.is_searching() {
            // Until now there may have been no server to probe, and the new ones may be read-write.
            self.begin_probing(now);
        }
        if self.connection.is_none() && self.ended.is_none() {
            // Until now there may have been no server to try.
            let delay = self.servers.delay_after_loss(self.retry_limit(now));
            self.timers.set_earlier(SessionTimer::Retry, now.after(delay));
        }
    }

    /// Reports how many addresses each server has, in their order. At first, and after
    /// [`update_servers`](Self::update_servers), each has one.
    ///
    /// A round of attempts then has one for each address, and their time limits are as short as
    /// with as many servers. Each [`Action::Connect`] of a server is for another of its addresses,
    /// which the driver chooses. Does nothing for counts that have not changed.
    ///
    /// ```
    /// use zk_session::session::{Action, Config, Session};
    /// use zk_session::time::Instant;
    ///
    /// let now = Instant::START;
    /// let mut session: Session<()> = Session::new(now, Config::new(1, 42));
    /// session.set_addresses(&[2]);
    /// assert_eq!(session.poll_action(), Some(Action::Connect(0)));
    /// // The first address fails. The second one is tried without a pause.
    /// session.handle_disconnected(now);
    /// session.handle_timeout(now);
    /// assert_eq!(session.poll_action(), Some(Action::Connect(0)));
    /// ```
    pub fn set_addresses(&mut self, counts: &[usize]) {
        self.recorder.addresses(counts);
        for (server, count) in counts.iter().enumerate() {
            self.servers.set_addresses(server, *count);
        }
    }
}
