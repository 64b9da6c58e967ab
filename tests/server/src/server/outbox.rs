//! The output of the ensemble, and its traffic counters.

use alloc::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use rustc_hash::FxHashMap;
use zk_proto::keeper::Dialect;
use zk_proto::{Encode, OpCode, SessionId, frame};

use super::{ConnId, dialect};

/// An action for the owner of an [`Ensemble`](super::Ensemble).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send bytes.
    Send {
        /// The connection.
        conn: ConnId,
        /// One whole frame with its length prefix, or the text of a four-letter word's answer.
        frame: Bytes,
    },
    /// Close a connection after its pending output. The ensemble has forgotten it.
    Close {
        /// The connection.
        conn: ConnId,
    },
}

/// Traffic, as counted by the ensemble.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Requests by operation, including refused ones. The handshake is not counted.
    pub requests: BTreeMap<OpCode, u64>,
    /// Watch events sent.
    pub notifications: u64,
    /// Frames sent, including watch events.
    pub frames: u64,
    /// Bytes sent, including length prefixes.
    pub bytes: u64,
}

impl Counters {
    /// Returns the number of requests for `opcode`.
    pub fn requests(&self, opcode: OpCode) -> u64 {
        self.requests.get(&opcode).copied().unwrap_or(0)
    }

    /// Returns the number of all requests.
    pub fn all_requests(&self) -> u64 {
        self.requests.values().sum()
    }
}

/// The outputs that were not fetched yet, and the counters.
#[derive(Clone, Debug, Default)]
pub(super) struct Outbox {
    outputs: VecDeque<Output>,
    pub(super) total: Counters,
    pub(super) by_session: FxHashMap<SessionId, Counters>,
    /// How many of the next watch events of a session to lose, and below which path.
    pub(super) swallowed: BTreeMap<SessionId, (&'static str, u64)>,
    /// The dialects of connections that have others than ZooKeeper's.
    dialects: FxHashMap<ConnId, Spoken>,
}

#[derive(Clone, Copy, Debug)]
struct Spoken {
    dialect: Dialect,
    /// Whether the answer to the handshake, which is in no dialect, was sent.
    is_welcomed: bool,
}

impl Outbox {
    /// Continues in a dialect, behind the next frame.
    pub(super) fn speak(&mut self, conn: ConnId, dialect: Dialect) {
        self.dialects.insert(conn, Spoken { dialect, is_welcomed: false });
    }

    pub(super) fn forget(&mut self, conn: ConnId) {
        self.dialects.remove(&conn);
    }

    pub(super) fn send(&mut self, conn: ConnId, session: SessionId, frame: Bytes) {
        let frame = match self.dialects.get_mut(&conn) {
            Some(spoken) if spoken.is_welcomed => dialect::translate(spoken.dialect, frame),
            Some(spoken) => {
                spoken.is_welcomed = true;
                frame
            }
            None => frame,
        };
        let bytes = frame.len() as u64;
        self.count(session, |counters| {
            counters.frames += 1;
            counters.bytes += bytes;
        });
        self.outputs.push_back(Output::Send { conn, frame });
    }

    pub(super) fn notify(&mut self, conn: ConnId, session: SessionId, frame: Bytes) {
        // The path is the last field of an event.
        let is_below = |path: &str| frame.windows(path.len()).any(|part| part == path.as_bytes());
        match self.swallowed.get_mut(&session) {
            Some((below, left @ 1..)) if is_below(below) => {
                *left -= 1;
                return;
            }
            _ => {}
        }
        self.count(session, |counters| counters.notifications += 1);
        self.send(conn, session, frame);
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        self.outputs.push_back(Output::Close { conn });
    }

    pub(super) fn count_request(&mut self, session: SessionId, opcode: OpCode) {
        self.count(session, |counters| *counters.requests.entry(opcode).or_default() += 1);
    }

    pub(super) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    fn count(&mut self, session: SessionId, count: impl Fn(&mut Counters)) {
        count(&mut self.total);
        count(self.by_session.entry(session).or_default());
    }
}

/// Encodes a message as one frame.
pub(super) fn frame(message: &impl Encode) -> Bytes {
    let mut out = BytesMut::with_capacity(frame::PREFIX_LEN + message.encoded_len());
    match frame::encode(message, &mut out) {
        Ok(()) => out.freeze(),
        // No message here has 2 GiB.
        Err(_) => Bytes::new(),
    }
}
