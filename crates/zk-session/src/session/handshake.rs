//! The handshake: from a connected transport to a served session.

use super::outbox::put_frame;
use super::*;

impl ServerKind {
    fn of(answer: &ConnectResponse<'_>) -> Self {
        match answer.password {
            Some(password) if answer.read_only.is_none() && password == NO_PASSWORD => Self::Keeper,
            _ => Self::ZooKeeper,
        }
    }
}

/// # Inputs: the transport is there
impl<T> Session<T> {
    /// Reports that the transport is connected to the server of the last [`Action::Connect`].
    pub fn handle_connected(&mut self, now: Instant) {
        self.recorder.connected(now);
        let answer_by = now.after(self.handshake_timeout(now));
        let session_id = self.presented();
        let connecting = |open: &&mut Connection<T>| open.stage == Stage::Connecting;
        let Some(connection) = self.connection.as_mut().filter(connecting) else {
            return;
        };
        connection.stage = Stage::Handshaking;
        connection.handshake_sent_at = now;
        connection.timers.set(ConnectionTimer::Connect, answer_by);
        let password = match session_id {
            SessionId::NONE => &NO_PASSWORD,
            _ => &self.password.0[..],
        };
        let asks = connection.purpose == Purpose::Question;
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: if asks { Zxid::ZERO } else { self.last_zxid },
            timeout: self.config.timeout.as_millis() as i32,
            session_id,
            password: Some(password),
            read_only: Some(self.config.read_only && !asks),
        };
        put_frame(&request, &mut connection.prelude);
    }

    /// Returns the session to request from a server. A session that a read-only server created is
    /// known only there, so no other server is asked for it.
    fn presented(&self) -> SessionId {
        if self.seen_read_write { self.id } else { SessionId::NONE }
    }

    pub(super) fn finish_handshake(&mut self, now: Instant, payload: &Bytes) -> Result<(), Cause> {
        let asked_for = self.presented();
        let Some(connection) = &mut self.connection else { return Ok(()) };
        if !connection.prelude.is_empty() {
            return Err(Cause::Unasked);
        }
        let response =
            ConnectResponse::decode(&mut Reader::new(payload)).map_err(Cause::Malformed)?;
        // Other frames could look like an answer that reports expiry.
        if response.protocol_version != 0 {
            return Err(Cause::UnknownProtocol(response.protocol_version));
        }
        if connection.purpose == Purpose::Question {
            let server = connection.server;
            self.prove(now, server);
            return Ok(());
        }
        let resumed = asked_for != SessionId::NONE;
        // A server that returns another session than the requested one has lost that one.
        if response.is_expired() || (resumed && response.session_id != asked_for) {
            self.actions.push_back(Action::Disconnect);
            self.finish(End::Expired);
            return Ok(());
        }
        self.id = response.session_id;
        if KEEPERS {
            let kind = ServerKind::of(&response);
            if core::mem::replace(&mut self.server_kind, kind) != kind {
                self.can_remove_watches = kind != ServerKind::Keeper;
                self.suspect = None;
            }
        }
        let password = response.password.map_or(Bytes::new(), Bytes::copy_from_slice);
        self.password = HiddenBytes(password);
        let granted = Timeouts::new(Duration::from_millis(response.timeout.unsigned_abs().into()));
        let before = core::mem::replace(&mut self.timeouts, granted);
        connection.is_read_only = response.read_only == Some(true);
        if connection.is_read_only && self.lease_start.is_some() {
            // Another server has granted the lease, and this one does not renew it.
            self.timeouts.lease = before.lease;
        }
        self.seen_read_write |= !connection.is_read_only;
        let (server, sent_at) = (connection.server, connection.handshake_sent_at);
        self.reach_time = Some(sent_at.since(connection.began_at).max(now.since(sent_at)));
        if self.config.authenticates() {
            connection.stage = Stage::Authenticating;
        }
        self.touched(sent_at);
        let is_lease_open = self.timers.get(SessionTimer::Lease).is_some();
        self.renew_lease(sent_at, ErrorCode::OK);
        if is_lease_open {
            // The granted timeout may be shorter than the one before.
            self.set_lease_timer();
        }
        self.statistics.connections += 1;
        if self.config.authenticates() {
            self.events.push_back(Event::Authenticate { server });
        } else {
            self.serve(now);
        }
        Ok(())
    }

    /// Starts to serve the session on the connection.
    pub(super) fn serve(&mut self, now: Instant) {
        let read_by = now.after(self.timeouts.read);
        let Some(connection) = &mut self.connection else { return };
        connection.stage = Stage::Connected;
        self.has_begun = true;
        connection.timers.clear();
        connection.timers.set(ConnectionTimer::Read, read_by);
        // The handshake counts as a sign of life, and on a slow connection it was sent long ago.
        let ping_at = connection.handshake_sent_at.after(self.timeouts.ping);
        connection.timers.set(ConnectionTimer::Ping, ping_at);
        if AUTHENTICATION {
            connection.replay_credentials(&self.credentials);
        }
        connection.replay_watches(&self.watches, self.config.max_request, self.last_zxid);
        self.disconnect_timed_out = false;
        self.timers.unset(SessionTimer::DisconnectTimeout);
        if self.is_searching() {
            self.begin_probing(now);
        }
        self.events.push_back(Event::State(self.state()));
        let requests = self.watches.persistent();
        if !requests.is_empty() {
            self.events.push_back(Event::Gap { requests });
        }
    }
}

impl<T> Connection<T> {
    fn replay_credentials(&mut self, credentials: &Credentials<T>) {
        for request in credentials.replay() {
            let header = RequestHeader { xid: Xid::AUTH, opcode: OpCode::AUTH };
            put_frame(&(header, request), &mut self.prelude);
        }
    }

    /// Encodes the watches to set again. Replies advance the session's zxid while the batches are
    /// in flight, so all batches carry the same one.
    fn replay_watches(
        &mut self,
        watches: &SessionWatches,
        max_request: usize,
        relative_zxid: Zxid,
    ) {
        watches.replay(max_request, &mut |[data, exist, child, persistent, recursive]| {
            let has_persistent = !(persistent.is_empty() && recursive.is_empty());
            let request = if PERSISTENT_WATCHES && has_persistent {
                Request::SetWatches2(SetWatches2 {
                    relative_zxid,
                    data_watches: data[..].into(),
                    exist_watches: exist[..].into(),
                    child_watches: child[..].into(),
                    persistent_watches: persistent[..].into(),
                    persistent_recursive_watches: recursive[..].into(),
                })
            } else {
                // Servers before 3.6 know this one, too.
                Request::SetWatches(SetWatches {
                    relative_zxid,
                    data_watches: data[..].into(),
                    exist_watches: exist[..].into(),
                    child_watches: child[..].into(),
                })
            };
            let header = RequestHeader { xid: Xid::SET_WATCHES, opcode: request.opcode() };
            put_frame(&(header, request), &mut self.prelude);
            self.unanswered_batches += 1;
        });
    }
}
