//! The requests that wait for their reply.

use alloc::collections::BTreeMap;

use crate::codes::OpCode;
use crate::header::{RequestHeader, Xid};

/// The requests that wait for their reply, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    limit: usize,
    by_xid: BTreeMap<(Xid, u64), OpCode>,
    by_number: BTreeMap<u64, Xid>,
}

impl Unanswered {
    /// Creates an empty list that forgets its oldest request when it has more than `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, by_xid: BTreeMap::new(), by_number: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Adds a request. Numbers must increase.
    pub(crate) fn insert(&mut self, header: RequestHeader, number: u64) {
        // The reply to a ping has the xid of pings, whatever the request had.
        let xid = if header.opcode == OpCode::PING { Xid::PING } else { header.xid };
        self.by_xid.insert((xid, number), header.opcode);
        self.by_number.insert(number, xid);
        let excess = if self.len() > self.limit { self.by_number.pop_first() } else { None };
        if let Some((oldest, xid)) = excess {
            self.by_xid.remove(&(xid, oldest));
        }
    }

    /// Removes the oldest request with the xid of a reply, and returns its operation and number.
    pub(crate) fn remove(&mut self, xid: Xid) -> Option<(OpCode, u64)> {
        let (key, opcode) = self.by_xid.range((xid, 0)..=(xid, u64::MAX)).next()?;
        let ((xid, number), opcode) = (*key, *opcode);
        self.by_xid.remove(&(xid, number));
        self.by_number.remove(&number);
        Some((opcode, number))
    }
}
