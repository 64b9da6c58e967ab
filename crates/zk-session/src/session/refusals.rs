//! Requests at which servers close the connection.
//!
//! A server does so, without a reply, at a request above its `jute.maxbuffer`. Some do it at an
//! operation that they lack. The caller repeats the request, and loses one connection after
//! another, and with it the watches and requests of all others.
//!
//! A lost connection alone proves nothing: a network fails, and servers restart. So a request is
//! refused only after three connections in a row were lost in the same way:
//!
//! * The server had answered the handshake, and closed the connection itself.
//! * It did so soon after a request of this kind was sent, and did not answer it.
//! * Meanwhile no request of this kind was answered, and no connection was [of
//!   use](Session::note_service).

use super::outbox::PendingRequest;
use super::*;

/// So many connections in a row must have ended with the request.
const MAX_STRIKES: u8 = 3;

/// A kind of request that was unanswered when connections ended. A caller that repeats a request
/// submits a new one, of the same kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Suspect {
    opcode: OpCode,
    /// The length of the request, in bytes.
    length: usize,
    /// How many connections in a row have ended with it.
    strikes: u8,
}

impl Suspect {
    pub(super) fn is(self, opcode: OpCode, length: usize) -> bool {
        (self.opcode, self.length) == (opcode, length)
    }
}

impl<T> Session<T> {
    /// Returns the error for a request of this kind, if servers close connections at it.
    ///
    /// Nothing is sent. So the outcome is certain, and callers have learned from the lost connections
    /// that of earlier requests.
    pub(super) fn refusal(&self, opcode: OpCode, length: usize) -> Option<Error> {
        self.suspect
            .filter(|_| DEADLINES)
            .filter(|suspect| suspect.strikes >= MAX_STRIKES && suspect.is(opcode, length))
            .map(|_| Error::Undeliverable { opcode, length })
    }

    /// Finds the request that may have ended a connection: the suspect, if it was unanswered again,
    /// or else the oldest. On a Keeper, an operation that it may lack comes first.
    pub(super) fn find_suspect(&mut self, now: Instant, cause: Cause, lost: &Connection<T>) {
        if !DEADLINES {
            return;
        }
        let soon = self.reach_timeout(now);
        let in_flight = lost.in_flight.sent_within(now, soon);
        let in_flight = in_flight.filter(|_| cause.is_transport());
        let begun = self.outbox.first().filter(|_| lost.taken > 0);
        let unanswered = in_flight.chain(begun);
        let is_lacking = |pending: &&PendingRequest<T>| {
            self.server_kind == ServerKind::Keeper && required_version(pending.opcode).is_some()
        };
        let is_one_lacking = unanswered.clone().any(|pending| is_lacking(&pending));
        let unanswered = unanswered.filter(|pending| !is_one_lacking || is_lacking(pending));
        let before = self.suspect;
        let is_suspect = |pending: &&PendingRequest<T>| {
            before.is_some_and(|suspect| suspect.is(pending.opcode, pending.length))
        };
        self.suspect = match unanswered.clone().find(is_suspect) {
            Some(_) => before.map(|it| Suspect { strikes: it.strikes.saturating_add(1), ..it }),
            None => unanswered.into_iter().next().map(|oldest| Suspect {
                opcode: oldest.opcode,
                length: oldest.length,
                strikes: 1,
            }),
        };
    }
}
