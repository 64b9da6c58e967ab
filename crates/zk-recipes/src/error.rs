//! Why a lock was not acquired, or is not held any more.

use alloc::string::String;
use core::fmt;

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
}

/// Why a lock is not held any more although it was not released.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// The session has ended.
    Ended(End),
    /// Our node was deleted: by somebody else, or by the server because the session has expired,
    /// of which it tells later. The next in line may hold the lock by now.
    NodeDeleted,
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
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(end) => write!(f, "{end}"),
            Self::NodeDeleted => f.write_str("our node was deleted"),
        }
    }
}

impl core::error::Error for LockError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Request(error) => Some(error),
            _ => None,
        }
    }
}

impl core::error::Error for Loss {}

impl From<Error> for LockError {
    fn from(error: Error) -> Self {
        match error.end() {
            Some(end) => Self::Ended(end),
            None => Self::Request(error),
        }
    }
}
