//! A request that waits for its reply, unsent or in flight.

use zk_proto::{OpCode, Xid};

use super::RequestId;
use super::ephemerals::Changes;
use super::watches::{PersistentPath, Registration};
use crate::time::Instant;

/// A request that waits for its reply.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest<T> {
    pub(super) xid: Xid,
    pub(super) opcode: OpCode,
    /// The length of the request, in bytes: its frame without the prefix.
    pub(super) length: usize,
    pub(super) owner: RequestOwner<T>,
    pub(super) registration: Option<Registration>,
    /// The time at which the caller stops waiting.
    pub(super) deadline: Option<Instant>,
    /// Repeats the token, for a reply that comes in pieces. `None` if the caller wants it whole.
    pub(super) again: Option<Again<T>>,
    /// What it changes of the session's ephemeral nodes.
    pub(super) changes: Changes,
}

/// Returns a token once more.
pub(crate) type Again<T> = fn(&T) -> Option<T>;

impl<T> PendingRequest<T> {
    /// Returns whether a caller has submitted the request. Only such requests count against the
    /// limits.
    pub(super) fn is_callers(&self) -> bool {
        matches!(self.owner, RequestOwner::Caller(_) | RequestOwner::Nobody)
    }

    /// Returns the token for a piece of the reply, if the caller still waits.
    pub(super) fn token_again(&self) -> Option<T> {
        match &self.owner {
            RequestOwner::Caller(token) => self.again.and_then(|again| again(token)),
            _ => None,
        }
    }

    /// Takes the caller, if the deadline has passed.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<Late<T>> {
        self.deadline.take_if(|deadline| *deadline <= now)?;
        let watch = self.registration.as_ref().map(Registration::id);
        match core::mem::replace(&mut self.owner, RequestOwner::Nobody) {
            RequestOwner::Caller(token) => Some(Late { opcode: self.opcode, token, watch }),
            _ => None,
        }
    }
}

/// The receiver of a reply.
#[derive(Clone, Debug)]
pub(super) enum RequestOwner<T> {
    Caller(T),
    Session,
    /// The session, which removes a persistent watch of this path.
    Removal(PersistentPath),
    /// A caller that has stopped waiting.
    Nobody,
}

/// A request whose deadline has passed.
#[derive(Debug)]
pub(super) struct Late<T> {
    pub(super) opcode: OpCode,
    pub(super) token: T,
    /// The watch that the request sets.
    pub(super) watch: Option<RequestId>,
}
