//! The begin and the end of connections, and the end of the session.

use super::authenticating::AuthRequest;
use super::history::Purpose;
use super::in_flight::InFlight;
use super::outbox::SendBuffer;
use super::*;

/// The connection to a server, from the attempt to connect until it is lost.
///
/// [`Action::Connect`] creates it. All state of a connection is dropped with it, so nothing of an
/// old connection can reach the next one.
#[derive(Clone, Debug)]
pub(super) struct Connection<T> {
    pub(super) server: usize,
    pub(super) stage: Stage,
    pub(super) purpose: Purpose,
    pub(super) timers: Timers<ConnectionTimer>,
    pub(super) began_at: Instant,
    pub(super) handshake_sent_at: Instant,
    /// Unsent bytes that come before any request: the handshake, then credentials and watches.
    pub(super) prelude: SendBuffer,
    /// How many bytes of the first unsent request the transport has taken.
    pub(super) taken: usize,
    /// Since when the transport has had no room for the rest of the output.
    pub(super) full_at: Option<Instant>,
    /// How many bytes have arrived or left since they last extended the read timeout.
    pub(super) progress: usize,
    pub(super) in_flight: InFlight<T>,
    /// The frame that is longer than [`Config::max_reply`] and has not arrived completely.
    pub(super) receiving: Option<Receiving>,
    /// The authentication request that waits for its reply.
    pub(super) exchange: Option<AuthRequest>,
    /// How many credentials the server has accepted.
    pub(super) accepted_credentials: usize,
    /// How many requests that set watches again are not answered yet.
    pub(super) unanswered_batches: usize,
    /// Whether the server has answered anything after the handshake.
    pub(super) has_served: bool,
    /// Whether the server is read-only, by its answer to the handshake.
    pub(super) is_read_only: bool,
    /// The delay after the latest probe.
    pub(super) probe_delay: Span,
}

/// A reply whose header has arrived, and the rest has not.
#[derive(Clone, Copy, Debug)]
pub(super) struct Receiving {
    pub(super) header: ReplyHeader,
    /// The length of the frame, in bytes.
    pub(super) length: usize,
    /// How many bytes of it are still to come.
    pub(super) left: usize,
}

/// The stage of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The transport connects.
    Connecting,
    /// The server has not answered the handshake.
    Handshaking,
    /// The server has answered the handshake. An authentication exchange comes first.
    Authenticating,
    /// The server serves the session.
    Connected,
}

impl<T> Connection<T> {
    fn new(server: usize, now: Instant, max_kept: usize) -> Self {
        Self {
            server,
            stage: Stage::Connecting,
            purpose: Purpose::Service,
            timers: Timers::new(),
            began_at: now,
            handshake_sent_at: now,
            prelude: SendBuffer::default(),
            taken: 0,
            full_at: None,
            progress: 0,
            in_flight: InFlight::new(max_kept),
            receiving: None,
            exchange: None,
            accepted_credentials: 0,
            unanswered_batches: 0,
            has_served: false,
            is_read_only: false,
            probe_delay: Span::ZERO,
        }
    }

    /// Returns the bytes to send next.
    pub(super) fn output<'a>(&'a self, outbox: &'a Outbox<T>) -> &'a [u8] {
        match self.stage {
            Stage::Connecting => &[],
            // Bytes that follow the handshake too early can destroy the answer that reports expiry:
            // the server closes the connection, and the reset overtakes its answer.
            Stage::Handshaking | Stage::Authenticating => &self.prelude,
            Stage::Connected if !self.prelude.is_empty() => &self.prelude,
            Stage::Connected => outbox.output(self.taken),
        }
    }

    /// Records that the transport has taken `count` bytes of the output. Returns how many of them
    /// existed.
    pub(super) fn sent(&mut self, now: Instant, count: usize, outbox: &mut Outbox<T>) -> usize {
        let count = count.min(self.output(outbox).len());
        let prelude = count.min(self.prelude.len());
        if prelude > 0 {
            self.prelude.advance(prelude);
            if self.prelude.is_empty() {
                // A connection needs it once, and it can be as long as all watches together.
                self.prelude = SendBuffer::default();
            }
        }
        self.taken = outbox.sent(now, self.taken + (count - prelude), &mut self.in_flight);
        count
    }
}

/// # Inputs: the transport is gone
impl<T> Session<T> {
    /// Reports that the transport is lost, or that it could not connect.
    pub fn handle_disconnected(&mut self, now: Instant) {
        self.recorder.input(Kind::DISCONNECTED, Some(now), &[]);
        self.disconnected(now, Cause::Transport);
    }

    /// Reports a frame with an invalid length, after which the stream is unreadable.
    pub fn handle_bad_frame(&mut self, now: Instant, error: frame::FrameError) {
        self.recorder.bad_frame(now, error);
        self.disconnect(now, Cause::Frame(error));
    }

    pub(super) fn connect_next(&mut self, now: Instant) {
        if let Some(server) = self.servers.take_next() {
            let mut connection = Connection::new(server, now, self.max_kept());
            connection.timers.set(ConnectionTimer::Connect, now.after(self.reach_timeout(now)));
            connection.purpose = core::mem::take(&mut self.history.next);
            self.connection = Some(connection);
            self.actions.push_back(Action::Connect(server));
        }
    }

    /// Closes the connection for a reason found here.
    pub(super) fn disconnect(&mut self, now: Instant, cause: Cause) {
        if self.connection.is_some() {
            self.actions.push_back(Action::Disconnect);
            self.disconnected(now, cause);
        }
    }

    /// Drops the connection, whose transport is gone.
    fn disconnected(&mut self, now: Instant, mut cause: Cause) {
        let Some(server) = self.server() else { return };
        let mut end = self.closing.then_some(End::Closed);
        match cause {
            _ if !AUTHENTICATION => {}
            Cause::AuthRefused(_) => {
                let timeout = self.timeouts.session;
                let is_over = self.refusals.since.is_some_and(|since| since.after(timeout) <= now);
                if is_over || self.refusals.in_a_row >= self.servers.count() {
                    end = end.or(Some(End::AuthFailed));
                }
            }
            // It may never answer: in an idle ensemble, a server lags until the next write.
            _ if self.closes_handshake(cause) => self.refusals.in_a_row = 0,
            _ => self.refusals = Refusals::default(),
        }
        if self.note_history(cause) {
            cause = Cause::OlderHistory;
            end = end.or(Some(End::Expired));
        }
        self.events.push_back(Event::Disconnected { server, cause });
        if let Some(end) = end {
            return self.finish(end);
        }
        let Some(lost) = self.connection.take() else { return };
        let limit = self.retry_limit(now);
        let mut delay = Span::ZERO;
        if lost.stage == Stage::Connected {
            self.find_suspect(now, cause, &lost);
            let dropped = self.outbox.lose_connection();
            for pending in lost.in_flight.into_lost().chain(dropped) {
                self.fail(pending, Error::ConnectionLost);
            }
            if lost.taken > 0
                && let Some(first) = self.outbox.first()
                && let Some(error) = self.refusal(first.opcode, first.length)
                && let Some(pending) = self.outbox.take_first()
            {
                self.fail(pending, error);
            }
            self.watches.disconnected();
            self.events.push_back(Event::State(self.state()));
            self.begin_disconnect_timeout(now);
            delay = self.servers.delay_after_loss(self.loss_limit(now, limit));
        }
        if lost.purpose == Purpose::Question {
            delay = self.history.back_off;
        } else if !lost.has_served {
            let timed_out = matches!(cause, Cause::ConnectTimeout);
            let rounds = self.servers.failed_rounds();
            delay = delay.max(self.servers.delay_after_failure(timed_out, limit));
            if self.servers.failed_rounds() > rounds && self.asks_next(now) {
                self.history.back_off = core::mem::take(&mut delay);
            }
        }
        self.timers.set(SessionTimer::Retry, now.after(delay));
    }

    /// Records that the server serves the session. A server that answers only the handshake, or
    /// does not set the watches again, does not.
    ///
    /// If it does so for longer than the time between pings, the connection is of use. The delay
    /// after the loss of a connection grows until then: something ends one after another.
    pub(super) fn note_service(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection
            && connection.unanswered_batches == 0
        {
            if !connection.has_served {
                connection.has_served = true;
                self.servers.succeeded();
            }
            if DEADLINES && now.since(connection.handshake_sent_at) >= self.timeouts.ping {
                self.servers.was_of_use();
                self.forgive();
            }
        }
    }

    /// Ends the session and fails all pending requests.
    pub(super) fn finish(&mut self, end: End) {
        self.ended = Some(end);
        if self.is_expired() {
            self.timers.unset(SessionTimer::Retry);
            self.timers.unset(SessionTimer::Lease);
        } else {
            self.timers.clear();
            (self.refused, self.disconnect_timed_out) = (false, false);
        }
        if let Some(lost) = self.connection.take() {
            let error = Error::Ended { end, outcome: Outcome::Unknown };
            for pending in lost.in_flight.into_lost() {
                self.fail(pending, error.clone());
            }
        }
        let error = Error::Ended { end, outcome: Outcome::NotApplied };
        for pending in self.outbox.take_all() {
            self.fail(pending, error.clone());
        }
        if self.is_expired() {
            self.watches.keep_persistent();
        } else {
            if AUTHENTICATION {
                for token in self.credentials.clear() {
                    self.events.push_back(Event::Reply { token, result: Err(error.clone()) });
                }
            }
            self.watches.clear();
        }
        self.events.push_back(Event::State(self.state()));
    }

    /// Ends a session that has done nothing, for the owner of a session that cannot be used.
    #[cfg(feature = "blocking")]
    pub(crate) fn give_up(&mut self, end: End) {
        self.finish(end);
        self.actions.clear();
        self.events.clear();
    }

    pub(super) fn fail(&mut self, pending: PendingRequest<T>, error: Error) {
        self.ephemerals.failed(&pending, &error);
        if pending.id.has_watch() {
            let removal = self.watches.abandon(pending.id);
            self.remove_watch(removal);
        }
        if let RequestOwner::Caller(token) = pending.owner {
            self.exchanges.failed(pending.opcode, &error);
            self.events.push_back(Event::Reply { token, result: Err(error) });
        }
    }
}
