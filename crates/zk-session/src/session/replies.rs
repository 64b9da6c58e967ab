//! What a member says once it serves the session.

use super::*;

/// # Inputs: frames
impl<T> Session<T> {
    /// A frame has arrived; this is what it holds behind its length.
    pub fn handle_frame(&mut self, now: Instant, payload: Bytes) {
        let result = match self.phase {
            Phase::Handshaking(member) => self.finish_handshake(now, member, &payload),
            Phase::Authenticating(_) => self.handle_exchange(payload),
            Phase::Connected(_) => self.handle_message(now, payload),
            _ => Ok(()),
        };
        if let Err(cause) = result {
            self.disconnect(now, cause);
        }
    }

    /// A frame longer than [`Config::max_reply`] has begun to arrive. `start` is what it begins
    /// with: 16 bytes, which is the header of a reply. The code that splits the stream drops the
    /// rest of the frame as it arrives, as [`frame::Splitter`] does.
    ///
    /// The request that it answers fails with [`Error::ReplyTooLarge`], or with the server's error
    /// code if the header has one. A watch that the request has set is removed. The rest of the
    /// frame has to arrive within the read deadline, as that of any frame. Events, and answers to
    /// what the session says before requests, are never so long, and cost the connection.
    pub fn handle_oversized(&mut self, now: Instant, start: &[u8], length: usize) {
        let result = match self.phase {
            Phase::Handshaking(_) | Phase::Authenticating(_) => Err(self.too_long(length)),
            Phase::Connected(_) => self.handle_skipped(now, start, length),
            _ => Ok(()),
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
        self.note_life(now, header);
        if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            self.demand_authentication(header);
            return Ok(());
        }
        self.handle_reply(header, Err(length))
    }

    fn too_long(&self, length: usize) -> Cause {
        Cause::Frame(frame::FrameError::TooLong { length, limit: self.config.max_reply })
    }

    /// The member lives. While closing, only answers to requests keep the connection, lest a
    /// member that says everything but that keeps the session from its end.
    fn note_life(&mut self, now: Instant, header: ReplyHeader) {
        if !self.closing || header.xid > Xid(0) {
            self.timers.set(Timer::Read, now + self.read_timeout());
        }
    }

    fn handle_message(&mut self, now: Instant, mut payload: Bytes) -> Result<(), Cause> {
        let mut reader = Reader::new(&payload);
        let header = ReplyHeader::decode(&mut reader).map_err(Cause::Malformed)?;
        self.note_life(now, header);
        if header.err == ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH {
            self.demand_authentication(header);
            return Ok(());
        }
        match header.xid {
            Xid::NOTIFICATION => {
                let event = WatcherEvent::decode(&mut reader).map_err(Cause::Malformed)?;
                self.fire(header.zxid, event);
                Ok(())
            }
            Xid::PING => {
                if let Some(ping) = self.outbox.take_ping() {
                    self.renew_lease(ping.sent_at, header.err);
                    self.note_service();
                    if self.timers.get(Timer::Ping).is_none() {
                        // It came while too many were unanswered.
                        self.timers.set(Timer::Ping, now);
                    }
                }
                Ok(())
            }
            Xid::SET_WATCHES => self.handle_set_watches(header.err),
            Xid::AUTH => {
                self.handle_auth(header);
                Ok(())
            }
            _ => {
                payload.advance(reader.position());
                self.handle_reply(header, Ok(payload))
            }
        }
    }

    fn handle_set_watches(&mut self, answer: ErrorCode) -> Result<(), Cause> {
        if answer == ErrorCode::OK {
            self.unanswered_batches = self.unanswered_batches.saturating_sub(1);
            self.note_service();
            return Ok(());
        }
        // A server older than persistent watches would refuse them on each connection, for ever.
        if answer == ErrorCode::UNIMPLEMENTED {
            let requests = self.watches.drop_persistent();
            if !requests.is_empty() {
                self.events.push_back(Event::WatchLost { requests, code: answer });
            }
        }
        Err(Cause::WatchesRefused(answer))
    }

    /// The member has not executed the request, and is about to close the connection, as it would
    /// each that follows (PROTOCOL: `AuthenticationHelper.java`).
    fn demand_authentication(&mut self, header: ReplyHeader) {
        if let Ok(sent) = self.outbox.take_answered(header.xid, true) {
            self.fail(sent.pending, Error::Server(header.err));
        }
        self.refused();
    }

    fn handle_auth(&mut self, header: ReplyHeader) {
        if header.err != ErrorCode::OK {
            // The server is about to close the connection, and would close each that follows.
            return self.refused();
        }
        for token in self.credentials.accept() {
            self.events.push_back(accepted(token));
        }
    }

    /// The body of a reply that is too long is not there, but its length.
    fn handle_reply(
        &mut self,
        header: ReplyHeader,
        body: Result<Bytes, usize>,
    ) -> Result<(), Cause> {
        let sent = self
            .outbox
            .take_answered(header.xid, may_overtake(&header))
            .map_err(|expected| Cause::UnexpectedReply { expected, received: header.xid })?;
        let pending = sent.pending;
        self.renew_lease(sent.sent_at, header.err);
        self.note_service();
        if header.zxid > Zxid::ZERO {
            self.last_zxid = self.last_zxid.max(header.zxid);
        }
        if let Some(registration) = &pending.registration {
            let removal = self.watches.finish(registration, header.err);
            self.remove_watch(removal);
            if body.is_err() && header.err == ErrorCode::OK {
                self.unwatch(registration.id());
            }
        }
        match pending.owner {
            Owner::Caller(token) => {
                let opcode = pending.opcode;
                let result = match (header.err, body) {
                    (ErrorCode::OK, Ok(body)) => Ok(Reply { opcode, zxid: header.zxid, body }),
                    (ErrorCode::OK, Err(length)) => Err(Error::ReplyTooLarge {
                        length,
                        limit: self.config.max_reply,
                        outcome: outcome_of_success(opcode),
                    }),
                    (code, _) => Err(Error::refused(opcode, code)),
                };
                self.events.push_back(Event::Reply { token, result });
            }
            Owner::Session if pending.opcode == OpCode::CLOSE_SESSION => {
                self.actions.push_back(Action::Disconnect);
                self.finish(End::Closed);
            }
            Owner::Session | Owner::Removal(_)
                if pending.opcode == OpCode::REMOVE_WATCHES
                    && header.err == ErrorCode::UNIMPLEMENTED =>
            {
                self.can_remove_watches = false;
            }
            // Servers before 3.9 know no type of its own for a persistent watch.
            Owner::Removal(path) if header.err == ErrorCode::MARSHALLING_ERROR => {
                self.remove_all_watches(&path);
            }
            Owner::Session | Owner::Removal(_) | Owner::Nobody => {}
        }
        Ok(())
    }

    /// The server has answered what was sent at `sent_at`.
    pub(super) fn renew_lease(&mut self, sent_at: Instant, answer: ErrorCode) {
        let denies_session = matches!(
            answer,
            ErrorCode::SESSION_EXPIRED | ErrorCode::SESSION_MOVED | ErrorCode::UNKNOWN_SESSION
        );
        if !denies_session && !self.read_only {
            self.lease_start = self.lease_start.max(Some(sent_at));
            if self.timers.get(Timer::Lease).is_none() {
                self.set_lease_timer();
            }
        }
    }

    fn fire(&mut self, zxid: Zxid, event: WatcherEvent<'_>) {
        self.statistics.notifications += 1;
        let Fired { once, persistent, path } = self.watches.fire(event.event_type, event.path);
        if !once.is_empty() || !persistent.is_empty() {
            let path = path.unwrap_or_else(|| event.path.into());
            let event = WatchedEvent { event_type: event.event_type, path, zxid };
            self.events.push_back(Event::Watch { requests: once, persistent, event });
        }
    }
}

/// That a credential is accepted, told to who added it.
pub(super) fn accepted<T>(token: T) -> Event<T> {
    let reply = Reply { opcode: OpCode::AUTH, zxid: Zxid::ZERO, body: Bytes::new() };
    Event::Reply { token, result: Ok(reply) }
}

/// Whether a reply may come before those to older requests. These refusals come from where a
/// server receives requests, or from where a read-only one refuses to write, not from where it
/// executes them (PROTOCOL: `UnimplementedRequestProcessor.java`,
/// `ReadOnlyRequestProcessor.java`, `ZooKeeperServer.java` authWriteRequest,
/// `AuthenticationHelper.java`).
fn may_overtake(header: &ReplyHeader) -> bool {
    match header.err {
        ErrorCode::UNIMPLEMENTED | ErrorCode::NOT_READ_ONLY => true,
        ErrorCode::NO_AUTH | ErrorCode::INVALID_ACL => header.zxid == Zxid::ZERO,
        _ => false,
    }
}
