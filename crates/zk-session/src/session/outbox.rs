//! Requests from the moment they are encoded to the moment they are answered.
//!
//! A request is encoded once, when it is submitted. It is *unsent* until the transport has taken
//! its last byte; only then can a server have seen it as a whole. So when a connection is lost,
//! what is in flight may have been applied, and what is unsent has not been and is sent again.

use alloc::collections::VecDeque;

use bytes::{Buf, BytesMut};
use zk_proto::{Encode, OpCode, Request, RequestHeader, Xid, frame};

use super::watches::Registration;
use crate::time::Instant;

/// A request that waits for its answer.
#[derive(Debug)]
pub(super) struct Pending<T> {
    pub(super) xid: Xid,
    pub(super) opcode: OpCode,
    pub(super) owner: Owner<T>,
    pub(super) registration: Option<Registration>,
}

/// Who wants the answer.
#[derive(Debug)]
pub(super) enum Owner<T> {
    Caller(T),
    Session,
}

#[derive(Debug)]
struct Unsent<T> {
    /// Length of the frame, with its prefix.
    length: usize,
    pending: Pending<T>,
}

/// A request that a server may have seen.
#[derive(Debug)]
pub(super) struct InFlight<T> {
    pub(super) sent_at: Instant,
    pub(super) pending: Pending<T>,
}

#[derive(Debug)]
pub(super) struct Outbox<T> {
    /// The frames of `unsent`.
    bytes: BytesMut,
    /// How many of `bytes` the transport has taken: always less than the first frame.
    taken: usize,
    unsent: VecDeque<Unsent<T>>,
    in_flight: VecDeque<InFlight<T>>,
    last_xid: Xid,
}

impl<T> Outbox<T> {
    pub(super) fn new() -> Self {
        Self {
            bytes: BytesMut::new(),
            taken: 0,
            unsent: VecDeque::new(),
            in_flight: VecDeque::new(),
            last_xid: Xid(0),
        }
    }

    /// How many requests are not answered yet.
    pub(super) fn len(&self) -> usize {
        self.unsent.len() + self.in_flight.len()
    }

    /// Encodes a request behind all others. Its length must have been checked.
    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        owner: Owner<T>,
        registration: Option<Registration>,
    ) {
        let opcode = request.opcode();
        let xid = if opcode == OpCode::PING {
            Xid::PING
        } else {
            self.last_xid = self.last_xid.next();
            self.last_xid
        };
        let message = (RequestHeader { xid, opcode }, request);
        let before = self.bytes.len();
        frame::encode(&message, &mut self.bytes)
            .expect("Session::submit refuses what is longer than its limit, which is below 2 GiB");
        let length = self.bytes.len() - before;
        let pending = Pending { xid, opcode, owner, registration };
        self.unsent.push_back(Unsent { length, pending });
    }

    /// What the transport is to take next.
    pub(super) fn output(&self) -> &[u8] {
        self.bytes.get(self.taken..).unwrap_or_default()
    }

    /// The transport took `count` bytes of the output, not before `sent_at`.
    pub(super) fn sent(&mut self, sent_at: Instant, count: usize) {
        self.taken = (self.taken + count).min(self.bytes.len());
        while let Some(first) = self.unsent.front()
            && first.length <= self.taken
            && let Some(Unsent { length, pending }) = self.unsent.pop_front()
        {
            self.bytes.advance(length);
            self.taken -= length;
            self.in_flight.push_back(InFlight { sent_at, pending });
        }
    }

    /// Takes the oldest ping in flight; pings are answered in order, but not in line with others.
    pub(super) fn take_ping(&mut self) -> Option<InFlight<T>> {
        let is_ping = |sent: &InFlight<T>| sent.pending.xid == Xid::PING;
        let place = self.in_flight.iter().position(is_ping)?;
        self.in_flight.remove(place)
    }

    pub(super) fn has_ping(&self) -> bool {
        self.in_flight.iter().any(|sent| sent.pending.xid == Xid::PING)
            || self.unsent.iter().any(|unsent| unsent.pending.xid == Xid::PING)
    }

    /// Takes the oldest request in flight, which is the one that the next reply answers.
    pub(super) fn take_oldest(&mut self) -> Option<InFlight<T>> {
        let is_request = |sent: &InFlight<T>| sent.pending.xid != Xid::PING;
        let place = self.in_flight.iter().position(is_request)?;
        self.in_flight.remove(place)
    }

    /// The connection is gone: yields what was in flight, and keeps the rest to send it again.
    pub(super) fn lose_in_flight(&mut self) -> impl Iterator<Item = Pending<T>> + use<T> {
        self.taken = 0;
        core::mem::take(&mut self.in_flight).into_iter().map(|sent| sent.pending)
    }

    /// The session is gone: yields what was never sent.
    pub(super) fn drop_unsent(&mut self) -> impl Iterator<Item = Pending<T>> + use<T> {
        self.taken = 0;
        self.bytes.clear();
        core::mem::take(&mut self.unsent).into_iter().map(|unsent| unsent.pending)
    }
}

#[cfg(test)]
impl<T> Outbox<T> {
    pub(super) fn last_xid(&self) -> Xid {
        self.last_xid
    }

    pub(super) fn set_last_xid(&mut self, xid: Xid) {
        self.last_xid = xid;
    }
}

/// The length of a request's frame without its prefix.
pub(super) fn request_length(request: &Request<'_>) -> usize {
    RequestHeader { xid: Xid::FIRST, opcode: request.opcode() }.encoded_len()
        + request.encoded_len()
}
