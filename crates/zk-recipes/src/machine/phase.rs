//! The stations of an attempt.

use alloc::string::String;
use alloc::vec::Vec;

use zk_session::Error;
use zk_session::proto::Zxid;

use super::OpId;

/// A lock node of ours.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: String,
    /// Where its name begins in the path, which is asked for often.
    name: usize,
    pub(super) czxid: Zxid,
}

impl Node {
    pub(super) fn new(path: String, czxid: Zxid) -> Self {
        Self { name: path.rfind('/').map_or(0, |slash| slash + 1), path, czxid }
    }

    pub(super) fn name(&self) -> &str {
        self.path.get(self.name..).unwrap_or_default()
    }
}

/// The watch on our own node.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfWatch {
    pub(super) op: OpId,
    /// Whether the server has confirmed it.
    pub(super) armed: bool,
}

/// A contender whose place tells its number not.
#[derive(Clone, Debug)]
pub(super) struct Rank {
    pub(super) stat: OpId,
    pub(super) name: String,
    /// The transaction that created it, once known; nothing if it is gone.
    pub(super) czxid: Option<Zxid>,
}

/// Where an attempt is, and which answers it waits for.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// The state of the session comes first.
    Beginning,
    /// Is there anybody at all?
    Looking {
        list: OpId,
    },
    /// The node is being created, and in the same round trip the lock path is listed, unless the
    /// list could not be sent.
    Creating {
        create: OpId,
        list: Option<OpId>,
    },
    /// The directory is missing; it and what is above it are being created.
    MakingParents {
        first: OpId,
        last: OpId,
    },
    /// Whether the node was created is unknown. The list tells, but only behind a sync: the
    /// member that we are connected to now may be behind the one that we sent the creation to.
    Resolving {
        sync: OpId,
        list: OpId,
        synced: bool,
        /// Why the list could not be read. Then our own nodes alone are listed, to be deleted.
        unread: Option<Error>,
    },
    /// A node with our guid was found. Is it ours?
    Adopting {
        stat: OpId,
        path: String,
    },
    /// The list will tell whether we are first.
    Deciding {
        list: OpId,
    },
    /// Numbers do not tell who is first, so every contender is asked for the transaction that
    /// created it.
    Ranking {
        ranks: Vec<Rank>,
        left: usize,
    },
    /// Somebody is before us, and watched.
    Waiting {
        predecessor: String,
        watch: OpId,
        /// Nobody else is before us, and both watches belong to one connection.
        only: bool,
    },
    /// The only one before us has gone. The lock is ours, unless what has arrived with that says that
    /// our own node has gone, too: whoever deletes both at once has the events sent in any order.
    TakingOver,
    /// The lock is ours, or was when we could last tell.
    Held {
        suspended: bool,
    },
    /// What is in `deletions` must go, nothing else matters.
    Leaving,
    Done,
}

/// How far the way from one mode to another has been gone. It is independent of the phase: while
/// it lasts the lock is held, or being left.
#[derive(Clone, Debug)]
pub(super) enum Conversion {
    /// The writer's node is being replaced by a reader's of the same number; or the server has
    /// stumbled over that, and is asked later what it has done.
    Downgrading { replace: Option<OpId> },
    /// Whether it was replaced is unknown. What is there?
    FindingReader { sync: OpId, stat: OpId, synced: bool },
    /// A writer's node is being created beside the reader's, and all are listed.
    Upgrading { create: OpId, list: OpId, created: Option<Node> },
    /// It did not work, but the writer's node may be there. If the list cannot be read, our own nodes
    /// alone are listed.
    FindingWriter { sync: OpId, list: OpId, synced: bool, own: bool, error: Error },
}
