//! The rules of ClickHouse Keeper, which speaks ZooKeeper's protocol (`KeeperTCPHandler.cpp`).

use core::time::Duration;

use zk_proto::{Decode, MultiOp, MultiRequest, OpCode};

/// A ClickHouse Keeper, as far as clients can tell it from ZooKeeper and from others.
///
/// - An operation that it lacks ends the connection, without a reply.
/// - The answer to the handshake has no password, and no flag of a read-only server.
/// - Sessions are never resumed: each handshake creates one. The nodes of a session whose connection
///   has ended stay until its timeout.
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
    /// All ages, the oldest first.
    pub const ALL: [Self; 3] = [Self::Early, Self::WithWatches, Self::WithContainers];
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
            && (opcode != OpCode::MULTI || MultiRequest::decode_all(body).is_ok_and(serves_all))
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
