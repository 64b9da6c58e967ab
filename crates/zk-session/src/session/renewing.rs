//! A new session in place of one that has expired.

use super::*;

impl<T> Session<T> {
    /// Returns whether the session has expired and waits for [`renew`](Self::renew).
    pub(super) fn is_expired(&self) -> bool {
        self.config.renews() && self.ended == Some(End::Expired)
    }

    /// Opens a new session in place of the expired one. Call it once [`State::Renewing`] was
    /// polled; in any other state it does nothing.
    ///
    /// Until this call the session refuses requests. So nothing that was submitted by somebody who
    /// did not know of the expiry reaches the new session. The [dispatcher](crate::dispatch) calls
    /// it after its machines have learned of the end.
    ///
    /// * The new session starts like the first one: id 0, the requested timeout, and no newest
    ///   transaction. So every server accepts it, even of an ensemble that was restored from a
    ///   backup. Its first reads may be older than the last ones of the expired session.
    /// * Credentials are presented again, and persistent watches set again, with an
    ///   [`Event::Gap`].
    /// * Requests wait for the new session, within the limits of [`Config::max_pending`],
    ///   [`Config::max_unsent`] and [`disconnect_timeout`](field@Config::disconnect_timeout).
    ///
    /// ```
    /// use zk_session::session::{Config, Session, State};
    /// use zk_session::time::Instant;
    ///
    /// let mut config = Config::new(3, 42);
    /// config.renew = true;
    /// let mut session: Session<()> = Session::new(Instant::START, config);
    /// // In the loop, after the events were polled.
    /// if session.state() == State::Renewing {
    ///     session.renew(Instant::START);
    /// }
    /// ```
    pub fn renew(&mut self, now: Instant) {
        if !self.is_expired() {
            return;
        }
        let had_begun = self.has_begun;
        self.ended = None;
        self.is_successor = true;
        self.statistics.renewals += 1;
        self.id = SessionId::NONE;
        self.password = HiddenBytes(Bytes::from_static(&NO_PASSWORD));
        self.timeouts = Timeouts::new(self.config.timeout);
        self.last_zxid = Zxid::ZERO;
        self.ephemerals.clear();
        (self.lease_start, self.touched_at) = (None, None);
        (self.seen_read_write, self.has_begun) = (false, false);
        // Servers may expire each session as soon as it has begun, or before, so the delay grows.
        let limit = self.retry_limit(now);
        let delay = match had_begun {
            true => self.servers.delay_after_loss(limit),
            false => self.servers.delay_after_failure(false, limit),
        };
        self.timers.set(SessionTimer::Retry, now.after(delay));
    }
}
