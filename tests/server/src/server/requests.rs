//! Requests: the frames after the handshake.

use core::time::Duration;

use bytes::Bytes;
use zk_proto::{
    Decode, ErrorCode, List, Multi, MultiOp, MultiRequest, MultiResult, OpCode, Reader,
    ReconfigRequest, ReplyHeader, Request, RequestHeader, SessionId, SetWatches, SetWatches2,
    SyncResponse, Xid, Zxid,
};

use super::Ensemble;
use super::auth::Identity;
use super::connection::{ConnId, Sync};
use super::keeper::Keeper;
use super::log::{Origin, Txn};
use super::outbox;
use super::prepare::{Draft, Writer};
use super::reads;
use super::replica::Replica;
use super::sessions::Touched;

impl Ensemble {
    /// Handles the received requests of a connection, until one has to wait.
    pub(super) fn process(&mut self, now: Duration, conn: ConnId) {
        while let Some(connection) = self.connections.get_mut(&conn) {
            let server = &self.servers[connection.server];
            if server.applied < connection.resume_at {
                return;
            }
            if let Some(Sync { xid, path }) = connection.sync.take() {
                let reply = server.reply(xid, &SyncResponse { path: &path });
                self.outbox.send(conn, connection.session(), reply);
            }
            if connection.session.is_none() && self.answer_word(conn) {
                return;
            }
            let Some(server) = self.connections.get(&conn).map(|connection| connection.server)
            else {
                return;
            };
            let is_serving = self.is_serving(server);
            let Some(connection) = self.connections.get_mut(&conn) else { return };
            let limit = self.config.frame_limit;
            let frame = match connection.session {
                Some(_) => connection.inbox.request(limit),
                None => connection.inbox.handshake(limit, self.config.keeper.is_some()),
            };
            match frame {
                Ok(None) => return,
                Ok(Some(frame)) if is_serving => match connection.session {
                    Some(session) => self.handle_request(now, conn, session, &frame),
                    None => self.handle_handshake(now, conn, &frame),
                },
                Ok(Some(_)) | Err(_) => self.close(conn),
            }
        }
    }

    fn handle_request(&mut self, now: Duration, conn: ConnId, session: SessionId, frame: &[u8]) {
        let mut reader = Reader::new(frame);
        let Ok(RequestHeader { xid, opcode }) = RequestHeader::decode(&mut reader) else {
            return self.close(conn);
        };
        let (origin, body) = (Origin { conn, xid }, reader.rest());
        if self.config.keeper.is_some_and(|keeper| !keeper.serves_request(opcode, body)) {
            self.outbox.count_request(session, opcode);
            return self.close(conn);
        }
        // These authenticate the connection, and do not keep the session alive.
        if matches!(opcode, OpCode::AUTH | OpCode::SASL) {
            self.outbox.count_request(session, opcode);
            return self.authenticate(origin, session, opcode, body);
        }
        match self.table_of(session).touch(now, session, conn) {
            Touched::Alive => {}
            Touched::Moved => return self.close(conn),
            // The connection is closed once its server applies the end of the session.
            Touched::Gone => return,
        }
        self.outbox.count_request(session, opcode);
        if self.config.closes_at.contains(&opcode) {
            return self.close(conn);
        }
        let version = self.config.version;
        if !version.serves(opcode) || (opcode == OpCode::CHECK && !version.checks_outside_multi()) {
            let header = ReplyHeader { xid, zxid: Zxid(-1), err: ErrorCode::UNIMPLEMENTED };
            self.outbox.send(conn, session, outbox::frame(&header));
            return self.close(conn);
        }
        if self.refuse_to_write(origin, session, opcode) {
            return;
        }
        if opcode == OpCode::DELETE_CONTAINER && !version.deletes_containers() {
            return self.propose(now, Some(origin), Txn::Refused(ErrorCode::BAD_ARGUMENTS));
        }
        if opcode == OpCode::MULTI_READ
            && self.config.keeper.is_some()
            && let Some(reads) = Keeper::reads(body)
        {
            let answer = |replica: &mut Replica, reader: reads::Reader<'_>| {
                replica.answer_reads(reader, xid, &reads)
            };
            return self.read(conn, session, answer);
        }
        match Request::decode(opcode, body) {
            Ok(request) => self.execute(now, origin, session, &request),
            Err(_) if version.orders_undecodable(opcode) => {
                self.propose(now, Some(origin), Txn::Refused(ErrorCode::MARSHALLING_ERROR));
            }
            // A server refuses a write in a multiRead only after it has begun the reply.
            Err(_)
                if opcode == OpCode::MULTI_READ
                    && MultiRequest::decode_all(body)
                        .is_ok_and(|ops| ops.iter().next().is_some()) =>
            {
                let zxid = self.applied_for(conn);
                let header = ReplyHeader { xid, zxid, err: ErrorCode::MARSHALLING_ERROR };
                let nothing = Multi::<MultiResult<'_>>::new(&[]);
                self.outbox.send(conn, session, outbox::frame(&(header, nothing)));
            }
            Err(_) => self.reply(origin, session, ErrorCode::MARSHALLING_ERROR),
        }
    }

    fn execute(
        &mut self,
        now: Duration,
        origin: Origin,
        session: SessionId,
        request: &Request<'_>,
    ) {
        let Origin { conn, xid } = origin;
        if let Some(txn) = self.prepare(conn, session, request) {
            // A check that succeeds is not answered; a failed one is.
            let is_silent = matches!((request, &txn), (Request::Check(_), Txn::Write(_)));
            return self.propose(now, (!is_silent).then_some(origin), txn);
        }
        match *request {
            Request::CloseSession(()) => {
                self.sessions.remove(session);
                // A Keeper ends the connection without a reply.
                let asked = self.config.keeper.is_none().then_some(origin);
                self.end_session(now, asked, session);
            }
            Request::Ping(()) => {
                self.reply(Origin { conn, xid: Xid::PING }, session, ErrorCode::OK);
            }
            Request::Sync(request) => {
                if let Some(connection) = self.connections.get_mut(&conn) {
                    connection.sync = Some(Sync { xid, path: request.path.to_string() });
                    connection.resume_at = self.log.len();
                }
            }
            Request::SetWatches(SetWatches {
                relative_zxid,
                data_watches,
                exist_watches,
                child_watches,
            }) => {
                let request = SetWatches2 {
                    relative_zxid,
                    data_watches,
                    exist_watches,
                    child_watches,
                    persistent_watches: List::default(),
                    persistent_recursive_watches: List::default(),
                };
                self.set_watches(origin, session, &request);
            }
            Request::SetWatches2(request) => self.set_watches(origin, session, &request),
            _ => self.read(conn, session, |replica, reader| replica.answer(reader, xid, request)),
        }
    }

    /// Sends what the server of a connection answers by itself.
    fn read(
        &mut self,
        conn: ConnId,
        session: SessionId,
        answer: impl FnOnce(&mut Replica, reads::Reader<'_>) -> Bytes,
    ) {
        if let Some(connection) = self.connections.get(&conn) {
            let identities = &connection.identities;
            let reader = reads::Reader { conn, session, identities };
            let reply = answer(&mut self.servers[connection.server], reader);
            self.outbox.send(conn, session, reply);
        }
    }

    /// Returns the transaction of a request, if it has one.
    fn prepare(&self, conn: ConnId, session: SessionId, request: &Request<'_>) -> Option<Txn> {
        let identities = self.connections.get(&conn)?.identities.as_slice();
        let mut draft = Draft::new(self.tree(), self.writer(session, identities));
        let change = match *request {
            Request::Multi(ops) => return Some(draft.prepare_all(&ops)),
            Request::Reconfig(request) => return Some(Txn::Refused(self.reconfigure(&request))),
            Request::SetAcl(request) => draft.set_acl(&request),
            Request::DeleteContainer(request) => draft.delete_container(request.path),
            _ => draft.prepare(single_write(request)?),
        };
        Some(change.map_or_else(Txn::Refused, Txn::Write))
    }

    /// Returns a client that writes by the rules of this ensemble.
    pub(super) fn writer<'a>(&self, session: SessionId, identities: &'a [Identity]) -> Writer<'a> {
        let (version, has_extended_types) = (self.config.version, self.config.extended_types);
        Writer { session, identities, version, has_extended_types }
    }

    /// Returns why `reconfig` is refused. The in-memory ensemble has fixed members, as if the new
    /// ones could not be reached.
    fn reconfigure(&self, request: &ReconfigRequest<'_>) -> ErrorCode {
        const FIRST_CONFIG: i64 = 0;
        match request.cur_config_id {
            _ if !self.config.reconfig => ErrorCode::RECONFIG_DISABLED,
            _ if self.servers.len() == 1 => ErrorCode::UNIMPLEMENTED,
            -1 | FIRST_CONFIG => ErrorCode::NEW_CONFIG_NO_QUORUM,
            _ => ErrorCode::BAD_VERSION,
        }
    }

    fn set_watches(&mut self, origin: Origin, session: SessionId, request: &SetWatches2<'_>) {
        let Some(connection) = self.connections.get(&origin.conn) else { return };
        let (missed, err) = self.servers[connection.server].set_watches(origin.conn, request);
        for notification in missed {
            self.outbox.notify(origin.conn, session, notification);
        }
        self.reply(origin, session, err);
    }

    /// Sends a reply that has only a header.
    pub(super) fn reply(&mut self, to: Origin, session: SessionId, err: ErrorCode) {
        let header = ReplyHeader { xid: to.xid, zxid: self.applied_for(to.conn), err };
        self.outbox.send(to.conn, session, outbox::frame(&header));
    }

    /// Returns the last transaction that the server of a connection has applied.
    fn applied_for(&self, conn: ConnId) -> Zxid {
        let server = self.connections.get(&conn).map(|connection| connection.server);
        server.map_or(Zxid::ZERO, |server| self.servers[server].zxid)
    }
}

/// Returns the form of a single write inside a multi.
fn single_write<'a>(request: &Request<'a>) -> Option<MultiOp<'a>> {
    match *request {
        Request::Create(request) => Some(MultiOp::Create(request)),
        Request::Create2(request) => Some(MultiOp::Create2(request)),
        Request::CreateContainer(request) => Some(MultiOp::CreateContainer(request)),
        Request::CreateTtl(request) => Some(MultiOp::CreateTtl(request)),
        Request::Delete(request) => Some(MultiOp::Delete(request)),
        Request::SetData(request) => Some(MultiOp::SetData(request)),
        Request::Check(request) => Some(MultiOp::Check(request)),
        _ => None,
    }
}
