//! Frames from the server.

use core::ops::Deref;

use zk_proto::frame::Piece;

use super::inbox::Frames;
use super::*;
use crate::time::later;

/// # Inputs: frames
impl<T> Session<T> {
    /// Handles what has arrived: whole frames, and the pieces of frames above the limit.
    pub(crate) fn handle_bytes(
        &mut self,
        now: Instant,
        frames: &mut Frames,
        bytes: &mut (impl Buf + Deref<Target = [u8]>),
    ) {
        self.handle_received(now, bytes.len() - frames.reported);
        loop {
            match frames.splitter.split(bytes) {
                Ok(Some(Piece::Frame(payload))) => self.handle_frame(now, payload),
                Ok(Some(Piece::TooLong { start, length })) => {
                    self.handle_oversized(now, &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => self.handle_rest(now, bytes),
                Ok(None) => break,
                Err(error) => return self.handle_bad_frame(now, error),
            }
        }
        frames.reported = bytes.len();
    }

    /// Handles a frame from the server. `payload` is the frame without its length prefix.
    ///
    /// Invalid bytes cost the connection, and the [`Event::Disconnected`] names the cause.
    pub fn handle_frame(&mut self, now: Instant, payload: Bytes) {
        self.recorder.received(now, &payload);
        let Some(connection) = &self.connection else { return };
        let result = match connection.stage {
            Stage::Handshaking => self.finish_handshake(now, &payload),
            Stage::Authenticating if self.config.authenticates() => {
                self.handle_exchange(now, payload)
            }
            Stage::Connecting | Stage::Authenticating => Ok(()),
            Stage::Connected => self.handle_message(now, payload),
        };
        if let Err(cause) = result {
            self.disconnect(now, cause);
        }
    }

    /// Handles the start of a frame that is longer than [`Config::max_reply`].
    ///
    /// `start` is the first 16 bytes of the frame, which is the header of a reply. `length` is the
    /// length of the frame, in bytes. Report the rest of the frame to
    /// [`handle_rest`](Self::handle_rest) as it arrives, as [`frame::Splitter`] returns it. Its
    /// bytes extend the read timeout only if [reported](Self::handle_received), like those of any
    /// frame.
    ///
    /// Unless the request was submitted for a [reply in pieces](Self::submit_in_pieces), it fails
    /// at the end of the frame, with [`Error::ReplyTooLarge`], or with the server's error code if
    /// the header has one. The session removes a watch that the request has set. Watch events, and
    /// replies to the session's own requests, are never this long: they cost the connection.
    pub fn handle_oversized(&mut self, now: Instant, start: &[u8], length: usize) {
        self.recorder.oversized(now, start, length);
        let Some(connection) = &self.connection else { return };
        let result = match connection.stage {
            Stage::Connecting => Ok(()),
            Stage::Handshaking | Stage::Authenticating => Err(self.too_long(length)),
            Stage::Connected => self.handle_skipped(now, start, length),
        };
        if let Err(cause) = result {
            self.disconnect(now, cause);
        }
    }

    fn handle_skipped(&mut self, now: Instant, start: &[u8], length: usize) -> Result<(), Cause> {
        let header = ReplyHeader::decode(&mut Reader::new(start)).map_err(Cause::Malformed)?;
        if let Xid::NOTIFICATION | Xid::PING | Xid::SET_WATCHES | Xid::AUTH = header.xid {
            return Err(self.too_long(length));
        }
        if let Some(connection) = &mut self.connection {
            let oldest = connection.in_flight.oldest();
            let is_oldest = oldest.is_some_and(|oldest| oldest.xid == header.xid);
            if !is_oldest && !may_overtake(&header) {
                return Err(unexpected(oldest, header.xid));
            }
            // A frame whose length is wrong never ends, so until the end its header changes nothing.
            let left = length.saturating_sub(start.len());
            connection.receiving = Some(Receiving { header, length, left });
        }
        self.extend_read_timeout(now, header);
        if length <= start.len() {
            self.handle_more(now, Bytes::new());
        }
        Ok(())
    }

    /// Handles the next bytes of a frame that is longer than [`Config::max_reply`], behind its
    /// [start](Self::handle_oversized).
    ///
    /// Until the last of them, the frame changes nothing. The request stays in flight, so it fails
    /// like any other if the connection is lost before.
    pub fn handle_rest(&mut self, now: Instant, body: Bytes) {
        self.recorder.rest(now, &body);
        self.handle_more(now, body);
    }

    fn handle_more(&mut self, now: Instant, body: Bytes) {
        let Some(connection) = &mut self.connection else { return };
        let Some(receiving) = &mut connection.receiving else { return };
        receiving.left = receiving.left.saturating_sub(body.len());
        let Receiving { header, length, left } = *receiving;
        let oldest = connection.in_flight.oldest().filter(|_| header.err == ErrorCode::OK);
        if left > 0 {
            if let Some(oldest) = oldest
                && let Some(token) = oldest.token_again()
            {
                let reply =
                    Reply { opcode: oldest.opcode, zxid: header.zxid, body, has_more: true };
                self.events.push_back(Event::Reply { token, result: Ok(reply) });
            }
            return;
        }
        connection.receiving = None;
        let in_pieces = !body.is_empty() && oldest.is_some_and(|oldest| oldest.again.is_some());
        if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            return self.demand_authentication(now, header);
        }
        let body = if in_pieces { Ok(body) } else { Err(length) };
        if let Err(cause) = self.handle_reply(now, header, body) {
            self.disconnect(now, cause);
        }
    }

    fn too_long(&self, length: usize) -> Cause {
        Cause::Frame(frame::FrameError::TooLong { length, limit: self.config.max_reply })
    }

    /// Extends the read timeout after a frame. While the session closes, only replies to requests
    /// count: otherwise a server that sends everything else could keep the session from ending.
    fn extend_read_timeout(&mut self, now: Instant, header: ReplyHeader) {
        let read_by = now.after(self.timeouts.read);
        if let Some(connection) = &mut self.connection
            && (!self.closing || header.xid > Xid(0))
        {
            connection.timers.set(ConnectionTimer::Read, read_by);
        }
    }

    fn handle_message(&mut self, now: Instant, mut payload: Bytes) -> Result<(), Cause> {
        let mut reader = Reader::new(&payload);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Malformed)?;
        self.extend_read_timeout(now, header);
        if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            self.demand_authentication(now, header);
            return Ok(());
        }
        match header.xid {
            Xid::NOTIFICATION => {
                let event = WatcherEvent::decode(&mut reader).map_err(Cause::Malformed)?;
                self.fire(header.zxid, event);
                Ok(())
            }
            Xid::PING => {
                self.handle_ping(now, header.err);
                Ok(())
            }
            Xid::SET_WATCHES => self.handle_set_watches(now, header.err),
            Xid::AUTH => {
                self.handle_auth(now, header);
                Ok(())
            }
            _ => {
                payload.advance(reader.position());
                self.handle_reply(now, header, Ok(payload))
            }
        }
    }

    fn handle_ping(&mut self, now: Instant, answer: ErrorCode) {
        if let Some(connection) = &mut self.connection
            && let Some(ping) = connection.in_flight.take_ping()
        {
            if connection.timers.get(ConnectionTimer::Ping).is_none() {
                // The session sent no ping while too many were unanswered.
                connection.timers.set(ConnectionTimer::Ping, now);
            }
            self.renew_lease(ping.sent_at, answer);
            self.note_service(now);
        }
    }

    fn handle_set_watches(&mut self, now: Instant, answer: ErrorCode) -> Result<(), Cause> {
        if answer == ErrorCode::OK {
            if let Some(connection) = &mut self.connection {
                connection.unanswered_batches = connection.unanswered_batches.saturating_sub(1);
            }
            self.note_service(now);
            return Ok(());
        }
        // A server older than persistent watches would refuse them on each connection.
        if PERSISTENT_WATCHES && answer == ErrorCode::UNIMPLEMENTED {
            let requests = self.watches.drop_persistent();
            if !requests.is_empty() {
                self.events.push_back(Event::WatchLost { requests, code: answer });
            }
        }
        Err(Cause::WatchesRefused(answer))
    }

    /// Handles a reply that demands authentication. The server has not executed the request and is
    /// about to close the connection, and would close each later one (`docs/protocol.md`, *Order*).
    fn demand_authentication(&mut self, now: Instant, header: ReplyHeader) {
        if let Some(connection) = &mut self.connection
            && let Some(sent) =
                connection.in_flight.take_answered(header.xid, may_overtake(&header))
        {
            self.fail(sent.pending, Error::Server(header.err));
        }
        self.refused(now, header.err);
    }

    fn handle_auth(&mut self, now: Instant, header: ReplyHeader) {
        let Some(connection) = self.connection.as_mut().filter(|_| AUTHENTICATION) else { return };
        if header.err == ErrorCode::OK {
            for token in self.credentials.accept(&mut connection.accepted_credentials) {
                self.events.push_back(accepted(token));
            }
            return;
        }
        // The server is about to close the connection, and would close each later one.
        let Some(callers) = self.credentials.refuse(connection.accepted_credentials) else {
            return self.refused(now, header.err);
        };
        for token in callers {
            let result = Err(Error::Server(header.err));
            self.events.push_back(Event::Reply { token, result });
        }
        self.disconnect(now, Cause::AuthRefused(header.err));
    }

    /// Handles the reply to a request. For a reply that is too long, `body` is its length in bytes.
    fn handle_reply(
        &mut self,
        now: Instant,
        header: ReplyHeader,
        body: Result<Bytes, usize>,
    ) -> Result<(), Cause> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let in_flight = &mut connection.in_flight;
        let Some(sent) = in_flight.take_answered(header.xid, may_overtake(&header)) else {
            return Err(unexpected(in_flight.oldest(), header.xid));
        };
        let pending = sent.pending;
        let opcode = pending.opcode;
        self.ephemerals.answered(&pending, header.err, body.as_ref().ok());
        if self.ephemerals.are_many() {
            self.list_ephemerals(false);
        }
        self.renew_lease(sent.sent_at, header.err);
        self.note_service(now);
        if DEADLINES {
            self.longest_answered = self.longest_answered.max(pending.length);
            self.acquit(opcode);
        }
        self.last_zxid = self.last_zxid.max(header.zxid);
        // A server that has one of the two operations has both.
        self.can_remove_watches |=
            PERSISTENT_WATCHES && opcode == OpCode::ADD_WATCH && header.err == ErrorCode::OK;
        if pending.id.has_watch() {
            let removal = self.watches.finish(pending.id, opcode, header.err);
            self.remove_watch(removal);
            if body.is_err() && header.err == ErrorCode::OK {
                self.unwatch(pending.id);
            }
        }
        match pending.owner {
            RequestOwner::Caller(token) => {
                let result = match (header.err, body) {
                    (ErrorCode::OK, Ok(body)) => Ok(Reply::new(opcode, header.zxid, body)),
                    (ErrorCode::OK, Err(length)) => Err(Error::ReplyTooLarge {
                        length,
                        limit: self.config.max_reply,
                        outcome: outcome_of_success(opcode),
                    }),
                    (code, _) => Err(Error::refused(opcode, code)),
                };
                self.exchanges.answered(opcode, &result, now - sent.sent_at);
                self.events.push_back(Event::Reply { token, result });
            }
            RequestOwner::Session if opcode == OpCode::CLOSE_SESSION => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
            RequestOwner::Session | RequestOwner::Removal(_)
                if opcode == OpCode::REMOVE_WATCHES && header.err == ErrorCode::UNIMPLEMENTED =>
            {
                self.can_remove_watches = false;
            }
            // Servers before 3.9 have no watcher type for persistent watches.
            RequestOwner::Removal(path) if header.err == ErrorCode::MARSHALLING_ERROR => {
                self.remove_all_watches(&path);
            }
            RequestOwner::Session | RequestOwner::Removal(_) | RequestOwner::Nobody => {}
        }
        Ok(())
    }

    /// Renews the lease after a reply to a request that was sent at `sent_at`.
    pub(super) fn renew_lease(&mut self, sent_at: Instant, answer: ErrorCode) {
        let denies_session = matches!(
            answer,
            ErrorCode::SESSION_EXPIRED | ErrorCode::SESSION_MOVED | ErrorCode::UNKNOWN_SESSION
        );
        if !denies_session && !self.is_read_only() {
            self.lease_start = later(self.lease_start, sent_at);
            if self.timers.get(SessionTimer::Lease).is_none() {
                self.set_lease_timer();
            }
        }
    }

    fn fire(&mut self, zxid: Zxid, event: WatcherEvent<'_>) {
        self.statistics.notifications += 1;
        if event.event_type == EventType::NODE_DELETED {
            self.ephemerals.remove(event.path);
        }
        let Fired { once, persistent, path } = self.watches.fire(event.event_type, event.path);
        if !once.is_empty() || !persistent.is_empty() {
            let path = path.unwrap_or_else(|| event.path.into());
            let event = WatchedEvent { event_type: event.event_type, path, zxid };
            self.events.push_back(Event::Watch { requests: once, persistent, event });
        }
    }
}

/// Returns the event that reports an accepted credential.
pub(super) fn accepted<T>(token: T) -> Event<T> {
    let reply = Reply::new(OpCode::AUTH, Zxid::ZERO, Bytes::new());
    Event::Reply { token, result: Ok(reply) }
}

/// Returns the cause for a reply that does not answer the oldest request.
fn unexpected<T>(oldest: Option<&PendingRequest<T>>, received: Xid) -> Cause {
    Cause::UnexpectedReply { expected: oldest.map(|oldest| oldest.xid), received }
}

/// Returns whether a reply may come before those to older requests.
///
/// A server sends these refusals when it receives a request, or when a read-only server refuses a
/// write, not when it executes the request (`docs/protocol.md`, *Order*).
fn may_overtake(header: &ReplyHeader) -> bool {
    match header.err {
        ErrorCode::UNIMPLEMENTED
        | ErrorCode::NOT_READ_ONLY
        | ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH => true,
        ErrorCode::NO_AUTH | ErrorCode::INVALID_ACL => header.zxid == Zxid::ZERO,
        _ => false,
    }
}
