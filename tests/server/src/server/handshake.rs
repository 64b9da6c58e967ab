//! The first frame of a connection (`ZooKeeperServer.processConnectRequest`).

use core::time::Duration;

use bytes::Bytes;
use zk_proto::keeper::Dialect;
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, Password, Reader, SessionId, Xid,
};

use super::Ensemble;
use super::connection::ConnId;
use super::log::{Origin, Txn};
use super::outbox;

impl Ensemble {
    pub(super) fn handle_handshake(&mut self, now: Duration, conn: ConnId, frame: &[u8]) {
        let Some(server) = self.connections.get(&conn).map(|connection| connection.server) else {
            return;
        };
        let Some(request) = self.greet(conn, frame) else { return self.close(conn) };
        if (self.is_read_only(server) && request.read_only != Some(true))
            || request.last_zxid_seen > self.servers[server].zxid
        {
            return self.close(conn);
        }
        match request.session_id {
            SessionId::NONE => self.begin_session(now, conn, server, &request),
            _ if self.config.keeper.is_some() => self.begin_session(now, conn, server, &request),
            id => self.take_up_session(now, conn, server, id, &request),
        }
    }

    /// Decodes a handshake. A Keeper grants the dialect that it asks for, or closes the connection;
    /// a ZooKeeper ignores the version, and what follows the fields that it knows.
    fn greet<'f>(&mut self, conn: ConnId, frame: &'f [u8]) -> Option<ConnectRequest<'f>> {
        let Some(keeper) = self.config.keeper else {
            let request = ConnectRequest::decode(&mut Reader::new(frame)).ok()?;
            return Some(ConnectRequest { protocol_version: 0, ..request });
        };
        let (asked, request) = Dialect::handshake(frame).ok()?;
        let dialect = keeper.grants(asked, self.config.wide_xids)?;
        if dialect == Dialect::default() {
            return Some(ConnectRequest { protocol_version: 0, ..request });
        }
        self.outbox.speak(conn, dialect);
        self.connections.get_mut(&conn)?.inbox.speak(dialect);
        Some(request)
    }

    fn begin_session(
        &mut self,
        now: Duration,
        conn: ConnId,
        server: usize,
        request: &ConnectRequest<'_>,
    ) {
        let timeout = self.grant(request.timeout);
        if self.is_read_only(server) {
            // The error of the transaction that would create the session replaces the answer.
            // Requests of this session, which does not exist, are dropped.
            if self.config.version.is_read_only_locally() && !self.config.local_sessions {
                self.join(conn, SessionId::NONE);
                let refusal = self.servers[server].refusal(Xid(0), ErrorCode::NOT_READ_ONLY);
                return self.outbox.send(conn, SessionId::NONE, refusal);
            }
            let id = self.local_sessions.create(now, server, timeout, conn);
            self.join(conn, id);
            let answer = self.welcome(server, id, timeout, request);
            return self.outbox.send(conn, id, answer);
        }
        let id = self.sessions.create(now, server, timeout, conn);
        self.join(conn, id);
        let answer = self.welcome(server, id, timeout, request);
        let origin = Origin { conn, xid: Xid(0) };
        self.propose(now, Some(origin), Txn::CreateSession { answer });
    }

    fn take_up_session(
        &mut self,
        now: Duration,
        conn: ConnId,
        server: usize,
        id: SessionId,
        request: &ConnectRequest<'_>,
    ) {
        let is_of_ensemble = self.sessions.contains(id);
        if self.is_read_only(server) && is_of_ensemble && self.config.version.is_read_only_locally()
        {
            return self.close(conn);
        }
        let timeout = self.grant(request.timeout);
        let sessions = match is_of_ensemble {
            true => &mut self.sessions,
            false => &mut self.local_sessions,
        };
        let password = sessions.password(id);
        // The old connection is closed first, even if the password is wrong. A connection to
        // another server stays open until it is used.
        let same_server = |owner: &ConnId| {
            self.connections.get(owner).is_some_and(|owner| owner.server == server)
        };
        let owner = sessions.owner(id);
        let is_known = is_of_ensemble || owner.is_none_or(|owner| same_server(&owner));
        let is_attached = request.password == Some(&password.0)
            && is_known
            && sessions.attach(now, id, timeout, conn);
        if let Some(owner) = owner.filter(same_server) {
            self.close(owner);
        }
        if is_attached {
            self.join(conn, id);
            let answer = self.welcome(server, id, timeout, request);
            self.outbox.send(conn, id, answer);
        } else {
            let expired = ConnectResponse {
                protocol_version: 0,
                timeout: 0,
                session_id: SessionId::NONE,
                password: Some(&Password::NONE.0),
                read_only: request.read_only.map(|_| false),
            };
            self.outbox.send(conn, SessionId::NONE, outbox::frame(&expired));
            self.close(conn);
        }
    }

    fn join(&mut self, conn: ConnId, session: SessionId) {
        if let Some(connection) = self.connections.get_mut(&conn) {
            connection.session = Some(session);
        }
    }

    /// Returns the session timeout that is granted for a requested one.
    fn grant(&self, milliseconds: i32) -> Duration {
        let wanted = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
        wanted.max(self.config.min_session_timeout).min(self.config.max_session_timeout)
    }

    fn welcome(
        &self,
        server: usize,
        id: SessionId,
        timeout: Duration,
        request: &ConnectRequest<'_>,
    ) -> Bytes {
        outbox::frame(&ConnectResponse {
            protocol_version: request.protocol_version,
            timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: id,
            password: Some(&self.sessions.password(id).0),
            // Only for clients that know this field.
            read_only: request.read_only.map(|_| self.is_read_only(server)),
        })
    }
}
