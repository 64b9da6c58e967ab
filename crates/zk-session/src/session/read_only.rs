//! The search for a read-write server while a read-only one serves the session.
//!
//! A server without a quorum can serve reads, to sessions that accept that and that no read-write
//! server knows. Meanwhile the session probes the other servers, one at a time (`docs/protocol.md`,
//! *Keep-alive and the choice of a server*).

use super::*;
use crate::time::{Span, scaled};

const FIRST_PROBE: Span = Span::from_millis(100);
const LAST_PROBE: Span = Span::from_secs(60);

/// # Inputs: read-only servers
impl<T> Session<T> {
    /// Reports the answer to [`Action::Probe`]: whether `server` is read-write. A probe that failed
    /// need not be reported.
    pub fn handle_probed(&mut self, now: Instant, server: usize, read_write: bool) {
        self.recorder.input(Kind::PROBED, Some(now), &[server as u64, read_write.into()]);
        // A closing session stays: it writes nothing more, and a move would lose the close on its way.
        if self.is_searching()
            && !self.closing
            && read_write
            && self.server() != Some(server)
            && self.servers.prefer(server)
        {
            self.disconnect(now, Cause::ReadWriteFound);
            if self.connection.is_none() && self.ended.is_none() {
                self.timers.unset(SessionTimer::Retry);
                self.connect_next(now);
            }
        }
    }

    pub(super) fn is_searching(&self) -> bool {
        self.is_connected() && self.is_read_only()
    }

    pub(super) fn begin_probing(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection {
            connection.probe_delay = FIRST_PROBE;
            connection.timers.set(ConnectionTimer::Probe, now.after(FIRST_PROBE));
        }
    }

    pub(super) fn probe_next(&mut self, now: Instant) {
        if let Some(connection) = &mut self.connection
            && let Some(server) = self.servers.next_besides(connection.server)
        {
            self.actions.push_back(Action::Probe(server));
            connection.probe_delay = scaled(connection.probe_delay, 2, 1).min(LAST_PROBE);
            connection.timers.set(ConnectionTimer::Probe, now.after(connection.probe_delay));
        }
    }
}
