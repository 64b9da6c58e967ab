//! What an oracle finds in the logs.

use core::fmt;

use zk_proto::{SessionId, Zxid};

/// A broken guarantee, by the logs of the servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// A contender wrote as the holder, and another one was first.
    TwoHolders {
        /// The write.
        zxid: Zxid,
        /// The node that was written.
        marker: String,
        /// The token of the writer.
        token: Zxid,
        /// The lock node of the holder.
        first: String,
    },
    /// A fenced write was accepted whose token was not that of the holder.
    LateWrite {
        /// The write.
        zxid: Zxid,
        /// The node that was written.
        register: String,
        /// The token of the writer.
        token: Zxid,
        /// The token of the holder, if there was one.
        holder: Option<Zxid>,
    },
    /// A fenced write has a lower token than one before.
    TokenBack {
        /// The write.
        zxid: Zxid,
        /// The node that was written.
        register: String,
        /// The token of the writer.
        token: Zxid,
        /// The highest token before.
        highest: Zxid,
    },
    /// A new lock node sorts ahead of the first one in the queue.
    Overtaken {
        /// The create.
        zxid: Zxid,
        /// The new lock node.
        node: String,
        /// The lock node that was first.
        first: String,
    },
    /// An ephemeral node, or a node below a lock path, exists at the end.
    NodeLeft {
        /// Its path.
        node: String,
    },
    /// A session is open at the end.
    SessionLeft {
        /// Its id.
        session: SessionId,
    },
    /// A transaction does not fit those before it.
    Contradiction {
        /// The transaction.
        zxid: Zxid,
        /// What does not fit.
        what: String,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TwoHolders { zxid, marker, token, first } => {
                write!(f, "at {zxid}, {marker} was written with {token}, but {first} was first")
            }
            Self::LateWrite { zxid, register, token, holder } => write!(
                f,
                "at {zxid}, {register} accepted the token {token}, and the holder was {holder:?}"
            ),
            Self::TokenBack { zxid, register, token, highest } => {
                write!(f, "at {zxid}, {register} accepted the token {token} after {highest}")
            }
            Self::Overtaken { zxid, node, first } => {
                write!(f, "at {zxid}, {node} was created ahead of {first}")
            }
            Self::NodeLeft { node } => write!(f, "{node} was left behind"),
            Self::SessionLeft { session } => write!(f, "session {session} was left open"),
            Self::Contradiction { zxid, what } => write!(f, "at {zxid}, {what}"),
        }
    }
}
