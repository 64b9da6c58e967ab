//! What the machines of all recipes share: the interface, the configuration of an attempt, and the
//! parts that they are built from.

mod access;
pub(crate) mod connection;
pub(crate) mod creation;
pub(crate) mod description;
#[cfg_attr(not(feature = "full"), path = "no_full.rs")]
mod full;
pub(crate) mod listing;
mod machine;
pub(crate) mod name;
pub(crate) mod node;
mod on_session;
pub(crate) mod parents;
pub(crate) mod phase;
pub(crate) mod queue;
pub(crate) mod renewal;
pub(crate) mod requests;
pub(crate) mod requeuing;
pub(crate) mod retry_policy;
#[cfg(all(feature = "full", feature = "blocking"))]
pub(crate) mod sorted_queue;
pub(crate) mod synced_read;
pub(crate) mod transaction;
mod turn;
mod watches;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use zk_session::sync::Arc;

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{ErrorCode, SessionId, Zxid};
use zk_session::session::State;
use zk_session::{End, Error};

pub use self::access::AccessList;
pub(crate) use self::full::{Full, OfFull};
pub use self::machine::{Command, Machine};
pub use self::name::{LockMode, Name, Scheme};
pub use self::on_session::{Observer, OnSession};
pub use self::parents::Parents;
pub use self::queue::{QueuedNode, UnknownNodePolicy, queue_order};
pub use self::renewal::Renewal;
pub use self::requeuing::{Requeuing, Restart};
pub use self::turn::Turn;
pub use self::watches::{OpId, Watches};
use crate::error::{LockError, Loss, ModeError, SemaphoreError, Unconfirmed};
use crate::lock::HintCell;

/// The configuration of one attempt.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AttemptConfig {
    /// The lock path, as a path of the server: with the [chroot](zk_session::Chroot).
    ///
    /// With an [invalid](zk_session::proto::path::validate) one the attempt fails at once, with
    /// [`LockError::Path`].
    pub lock_path: Arc<str>,
    /// How many bytes of the lock path are the chroot; 0 by default. Missing parents are only created
    /// below it. If it is missing itself, the attempt fails with [`LockError::NoChroot`].
    pub chroot_length: usize,
    /// How lock nodes are named below the lock path.
    pub scheme: Scheme,
    /// Whether the lock may be shared with others.
    pub mode: LockMode,
    /// Identifies this attempt among those of its session: never use one twice in a session.
    ///
    /// The name of the node contains it mixed with the id of the session. So programs that use the
    /// same GUIDs, such as boards with one seed, exclude each other all the same. A counter is
    /// enough, and needs no random source.
    pub guid: Uuid,
    /// The session that owns the node, or [`SessionId::NONE`] before the first
    /// [`State::Connected`]. A session that begins on a read-only server gets another id from the
    /// quorum.
    pub(crate) session: SessionId,
    /// The data of the node, for operators. Contenders only recognize [`REVOKE`](Self::REVOKE).
    pub data: Bytes,
    /// The access control list of the node.
    pub acl: AccessList,
    /// The access control list of the lock path and its ancestors, where they must be created.
    /// Clients that may delete children of the lock path can delete lock nodes.
    pub parent_acl: AccessList,
    /// What to create where the lock path or its ancestors are missing.
    pub parents: Parents,
    /// Whether to wait for the lock.
    pub wait_policy: WaitPolicy,
    /// How long to rely on the lock while no server confirms it.
    pub disconnect_policy: DisconnectPolicy,
    /// What to do about nodes that are no contenders of this lock.
    pub unknown_nodes: UnknownNodePolicy,
    /// Whether to watch our node for a [request to release the lock](Event::Revoked).
    pub revocable: bool,
    /// Where the contenders of the lock leave hints for each other. A contender whose predecessor
    /// found the lock free several times in a row skips the list. `None` by default: there are no
    /// hints.
    pub hint_cell: Option<Arc<dyn HintCell>>,
}

impl AttemptConfig {
    /// The data that asks the owner of a node to release the lock. Curator uses the same.
    pub const REVOKE: &[u8] = b"__REVOKE__";

    /// Creates the configuration of an exclusive lock, with defaults for everything else.
    pub const fn new(lock_path: Arc<str>, scheme: Scheme, guid: Uuid) -> Self {
        Self {
            lock_path,
            chroot_length: 0,
            scheme,
            mode: LockMode::Exclusive,
            guid,
            session: SessionId::NONE,
            data: Bytes::new(),
            acl: AccessList::OPEN,
            parent_acl: AccessList::OPEN,
            parents: Parents::Containers,
            wait_policy: WaitPolicy::Queue,
            disconnect_policy: DisconnectPolicy::UntilLeaseEnds,
            unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
            revocable: false,
            hint_cell: None,
        }
    }

    /// Returns the GUID in the name of an attempt's node: that of the attempt, mixed with the id of
    /// the session. No attempt of another session has it.
    #[must_use]
    pub const fn node_guid(guid: Uuid, session: SessionId) -> Uuid {
        /// The bits that say how a GUID was made: its version and its variant.
        const KIND: u128 = 0xf << 76 | 0x3 << 62;
        // Spread over all bits: the ids of sessions and the GUIDs of boards are often close to each
        // other, and plain ones would cancel out.
        let mut mixed = session.0.cast_unsigned();
        let mut rounds = 0;
        while rounds < 2 {
            mixed = (mixed ^ mixed >> 32).wrapping_mul(0xd6e8_feb8_6659_fd93);
            rounds += 1;
        }
        let mixed = mixed as u128;
        // Both halves, since each lacks other bits.
        Uuid::from_u128(guid.as_u128() ^ ((mixed << 64 | mixed) & !KIND))
    }

    pub(crate) const fn own_guid(&self) -> Uuid {
        Self::node_guid(self.guid, self.session)
    }

    /// Returns whether the attempt begins before it is connected: its requests wait for that.
    pub(crate) fn begins_at_once(&self) -> bool {
        self.wait_policy.waits_for_connection() && self.session != SessionId::NONE
    }

    /// Returns the error if the node does not exist below which parents may be created.
    pub(crate) fn no_chroot(&self) -> LockError {
        match self.lock_path.get(..self.chroot_length) {
            Some(chroot) if chroot.len() > 1 => LockError::NoChroot { chroot: chroot.into() },
            // The root always exists.
            _ => Error::Server(ErrorCode::NO_NODE).into(),
        }
    }

    /// Takes the session id from a state, if that comes from a quorum. A read-only server assigns
    /// an id of its own, which ends with the connection to it.
    pub(crate) const fn follow(&mut self, state: State) {
        if let State::Connected { session, .. } = state {
            self.session = session;
        }
    }
}

/// Whether to wait for a lock.
///
/// Only [`Queue`](Self::Queue) waits for a connection. With the others, the attempt begins with the
/// first [state](zk_session::dispatch::Input::State). It fails with [`LockError::NoConnection`] in these cases:
///
/// * That state, or a later one, is no connection to a quorum. [`State::ReadOnly`] is none.
/// * The connection breaks before a reply arrives.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitPolicy {
    /// Enters the queue and waits.
    #[default]
    Queue,
    /// Enters the queue, and fails with [`LockError::TimedOut`] if another contender is ahead. Of
    /// two that try at the same time, the first acquires the lock.
    #[cfg(feature = "full")]
    OnlyIfFirst,
    /// Lists the queue first, and fails with [`LockError::Busy`] if another contender is ahead. Two
    /// that try at the same time may see each other, and both fail.
    #[cfg(feature = "full")]
    OnlyIfFree,
}

impl WaitPolicy {
    /// Returns the error of the attempt if another contender is ahead. `None`: the attempt waits.
    pub(crate) const fn refusal(self) -> Option<LockError> {
        match (self.waits_for_connection(), self.looks_first()) {
            (true, _) => None,
            (_, Some(_)) => Some(LockError::Busy),
            _ => Some(LockError::TimedOut),
        }
    }

    /// Returns whether the attempt lists the queue before it enters.
    pub(crate) const fn looks_first(self) -> Option<Full> {
        #[cfg(feature = "full")]
        if matches!(self, Self::OnlyIfFree) {
            return Some(Full::On);
        }
        None
    }

    /// Returns whether the attempt waits for a connection, too.
    pub(crate) const fn waits_for_connection(self) -> bool {
        matches!(self, Self::Queue)
    }
}

/// How long to rely on a lock while no server confirms it.
///
/// If the policy ends before the session does, the machine releases the lock and reports it lost.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisconnectPolicy {
    /// Until the [lease](zk_session::session::Session::lease_has_ended) of the session ends: as
    /// long as the servers must keep the session. Curator's locks are lost at about that time, too.
    #[default]
    UntilLeaseEnds,
    /// Until a server reports that the session has expired or that the node is gone.
    ///
    /// While there is no connection, another client may acquire the lock. So this policy is only
    /// for owners that check their [fencing token](Event::Acquired) with every write.
    UntilServerReports,
    /// Until the connection breaks.
    WhileConnected,
}

impl DisconnectPolicy {
    /// Returns why a held lock is lost when the lease ends. `None`: the lock is only suspended.
    pub const fn loss_after_lease(self) -> Option<Loss> {
        match self {
            Self::UntilServerReports => None,
            Self::UntilLeaseEnds | Self::WhileConnected => Some(Loss::LeaseEnded),
        }
    }
}

/// A report of a machine to its owner.
///
/// Exactly one of `Released`, `Lost` and `Failed` follows [`Acquired`](Self::Acquired). It is the
/// last event of the attempt, as `Refused` is, with two exceptions. `Abandoned` can follow. An
/// [`ElectionMachine`](crate::machine::ElectionMachine)
/// that lost its leadership queues again, unless the session has ended.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Our node is in the queue.
    Enqueued {
        /// The name of our node.
        node: String,
        /// The fencing token: the zxid of the transaction that created the node.
        token: Zxid,
    },
    /// Other contenders are ahead. It may come again after a later list.
    Waiting {
        /// The name of the nearest node that blocks us. For the first in the queue of a semaphore:
        /// `leases`, the parent of the permit nodes. For a double barrier: `ready`, which is missing.
        behind: String,
        /// How many contenders block us, or how many permits must be released first.
        ahead: usize,
    },
    /// The names of all permit nodes, if several permits are acquired at once.
    ///
    /// It comes right before [`Acquired`](Self::Acquired), which names the first of them.
    Permits(Vec<String>),
    /// The lock is held.
    Acquired {
        /// The name of our node.
        node: String,
        /// The fencing token, greater than that of each earlier holder on this ensemble.
        token: Zxid,
    },
    /// The connection is lost, or the lease has ended. It is unknown whether the lock is still
    /// held.
    Suspended,
    /// A server has confirmed that the lock is still held.
    Resumed,
    /// The lock is no longer held.
    Lost(Loss),
    /// The lock is now held in this mode, with another node.
    Converted {
        /// The new mode.
        mode: LockMode,
        /// The name of the new node.
        node: String,
        /// The fencing token. A downgrade keeps it, an upgrade makes it greater.
        token: Zxid,
    },
    /// The mode of the lock could not be changed. It is held as before.
    NotConverted(ModeError),
    /// Another client asks us to release the lock. The owner may ignore that.
    Revoked,
    /// The name of a child of the lock path that is no contender. It is ignored, or
    /// [counts](UnknownNodePolicy::Count) as one.
    UnknownNode(String),
    /// The ensemble permanently refuses to delete a node that we no longer need.
    ///
    /// It stays until the session ends or another client deletes it. Contenders behind it wait.
    Abandoned {
        /// The name of the node.
        node: String,
        /// The refusal of the server: mostly `NO_AUTH`, if the access control list of the parent
        /// forbids the deletion.
        error: Error,
    },
    /// The owner releases the lock, so it must not rely on it any more. The request that deletes our
    /// node follows.
    ///
    /// [`OnSession`] reports this, for what is held. The machines themselves do not.
    Releasing,
    /// Our node is deleted, as requested, or was never created.
    Released,
    /// The attempt failed, or its release was [not confirmed](LockError::NotConfirmed) in time.
    ///
    /// The machine still deletes its node, if there is one.
    Failed(LockError),
    /// The semaphore cannot grant the requested permits, for a reason that no other lock has.
    Refused(SemaphoreError),
}

impl Event {
    /// Returns the result of an attempt whose session ended before its node was deleted.
    pub(crate) const fn gone_with(end: End) -> Self {
        match end {
            End::Expired => Self::Released,
            // Only the servers can end the session now.
            end => Self::Failed(LockError::NotConfirmed(Unconfirmed::Ended(end))),
        }
    }

    /// The answer to a conversion of what has no shared mode.
    pub(crate) const NO_READERS: Self = Self::NotConverted(ModeError::NoReaders);

    /// The result of an attempt whose lease ended before a server confirmed the deletion.
    pub(crate) const NOT_CONFIRMED: Self =
        Self::Failed(LockError::NotConfirmed(Unconfirmed::LeaseEnded));
}
