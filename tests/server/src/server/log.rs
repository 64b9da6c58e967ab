//! The replicated log: all changes of the ensemble, in the order in which every server applies
//! them.

use alloc::collections::VecDeque;
use alloc::sync::Arc;

use bytes::Bytes;
use zk_proto::{ErrorCode, OpCode, SessionId, Xid, Zxid};

use super::ConnId;
use super::acl::Grant;
use super::tree::Life;

/// One transaction.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) zxid: Zxid,
    /// The time of the leader's proposal, in milliseconds.
    pub(super) time: i64,
    /// The request to answer, once the server of its connection has applied this.
    pub(super) origin: Option<Origin>,
    pub(super) txn: Txn,
}

/// The request that caused a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) conn: ConnId,
    pub(super) xid: Xid,
}

/// The effect of a transaction. It has passed all checks, and cannot fail.
#[derive(Clone, Debug)]
pub(super) enum Txn {
    /// The first transaction of a new leader.
    NewEpoch,
    /// Creates a session, with the handshake's answer.
    CreateSession {
        answer: Bytes,
    },
    /// Ends the session and deletes its ephemerals.
    CloseSession(SessionId),
    Write(Change),
    Multi(Vec<Change>),
    /// A refused write. It changes nothing, but has a place in the order.
    Refused(ErrorCode),
    /// A refused multi, with the result of each part.
    RefusedMulti(Vec<ErrorCode>),
}

/// One change of the tree.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Create(Create),
    Delete {
        path: String,
    },
    SetData {
        path: String,
        data: Option<Bytes>,
    },
    SetAcl {
        path: String,
        acl: Arc<[Grant]>,
    },
    Check,
    /// Pretends that this many children were created below a node.
    SetCounter {
        path: String,
        counter: i32,
    },
}

/// A node to create, with its sequence number.
#[derive(Clone, Debug)]
pub(super) struct Create {
    /// The opcode of the creation, which decides the form of the answer.
    pub(super) opcode: OpCode,
    /// Shared by all servers.
    pub(super) path: Arc<str>,
    pub(super) data: Option<Bytes>,
    pub(super) acl: Arc<[Grant]>,
    /// The lifetime of the node.
    pub(super) life: Life,
    /// The parent's count of created children after this.
    pub(super) parent_cversion: i32,
}

/// The log, without the entries that every server has applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    trimmed: usize,
    entries: VecDeque<Arc<Entry>>,
}

impl Log {
    /// Returns the number of transactions so far.
    pub(super) fn len(&self) -> usize {
        self.trimmed + self.entries.len()
    }

    pub(super) fn append(&mut self, entry: Entry) {
        self.entries.push_back(Arc::new(entry));
    }

    /// Returns the entry after the first `applied` ones.
    pub(super) fn get(&self, applied: usize) -> Option<Arc<Entry>> {
        self.entries.get(applied.checked_sub(self.trimmed)?).cloned()
    }

    /// Removes the first `applied` entries.
    pub(super) fn trim(&mut self, applied: usize) {
        let count = applied.saturating_sub(self.trimmed).min(self.entries.len());
        self.entries.drain(..count);
        self.trimmed += count;
    }
}
