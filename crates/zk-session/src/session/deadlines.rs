//! What happens when time passes.

use core::ops::RangeInclusive;

use super::*;

/// The shortest and the longest time that a server gets in the first round to be reached, and then
/// again to answer the handshake, if there is no session to be saved.
const FIRST_CONNECT_TIMEOUT: RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(10);

/// While the session can be saved, a round of all servers may take this part of its timeout.
const SAVING_ROUND: u32 = 4;
/// While the session can be saved, each server gets this part of its timeout at least.
const LEAST_SAVING_SHARE: u32 = 20;
/// While the session can be saved, a server gets so many times as long as one took before.
const SLOWER: u32 = 3;

/// While the session can be saved, no more than this part of its timeout passes between rounds.
const SAVING_BACK_OFF: u32 = 20;
/// More rounds than fit in one timeout. If none of them was served, hurry does not help.
const MOST_SAVING_ROUNDS: u32 = 64;
/// The longest time between rounds while a caller waits for the session to begin.
const FIRST_SESSION_BACK_OFF: Duration = Duration::from_secs(1);
/// The longest time between rounds.
const LAST_BACK_OFF: Duration = Duration::from_secs(5);

/// How many pings may be unanswered, so that a server which answers none costs no memory. It is far
/// more than a slow link takes: answers that take long to arrive must not keep pings back.
const MOST_PINGS: usize = 64;

/// However long a session may be silent, a connection that goes nowhere is noticed sooner, and
/// whatever lies between does not forget it (PROTOCOL: `ClientCnxn.java` MAX_SEND_PING_INTERVAL).
const LAST_PING_INTERVAL: Duration = Duration::from_secs(10);

/// Returns how long after its last request a session with this timeout sends a ping: a third of the
/// timeout, but 10 s at most.
pub fn ping_interval(session_timeout: Duration) -> Duration {
    (session_timeout / 3).min(LAST_PING_INTERVAL)
}

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
                    // If there are too many, the next answer has the next one sent.
                    if self.outbox.pings() < MOST_PINGS {
                        self.outbox.push(&Request::Ping(()), Owner::Session, None, None);
                        self.timers.set(Timer::Ping, now + self.ping_interval());
                    }
                }
                Timer::Probe => self.probe_next(now),
                Timer::Patience => self.lose_patience(),
                Timer::Deadline => self.fail_late(now),
                Timer::Lease => self.look_at_lease(now),
            }
        }
    }

    /// Notes that something was sent that keeps the session alive if it arrives.
    pub(super) fn touched(&mut self, at: Instant) {
        if !self.read_only {
            self.touched_at = self.touched_at.max(Some(at));
        }
    }

    /// Whether the ensemble may still keep the session, so that there is reason to hurry.
    fn can_be_saved(&self, now: Instant) -> bool {
        self.touched_at.is_some_and(|at| now < at + self.timeout)
            && self.members.failed_rounds() < MOST_SAVING_ROUNDS
    }

    /// The longest time before the next round of attempts.
    pub(super) fn retry_limit(&self, now: Instant) -> Duration {
        if self.can_be_saved(now) {
            (self.timeout / SAVING_BACK_OFF).min(LAST_BACK_OFF)
        } else if self.seen_read_write {
            LAST_BACK_OFF
        } else {
            FIRST_SESSION_BACK_OFF
        }
    }

    /// How long it may take to reach a server. Servers out of reach must not use up the time that
    /// the session has left.
    pub(super) fn reach_timeout(&self, now: Instant) -> Duration {
        self.saving_share(now).unwrap_or_else(|| self.growing_share())
    }

    /// How long a server that was reached may take to answer the handshake. It is there, but all
    /// its clients may be back at the same time. So it gets twice as long as to be reached, and
    /// more with each round in which no server has answered, also while the session can be saved.
    pub(super) fn handshake_timeout(&self, now: Instant) -> Duration {
        let saving = self.saving_share(now).map(|share| self.grown(share * 2).min(self.share()));
        saving.unwrap_or_else(|| self.growing_share())
    }

    /// The time of one server, if there is a session to be saved.
    fn saving_share(&self, now: Instant) -> Option<Duration> {
        let slow = self.reach_time.filter(|_| self.can_be_saved(now))?.saturating_mul(SLOWER);
        let parts = self.count().saturating_mul(SAVING_ROUND).min(LEAST_SAVING_SHARE);
        Some((self.timeout / parts).max(slow).min(self.share()))
    }

    /// The time of one server if no session can be saved. It grows with each round in which no
    /// server has answered, because a slow link may need more than the first share.
    fn growing_share(&self) -> Duration {
        let share = self.share();
        let most =
            (self.timeout / self.count()).max(self.timeout.min(*FIRST_CONNECT_TIMEOUT.end()));
        self.grown(share).min(most.max(share))
    }

    fn share(&self) -> Duration {
        let (least, most) = FIRST_CONNECT_TIMEOUT.into_inner();
        (self.timeout / self.count()).clamp(least, most)
    }

    fn grown(&self, share: Duration) -> Duration {
        share.saturating_mul(1 << self.members.silent_rounds().min(16))
    }

    fn count(&self) -> u32 {
        u32::try_from(self.members.count()).unwrap_or(u32::MAX).max(1)
    }

    pub(super) fn read_timeout(&self) -> Duration {
        self.timeout / 3 * 2
    }

    pub(super) fn ping_interval(&self) -> Duration {
        ping_interval(self.timeout)
    }

    pub(super) fn begin_patience(&mut self, now: Instant) {
        if let Some(patience) = self.config.patience {
            self.timers.set(Timer::Patience, now + patience);
        }
    }

    pub(super) fn set_lease_timer(&mut self) {
        if let Some(end) = self.lease() {
            self.timers.set(Timer::Lease, end);
        }
    }

    /// Reports the end of the lease, once; the next answer that renews it sets the timer again.
    fn look_at_lease(&mut self, now: Instant) {
        match self.lease() {
            Some(end) if end > now => self.timers.set(Timer::Lease, end),
            Some(_) => self.events.push_back(Event::LeaseEnded),
            None => {}
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
