//! The stations of an attempt.

use alloc::string::String;

use zk_session::proto::Zxid;

use super::OpId;

/// A lock node of ours.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) path: String,
    pub(super) czxid: Zxid,
}

impl Node {
    pub(super) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }
}

/// The watch on our own node.
#[derive(Clone, Copy, Debug)]
pub(super) struct SelfWatch {
    pub(super) op: OpId,
    /// Whether the server has confirmed it.
    pub(super) armed: bool,
}

/// Where an attempt is, and which answers it waits for.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    /// The node is being created, and in the same round trip the directory is listed, unless the
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
    /// Somebody is before us, and watched.
    Waiting {
        predecessor: String,
        watch: OpId,
        /// Nobody else is before us, and both watches belong to one connection.
        only: bool,
    },
    /// The lock is ours, or was when we could last tell.
    Held {
        suspended: bool,
    },
    /// What is in `deletions` must go, nothing else matters.
    Leaving,
    Done,
}
