//! What a server does that is alive without a majority (`ReadOnlyZooKeeperServer.java`).

use core::time::Duration;

use zk_proto::{ErrorCode, OpCode, SessionId};

use super::Ensemble;
use super::log::Origin;
use super::sessions::Sessions;

impl Ensemble {
    /// Whether a server, if it is alive, serves reads only.
    pub fn is_read_only(&self, server: usize) -> bool {
        !self.is_led(server) && self.config.read_only_mode
    }

    /// Whether a server, if it is alive, serves anything.
    pub(super) fn is_serving(&self, server: usize) -> bool {
        self.is_led(server) || self.config.read_only_mode
    }

    /// Whether there is a leader, and a server is in touch with it.
    pub(super) fn is_led(&self, server: usize) -> bool {
        self.leader.is_some() && !self.servers[server].is_cut_off
    }

    /// The table that a session is in, if it is in any.
    pub(super) fn table_of(&mut self, session: SessionId) -> &mut Sessions {
        match self.sessions.contains(session) {
            true => &mut self.sessions,
            false => &mut self.local_sessions,
        }
    }

    /// Answers what a read-only server does not do as the others do. Whether it was such a request.
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

    /// Ends the local sessions whose time is up.
    pub(super) fn expire_local_sessions(&mut self, now: Duration) {
        while let Some(id) = self.local_sessions.overdue(now) {
            self.local_sessions.remove(id);
            self.close_where(|connection| connection.session == Some(id));
        }
    }
}

/// Whether a request gets a transaction even if it cannot be decoded.
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
