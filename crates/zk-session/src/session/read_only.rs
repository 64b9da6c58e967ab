//! The search for a member that can write, while a read-only one serves the session.
//!
//! A member that has lost touch with its leader can serve reads, to sessions that accept that and
//! that no other member knows. Meanwhile the others are asked, one at a time, whether they are back
//! in touch (PROTOCOL: `ClientCnxn.java` pingRwServer).

use super::*;

const FIRST_PROBE: Duration = Duration::from_millis(100);
const LAST_PROBE: Duration = Duration::from_secs(60);

/// # Inputs: read-only members
impl<T> Session<T> {
    /// The answer to [`Action::Probe`]: whether `member` can write. A member that cannot be asked
    /// cannot; that need not be told.
    pub fn handle_probed(&mut self, now: Instant, member: usize, read_write: bool) {
        if self.is_searching()
            && read_write
            && self.member() != Some(member)
            && self.members.prefer(member)
        {
            self.disconnect(now, Cause::ReadWriteFound);
            if self.phase == Phase::Waiting {
                self.timers.unset(Timer::Retry);
                self.connect_next(now);
            }
        }
    }

    pub(super) fn is_searching(&self) -> bool {
        self.read_only && matches!(self.phase, Phase::Connected(_))
    }

    pub(super) fn begin_probing(&mut self, now: Instant) {
        self.probe_delay = FIRST_PROBE;
        self.timers.set(Timer::Probe, now + self.probe_delay);
    }

    pub(super) fn probe_next(&mut self, now: Instant) {
        if let Some(current) = self.member()
            && let Some(member) = self.members.next_besides(current)
        {
            self.actions.push_back(Action::Probe(member));
            self.probe_delay = (self.probe_delay * 2).min(LAST_PROBE);
            self.timers.set(Timer::Probe, now + self.probe_delay);
        }
    }
}
