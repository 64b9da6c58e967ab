//! The handling of deadlines, and their lengths.

use core::ops::RangeInclusive;

use super::*;
use crate::time::{Span, later, scaled};

/// The limits of the time that a server has to connect, and again to answer the handshake, in the
/// first round and without a session to save.
const FIRST_CONNECT_TIMEOUT: RangeInclusive<Span> = Span::from_secs(1)..=Span::from_secs(10);

/// The fraction of the session timeout (1/20) that shortens a lease, for clocks that drift apart.
const LEASE_MARGIN: u32 = 20;
/// While the session can be saved, a round of all servers may take this fraction of its timeout
/// (1/4).
const SAVING_ROUND: u32 = 4;
/// While the session can be saved, each server has at least this fraction of its timeout (1/20).
const MIN_SAVING_SHARE: u32 = 20;
/// While the session can be saved, a server has this many times as long as the last one needed.
const SLOWER: u32 = 3;

/// While the session can be saved, the delay between rounds is at most this fraction of its timeout
/// (1/20).
const SAVING_BACK_OFF: u32 = 20;
/// The delay after the loss of a connection is at most this fraction (1/4) of what is left of the
/// lease.
const LOSS_SHARE: u32 = 4;
/// The longest time limit for the answer to the handshake.
const MAX_HANDSHAKE_TIMEOUT: Span = Span::from_secs(60);
/// More rounds than fit in one timeout. If no server has served the session in so many, stop
/// hurrying.
const MAX_SAVING_ROUNDS: u32 = 64;
/// The longest delay between rounds while a caller waits for the session to begin.
const MAX_FIRST_SESSION_BACK_OFF: Span = Span::from_secs(1);
/// The longest delay between rounds.
const MAX_BACK_OFF: Span = Span::from_secs(5);

/// How many pings may be unanswered, so that a server that answers none costs no memory.
///
/// It is far more than a slow connection needs: replies in transit must not delay pings.
const MAX_PINGS: usize = 64;

/// The longest time between pings, whatever the session timeout.
///
/// It detects a dead connection early, and keeps state in routers on the way alive
/// (`docs/protocol.md`, *Keep-alive and the choice of a server*).
const MAX_PING_INTERVAL: Span = Span::from_secs(10);

/// How many bytes of unfinished frames extend the read timeout, if they arrive or leave within it.
///
/// It is far less than a slow link carries in that time. A peer that trickles has to end a frame at
/// last: none is longer than `max_reply` or the longest request, or 2 GiB in pieces.
pub(super) const PROGRESS: usize = 4 * 1024;

/// How many bytes, if the transport takes them at once, may be on their way for longer than the read
/// timeout. The buffers of the system then hide whether they leave.
pub(super) const HIDDEN: usize = 256 * 1024;

/// The least time between two looks for late requests, for each pending request. A look goes through
/// all of them, and a server that stalls makes thousands late, one by one.
const LOOK_PER_REQUEST: Span = Span::from_nanos(100);

/// Returns the time from the last request of a session to its next ping: a third of the session
/// timeout, at most 10 s.
///
/// ```
/// use core::time::Duration;
/// use zk_session::session::ping_interval;
///
/// assert_eq!(ping_interval(Duration::from_secs(6)), Duration::from_secs(2));
/// assert_eq!(ping_interval(Duration::from_secs(60)), Duration::from_secs(10));
/// ```
pub fn ping_interval(session_timeout: Duration) -> Duration {
    ping(Span::of(session_timeout)).duration()
}

fn ping(session: Span) -> Span {
    scaled(session, 1, 3).min(MAX_PING_INTERVAL)
}

/// The session timeout, and the durations that each request or reply needs of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    pub(super) session: Span,
    /// From the last request to the next ping.
    pub(super) ping: Span,
    /// From the last bytes of the server to the end of the connection.
    pub(super) read: Span,
    /// From a request that the server has answered to the end of the lease.
    pub(super) lease: Span,
}

impl Timeouts {
    pub(super) fn new(session: Duration) -> Self {
        let session = Span::of(session);
        Self {
            session,
            ping: ping(session),
            read: scaled(session, 2, 3),
            lease: scaled(session, LEASE_MARGIN - 1, LEASE_MARGIN),
        }
    }
}

/// # Inputs: the clock
impl<T> Session<T> {
    /// Handles the deadlines that have come by `now`. Does nothing if there is none.
    ///
    /// ```
    /// use zk_session::session::{Action, Cause, Config, Event, Session};
    /// use zk_session::time::Instant;
    ///
    /// let mut session: Session<()> = Session::new(Instant::START, Config::new(1, 42));
    /// assert_eq!(session.poll_action(), Some(Action::Connect(0)));
    /// // The server never answers.
    /// let due = session.poll_timeout().expect("the deadline of the attempt");
    /// session.handle_timeout(due);
    /// assert_eq!(session.poll_action(), Some(Action::Disconnect));
    /// let failed = Event::Disconnected { server: 0, cause: Cause::ConnectTimeout };
    /// assert_eq!(session.poll_event(), Some(failed));
    /// ```
    pub fn handle_timeout(&mut self, now: Instant) {
        loop {
            let due = self.connection.as_mut().and_then(|open| open.timers.pop_due(now));
            if let Some(timer) = due {
                match timer {
                    ConnectionTimer::Connect => self.disconnect(now, Cause::ConnectTimeout),
                    ConnectionTimer::Read => self.disconnect(now, Cause::ReadTimeout),
                    ConnectionTimer::Ping => self.ping(now),
                    ConnectionTimer::Probe => self.probe_next(now),
                }
            } else if let Some(timer) = self.timers.pop_due(now) {
                match timer {
                    SessionTimer::Retry => self.connect_next(now),
                    SessionTimer::DisconnectTimeout if DEADLINES => self.time_out_unsent(),
                    SessionTimer::Deadline if DEADLINES => self.fail_late(now),
                    SessionTimer::DisconnectTimeout | SessionTimer::Deadline => {}
                    SessionTimer::Lease => self.check_lease(now),
                }
            } else {
                return;
            }
        }
    }

    /// Reports that `count` bytes have arrived, before the frames that they end are handled.
    ///
    /// A frame may take longer than the read timeout on a slow link. Each 4 KiB of it extend that
    /// timeout, but never the lease. A driver that does not call this gives up such a connection,
    /// though it carries bytes.
    pub fn handle_received(&mut self, now: Instant, count: usize) {
        self.recorder.input(Kind::RECEIVED, Some(now), &[count as u64]);
        self.progressed(now, count);
    }

    /// Extends the read timeout after bytes, until so long after `at`. A session that closes has to
    /// end, whatever the server sends or takes.
    pub(super) fn progressed(&mut self, at: Instant, count: usize) {
        let read_by = at.after(self.timeouts.read);
        if let Some(connection) = &mut self.connection
            && !self.closing
        {
            connection.progress = connection.progress.saturating_add(count);
            if connection.progress >= PROGRESS
                && let Some(set) = connection.timers.get(ConnectionTimer::Read)
            {
                connection.progress = 0;
                connection.timers.set(ConnectionTimer::Read, read_by.max(set));
            }
        }
    }

    /// Extends the read timeout after the transport has taken bytes, if the peer has taken others.
    ///
    /// Only with `full`: boards send short requests, whose replies extend the timeout.
    pub(super) fn taken(&mut self, now: Instant, count: usize) {
        let Some(connection) = self.connection.as_mut().filter(|_| DEADLINES) else { return };
        // The transport had no room for these bytes before, so the peer has taken others.
        let was_full = connection.full_at.is_some_and(|full_at| full_at < now);
        let is_full = !connection.output(&self.outbox).is_empty();
        connection.full_at = connection.full_at.or(Some(now)).filter(|_| is_full);
        let is_served = count > 0 && connection.stage == Stage::Connected;
        if is_served && (was_full || count >= HIDDEN) {
            // A peer that takes requests has to answer them.
            let unanswered_since = connection.in_flight.oldest_sent_at();
            let at = unanswered_since.map_or(now, |at| at.min(now));
            // It leaves time to find another server.
            let hidden = if was_full { Span::ZERO } else { scaled(self.timeouts.session, 1, 6) };
            self.progressed(at.after(hidden), count);
        }
    }

    fn ping(&mut self, now: Instant) {
        // If too many are unanswered, the next reply triggers the next ping.
        if let Some(connection) = &mut self.connection
            && connection.in_flight.pings() + self.outbox.pings() < MAX_PINGS
        {
            self.outbox.push_own(&Request::Ping(()), RequestOwner::Session);
            connection.timers.set(ConnectionTimer::Ping, now.after(self.timeouts.ping));
        }
    }

    /// Records the time at which something was sent that keeps the session alive if it arrives.
    pub(super) fn touched(&mut self, at: Instant) {
        if !self.is_read_only() {
            self.touched_at = later(self.touched_at, at);
        }
    }

    /// Returns whether the ensemble may still keep the session, so that haste makes sense.
    fn can_be_saved(&self, now: Instant) -> bool {
        self.touched_at.is_some_and(|at| now < at.after(self.timeouts.session))
            && self.servers.failed_rounds() < MAX_SAVING_ROUNDS
    }

    /// Returns the longest delay before the next round of attempts.
    pub(super) fn retry_limit(&self, now: Instant) -> Span {
        if self.can_be_saved(now) {
            scaled(self.timeouts.session, 1, SAVING_BACK_OFF).min(MAX_BACK_OFF)
        } else if self.seen_read_write {
            MAX_BACK_OFF
        } else {
            MAX_FIRST_SESSION_BACK_OFF
        }
    }

    /// Returns the longest delay after the loss of a connection. It may be longer than `limit`, that
    /// of other delays, but enough of the lease is left to try every server.
    pub(super) fn loss_limit(&self, now: Instant, limit: Span) -> Span {
        if !DEADLINES {
            return limit;
        }
        let left = self.lease_end().map_or(Span::ZERO, |end| end.since(now));
        scaled(left, 1, LOSS_SHARE).min(MAX_BACK_OFF).max(limit)
    }

    /// Returns the time limit to connect to a server. Unreachable servers must not use up the time
    /// that the session has left.
    pub(super) fn reach_timeout(&self, now: Instant) -> Span {
        self.saving_share(now).unwrap_or_else(|| self.growing_share())
    }

    /// Returns the time limit for the answer to the handshake.
    ///
    /// The server is alive, and other clients may be before this one. So the limit is twice that to
    /// connect. After an outage of all servers, all their clients come back at the same time. One
    /// that leaves loses its place, and the server answers it in vain. So the limit doubles with each
    /// failed round.
    pub(super) fn handshake_timeout(&self, now: Instant) -> Span {
        let rounds = self.servers.failed_rounds().min(15);
        let most = match rounds {
            0 => self.share(),
            // A good quarter of the lease is left for another server.
            _ => self.lengthened(self.timeouts.read).min(MAX_HANDSHAKE_TIMEOUT),
        };
        scaled(self.reach_timeout(now), 2 << rounds, 1).min(most.max(self.share()))
    }

    /// Returns the time limit of one server while the session can be saved.
    fn saving_share(&self, now: Instant) -> Option<Span> {
        let reach_time = self.reach_time.filter(|_| self.can_be_saved(now))?;
        let slow = scaled(reach_time, SLOWER, 1);
        let parts = self.count().saturating_mul(SAVING_ROUND).min(MIN_SAVING_SHARE);
        Some(scaled(self.timeouts.session, 1, parts).max(slow).min(self.share()))
    }

    /// Returns the time limit of one server without a session to save. It grows with each round in
    /// which all attempts timed out, because a slow connection may need more than the first share.
    fn growing_share(&self) -> Span {
        let share = self.share();
        let most = scaled(self.timeouts.session, 1, self.count());
        let most = most.max(self.timeouts.session.min(*FIRST_CONNECT_TIMEOUT.end()));
        self.lengthened(share).min(most.max(share))
    }

    fn share(&self) -> Span {
        let (least, most) = FIRST_CONNECT_TIMEOUT.into_inner();
        scaled(self.timeouts.session, 1, self.count()).clamp(least, most)
    }

    fn lengthened(&self, share: Span) -> Span {
        scaled(share, 1 << self.servers.timed_out_rounds().min(16), 1)
    }

    fn count(&self) -> u32 {
        u32::try_from(self.servers.count()).unwrap_or(u32::MAX).max(1)
    }

    pub(super) fn begin_disconnect_timeout(&mut self, now: Instant) {
        if let Some(timeout) = self.config.disconnect_timeout() {
            self.timers.set(SessionTimer::DisconnectTimeout, now + timeout);
        }
    }

    pub(super) fn set_lease_timer(&mut self) {
        if let Some(end) = self.lease_end() {
            self.timers.set(SessionTimer::Lease, end);
        }
    }

    /// Reports the end of the lease once. The next reply that renews the lease sets the timer
    /// again.
    fn check_lease(&mut self, now: Instant) {
        match self.lease_end() {
            Some(end) if end > now => self.timers.set(SessionTimer::Lease, end),
            Some(_) => self.events.push_back(Event::LeaseEnded),
            None => {}
        }
    }

    /// Fails unsent requests after the disconnect timeout.
    fn time_out_unsent(&mut self) {
        self.disconnect_timed_out = true;
        for pending in
            self.outbox.remove_unsent(&|pending| matches!(pending.owner, RequestOwner::Caller(_)))
        {
            self.fail(pending, Error::NoConnection);
        }
    }

    /// Fails requests whose deadline has passed. There may be none: a reply does not clear the
    /// timer.
    fn fail_late(&mut self, now: Instant) {
        let mut sent = Vec::new();
        if let Some(connection) = &mut self.connection {
            sent = connection.in_flight.take_late(now);
            if connection.taken > 0 {
                sent.extend(self.outbox.take_late_first(now));
            }
        }
        let unsent = self.outbox.remove_late(now);
        for Late { opcode, token, id } in sent {
            let error = Error::DeadlinePassed { outcome: Outcome::Unknown };
            self.exchanges.failed(opcode, &error);
            self.events.push_back(Event::Reply { token, result: Err(error) });
            if id.has_watch() {
                self.unwatch(id);
            }
        }
        for pending in unsent {
            self.fail(pending, Error::DeadlinePassed { outcome: Outcome::NotApplied });
        }
        let sent = self.connection.as_ref().and_then(|open| open.in_flight.next_deadline());
        let unsent = self.outbox.next_deadline();
        if let Some(deadline) = earlier(sent, unsent) {
            // Each look at all requests takes a small part of the time until the next one.
            let count = u32::try_from(self.pending()).unwrap_or(u32::MAX);
            let next_look = now.after(scaled(LOOK_PER_REQUEST, count, 1));
            self.timers.set(SessionTimer::Deadline, deadline.max(next_look));
        }
    }
}
