//! The sessions of the ensemble: owners, passwords and expiry (`SessionTrackerImpl.java`,
//! `ExpiryQueue.java`).

use alloc::collections::{BTreeMap, BTreeSet};
use core::time::Duration;

use zk_proto::{Password, SessionId};

use super::ConnId;

#[derive(Clone, Debug)]
struct Session {
    timeout: Duration,
    deadline: Duration,
    /// The connection that resumed it last, if still open.
    owner: Option<ConnId>,
}

/// All live sessions.
#[derive(Clone, Debug)]
pub(super) struct Sessions {
    table: BTreeMap<SessionId, Session>,
    deadlines: BTreeSet<(Duration, SessionId)>,
    /// The counter for session ids.
    created: i64,
    tick: Duration,
    seed: u64,
}

/// The state of a session when a request arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touched {
    /// It is alive, and its timeout starts again.
    Alive,
    /// Another connection has resumed it.
    Moved,
    /// It has expired or was closed.
    Gone,
}

impl Sessions {
    pub(super) fn new(tick: Duration, seed: u64) -> Self {
        let tick = tick.max(Duration::from_millis(1));
        Self { table: BTreeMap::new(), deadlines: BTreeSet::new(), created: 0, tick, seed }
    }

    /// Returns a table of local sessions. Their ids differ from those of other sessions.
    pub(super) fn local(tick: Duration, seed: u64) -> Self {
        Self { created: 1 << 48, ..Self::new(tick, seed) }
    }

    /// Returns this table, which follows another one. Ids are not used again: on a real server they
    /// begin with the time.
    pub(super) fn after(mut self, before: &Self) -> Self {
        self.created = self.created.max(before.created);
        self
    }

    /// Forgets the sessions of a server.
    pub(super) fn forget_of(&mut self, server: usize) {
        let is_of = |id: &SessionId| id.0 >> 56 == id_prefix(server);
        self.table.retain(|id, _| !is_of(id));
        self.deadlines.retain(|(_, id)| !is_of(id));
    }

    pub(super) fn contains(&self, id: SessionId) -> bool {
        self.table.contains_key(&id)
    }

    /// Creates a session. The top byte of its id is the server, as on a real server.
    pub(super) fn create(
        &mut self,
        now: Duration,
        server: usize,
        timeout: Duration,
        owner: ConnId,
    ) -> SessionId {
        self.created += 1;
        let id = SessionId(id_prefix(server) << 56 | self.created);
        let deadline = self.deadline(now, timeout);
        self.table.insert(id, Session { timeout, deadline, owner: Some(owner) });
        self.deadlines.insert((deadline, id));
        id
    }

    /// Returns the password of a session. It is a function of the id, and so equal on all servers.
    pub(super) fn password(&self, id: SessionId) -> Password {
        let first = scramble(self.seed ^ id.0 as u64);
        let mut password = [0; 16];
        let (head, tail) = password.split_at_mut(8);
        head.copy_from_slice(&first.to_be_bytes());
        tail.copy_from_slice(&scramble(first).to_be_bytes());
        Password(password)
    }

    /// Attaches a session to another connection. Returns whether it exists.
    pub(super) fn attach(
        &mut self,
        now: Duration,
        id: SessionId,
        timeout: Duration,
        owner: ConnId,
    ) -> bool {
        match self.table.get_mut(&id) {
            Some(session) => {
                session.timeout = timeout;
                session.owner = Some(owner);
                self.extend(now, id);
                true
            }
            None => false,
        }
    }

    /// Detaches a session from a connection that has ended.
    pub(super) fn detach(&mut self, id: SessionId, conn: ConnId) {
        if let Some(session) = self.table.get_mut(&id)
            && session.owner == Some(conn)
        {
            session.owner = None;
        }
    }

    /// Handles a request of a session: its timeout starts again.
    pub(super) fn touch(&mut self, now: Duration, id: SessionId, conn: ConnId) -> Touched {
        match self.table.get(&id) {
            Some(session) if session.owner == Some(conn) => {
                self.extend(now, id);
                Touched::Alive
            }
            Some(_) => Touched::Moved,
            None => Touched::Gone,
        }
    }

    /// Starts the timeout of all sessions again, since a new leader does not know when each session
    /// last sent something.
    pub(super) fn touch_all(&mut self, now: Duration) {
        let ids: Vec<_> = self.ids().collect();
        for id in ids {
            self.extend(now, id);
        }
    }

    /// Removes a session. Returns whether it existed.
    pub(super) fn remove(&mut self, id: SessionId) -> bool {
        match self.table.remove(&id) {
            Some(session) => self.deadlines.remove(&(session.deadline, id)),
            None => false,
        }
    }

    /// Returns when the next session expires.
    pub(super) fn next_deadline(&self) -> Option<Duration> {
        self.deadlines.first().map(|(deadline, _)| *deadline)
    }

    /// Returns a session that has expired by now.
    pub(super) fn overdue(&self, now: Duration) -> Option<SessionId> {
        self.deadlines.first().filter(|(deadline, _)| *deadline <= now).map(|(_, id)| *id)
    }

    pub(super) fn owner(&self, id: SessionId) -> Option<ConnId> {
        self.table.get(&id)?.owner
    }

    pub(super) fn timeout(&self, id: SessionId) -> Option<Duration> {
        self.table.get(&id).map(|session| session.timeout)
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> {
        self.table.keys().copied()
    }

    fn extend(&mut self, now: Duration, id: SessionId) {
        let Some(timeout) = self.timeout(id) else { return };
        let deadline = self.deadline(now, timeout);
        if let Some(session) = self.table.get_mut(&id)
            && session.deadline != deadline
        {
            self.deadlines.remove(&(session.deadline, id));
            self.deadlines.insert((deadline, id));
            session.deadline = deadline;
        }
    }

    /// Returns when a session expires: at a tick, so up to one tick late.
    fn deadline(&self, now: Duration, timeout: Duration) -> Duration {
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let tick = nanos(self.tick);
        Duration::from_nanos((nanos(now + timeout) / tick + 1).saturating_mul(tick))
    }
}

/// Returns the top byte of the ids of a server's sessions.
fn id_prefix(server: usize) -> i64 {
    (server as i64 + 1) & 0x7f
}

/// SplitMix64: every bit of the result depends on every bit of `x`.
fn scramble(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
