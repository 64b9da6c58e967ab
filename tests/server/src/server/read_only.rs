//! The behaviour of a server without a quorum (`ReadOnlyZooKeeperServer.java`).

use core::time::Duration;

use zk_proto::{ErrorCode, OpCode, SessionId};

use super::Ensemble;
use super::log::Origin;
use super::sessions::Sessions;

impl Ensemble {
    /// Returns whether a live server would serve reads only.
    pub fn is_read_only(&self, server: usize) -> bool {
        !self.is_led(server) && self.config.read_only_mode
    }

    /// Returns whether a live server would serve anything.
    pub(super) fn is_serving(&self, server: usize) -> bool {
        self.is_led(server) || self.config.read_only_mode
    }

    /// Returns whether there is a leader that a server can reach.
    pub(super) fn is_led(&self, server: usize) -> bool {
        self.leader.is_some() && !self.servers[server].is_cut_off
    }

    /// Returns the table of a session: the local one if it has the session.
    pub(super) fn table_of(&mut self, session: SessionId) -> &mut Sessions {
        match self.sessions.contains(session) {
            true => &mut self.sessions,
            false => &mut self.local_sessions,
        }
    }

    /// Refuses the requests that a read-only server does not serve. Returns whether this was one.
    pub(super) fn refuse_to_write(
        &mut self,
        origin: Origin,
        session: SessionId,
        opcode: OpCode,
    ) -> bool {
        let connection = self.connections.get(&origin.conn);
        if !connection.is_some_and(|connection| self.is_read_only(connection.server)) {
            return false;
        }
        if opcode == OpCode::CLOSE_SESSION && self.local_sessions.remove(session) {
            self.reply(origin, session, ErrorCode::OK);
            self.close(origin.conn);
            return true;
        }
        let is_refused = is_write(opcode)
            || matches!(
                opcode,
                OpCode::SYNC | OpCode::RECONFIG | OpCode::DELETE_CONTAINER | OpCode::CLOSE_SESSION
            );
        if is_refused {
            self.reply(origin, session, ErrorCode::NOT_READ_ONLY);
        }
        is_refused
    }

    /// Expires local sessions.
    pub(super) fn expire_local_sessions(&mut self, now: Duration) {
        while let Some(id) = self.local_sessions.overdue(now) {
            self.local_sessions.remove(id);
            self.close_where(|connection| connection.session == Some(id));
        }
    }
}

/// Returns whether a request changes nodes, or checks them as the changes do.
pub(super) fn is_write(opcode: OpCode) -> bool {
    matches!(
        opcode,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::SET_ACL
            | OpCode::CHECK
            | OpCode::MULTI
    )
}
