//! From a transport to a session that is served on it.

use super::*;

/// # Inputs: the transport is there
impl<T> Session<T> {
    /// The transport to the member of the last [`Action::Connect`] is there.
    pub fn handle_connected(&mut self, now: Instant) {
        let Phase::Connecting(member) = self.phase else {
            return;
        };
        self.phase = Phase::Handshaking(member);
        self.prelude_sent_at = now;
        self.timers.set(Timer::Connect, now + self.handshake_timeout(now));
        let session_id = self.presented();
        let password = match session_id {
            SessionId::NONE => &NO_PASSWORD,
            _ => &self.password.0[..],
        };
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout: self.config.timeout.as_millis() as i32,
            session_id,
            password: Some(password),
            read_only: Some(self.config.read_only),
        };
        frame::encode(&request, &mut self.prelude).expect("a handshake is far below 2 GiB");
    }

    /// The session that a member is asked for. What a read-only member has made is known to that
    /// member alone, and another one must not be asked for it.
    fn presented(&self) -> SessionId {
        if self.seen_read_write { self.id } else { SessionId::NONE }
    }

    pub(super) fn finish_handshake(
        &mut self,
        now: Instant,
        member: usize,
        payload: &Bytes,
    ) -> Result<(), Cause> {
        if !self.prelude.is_empty() {
            return Err(Cause::Unasked);
        }
        let response =
            ConnectResponse::decode(&mut Reader::new(payload)).map_err(Cause::Malformed)?;
        // Other frames can look as if they said that the session has expired.
        if response.protocol_version != 0 {
            return Err(Cause::UnknownProtocol(response.protocol_version));
        }
        let asked_for = self.presented();
        let resumed = asked_for != SessionId::NONE;
        // A server that hands out another session than the one asked for has lost that one.
        if response.is_expired() || (resumed && response.session_id != asked_for) {
            self.actions.push_back(Action::Disconnect);
            self.finish(End::Expired);
            return Ok(());
        }
        self.id = response.session_id;
        let password = response.password.map_or(Bytes::new(), Bytes::copy_from_slice);
        self.password = Secret(password);
        self.timeout = Duration::from_millis(response.timeout.unsigned_abs().into());
        self.read_only = response.read_only == Some(true);
        self.seen_read_write |= !self.read_only;
        let reached = self.prelude_sent_at - self.attempt_began;
        self.reach_time = Some(reached.max(now - self.prelude_sent_at));
        self.touched(self.prelude_sent_at);
        let is_lease_open = self.timers.get(Timer::Lease).is_some();
        self.renew_lease(self.prelude_sent_at, ErrorCode::OK);
        if is_lease_open {
            // The timeout granted may be shorter than the one before.
            self.set_lease_timer();
        }
        self.statistics.connections += 1;
        if self.config.authenticate {
            self.phase = Phase::Authenticating(member);
            self.events.push_back(Event::Authenticate { member });
        } else {
            self.serve(now, member);
        }
        Ok(())
    }

    pub(super) fn serve(&mut self, now: Instant, member: usize) {
        self.phase = Phase::Connected(member);
        self.impatient = false;
        self.timers.clear_connection();
        self.timers.unset(Timer::Patience);
        self.timers.set(Timer::Read, now + self.read_timeout());
        // The handshake was a sign of life, too, and on a slow link it has been under way for long.
        self.timers.set(Timer::Ping, self.prelude_sent_at + self.ping_interval());
        if self.read_only {
            self.begin_probing(now);
        }
        self.prelude.clear();
        self.replay_credentials();
        self.replay_watches();
        self.events.push_back(Event::State(self.state()));
        let requests = self.watches.persistent();
        if !requests.is_empty() {
            self.events.push_back(Event::Gap { requests });
        }
    }

    fn replay_credentials(&mut self) {
        for request in self.credentials.replay() {
            let header = RequestHeader { xid: Xid::AUTH, opcode: OpCode::AUTH };
            frame::encode(&(header, request), &mut self.prelude)
                .expect("Session::add_auth refuses what is longer than a request may be");
        }
    }

    /// Replies move `last_zxid` on while the batches are under way, so all carry the same one.
    fn replay_watches(&mut self) {
        self.unanswered_batches = 0;
        for batch in self.watches.replay(self.config.max_request) {
            let request = if batch.has_persistent() {
                Request::SetWatches2(SetWatches2 {
                    relative_zxid: self.last_zxid,
                    data_watches: batch.data[..].into(),
                    exist_watches: batch.exist[..].into(),
                    child_watches: batch.child[..].into(),
                    persistent_watches: batch.persistent[..].into(),
                    persistent_recursive_watches: batch.recursive[..].into(),
                })
            } else {
                // Which servers before 3.6 know, too.
                Request::SetWatches(SetWatches {
                    relative_zxid: self.last_zxid,
                    data_watches: batch.data[..].into(),
                    exist_watches: batch.exist[..].into(),
                    child_watches: batch.child[..].into(),
                })
            };
            let header = RequestHeader { xid: Xid::SET_WATCHES, opcode: request.opcode() };
            frame::encode(&(header, request), &mut self.prelude)
                .expect("a batch is bounded far below 2 GiB");
            self.unanswered_batches += 1;
        }
    }
}
