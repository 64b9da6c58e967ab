//! Requests from their submission until they are sent completely.
//!
//! A request is encoded once, when it is submitted. It is *unsent* until the transport has taken
//! its last byte: before that, no server can have seen all of it. Then it moves to the connection's
//! requests [in flight](super::in_flight). When a connection is lost, requests in flight may have
//! been applied. Unsent ones were not, and are sent again on the next connection.

use alloc::vec::Vec;
use core::cell::Cell;
use core::fmt;
use core::ops::{Deref, DerefMut};

use zk_proto::{Encode, OpCode, Request, RequestHeader, Sink, Xid, frame};

use super::RequestId;
use super::in_flight::{InFlight, Sent};
use super::pending::{Late, PendingRequest, RequestOwner};
use super::queue::ShortQueue;
use crate::time::{Instant, earlier};

/// Bytes to send. `Debug` shows only how many there are, because they can hold credentials.
#[derive(Clone, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    /// How many of the bytes are sent. The rest waits.
    sent: usize,
}

impl SendBuffer {
    /// Removes waiting bytes that the transport has taken from the front.
    pub(super) fn advance(&mut self, count: usize) {
        self.sent += count;
        if self.is_empty() {
            self.clear();
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.sent = 0;
    }

    fn truncate(&mut self, waiting: usize) {
        self.bytes.truncate(self.sent + waiting);
    }

    fn capacity(&self) -> usize {
        self.bytes.capacity()
    }
}

impl Sink for SendBuffer {
    fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    fn reserve(&mut self, count: usize) {
        // Bytes move only if as many were sent, so each moves about once.
        if self.bytes.capacity() - self.bytes.len() < count && self.sent >= self.len() {
            let (waiting, sent) = (self.len(), core::mem::take(&mut self.sent));
            move_bytes(&mut self.bytes, sent, waiting, 0);
            self.bytes.truncate(waiting);
        }
        self.bytes.reserve(count);
    }
}

impl Deref for SendBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }
}

impl DerefMut for SendBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(self.sent..).unwrap_or_default()
    }
}

impl fmt::Debug for SendBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SendBuffer({} bytes)", self.len())
    }
}

#[derive(Clone, Debug)]
pub(super) struct Outbox<T> {
    /// The frames of `unsent`.
    bytes: SendBuffer,
    /// How many bytes each empty buffer keeps. See [`Config::max_kept`](super::Config::max_kept).
    max_kept: usize,
    unsent: ShortQueue<PendingRequest<T>>,
    /// How many of `unsent` are requests of callers.
    pub(super) callers: usize,
    /// How many of `bytes` belong to requests of callers.
    pub(super) callers_bytes: usize,
    last_xid: Xid,
}

impl<T> Outbox<T> {
    pub(super) fn new(max_kept: usize) -> Self {
        Self {
            bytes: SendBuffer::default(),
            max_kept,
            unsent: ShortQueue::new(),
            callers: 0,
            callers_bytes: 0,
            last_xid: Xid(0),
        }
    }

    /// Encodes a request of the session itself.
    pub(super) fn push_own(&mut self, request: &Request<'_>, owner: RequestOwner<T>) {
        let opcode = request.opcode();
        let xid = match opcode {
            OpCode::PING => Xid::PING,
            OpCode::AUTH => Xid::AUTH,
            _ => self.take_xid(),
        };
        let pending = PendingRequest {
            xid,
            opcode,
            length: request_length(request),
            owner,
            id: RequestId::without_watch(0),
            deadline: None,
            again: None,
            changes_nodes: false,
        };
        self.push(request, pending);
    }

    /// Encodes a request behind all others. The caller has checked its length.
    pub(super) fn push(&mut self, request: &Request<'_>, pending: PendingRequest<T>) {
        let header = RequestHeader { xid: pending.xid, opcode: pending.opcode };
        let before = self.bytes.len();
        put_frame_of(pending.length, &(header, request), &mut self.bytes);
        debug_assert_eq!(self.bytes.len() - before, pending.frame_length());
        if pending.is_callers() {
            self.callers += 1;
            self.callers_bytes += pending.frame_length();
        }
        self.unsent.push_back(pending);
    }

    /// Returns the xid of the newest request without a fixed one.
    pub(super) fn last_xid(&self) -> Xid {
        self.last_xid
    }

    /// Returns the next xid, for a request without a fixed one.
    pub(super) fn take_xid(&mut self) -> Xid {
        self.last_xid = self.last_xid.next();
        self.last_xid
    }

    /// Returns the bytes to send next, after the `taken` bytes of the first frame.
    pub(super) fn output(&self, taken: usize) -> &[u8] {
        self.bytes.get(taken..).unwrap_or_default()
    }

    /// Moves completely sent requests to `in_flight`.
    ///
    /// The transport has taken `taken` bytes, and no earlier than `sent_at`. Returns how many of
    /// them belong to the next request.
    pub(super) fn sent(
        &mut self,
        sent_at: Instant,
        taken: usize,
        in_flight: &mut InFlight<T>,
    ) -> usize {
        let taken = taken.min(self.bytes.len());
        let mut left = taken;
        while let Some(first) = self.unsent.front()
            && first.frame_length() <= left
            && let Some(pending) = self.unsent.pop_front()
        {
            left -= pending.frame_length();
            self.forget(&pending);
            // `Credentials` knows the callers that wait for this one.
            if pending.xid != Xid::AUTH {
                in_flight.push(Sent { sent_at, pending });
            }
        }
        self.bytes.advance(taken - left);
        self.shrink();
        left
    }

    /// Frees the capacity that a burst has taken, once everything is sent.
    fn shrink(&mut self) {
        if self.bytes.is_empty() && self.bytes.capacity() > self.max_kept {
            self.bytes = SendBuffer::default();
        }
        self.unsent.shrink(self.max_kept);
    }

    /// Returns how many pings are unsent.
    pub(super) fn pings(&self) -> usize {
        self.unsent.iter().filter(|unsent| unsent.xid == Xid::PING).count()
    }

    /// Takes the caller of the first request, which is partly sent, if its deadline has passed.
    pub(super) fn take_late_first(&mut self, now: Instant) -> Option<Late<T>> {
        self.unsent.front_mut()?.take_late(now)
    }

    /// Removes and returns requests whose deadline has passed.
    pub(super) fn remove_late(&mut self, now: Instant) -> Vec<PendingRequest<T>> {
        self.remove_unsent(&|pending| pending.deadline.is_some_and(|deadline| deadline <= now))
    }

    /// Returns the earliest deadline of all requests.
    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.unsent.iter().fold(None, |due, unsent| earlier(due, unsent.deadline))
    }

    /// Removes and returns unwanted requests. None of them may be partly sent.
    ///
    /// Removing the oldest requests is free. Removing others moves those behind them.
    ///
    /// Compiled once, and not for each kind of unwanted request.
    #[inline(never)]
    pub(super) fn remove_unsent(
        &mut self,
        unwanted: &dyn Fn(&PendingRequest<T>) -> bool,
    ) -> Vec<PendingRequest<T>> {
        let mut removed = Vec::new();
        while self.unsent.front().is_some_and(unwanted)
            && let Some(first) = self.unsent.pop_front()
        {
            self.bytes.advance(first.frame_length());
            self.forget(&first);
            removed.push(first);
        }
        if self.unsent.iter().any(unwanted) {
            let mut kept = ShortQueue::new();
            // Frames move from `from` to `to` and close the gaps.
            let (mut from, mut to) = (0, 0);
            for unsent in core::mem::take(&mut self.unsent) {
                let length = unsent.frame_length();
                if unwanted(&unsent) {
                    self.forget(&unsent);
                    removed.push(unsent);
                } else {
                    if from != to {
                        move_bytes(&mut self.bytes, from, length, to);
                    }
                    to += length;
                    kept.push_back(unsent);
                }
                from += length;
            }
            self.bytes.truncate(to);
            self.unsent = kept;
        }
        self.shrink();
        removed
    }

    /// Takes the request out of the counts.
    fn forget(&mut self, unsent: &PendingRequest<T>) {
        if unsent.is_callers() {
            self.callers -= 1;
            self.callers_bytes -= unsent.frame_length();
        }
    }

    /// Keeps requests that callers wait for, to send them on the next connection. Returns the
    /// others.
    pub(super) fn lose_connection(&mut self) -> Vec<PendingRequest<T>> {
        self.remove_unsent(&|pending| !matches!(pending.owner, RequestOwner::Caller(_)))
    }

    /// Returns the first request, if a connection is being lost while it is partly sent.
    pub(super) fn first(&self) -> Option<&PendingRequest<T>> {
        self.unsent.front()
    }

    /// Takes the first request. It must not be partly sent.
    pub(super) fn take_first(&mut self) -> Option<PendingRequest<T>> {
        let first = self.unsent.pop_front()?;
        self.bytes.advance(first.frame_length());
        self.forget(&first);
        Some(first)
    }

    /// Takes all requests after the session has ended.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = PendingRequest<T>> + use<T> {
        self.bytes.clear();
        (self.callers, self.callers_bytes) = (0, 0);
        core::mem::take(&mut self.unsent).into_iter()
    }
}

#[cfg(test)]
impl<T> Outbox<T> {
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.unsent.capacity()
    }

    pub(super) fn set_last_xid(&mut self, xid: Xid) {
        self.last_xid = xid;
    }
}

/// Appends a frame.
pub(super) fn put_frame(message: &impl Encode, out: &mut SendBuffer) {
    put_frame_of(message.encoded_len(), message, out);
}

/// Appends a frame of this length. No request is longer than
/// [`max_request`](super::Config::max_request), which is below 2 GiB.
// Inlined, since a call would take half as long as the frame of a short request.
#[cfg_attr(not(target_os = "none"), inline(always))]
fn put_frame_of(length: usize, message: &impl Encode, out: &mut SendBuffer) {
    // On boards, a dynamic sink keeps one copy of each encoder. `encoded_len` uses one, too.
    #[cfg(target_os = "none")]
    let out: &mut dyn Sink = out;
    out.reserve(frame::PREFIX_LEN + length);
    (length as i32).encode(out);
    message.encode(out);
}

/// Moves bytes, like `copy_within` but without its panics.
fn move_bytes(bytes: &mut [u8], from: usize, length: usize, to: usize) {
    let bytes = Cell::from_mut(bytes).as_slice_of_cells();
    if let (Some(moved), Some(target)) = (bytes.get(from..from + length), bytes.get(to..)) {
        moved.iter().zip(target).for_each(|(byte, target)| target.set(byte.get()));
    }
}

/// Returns the length of a request's frame without its prefix, in bytes.
pub(super) fn request_length(request: &Request<'_>) -> usize {
    RequestHeader { xid: Xid::FIRST, opcode: request.opcode() }.encoded_len()
        + request.encoded_len()
}
