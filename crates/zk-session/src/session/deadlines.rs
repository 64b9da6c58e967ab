//! What happens when time passes.

use super::*;

/// The least time that one member gets to answer the handshake.
const LEAST_CONNECT_TIMEOUT: Duration = Duration::from_secs(1);

/// However long a session may be silent, a connection that goes nowhere is noticed sooner, and
/// whatever lies between does not forget it (PROTOCOL: `ClientCnxn.java` MAX_SEND_PING_INTERVAL).
const LAST_PING_INTERVAL: Duration = Duration::from_secs(10);

/// # Inputs: the clock
impl<T> Session<T> {
    /// Time has passed. Does nothing while no deadline has come.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Retry => self.connect_next(now),
                Timer::Connect => self.disconnect(now, Cause::ConnectTimeout),
                Timer::Read => self.disconnect(now, Cause::ReadTimeout),
                Timer::Ping => {
                    if !self.outbox.has_ping() {
                        self.outbox.push(&Request::Ping(()), Owner::Session, None, None);
                    }
                    self.timers.set(Timer::Ping, now + self.ping_interval());
                }
                Timer::Probe => self.probe_next(now),
                Timer::Patience => self.lose_patience(),
                Timer::Deadline => self.fail_late(now),
            }
        }
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        let count = u32::try_from(self.members.count()).unwrap_or(u32::MAX).max(1);
        (self.config.timeout / count).max(LEAST_CONNECT_TIMEOUT)
    }

    pub(super) fn read_timeout(&self) -> Duration {
        self.timeout / 3 * 2
    }

    pub(super) fn ping_interval(&self) -> Duration {
        (self.timeout / 3).min(LAST_PING_INTERVAL)
    }

    pub(super) fn begin_patience(&mut self, now: Instant) {
        if let Some(patience) = self.config.patience {
            self.timers.set(Timer::Patience, now + patience);
        }
    }

    /// There has been no connection for too long.
    fn lose_patience(&mut self) {
        self.impatient = true;
        for pending in
            self.outbox.remove_unsent(|pending| matches!(pending.owner, Owner::Caller(_)))
        {
            self.fail(pending, Error::NoConnection);
        }
    }

    /// Deadlines of requests that were answered are not looked for, so there may be none to fail.
    fn fail_late(&mut self, now: Instant) {
        let (in_flight, unsent) = self.outbox.take_late(now);
        for Late { token, watch } in in_flight {
            let result = Err(Error::DeadlinePassed { outcome: Outcome::Unknown });
            self.events.push_back(Event::Reply { token, result });
            if let Some(watch) = watch {
                self.unwatch(watch);
            }
        }
        for pending in unsent {
            self.fail(pending, Error::DeadlinePassed { outcome: Outcome::NotApplied });
        }
        if let Some(deadline) = self.outbox.next_deadline() {
            self.timers.set(Timer::Deadline, deadline);
        }
    }
}
