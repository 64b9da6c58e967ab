//! The rules of ClickHouse Keeper, which speaks ZooKeeper's protocol (`KeeperTCPHandler.cpp`).

use core::time::Duration;

use zk_proto::keeper::Dialect;
use zk_proto::{Decode, MultiHeader, MultiOp, MultiRequest, OpCode, Reader, Request};

/// A ClickHouse Keeper, as far as clients can tell it from ZooKeeper and from others.
///
/// - An operation that it lacks ends the connection, without a reply.
/// - A part of a `multiRead` that fails has its operation in its header, and no body.
/// - Sessions are never resumed: each handshake creates one. The nodes of a session whose connection
///   has ended stay until its timeout.
/// - The end of a session has no reply: the connection ends.
///
/// The operations that only Keeper has, from 500 on, are not implemented.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Keeper {
    /// Before the end of 2025: the operations of ZooKeeper up to `multi`, `reconfig` and `multiRead`.
    Early,
    /// From the end of 2025: `create2`, and watches that are persistent, removed and set again.
    WithWatches,
    /// From July 2026: containers.
    WithContainers,
}

impl Keeper {
    /// The shortest session timeout, by default.
    pub(super) const MIN_SESSION_TIMEOUT: Duration = Duration::from_secs(10);
    /// The longest session timeout, by default.
    pub(super) const MAX_SESSION_TIMEOUT: Duration = Duration::from_secs(100);
    /// How often it looks for sessions that have expired.
    pub(super) const CHECK_PERIOD: Duration = Duration::from_millis(500);

    /// Returns whether it supports an operation.
    pub fn serves(self, opcode: OpCode) -> bool {
        let since = match opcode {
            OpCode::CREATE2
            | OpCode::CHECK_WATCHES
            | OpCode::REMOVE_WATCHES
            | OpCode::SET_WATCHES
            | OpCode::SET_WATCHES2
            | OpCode::ADD_WATCH => Self::WithWatches,
            OpCode::CREATE_CONTAINER => Self::WithContainers,
            OpCode::DELETE_CONTAINER
            | OpCode::CREATE_TTL
            | OpCode::SASL
            | OpCode::GET_EPHEMERALS
            | OpCode::GET_ALL_CHILDREN_NUMBER
            | OpCode::WHO_AM_I => return false,
            opcode if opcode.is_request() => Self::Early,
            _ => return false,
        };
        since <= self
    }

    /// Returns the dialect that it grants, or `None` if it closes the connection instead.
    ///
    /// It reads no trace contexts before [`WithWatches`](Self::WithWatches).
    pub(super) fn grants(self, asked: Dialect, wide_xids: bool) -> Option<Dialect> {
        let is_known = (wide_xids || !asked.wide_xids) && (self > Self::Early || !asked.tracing);
        let is_refused = asked.compression && !cfg!(feature = "compression");
        is_known.then_some(if is_refused { Dialect::default() } else { asked })
    }

    /// Returns whether it supports a request, also inside a multi.
    pub(super) fn serves_request(self, opcode: OpCode, body: &[u8]) -> bool {
        let serves_part = |part: MultiOp<'_>| match part {
            MultiOp::Create2(_) => self.serves(OpCode::CREATE2),
            MultiOp::CreateContainer(_) => self.serves(OpCode::CREATE_CONTAINER),
            MultiOp::CreateTtl(_) => self.serves(OpCode::CREATE_TTL),
            _ => true,
        };
        let serves_all = |parts: MultiRequest<'_>| parts.iter().all(serves_part);
        self.serves(opcode)
            && match opcode {
                OpCode::MULTI => MultiRequest::decode_all(body).is_ok_and(serves_all),
                OpCode::MULTI_READ => Self::reads(body).is_some(),
                _ => true,
            }
    }

    /// Decodes the parts of a `multiRead`. Unlike ZooKeeper's, these may be any reads of one node.
    pub(super) fn reads(body: &[u8]) -> Option<Vec<Request<'_>>> {
        let mut reader = Reader::new(body);
        let mut reads = Vec::new();
        loop {
            let header = MultiHeader::decode(&mut reader).ok()?;
            let reader = &mut reader;
            reads.push(match header.opcode {
                _ if header.done => return Some(reads),
                OpCode::EXISTS => Request::Exists(Decode::decode(reader).ok()?),
                OpCode::GET_DATA => Request::GetData(Decode::decode(reader).ok()?),
                OpCode::GET_CHILDREN => Request::GetChildren(Decode::decode(reader).ok()?),
                OpCode::GET_CHILDREN2 => Request::GetChildren2(Decode::decode(reader).ok()?),
                _ => return None,
            });
        }
    }

    /// Returns the data of `/keeper/feature_flags`: a bit for each feature, the highest first.
    pub(super) fn feature_flags(self) -> [u8; 2] {
        const MULTI_READ: u16 = 1 << (15 - 1);
        const PERSISTENT_WATCHES: u16 = 1 << (15 - 7);
        const CREATE_WITH_STATS: u16 = 1 << (15 - 8);
        let later =
            if self >= Self::WithWatches { PERSISTENT_WATCHES | CREATE_WITH_STATS } else { 0 };
        (MULTI_READ | later).to_be_bytes()
    }
}
