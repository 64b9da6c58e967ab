//! The phases of an attempt to acquire a lock.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

use zk_session::proto::Zxid;

use super::creation::Creation;
use super::full::OfFull;
use super::listing::Listing;
pub(crate) use super::node::Node;
use super::watches::OpId;

/// The watch on our own node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SelfWatch {
    pub(crate) op: OpId,
    /// The latest request whose reply tells whether the node exists: `op`, or a look after a
    /// reconnect.
    pub(crate) look: OpId,
    /// Whether the latest look was refused and must be repeated. Only if the watch is armed.
    pub(crate) refused: bool,
    /// Whether the server has confirmed the watch. From then on the session sets it again.
    pub(crate) armed: bool,
}

/// The list of the queue before it is entered.
#[derive(Clone, Debug)]
pub(crate) struct Looking {
    pub(crate) list: OpId,
    pub(crate) listing: Option<Box<Listing>>,
}

/// The contenders, and how many stats are missing.
#[derive(Clone, Debug)]
pub(crate) struct Ranks {
    pub(crate) all: Vec<Rank>,
    pub(crate) left: usize,
}

/// A contender ranked by czxid because sequence numbers are unusable.
#[derive(Clone, Debug)]
pub(crate) struct Rank {
    pub(crate) stat: OpId,
    pub(crate) name: String,
    /// The transaction that created the node. `None` until it is known, or if the node is gone.
    pub(crate) czxid: Option<Zxid>,
}

/// The phase of an attempt, with the requests that it waits for.
#[derive(Clone, Debug)]
pub(crate) enum Phase {
    /// Waits for the first state of the session.
    Beginning,
    /// Lists the queue before it enters
    /// ([`WaitPolicy::OnlyIfFree`](super::WaitPolicy::OnlyIfFree)).
    Looking(OfFull<Looking>),
    /// Creates the node, and lists the queue in the same round trip. `list` is `None` if no other
    /// contender is expected, or once the list was answered, which then was too early.
    Creating {
        /// Boxed, since held locks need none.
        creation: Box<Creation>,
        list: Option<OpId>,
    },
    /// Lists the queue to find our position.
    Deciding {
        list: OpId,
        /// The pieces of the list so far.
        listing: Option<Box<Listing>>,
    },
    /// Reads the stat of each contender. The sequence numbers are unusable, so the transactions
    /// that created the nodes decide.
    Ranking(OfFull<Ranks>),
    /// Waits for the predecessor to be deleted.
    Waiting {
        predecessor: String,
        watch: OpId,
        /// Whether no other contender is ahead, and both watches belong to one connection.
        only: bool,
    },
    /// Takes over after the only contender ahead has gone, unless an input that arrived with that
    /// event says that our own node has gone, too. A transaction that deletes both nodes has its
    /// events sent in any order.
    TakingOver,
    /// The lock is held, or was when a server last confirmed it.
    Held {
        suspended: bool,
    },
    /// Waits until all `deletions` are confirmed.
    Leaving,
    Done,
}
