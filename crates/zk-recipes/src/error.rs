//! Why a lock was not acquired, or is not held any more.

use alloc::string::String;
use core::fmt;

use zk_session::proto::path::PathError;
use zk_session::{End, Error};

/// Why a lock was not acquired or could not be released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// A request failed for good; the session goes on.
    Request(Error),
    /// The session has ended, and with it every node that it owned.
    Ended(End),
    /// Our node was deleted while it waited in the queue; its place is lost. By somebody else, or
    /// by the server because the session has expired, of which it tells later.
    NodeVanished,
    /// The node before ours cannot be read, so its end would never be noticed: its access
    /// control list denies reading.
    Unreadable {
        /// The name of that node.
        node: String,
    },
    /// The numbers that the server appends to names in this directory are used up (after about
    /// 2^31 creations), and nobody can tell who is first. Delete the directory when it is empty.
    SequenceExhausted,
    /// The lock had been lost before it was released.
    Lost(Loss),
    /// The lock is taken, and was not to be waited for.
    Busy,
    /// The time to wait was over.
    TimedOut,
    /// Others hold the lock too, or wait for it, so it cannot be had alone.
    NotAlone,
    /// The names of this lock have no place for readers.
    NoReaders,
    /// There is a node in the lock's directory that is no contender's, and
    /// [`Foreign::Refuse`](crate::machine::Foreign::Refuse) was asked for.
    Foreign {
        /// The name of that node.
        node: String,
    },
    /// The semaphore has another number of permits than was said.
    OtherMaximum {
        /// How many it has.
        maximum: u32,
    },
    /// The semaphore has fewer permits than were asked for, so waiting would be in vain.
    TooManyPermits {
        /// How many it has.
        maximum: u32,
    },
    /// No permits at all were asked for.
    NoPermits,
    /// The semaphore does not exist, or the node that should tell its number of permits holds
    /// something else.
    NoMaximum,
    /// The path of the lock is none.
    Path(PathError),
}

/// Why a lock is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The session has ended.
    Ended(End),
    /// Our node was deleted: by somebody else, or by the server because the session has expired,
    /// of which it tells later. The next in line may hold the lock by now.
    NodeDeleted,
    /// Its guard was released or dropped. Only who [waits for the loss](crate::Held::lost) behind
    /// the guard's back hears this.
    Released,
    /// The connection is lost, and the lock was to be trusted
    /// [only while there is one](crate::machine::Trust::WhileConnected).
    Disconnected,
    /// The connection is lost, and the ensemble
    /// [need not keep the session](crate::machine::Trust::UntilLeaseEnds) any longer.
    LeaseEnded,
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request(error) => write!(f, "{error}"),
            Self::Ended(end) => write!(f, "{end}"),
            Self::NodeVanished => f.write_str("our node in the queue was deleted"),
            Self::Unreadable { node } => {
                write!(f, "'{node}' is before us and its access control list denies reading it")
            }
            Self::SequenceExhausted => {
                f.write_str("the sequence numbers of the lock's directory are used up")
            }
            Self::Lost(loss) => write!(f, "the lock had been lost: {loss}"),
            Self::Busy => f.write_str("the lock is taken"),
            Self::TimedOut => f.write_str("the lock was not acquired in time"),
            Self::NotAlone => f.write_str("others hold the lock too, or wait for it"),
            Self::NoReaders => f.write_str("the names of this lock have no place for readers"),
            Self::Foreign { node } => {
                write!(f, "'{node}' is in the lock's directory and belongs to no contender")
            }
            Self::OtherMaximum { maximum } => {
                write!(f, "the semaphore has another number of permits: {maximum}")
            }
            Self::TooManyPermits { maximum } => {
                write!(f, "the semaphore has no more than {maximum} permits")
            }
            Self::NoPermits => f.write_str("no permits were asked for"),
            Self::NoMaximum => f.write_str("the number of permits of the semaphore is not known"),
            Self::Path(error) => write!(f, "{error}"),
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(end) => write!(f, "{end}"),
            Self::NodeDeleted => f.write_str("our node was deleted"),
            Self::Released => f.write_str("it was released"),
            Self::Disconnected => f.write_str("the connection was lost"),
            Self::LeaseEnded => f.write_str("the ensemble need not keep the session any longer"),
        }
    }
}

impl core::error::Error for LockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Request(error) => Some(error),
            Self::Path(error) => Some(error),
            _ => None,
        }
    }
}

impl core::error::Error for Loss {}

impl From<PathError> for LockError {
    fn from(error: PathError) -> Self {
        Self::Path(error)
    }
}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        match error.end() {
            Some(end) => Self::Ended(end),
            None => Self::Request(error),
        }
    }
}
