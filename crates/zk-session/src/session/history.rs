//! Servers whose history is older than what the session has seen.
//!
//! A server closes the connection of a client that has seen a newer transaction, without an answer.
//! A server that merely lags will catch up. Servers that have lost their data never do, and would
//! refuse the session for ever. But a server without a quorum closes the connection just the same.
//!
//! So the session asks, once its timeout is over and a whole round of servers has failed. It
//! presents itself to a server that has closed the handshake, as if it had seen nothing. The answer
//! needs the leader. If there is one, the session presents to the same server what it has seen.
//! If the server closes that handshake, too, its leader lacks a transaction that was committed. So
//! it has lost data, and the session ends as expired.
//!
//! The session never goes on without what it has seen: that would be time travel.

use super::*;

/// What a handshake is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be served.
    #[default]
    Service,
    /// To find out whether the server answers a session that has seen nothing.
    Question,
    /// To be served by a server that has answered a question.
    Proof,
}

/// What the session does about servers that close handshakes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct History {
    /// The server that was the last one to close a handshake in this round.
    refused_by: Option<usize>,
    /// What the next handshake is for.
    pub(super) next: Purpose,
    /// How long to wait before the next round, if the question has no answer.
    pub(super) back_off: Span,
}

impl<T> Session<T> {
    /// Records the loss of the connection. Returns whether it proves that servers have lost data.
    ///
    /// Call it before the connection is dropped.
    pub(super) fn note_history(&mut self, cause: Cause) -> bool {
        let closes = self.closes_handshake(cause);
        let Some(connection) = self.connection.as_ref().filter(|_| closes) else { return false };
        if connection.purpose == Purpose::Service {
            self.history.refused_by = Some(connection.server);
        }
        connection.purpose == Purpose::Proof
    }

    /// Returns whether the server closes the connection in place of an answer to the handshake.
    pub(super) fn closes_handshake(&self, cause: Cause) -> bool {
        let is_open = |connection: &Connection<T>| connection.stage == Stage::Handshaking;
        cause.is_transport() && self.connection.as_ref().is_some_and(is_open)
    }

    /// After a round in which all servers have failed, decides whether to ask one that has closed a
    /// handshake.
    pub(super) fn asks_next(&mut self, now: Instant) -> bool {
        let refused_by = self.history.refused_by.take();
        let is_over = self.touched_at.is_none_or(|at| at.after(self.timeouts.session) <= now);
        let asks = is_over
            && self.last_zxid > Zxid::ZERO
            && refused_by.is_some_and(|server| self.servers.prefer(server));
        if asks {
            self.history.next = Purpose::Question;
        }
        asks
    }

    /// Handles the answer to a question. What it says does not matter: the server repeats it if it
    /// knows what the session has seen.
    pub(super) fn prove(&mut self, now: Instant, server: usize) {
        self.servers.prefer(server);
        self.history.next = Purpose::Proof;
        self.actions.push_back(Action::Disconnect);
        self.connect_next(now);
    }
}
