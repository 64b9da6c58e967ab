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
//! * Meanwhile no request of this kind was answered, nor a request with its operation after a longer
//!   one, and no connection was [of use](Session::note_service).
//! * The request is longer than every answered one, or some servers lack its operation.

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

impl<T> Session<T> {
    /// Returns whether a Keeper serves the session, of which some lack this operation.
    fn may_lack(&self, opcode: OpCode) -> bool {
        self.server_kind == ServerKind::Keeper && required_version(opcode).is_some()
    }

    /// Returns whether a server may close the connection at a request of this kind.
    fn may_refuse(&self, opcode: OpCode, length: usize) -> bool {
        length > self.longest_answered || required_version(opcode).is_some()
    }

    /// Returns whether the suspect is a request of this kind. If the server may lack the operation,
    /// the length does not matter.
    pub(super) fn is_suspect(&self, opcode: OpCode, length: usize) -> bool {
        self.suspect.is_some_and(|suspect| {
            suspect.opcode == opcode && (suspect.length == length || self.may_lack(opcode))
        })
    }

    /// Forgets the suspect if the answer to a request shows that a server does not close the
    /// connection at it: it has the operation, and the length is that of an answered one.
    pub(super) fn acquit(&mut self, answered: OpCode) {
        if let Some(suspect) = self.suspect
            && suspect.opcode == answered
            && (suspect.length <= self.longest_answered || self.may_lack(answered))
        {
            self.suspect = None;
        }
    }

    /// Returns the error for a request of this kind, if servers close connections at it.
    ///
    /// Nothing is sent. So the outcome is certain, and callers have learned from the lost connections
    /// that of earlier requests.
    pub(super) fn refusal(&self, opcode: OpCode, length: usize) -> Option<Error> {
        let is_refused = |suspect: Suspect| suspect.strikes >= MAX_STRIKES;
        if !DEADLINES || !self.is_suspect(opcode, length) || !self.suspect.is_some_and(is_refused) {
            return None;
        }
        Some(match self.may_lack(opcode) {
            true => Error::Unsupported { opcode, needs: "ZooKeeper or a newer ClickHouse Keeper" },
            false => Error::Undeliverable { opcode, length },
        })
    }

    /// Forgets the suspect after a connection that was of use, since servers may change. A Keeper
    /// would end another three sessions.
    pub(super) fn forgive(&mut self) {
        let lacks = self.suspect.filter(|suspect| suspect.strikes >= MAX_STRIKES);
        self.suspect = lacks.filter(|suspect| self.may_lack(suspect.opcode));
    }

    /// Finds the request that may have ended a connection: the suspect, if it was unanswered again,
    /// or else the oldest. On a Keeper, an operation that it may lack comes first.
    pub(super) fn find_suspect(&mut self, now: Instant, cause: Cause, lost: &Connection<T>) {
        if !DEADLINES {
            return;
        }
        let soon = self.reach_timeout(now);
        let in_flight = lost.in_flight.sent_within(now, soon).filter(|_| cause.is_transport());
        let begun = self.outbox.first().filter(|_| lost.taken > 0);
        let (mut oldest, mut is_suspect, mut may_lack_one) = (None, false, false);
        for pending in in_flight.chain(begun) {
            let may_lack = self.may_lack(pending.opcode);
            if !self.may_refuse(pending.opcode, pending.length) || may_lack_one && !may_lack {
                continue;
            }
            if may_lack && !may_lack_one {
                (oldest, is_suspect, may_lack_one) = (None, false, true);
            }
            oldest.get_or_insert(pending);
            is_suspect |= self.is_suspect(pending.opcode, pending.length);
        }
        self.suspect = match self.suspect {
            Some(known) if is_suspect => {
                Some(Suspect { strikes: known.strikes.saturating_add(1), ..known })
            }
            _ => oldest.map(|oldest| Suspect {
                opcode: oldest.opcode,
                length: oldest.length,
                strikes: 1,
            }),
        };
    }
}
