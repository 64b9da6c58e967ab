//! When to repeat a failed request.

use core::time::Duration;

use zk_session::proto::ErrorCode;
use zk_session::{Error, Outcome};

/// The delay before a request is repeated that the session or the server refused for now.
pub(crate) const RETRY_AFTER: Duration = Duration::from_millis(100);

/// When to repeat a failed request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// At once. The session sends it when it is connected.
    Now,
    /// After [`RETRY_AFTER`], to spare a server in trouble.
    Later,
    /// Not at all: the error is permanent.
    Never,
}

impl RetryPolicy {
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::ConnectionLost => Self::Now,
            // No server was reached in time. The session and its nodes may still exist.
            Error::NoConnection
            | Error::DeadlinePassed { .. }
            | Error::Server(ErrorCode::NOT_READ_ONLY)
            | Error::QueueFull { .. }
            | Error::BufferFull { .. }
            | Error::Server(ErrorCode::THROTTLED_OP)
            // The end of the connection, or of the session, follows soon.
            | Error::Server(ErrorCode::SESSION_MOVED | ErrorCode::SESSION_EXPIRED) => Self::Later,
            error if error.outcome() != Outcome::NotApplied => Self::Later,
            _ => Self::Never,
        }
    }
}
