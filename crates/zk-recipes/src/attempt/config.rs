//! The configuration of an attempt.

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{ErrorCode, SessionId};
use zk_session::session::State;
use zk_session::sync::Arc;
use zk_session::{Error, ServerKind};

use super::access::AccessList;
use super::full::Full;
use super::name::{LockMode, Scheme};
use super::queue::UnknownNodePolicy;
use crate::error::{LockError, Loss};
use crate::lock::hint_cell::HintCell;

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
    /// Whether to watch our node for a [request to release the lock](super::Event::Revoked).
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
/// first [state](zk_session::dispatch::Input::State). It fails with [`LockError::NoConnection`] in
/// these cases:
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

/// The kind of the nodes that are created where the lock path or its ancestors are missing.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parents {
    /// Containers, which the servers delete some time after their last child.
    ///
    /// Persistent nodes if the servers lack containers, or if they are a [ClickHouse
    /// Keeper](zk_session::ServerKind::Keeper): most lack them, and would end the session. Without the
    /// feature `full`, choose `Persistent` there.
    #[default]
    Containers,
    /// Persistent nodes, which stay until a client deletes them.
    Persistent,
    /// None: the attempt fails with [`NO_NODE`](ErrorCode::NO_NODE). A semaphore needs the nodes
    /// `locks` and `leases` below its path, too.
    None,
}

impl Parents {
    /// Returns whether nodes that are created on such a server are containers.
    pub(crate) fn are_containers(self, server: ServerKind) -> bool {
        self == Self::Containers && server == ServerKind::ZooKeeper
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
    /// for owners that check their [fencing token](super::Event::Acquired) with every write.
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
