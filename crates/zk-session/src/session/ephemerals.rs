//! How long the paths of the session's ephemeral nodes are together.
//!
//! When a session ends, the leader writes the paths of all its ephemeral nodes into one transaction.
//! If that is longer than about twice the servers' `jute.maxbuffer`, no server can read its log again
//! (ZOOKEEPER-4306). So the session counts the bytes, and refuses to create nodes beyond a limit.
//!
//! The count is an upper bound. A node whose creation has an unknown outcome counts. A node that
//! somebody else deletes counts until a watch or a refused delete shows that, or until the session
//! has read the list of its nodes, which makes the count exact again.

use alloc::collections::BTreeSet;

use bytes::Bytes;
use zk_proto::{
    CreateMode, Decode as _, ErrorCode, GetEphemeralsResponse, MultiOp, MultiResponse, MultiResult,
    OpCode, Reader, Request, Xid,
};

use super::Config;
use super::hasher;
use super::pending::PendingRequest;
use super::queue::ShortQueue;
use crate::error::{Error, Outcome};

/// How many bytes each path takes in addition to its own.
const PREFIX: usize = 4;
/// The usual length of a sequence number.
const SEQUENCE: usize = 10;
/// A list costs about as many bytes as the limit, so it follows one of so many refusals.
const REFUSALS: usize = 64;
/// After so many lost connections without a list, no server is asked again.
const MAX_LOSSES: u8 = 3;

/// A node, known by a hash and the length of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct NodeKey {
    hash: u64,
    length: usize,
}

/// A change of the session's ephemeral nodes that has no outcome yet.
#[derive(Clone, Copy, Debug)]
struct SubmittedChange {
    /// The xid of the request.
    xid: Xid,
    /// The index of the operation in a transaction, or 0.
    index: usize,
    change: Change,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Create(NodeKey),
    /// The path of a sequential node is known later. This is its length without the number.
    CreateSequential(usize),
    Delete(NodeKey),
}

impl Change {
    /// Returns how many bytes a new node takes, as far as that is known.
    fn bytes(self) -> usize {
        match self {
            Self::Create(node) => node.length + PREFIX,
            Self::CreateSequential(length) => length + PREFIX + SEQUENCE,
            Self::Delete(_) => 0,
        }
    }
}

/// The ephemeral nodes that may exist.
#[derive(Clone, Debug)]
pub(super) struct Ephemerals {
    limit: usize,
    /// How many bytes `submitted` keeps when it is empty.
    max_kept: usize,
    /// Secret, so that nobody can choose names of nodes that share a hash.
    seed: u64,
    nodes: BTreeSet<NodeKey>,
    /// How many bytes `nodes` take, and sequential nodes of unknown names that may exist.
    bytes: usize,
    /// The changes of requests without an outcome, in the order of the requests.
    submitted: ShortQueue<SubmittedChange>,
    /// How many bytes the nodes take that `submitted` creates.
    pending: usize,
    /// The number of bytes at which to ask for a list.
    list_at: usize,
    is_listing: bool,
    refusals: usize,
    /// How many connections in a row were lost before the list came.
    losses: u8,
}

impl Config {
    /// Returns how many bytes the paths of ephemeral nodes may take.
    pub(super) fn max_ephemerals(&self) -> usize {
        self.max_ephemerals.unwrap_or(self.max_request)
    }
}

impl Ephemerals {
    pub(super) fn new(config: &Config) -> Self {
        Self::with(config.max_ephemerals(), config.max_kept, config.seed)
    }

    fn with(limit: usize, max_kept: usize, seed: u64) -> Self {
        Self {
            limit,
            max_kept,
            seed,
            nodes: BTreeSet::new(),
            bytes: 0,
            submitted: ShortQueue::new(),
            pending: 0,
            list_at: limit / 2,
            is_listing: false,
            refusals: 0,
            losses: 0,
        }
    }

    /// Forgets the nodes of a session that has ended.
    pub(super) fn clear(&mut self) {
        *self = Self::with(self.limit, self.max_kept, self.seed);
    }

    fn key(&self, path: &[u8]) -> NodeKey {
        NodeKey { hash: hasher::hash(path, self.seed), length: path.len() }
    }

    fn creation(&self, path: &str, mode: CreateMode) -> Option<Change> {
        match mode.is_sequential() {
            _ if !mode.is_ephemeral() => None,
            true => Some(Change::CreateSequential(path.len())),
            false => Some(Change::Create(self.key(path.as_bytes()))),
        }
    }

    fn deletion(&self, path: &str) -> Option<Change> {
        Some(Change::Delete(self.key(path.as_bytes())))
    }

    /// Counts the changes of a request before it is submitted. Returns whether there are any.
    ///
    /// # Errors
    ///
    /// [`Error::EphemeralsFull`] if there would be too many nodes. A request that creates none always
    /// succeeds.
    #[inline]
    pub(super) fn admit(&mut self, request: &Request<'_>, xid: Xid) -> Result<bool, Error> {
        match request {
            Request::Create(_) | Request::Create2(_) | Request::Delete(_) | Request::Multi(_) => {
                self.count(request, xid)
            }
            _ => Ok(false),
        }
    }

    /// Counts the changes of a request that may have some.
    fn count(&mut self, request: &Request<'_>, xid: Xid) -> Result<bool, Error> {
        let (before, pending) = (self.submitted.len(), self.pending);
        match request {
            Request::Create(body) | Request::Create2(body) => {
                self.push(xid, 0, self.creation(body.path, body.mode));
            }
            Request::Delete(body) => self.push(xid, 0, self.deletion(body.path)),
            Request::Multi(multi) => {
                for (index, operation) in multi.iter().enumerate() {
                    let change = match operation {
                        MultiOp::Create(body) | MultiOp::Create2(body) => {
                            self.creation(body.path, body.mode)
                        }
                        MultiOp::Delete(body) => self.deletion(body.path),
                        _ => None,
                    };
                    self.push(xid, index, change);
                }
            }
            _ => {}
        }
        if self.pending > pending && self.bytes + self.pending > self.limit {
            self.submitted.truncate(before);
            self.pending = pending;
            return Err(Error::EphemeralsFull { limit: self.limit });
        }
        Ok(self.submitted.len() > before)
    }

    fn push(&mut self, xid: Xid, index: usize, change: Option<Change>) {
        if let Some(change) = change {
            self.pending += change.bytes();
            self.submitted.push_back(SubmittedChange { xid, index, change });
        }
    }

    /// Returns whether there are so many nodes that a list is worth its bytes.
    pub(super) fn are_many(&self) -> bool {
        self.bytes >= self.list_at
    }

    /// Returns whether to ask for a list: after a refusal, or since there are many nodes.
    pub(super) fn wants_list(&mut self, was_refused: bool) -> bool {
        if self.is_listing || self.losses >= MAX_LOSSES {
            return false;
        }
        self.is_listing = match was_refused {
            true => {
                self.refusals += 1;
                self.refusals % REFUSALS == 1
            }
            false => self.are_many(),
        };
        self.is_listing
    }

    /// Records the answer to a request. Without a body, the reply was too long.
    pub(super) fn answered<T>(
        &mut self,
        request: &PendingRequest<T>,
        answer: ErrorCode,
        body: Option<&Bytes>,
    ) {
        if request.opcode == OpCode::GET_EPHEMERALS && !request.is_callers() {
            return self.listed(answer, body);
        }
        if !request.changes_nodes {
            return;
        }
        let rolled_back = || {
            let results = MultiResponse::decode(&mut Reader::new(body?)).ok()?;
            results.failure().map(|(_, code)| code)
        };
        let code = match answer {
            ErrorCode::OK if request.opcode == OpCode::MULTI => rolled_back().unwrap_or(answer),
            answer => answer,
        };
        let is_unknown = Error::Server(code).outcome() == Outcome::Unknown;
        let answer = match code {
            ErrorCode::OK => Some(Ok(())),
            code => Some(Err(code)).filter(|_| !is_unknown),
        };
        self.settle(request, answer, body);
    }

    /// Records that a request has failed without a reply.
    pub(super) fn failed<T>(&mut self, request: &PendingRequest<T>, error: &Error) {
        if request.opcode == OpCode::GET_EPHEMERALS && !request.is_callers() {
            (self.is_listing, self.refusals) = (false, 0);
            self.losses += 1;
        }
        let refused = Err(ErrorCode::CONNECTION_LOSS);
        let answer = (error.outcome() == Outcome::NotApplied).then_some(refused);
        self.settle(request, answer, None);
    }

    /// Records what became of the changes of a request: `None` if that is unknown.
    fn settle<T>(
        &mut self,
        request: &PendingRequest<T>,
        answer: Option<Result<(), ErrorCode>>,
        body: Option<&Bytes>,
    ) {
        if !request.changes_nodes {
            return;
        }
        let is_its = |submitted: &SubmittedChange| submitted.xid == request.xid;
        // Usually they come first.
        let Some(place) = self.submitted.iter().position(is_its) else { return };
        while self.submitted.get(place).is_some_and(is_its)
            && let Some(SubmittedChange { index, change, .. }) = self.submitted.remove(place)
        {
            self.pending = self.pending.saturating_sub(change.bytes());
            match (change, answer) {
                (Change::Create(node), None | Some(Ok(()))) => self.insert(node),
                (Change::CreateSequential(_), None | Some(Ok(()))) => {
                    match body.and_then(|body| created_path(request.opcode, body, index)) {
                        Some(path) => self.insert(self.key(path)),
                        None => self.bytes += change.bytes(),
                    }
                }
                (Change::Delete(node), Some(Ok(()) | Err(ErrorCode::NO_NODE))) => self.forget(node),
                _ => {}
            }
        }
        self.submitted.shrink(self.max_kept);
    }

    fn insert(&mut self, node: NodeKey) {
        if self.nodes.insert(node) {
            self.bytes += node.length + PREFIX;
        }
    }

    fn forget(&mut self, node: NodeKey) {
        if self.nodes.remove(&node) {
            self.bytes = self.bytes.saturating_sub(node.length + PREFIX);
        }
    }

    /// Records that a node is gone. It may be the node of another session.
    pub(super) fn remove(&mut self, path: &str) {
        self.forget(self.key(path.as_bytes()));
    }

    /// Handles the list of the session's nodes, which is exact but for the pending ones.
    fn listed(&mut self, answer: ErrorCode, body: Option<&Bytes>) {
        self.is_listing = false;
        self.losses = 0;
        if answer == ErrorCode::UNIMPLEMENTED {
            // Another attempt would cost another connection.
            self.losses = MAX_LOSSES;
        }
        let list = body.filter(|_| answer == ErrorCode::OK);
        if let Some(Ok(list)) =
            list.map(|body| GetEphemeralsResponse::decode(&mut Reader::new(body)))
        {
            self.nodes.clear();
            self.bytes = 0;
            list.ephemerals.iter().for_each(|path| self.insert(self.key(path.as_bytes())));
        }
        let left = self.limit.saturating_sub(self.bytes);
        let step = (left / 2).max(self.limit / REFUSALS).max(1);
        self.list_at = (self.bytes + step).max(self.limit / 2);
    }
}

/// Returns the path of the node that an operation has created.
fn created_path(opcode: OpCode, body: &[u8], index: usize) -> Option<&[u8]> {
    let reader = &mut Reader::new(body);
    match opcode {
        // Both replies begin with it.
        OpCode::CREATE | OpCode::CREATE2 => reader.buffer().ok()?,
        _ => match MultiResponse::decode(reader).ok()?.iter().nth(index)? {
            MultiResult::Create(created) => Some(created.path.as_bytes()),
            MultiResult::Create2(created) => Some(created.path.as_bytes()),
            _ => None,
        },
    }
}
