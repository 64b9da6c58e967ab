//! The reports of a machine to its owner.

use alloc::string::String;
use alloc::vec::Vec;

use zk_session::proto::Zxid;
use zk_session::{End, Error};

use super::name::LockMode;
use super::node::NodeName;
use crate::error::{LockError, Loss, ModeError, SemaphoreError, Unconfirmed};

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
        node: NodeName,
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
        node: NodeName,
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
        node: NodeName,
        /// The fencing token. A downgrade keeps it, an upgrade makes it greater.
        token: Zxid,
    },
    /// The mode of the lock could not be changed. It is held as before.
    NotConverted(ModeError),
    /// Another client asks us to release the lock. The owner may ignore that.
    Revoked,
    /// The name of a child of the lock path that is no contender. It is ignored, or
    /// [counts](super::UnknownNodePolicy::Count) as one.
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
    /// [`OnSession`](super::OnSession) reports this, for what is held. The machines themselves do not.
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
