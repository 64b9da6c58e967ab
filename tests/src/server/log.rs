//! The replicated log: every change of the ensemble, in the one order in which all servers apply
//! it.

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
    /// When the leader proposed it, in milliseconds.
    pub(super) time: i64,
    /// Whom to answer once the server it is connected to has applied this.
    pub(super) origin: Option<Origin>,
    pub(super) txn: Txn,
}

/// The request that caused a transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Origin {
    pub(super) conn: ConnId,
    pub(super) xid: Xid,
}

/// What a transaction does. All checks are behind it: it cannot fail any more.
#[derive(Clone, Debug)]
pub(super) enum Txn {
    /// A new leader begins.
    NewEpoch,
    /// Begins a session; the answer is what its client is told then.
    CreateSession {
        answer: Bytes,
    },
    /// Ends the session and deletes its ephemerals.
    CloseSession(SessionId),
    Write(Change),
    Multi(Vec<Change>),
    /// A write that was refused. It changes nothing but takes its place in the order.
    Refused(ErrorCode),
    /// A multi that was refused, with the result of each part.
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
    /// Pretends that so many children were created below a node.
    SetCounter {
        path: String,
        counter: i32,
    },
}

/// A node to create, its sequence number included.
#[derive(Clone, Debug)]
pub(super) struct Create {
    /// Which of the creates: it decides on the form of the answer.
    pub(super) opcode: OpCode,
    /// Shared by all servers.
    pub(super) path: Arc<str>,
    pub(super) data: Option<Bytes>,
    pub(super) acl: Arc<[Grant]>,
    /// What it goes away with.
    pub(super) life: Life,
    /// How many children the parent will have seen created.
    pub(super) parent_cversion: i32,
}

/// The log, without the part that every server has applied.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    trimmed: usize,
    entries: VecDeque<Arc<Entry>>,
}

impl Log {
    /// How many transactions there have ever been.
    pub(super) fn len(&self) -> usize {
        self.trimmed + self.entries.len()
    }

    pub(super) fn append(&mut self, entry: Entry) {
        self.entries.push_back(Arc::new(entry));
    }

    /// The entry after the first `applied` ones.
    pub(super) fn get(&self, applied: usize) -> Option<Arc<Entry>> {
        self.entries.get(applied.checked_sub(self.trimmed)?).cloned()
    }

    /// Forgets the first `applied` entries.
    pub(super) fn trim(&mut self, applied: usize) {
        let count = applied.saturating_sub(self.trimmed).min(self.entries.len());
        self.entries.drain(..count);
        self.trimmed += count;
    }
}
