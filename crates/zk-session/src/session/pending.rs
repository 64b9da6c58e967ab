//! A request that waits for its reply, unsent or in flight.

use zk_proto::{OpCode, Xid, frame};

use super::RequestId;
use super::watches::PersistentPath;
use crate::time::Instant;

/// A request that waits for its reply.
#[derive(Clone, Debug)]
pub(super) struct PendingRequest<T> {
    pub(super) xid: Xid,
    pub(super) opcode: OpCode,
    /// The length of the request, in bytes: its frame without the prefix.
    pub(super) length: usize,
    pub(super) owner: RequestOwner<T>,
    /// Names the watch that it sets, if any.
    pub(super) id: RequestId,
    /// The time at which the caller stops waiting.
    pub(super) deadline: Option<Instant>,
    /// Repeats the token, for a reply that comes in pieces. `None` if the caller wants it whole.
    pub(super) again: Option<Again<T>>,
    /// Whether it may change ephemeral nodes of the session, which keeps these changes.
    #[cfg_attr(not(feature = "blocking"), allow(dead_code, reason = "only clients count nodes"))]
    pub(super) changes_nodes: bool,
}

/// Returns a token once more.
pub(crate) type Again<T> = fn(&T) -> Option<T>;

impl<T> PendingRequest<T> {
    /// Returns whether a caller has submitted the request. Only such requests count against the
    /// limits.
    pub(super) fn is_callers(&self) -> bool {
        !matches!(self.owner, RequestOwner::Session | RequestOwner::Removal(_))
    }

    /// Returns the length of its frame with the prefix, in bytes.
    pub(super) fn frame_length(&self) -> usize {
        self.length + frame::PREFIX_LEN
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
        match core::mem::replace(&mut self.owner, RequestOwner::Nobody) {
            RequestOwner::Caller(token) => Some(Late { opcode: self.opcode, token, id: self.id }),
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
    /// Names the watch that the request sets, if any.
    pub(super) id: RequestId,
}
