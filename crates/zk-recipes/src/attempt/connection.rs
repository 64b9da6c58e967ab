//! The connection of a session, as a machine sees it.

use zk_session::Error;
use zk_session::proto::ErrorCode;
use zk_session::session::{Reply, State};

/// The kind of server that the session is connected to, by the last reported state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    /// A server with a quorum.
    Up,
    /// A read-only server, which has no quorum. Its data may be arbitrarily old. It does not know
    /// whether the session still exists: the quorum may have expired it.
    ReadOnly,
    Down,
}

impl Connection {
    pub(crate) const fn is_up(self) -> bool {
        matches!(self, Self::Up)
    }

    pub(crate) const fn change(&mut self, state: State) {
        *self = match state {
            State::Connected { .. } => Self::Up,
            State::ReadOnly { .. } => Self::ReadOnly,
            State::Connecting | State::Suspended | State::Renewing => Self::Down,
            _ => return,
        };
    }

    /// Replaces a successful reply of a read-only server by its refusal to write, so that the
    /// machine repeats the request until a server with a quorum answers.
    ///
    /// Errors stay as they are. The state of the server is at least as new as the newest that the
    /// session has seen, or the session would not have connected to it. So when it reports one of
    /// our nodes or a predecessor as missing, the node is gone, and does not come back: no name is
    /// used twice.
    ///
    /// This does not hold for a node that may be created again. A barrier can be closed after the
    /// server lost its quorum, so [`BarrierWait`](crate::machine::BarrierWait) must not trust `NO_NODE` from
    /// a read-only server.
    pub(crate) fn check_reply(self, answer: Result<Reply, Error>) -> Result<Reply, Error> {
        match self {
            Self::ReadOnly => answer.and(Err(Error::Server(ErrorCode::NOT_READ_ONLY))),
            Self::Up | Self::Down => answer,
        }
    }
}
