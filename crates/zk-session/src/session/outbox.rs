//! Requests from the moment they are encoded to the moment they are answered.
//!
//! A request is encoded once, when it is submitted. It is *unsent* until the transport has taken
//! its last byte; only then can a server have seen it as a whole. So when a connection is lost,
//! what is in flight may have been applied, and what is unsent has not been and is sent again.

use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;

use bytes::{Buf, BytesMut};
use zk_proto::{Encode, OpCode, Request, RequestHeader, Xid, frame};

use super::RequestId;
use super::watches::Registration;
use crate::time::Instant;

/// What an empty buffer may keep, in bytes; what a burst took beyond it is given back.
const KEPT: usize = 64 << 10;

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(super) struct Pending<T> {
    pub(super) xid: Xid,
    pub(super) opcode: OpCode,
    pub(super) owner: Owner<T>,
    pub(super) registration: Option<Registration>,
    /// When the caller stops waiting.
    pub(super) deadline: Option<Instant>,
}

impl<T> Pending<T> {
    /// Whether a caller has submitted it, rather than the session for itself. Only such requests
    /// count against the caller's limits.
    fn is_callers(&self) -> bool {
        matches!(self.owner, Owner::Caller(_) | Owner::Nobody)
    }
}

/// Who wants the answer.
#[derive(Clone, Debug)]
pub(super) enum Owner<T> {
    Caller(T),
    Session,
    /// The session, which asked for a persistent watch on this path to be removed.
    Removal(Arc<str>),
    /// A caller who has stopped waiting.
    Nobody,
}

/// After so many connections that were lost while the same request was being sent, it is at fault.
const MOST_CUTS: u8 = 3;

#[derive(Clone, Debug)]
struct Unsent<T> {
    /// Length of the frame, with its prefix.
    length: usize,
    /// How many connections were lost after a part of it was sent.
    cuts: u8,
    pending: Pending<T>,
}

/// A request that a server may have seen.
#[derive(Clone, Debug)]
pub(super) struct InFlight<T> {
    pub(super) sent_at: Instant,
    pub(super) pending: Pending<T>,
}

/// A request whose deadline has passed.
#[derive(Debug)]
pub(super) struct Late<T> {
    pub(super) token: T,
    /// The watch it asks for.
    pub(super) watch: Option<RequestId>,
}

#[derive(Clone, Debug)]
pub(super) struct Outbox<T> {
    /// The frames of `unsent`.
    bytes: BytesMut,
    /// The most that `bytes` had room for; its own capacity does not count what was sent.
    room: usize,
    /// How many of `bytes` the transport has taken: always less than the first frame.
    taken: usize,
    unsent: VecDeque<Unsent<T>>,
    in_flight: VecDeque<InFlight<T>>,
    /// How many requests of callers are not answered.
    callers: usize,
    /// How many of `bytes` are of requests of callers.
    callers_bytes: usize,
    last_xid: Xid,
}

impl<T> Outbox<T> {
    pub(super) fn new() -> Self {
        Self {
            bytes: BytesMut::new(),
            room: 0,
            taken: 0,
            unsent: VecDeque::new(),
            in_flight: VecDeque::new(),
            callers: 0,
            callers_bytes: 0,
            last_xid: Xid(0),
        }
    }

    /// How many requests of callers are not answered yet.
    pub(super) fn callers(&self) -> usize {
        self.callers
    }

    /// How many bytes of requests of callers are not sent yet.
    pub(super) fn callers_bytes(&self) -> usize {
        self.callers_bytes
    }

    /// Encodes a request behind all others. Its length must have been checked.
    pub(super) fn push(
        &mut self,
        request: &Request<'_>,
        owner: Owner<T>,
        registration: Option<Registration>,
        deadline: Option<Instant>,
    ) {
        let opcode = request.opcode();
        let xid = match opcode {
            OpCode::PING => Xid::PING,
            OpCode::AUTH => Xid::AUTH,
            _ => self.take_xid(),
        };
        let message = (RequestHeader { xid, opcode }, request);
        let before = self.bytes.len();
        frame::encode(&message, &mut self.bytes)
            .expect("Session::submit refuses what is longer than its limit, which is below 2 GiB");
        self.room = self.room.max(self.bytes.capacity());
        let length = self.bytes.len() - before;
        let pending = Pending { xid, opcode, owner, registration, deadline };
        if pending.is_callers() {
            self.callers += 1;
            self.callers_bytes += length;
        }
        self.unsent.push_back(Unsent { length, cuts: 0, pending });
    }

    /// An xid for a request that has none of its own.
    pub(super) fn take_xid(&mut self) -> Xid {
        self.last_xid = self.last_xid.next();
        self.last_xid
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
            && let Some(Unsent { length, pending, .. }) = self.unsent.pop_front()
        {
            self.bytes.advance(length);
            self.taken -= length;
            if pending.is_callers() {
                self.callers_bytes -= length;
            }
            // Who waits for the answer to a credential is known elsewhere.
            if pending.xid != Xid::AUTH {
                self.in_flight.push_back(InFlight { sent_at, pending });
            }
        }
        self.shrink();
    }

    /// Gives back what a burst took, once nothing of it is left to be sent.
    fn shrink(&mut self) {
        if self.bytes.is_empty() && self.room > KEPT {
            (self.bytes, self.room) = (BytesMut::new(), 0);
        }
        shrink(&mut self.unsent);
    }

    /// Takes the oldest ping in flight. Servers answer it in line with others, but nothing depends
    /// on that: its answer does not say which ping it is for.
    pub(super) fn take_ping(&mut self) -> Option<InFlight<T>> {
        let is_ping = |sent: &InFlight<T>| sent.pending.xid == Xid::PING;
        let place = self.in_flight.iter().position(is_ping)?;
        self.in_flight.remove(place)
    }

    /// How many pings are not answered yet.
    pub(super) fn pings(&self) -> usize {
        let in_flight = self.in_flight.iter().map(|sent| &sent.pending);
        let unsent = self.unsent.iter().map(|unsent| &unsent.pending);
        in_flight.chain(unsent).filter(|pending| pending.xid == Xid::PING).count()
    }

    /// Takes the request that a reply answers: the oldest one in flight, unless this reply may
    /// have overtaken others.
    ///
    /// # Errors
    ///
    /// When it answers another one, or none: the xid of the oldest.
    pub(super) fn take_answered(
        &mut self,
        xid: Xid,
        may_overtake: bool,
    ) -> Result<InFlight<T>, Option<Xid>> {
        let answered = self.find_answered(xid, may_overtake)?;
        self.callers -= usize::from(answered.pending.is_callers());
        Ok(answered)
    }

    fn find_answered(&mut self, xid: Xid, may_overtake: bool) -> Result<InFlight<T>, Option<Xid>> {
        // Mostly it is the first; the rest is for pings, and for what overtakes.
        let first = self.in_flight.front().map(|sent| sent.pending.xid);
        if first == Some(xid) && xid != Xid::PING {
            let answered = self.in_flight.pop_front().ok_or(None);
            shrink(&mut self.in_flight);
            return answered;
        }
        let is_request = |sent: &InFlight<T>| sent.pending.xid != Xid::PING;
        let oldest = self.in_flight.iter().position(is_request).ok_or(None)?;
        let expected = self.in_flight.get(oldest).map(|sent| sent.pending.xid);
        let place = if expected == Some(xid) {
            oldest
        } else if may_overtake {
            let answered = |sent: &InFlight<T>| is_request(sent) && sent.pending.xid == xid;
            self.in_flight.iter().position(answered).ok_or(expected)?
        } else {
            return Err(expected);
        };
        self.in_flight.remove(place).ok_or(expected)
    }

    /// Nobody waits any more for requests whose deadline has come: yields those in flight, whose
    /// answers are still to come, then those that are unsent, which never will be sent.
    pub(super) fn take_late(&mut self, now: Instant) -> (Vec<Late<T>>, Vec<Pending<T>>) {
        let is_late = |pending: &Pending<T>| pending.deadline.is_some_and(|at| at <= now);
        let begun = self.unsent.iter_mut().take(usize::from(self.taken > 0));
        let sent = self.in_flight.iter_mut().map(|sent| &mut sent.pending);
        let mut late = Vec::new();
        for pending in sent.chain(begun.map(|unsent| &mut unsent.pending)) {
            if is_late(pending) {
                pending.deadline = None;
                if let Owner::Caller(token) = core::mem::replace(&mut pending.owner, Owner::Nobody)
                {
                    let watch = pending.registration.as_ref().map(Registration::id);
                    late.push(Late { token, watch });
                }
            }
        }
        (late, self.remove_unsent(is_late))
    }

    /// The first deadline of all.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let sent = self.in_flight.iter().map(|sent| &sent.pending);
        let unsent = self.unsent.iter().map(|unsent| &unsent.pending);
        sent.chain(unsent).filter_map(|pending| pending.deadline).min()
    }

    /// Takes out requests. None of them may be one that the transport has begun to take.
    ///
    /// Those at the front, which have waited longest, cost nothing; others have what is behind
    /// them moved.
    pub(super) fn remove_unsent(
        &mut self,
        unwanted: impl Fn(&Pending<T>) -> bool,
    ) -> Vec<Pending<T>> {
        let mut removed = Vec::new();
        if !self.unsent.iter().any(|unsent| unwanted(&unsent.pending)) {
            return removed;
        }
        let mut kept = VecDeque::with_capacity(self.unsent.len());
        // Frames move from `from` to `to`, to close the gaps.
        let (mut from, mut to) = (0, 0);
        for unsent in core::mem::take(&mut self.unsent) {
            if !unwanted(&unsent.pending) {
                if from != to {
                    self.bytes.copy_within(from..from + unsent.length, to);
                }
                from += unsent.length;
                to += unsent.length;
                kept.push_back(unsent);
            } else {
                if kept.is_empty() {
                    self.bytes.advance(unsent.length);
                } else {
                    from += unsent.length;
                }
                if unsent.pending.is_callers() {
                    self.callers -= 1;
                    self.callers_bytes -= unsent.length;
                }
                removed.push(unsent.pending);
            }
        }
        self.bytes.truncate(to);
        self.unsent = kept;
        self.shrink();
        removed
    }

    /// The connection is gone: keeps what callers wait for, to send it again, and yields the rest:
    /// what was in flight, what belongs to the connection, what nobody waits for.
    pub(super) fn lose_in_flight(&mut self) -> impl Iterator<Item = Pending<T>> + use<T> {
        if self.taken > 0
            && let Some(first) = self.unsent.front_mut()
        {
            first.cuts += 1;
        }
        self.taken = 0;
        let dropped = self.remove_unsent(|pending| !matches!(pending.owner, Owner::Caller(_)));
        let in_flight = core::mem::take(&mut self.in_flight);
        // What is kept is unsent, and all of it is the callers'.
        self.callers = self.unsent.len();
        in_flight.into_iter().map(|sent| sent.pending).chain(dropped)
    }

    /// Takes the first request, if it is what connection after connection was lost by.
    pub(super) fn take_undeliverable(&mut self) -> Option<Pending<T>> {
        self.unsent.front().filter(|first| first.cuts >= MOST_CUTS)?;
        let Unsent { length, pending, .. } = self.unsent.pop_front()?;
        self.bytes.advance(length);
        if pending.is_callers() {
            self.callers -= 1;
            self.callers_bytes -= length;
        }
        Some(pending)
    }

    /// The session is gone: yields what was never sent.
    pub(super) fn drop_unsent(&mut self) -> impl Iterator<Item = Pending<T>> + use<T> {
        self.taken = 0;
        self.bytes.clear();
        (self.callers, self.callers_bytes) = (0, 0);
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

/// Gives back what an empty queue has grown to.
pub(super) fn shrink<E>(queue: &mut VecDeque<E>) {
    if queue.is_empty() && queue.capacity() * size_of::<E>() > KEPT {
        *queue = VecDeque::new();
    }
}

/// The length of a request's frame without its prefix.
pub(super) fn request_length(request: &Request<'_>) -> usize {
    RequestHeader { xid: Xid::FIRST, opcode: request.opcode() }.encoded_len()
        + request.encoded_len()
}
