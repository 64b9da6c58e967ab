//! What becomes of a frame: the handshake, then requests.

use core::time::Duration;

use bytes::Bytes;
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, List, MultiOp, OpCode, Password, Reader,
    ReplyHeader, Request, RequestHeader, SessionId, SetWatches, SyncResponse, Xid, Zxid, frame,
};

use super::Ensemble;
use super::connection::{ConnId, Sync};
use super::log::{Origin, Txn};
use super::outbox;
use super::prepare::Draft;
use super::sessions::Touched;

impl Ensemble {
    /// Handles what has arrived on a connection, as far as it may be handled yet.
    pub(super) fn process(&mut self, now: Duration, conn: ConnId) {
        while let Some(connection) = self.connections.get_mut(&conn) {
            let member = &self.members[connection.member];
            if member.applied < connection.resume_at {
                return;
            }
            if let Some(Sync { xid, path }) = connection.sync.take() {
                let reply = member.reply(xid, &SyncResponse { path: &path });
                self.outbox.send(conn, connection.session(), reply);
            }
            match frame::split_bytes(&mut connection.inbox, self.config.frame_limit) {
                Ok(None) => return,
                Ok(Some(frame)) if self.leader.is_some() => match connection.session {
                    Some(session) => self.handle_request(now, conn, session, &frame),
                    None => self.handle_handshake(now, conn, &frame),
                },
                Ok(Some(_)) | Err(_) => self.close(conn),
            }
        }
    }

    /// The first frame of a connection (`ZooKeeperServer.processConnectRequest`).
    fn handle_handshake(&mut self, now: Duration, conn: ConnId, frame: &[u8]) {
        let Some(member) = self.connections.get(&conn).map(|connection| connection.member) else {
            return;
        };
        let Ok(request) = ConnectRequest::decode_all(frame) else { return self.close(conn) };
        if request.last_zxid_seen > self.members[member].zxid {
            return self.close(conn);
        }
        let timeout = self.grant(request.timeout);
        if request.session_id == SessionId::NONE {
            let id = self.sessions.create(now, member, timeout, conn);
            self.join(conn, id);
            let answer = self.welcome(id, timeout, request.read_only);
            let origin = Origin { conn, xid: Xid(0) };
            return self.propose(now, Some(origin), Txn::CreateSession { answer });
        }
        let id = request.session_id;
        // The old connection goes first, even if the password turns out to be wrong. One to
        // another member lives on until it is used.
        if let Some(owner) = self.sessions.owner(id)
            && self.connections.get(&owner).is_some_and(|owner| owner.member == member)
        {
            self.close(owner);
        }
        if request.password == Some(&self.sessions.password(id).0)
            && self.sessions.attach(now, id, timeout, conn)
        {
            self.join(conn, id);
            let answer = self.welcome(id, timeout, request.read_only);
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

    /// The session timeout that is granted to whoever asks for this one.
    fn grant(&self, milliseconds: i32) -> Duration {
        let wanted = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
        wanted.max(self.config.min_session_timeout).min(self.config.max_session_timeout)
    }

    fn welcome(&self, id: SessionId, timeout: Duration, read_only: Option<bool>) -> Bytes {
        outbox::frame(&ConnectResponse {
            protocol_version: 0,
            timeout: i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX),
            session_id: id,
            password: Some(&self.sessions.password(id).0),
            // Told only to clients that know of it.
            read_only: read_only.map(|_| false),
        })
    }

    fn handle_request(&mut self, now: Duration, conn: ConnId, session: SessionId, frame: &[u8]) {
        let mut reader = Reader::new(frame);
        let Ok(RequestHeader { xid, opcode }) = RequestHeader::decode(&mut reader) else {
            return self.close(conn);
        };
        match self.sessions.touch(now, session, conn) {
            Touched::Alive => {}
            Touched::Moved => return self.close(conn),
            // The connection is closed once its member hears that the session has ended.
            Touched::Gone => return,
        }
        self.outbox.count_request(session, opcode);
        let origin = Origin { conn, xid };
        if !is_served(opcode) {
            let header = ReplyHeader { xid, zxid: Zxid(-1), err: ErrorCode::UNIMPLEMENTED };
            self.outbox.send(conn, session, outbox::frame(&header));
            return self.close(conn);
        }
        match Request::decode(opcode, reader.rest()) {
            Ok(request) => self.execute(now, origin, session, &request),
            Err(_) if is_write(opcode) => {
                self.propose(now, Some(origin), Txn::Refused(ErrorCode::MARSHALLING_ERROR));
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
        if let Some(op) = single_write(request) {
            let txn = match Draft::new(self.tree(), session).prepare(op) {
                Ok(change) => Txn::Write(change),
                Err(err) => Txn::Refused(err),
            };
            return self.propose(now, Some(origin), txn);
        }
        match *request {
            Request::Multi(ops) => {
                let txn = match Draft::new(self.tree(), session).prepare_all(&ops) {
                    Ok(changes) => Txn::Multi(changes),
                    Err(errs) => Txn::RefusedMulti(errs),
                };
                self.propose(now, Some(origin), txn);
            }
            Request::CloseSession(()) => {
                self.sessions.remove(session);
                self.propose(now, Some(origin), Txn::CloseSession(session));
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
            Request::SetWatches(request) => self.set_watches(origin, session, &request),
            // There are no persistent watches yet, so that their lists mean nothing.
            Request::SetWatches2(request) => {
                let one_shot = SetWatches {
                    relative_zxid: request.relative_zxid,
                    data_watches: request.data_watches,
                    exist_watches: request.exist_watches,
                    child_watches: request.child_watches,
                };
                self.set_watches(origin, session, &one_shot);
            }
            _ => {
                if let Some(connection) = self.connections.get(&conn) {
                    let reply = self.members[connection.member].answer(conn, xid, request);
                    self.outbox.send(conn, session, reply);
                }
            }
        }
    }

    fn set_watches(&mut self, origin: Origin, session: SessionId, request: &SetWatches<'_>) {
        // A real server trips over a null list.
        let lists = [request.data_watches, request.exist_watches, request.child_watches];
        if lists.iter().any(List::is_null) {
            return self.reply(origin, session, ErrorCode::MARSHALLING_ERROR);
        }
        if let Some(connection) = self.connections.get(&origin.conn) {
            let member = &mut self.members[connection.member];
            for notification in member.set_watches(origin.conn, request) {
                self.outbox.notify(origin.conn, session, notification);
            }
        }
        self.reply(origin, session, ErrorCode::OK);
    }

    /// Answers with a header alone.
    fn reply(&mut self, to: Origin, session: SessionId, err: ErrorCode) {
        if let Some(connection) = self.connections.get(&to.conn) {
            let reply = self.members[connection.member].refusal(to.xid, err);
            self.outbox.send(to.conn, session, reply);
        }
    }
}

/// A write that is not a multi, in the form that it has inside one.
fn single_write<'a>(request: &Request<'a>) -> Option<MultiOp<'a>> {
    match *request {
        Request::Create(request) => Some(MultiOp::Create(request)),
        Request::Create2(request) => Some(MultiOp::Create2(request)),
        Request::CreateContainer(request) => Some(MultiOp::CreateContainer(request)),
        Request::Delete(request) => Some(MultiOp::Delete(request)),
        Request::SetData(request) => Some(MultiOp::SetData(request)),
        _ => None,
    }
}

/// Whether a request gets a transaction even if it cannot be decoded.
fn is_write(opcode: OpCode) -> bool {
    matches!(
        opcode,
        OpCode::CREATE
            | OpCode::CREATE2
            | OpCode::CREATE_CONTAINER
            | OpCode::DELETE
            | OpCode::SET_DATA
            | OpCode::MULTI
    )
}

/// Whether this server knows the operation.
fn is_served(opcode: OpCode) -> bool {
    is_write(opcode)
        || matches!(
            opcode,
            OpCode::EXISTS
                | OpCode::GET_DATA
                | OpCode::GET_CHILDREN
                | OpCode::SYNC
                | OpCode::PING
                | OpCode::GET_CHILDREN2
                | OpCode::REMOVE_WATCHES
                | OpCode::SET_WATCHES
                | OpCode::SET_WATCHES2
                | OpCode::CLOSE_SESSION
        )
}
