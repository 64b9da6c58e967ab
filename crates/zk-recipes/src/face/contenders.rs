//! Who is there.

use alloc::string::{String, ToString};

use bytes::Bytes;
use zk_session::Error;
use zk_session::proto::{ErrorCode, SessionId, Stat, Zxid};

use crate::machine::{Claim, Standing};

/// Somebody who holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entrant {
    /// The name of its node in the lock's directory.
    pub node: String,
    /// What it wants.
    pub claim: Claim,
    /// The name of the node that it waits for, which is the one that it watches. `None` for a
    /// holder.
    pub waits_for: Option<String>,
    /// What its node holds; `None` if its access control list denies reading it, or if that is
    /// longer than a reply may be ([`max_reply`](zk_session::ClientBuilder::max_reply)).
    pub data: Option<Bytes>,
    /// Its session; 0, as the token and the time are, where the server refuses even to say whether
    /// the node exists.
    pub session: SessionId,
    /// Its fencing token; if it is a reader that was a writer before, something greater.
    pub token: Zxid,
    /// When its node was created, by the clock of the ensemble's leader: milliseconds since 1970.
    pub since: i64,
}

impl Entrant {
    /// Whether it holds the lock.
    pub const fn is_holder(&self) -> bool {
        self.waits_for.is_none()
    }
}

impl Entrant {
    /// A node in its place, with what it holds.
    pub(crate) fn new(place: &Standing<'_>, (data, stat): Found) -> Self {
        Self {
            node: place.name.child.to_string(),
            claim: place.name.claim,
            waits_for: place.waits_for.map(ToString::to_string),
            data,
            session: stat.ephemeral_owner,
            token: stat.czxid,
            since: stat.ctime,
        }
    }
}

/// What a node holds, if that may be read, and its stat.
pub(crate) type Found = (Option<Bytes>, Stat);

/// Whether a node is there, but cannot be read.
pub(crate) const fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Server(ErrorCode::NO_AUTH) | Error::ReplyTooLarge { .. })
}
