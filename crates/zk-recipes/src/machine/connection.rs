//! How a machine stands with the ensemble.

use zk_session::Error;
use zk_session::proto::ErrorCode;
use zk_session::session::{Reply, State};

/// To whom the session is connected, as far as we were told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Connection {
    /// A member that belongs to a majority.
    Up,
    /// A member that can only read. What it knows may be arbitrarily old, and of the session it
    /// knows nothing: the majority may have ended that long ago.
    ReadOnly,
    Down,
}

impl Connection {
    pub(super) const fn is_up(self) -> bool {
        matches!(self, Self::Up)
    }

    pub(super) const fn change(&mut self, state: State) {
        *self = match state {
            State::Connected { .. } => Self::Up,
            State::ReadOnly { .. } => Self::ReadOnly,
            State::Suspended => Self::Down,
            _ => return,
        };
    }

    /// What an answer is worth: whatever a member that can only read has said is refused, as it
    /// refuses to write. So it is asked for again, until there is somebody to believe.
    pub(super) fn hear(self, answer: Result<Reply, Error>) -> Result<Reply, Error> {
        match self {
            Self::ReadOnly => answer.and(Err(Error::Server(ErrorCode::NOT_READ_ONLY))),
            Self::Up | Self::Down => answer,
        }
    }
}
