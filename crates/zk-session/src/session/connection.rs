//! How connections begin and end, and how the session does.

use super::*;

/// # Inputs: the transport is gone
impl<T> Session<T> {
    /// The transport could not be made, or is gone.
    pub fn handle_disconnected(&mut self, now: Instant) {
        if self.member().is_some() {
            self.disconnected(now, Cause::Transport);
        }
    }

    /// The member sent a frame of impossible length, after which nothing can be read.
    pub fn handle_bad_frame(&mut self, now: Instant, error: frame::FrameError) {
        self.disconnect(now, Cause::Frame(error));
    }

    pub(super) fn connect_next(&mut self, now: Instant) {
        if let Some(member) = self.members.take_next() {
            self.phase = Phase::Connecting(member);
            self.attempt_began = now;
            self.timers.set(Timer::Connect, now + self.reach_timeout(now));
            self.actions.push_back(Action::Connect(member));
        }
    }

    /// The transport must go, for a reason found here.
    pub(super) fn disconnect(&mut self, now: Instant, cause: Cause) {
        if self.member().is_some() {
            self.actions.push_back(Action::Disconnect);
            self.disconnected(now, cause);
        }
    }

    /// The transport is gone.
    fn disconnected(&mut self, now: Instant, cause: Cause) {
        let was_connected = matches!(self.phase, Phase::Connected(_));
        if let Some(member) = self.member() {
            self.events.push_back(Event::Disconnected { member, cause });
        }
        if self.closing {
            return self.finish(End::Closed);
        }
        self.phase = Phase::Waiting;
        self.end_exchange(Error::ConnectionLost);
        self.timers.clear_connection();
        self.prelude.clear();
        if was_connected {
            for pending in self.outbox.lose_in_flight() {
                self.fail(pending, Error::ConnectionLost);
            }
            if let Some(pending) = self.outbox.take_undeliverable() {
                self.fail(pending, Error::Undeliverable);
            }
            self.watches.disconnected();
            self.credentials.disconnected();
            self.events.push_back(Event::State(self.state()));
            self.begin_patience(now);
        }
        let limit = self.retry_limit(now);
        let mut delay = Duration::ZERO;
        if was_connected {
            delay = self.members.delay_after_loss(limit);
        }
        if !self.served {
            delay =
                delay.max(self.members.delay_after_failure(cause == Cause::ConnectTimeout, limit));
        }
        self.served = false;
        self.unanswered_batches = 0;
        self.timers.set(Timer::Retry, now + delay);
    }

    /// The member has answered something. One that shakes hands but answers nothing, or does not
    /// set the watches again, has served nobody.
    pub(super) fn note_service(&mut self) {
        if !self.served && self.unanswered_batches == 0 {
            self.served = true;
            self.members.succeeded();
        }
    }

    pub(super) fn finish(&mut self, end: End) {
        self.phase = Phase::Ended(end);
        self.timers.clear();
        self.prelude.clear();
        (self.refused, self.impatient) = (false, false);
        self.end_exchange(Error::Ended { end, outcome: Outcome::Unknown });
        for pending in self.outbox.lose_in_flight() {
            self.fail(pending, Error::Ended { end, outcome: Outcome::Unknown });
        }
        for pending in self.outbox.drop_unsent() {
            self.fail(pending, Error::Ended { end, outcome: Outcome::NotApplied });
        }
        for token in self.credentials.clear() {
            let result = Err(Error::Ended { end, outcome: Outcome::NotApplied });
            self.events.push_back(Event::Reply { token, result });
        }
        self.watches = Watches::default();
        self.events.push_back(Event::State(self.state()));
    }

    pub(super) fn fail(&mut self, pending: Pending<T>, error: Error) {
        if let Some(registration) = &pending.registration {
            let removal = self.watches.abandon(registration);
            self.remove_watch(removal);
        }
        if let Owner::Caller(token) = pending.owner {
            self.events.push_back(Event::Reply { token, result: Err(error) });
        }
    }
}
