//! What becomes of a step that has failed.

use core::time::Duration;

use zk_session::proto::ErrorCode;
use zk_session::{Error, Outcome};

/// When to try again what the session or the server has refused for now.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(100);

/// What to do about a request that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RetryPolicy {
    /// Again at once; the session sends it when it is connected.
    Now,
    /// Again after a while, so that a server in trouble is not asked without end.
    Later,
    /// It will not work.
    Never,
}

impl RetryPolicy {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::ConnectionLost => Self::Now,
            // Nobody could be asked in time; the session and its nodes may live all the same.
            Error::NoConnection
            | Error::DeadlinePassed { .. }
            | Error::Server(ErrorCode::NOT_READ_ONLY)
            | Error::QueueFull { .. }
            | Error::BufferFull { .. }
            | Error::Server(ErrorCode::THROTTLED_OP)
            // The end of the connection, or of the session, is about to follow.
            | Error::Server(ErrorCode::SESSION_MOVED | ErrorCode::SESSION_EXPIRED) => Self::Later,
            error if error.outcome() != Outcome::NotApplied => Self::Later,
            _ => Self::Never,
        }
    }
}
