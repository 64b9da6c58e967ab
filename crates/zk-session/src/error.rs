//! What a caller sees when a request fails.

use core::fmt;

use zk_proto::path::PathError;
use zk_proto::{DecodeError, ErrorCode, OpCode};

use crate::session::End;

/// Whether a failed request may nevertheless have changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It certainly was not applied.
    NotApplied,
    /// It may have been applied: it was sent, and no answer that tells arrived.
    Unknown,
}

/// Why a request failed. [`outcome`](Self::outcome) says whether it may have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused it.
    Server(ErrorCode),
    /// A transaction was refused as a whole, because of one of its operations.
    Transaction {
        /// Which operation, counted from 0.
        index: usize,
        /// Why it was refused.
        code: ErrorCode,
    },
    /// The connection was lost after the request had been sent and before its answer arrived.
    ConnectionLost,
    /// Several connections were lost, one after the other, while the request was being sent, so it
    /// was given up: most likely it is longer than the members accept (their `jute.maxbuffer`),
    /// who close the connection and do not say why.
    Undeliverable,
    /// The caller's deadline passed before the answer came.
    DeadlinePassed {
        /// Whether the request may have been applied, or may yet be.
        outcome: Outcome,
    },
    /// There had been no connection for longer than requests may wait for one.
    NoConnection,
    /// The session has ended.
    Ended {
        /// How.
        end: End,
        /// Whether the request may have been applied before.
        outcome: Outcome,
    },
    /// The server answered with bytes that are not the answer to this request.
    Reply(DecodeError),
    /// The server answered several operations with more results, or fewer: it is at fault.
    Results {
        /// How many operations it was asked for.
        asked: usize,
        /// How many results it answered with.
        answered: usize,
    },
    /// The caller asked for something impossible; nothing was sent.
    Invalid(Invalid),
}

/// What is impossible about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Invalid {
    /// The path names no node.
    Path(PathError),
    /// The session itself sends such requests, and takes their answers for its own: pings, the
    /// setting of watches anew, the removal of watches (asked for by
    /// [`unwatch`](crate::session::Session::unwatch): others on the path may share what the server
    /// holds), `auth` (by [`add_auth`](crate::session::Session::add_auth)) and the end of the
    /// session (by [`close`](crate::session::Session::close)).
    Reserved(OpCode),
    /// The request is longer than the server accepts. Sent, it would cost the connection.
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The most that the server accepts.
        limit: usize,
    },
    /// Too many requests wait for an answer, or too many of their bytes to be sent.
    QueueFull {
        /// What is exhausted: [`max_pending`](crate::session::Config::max_pending), in requests, or
        /// else [`max_unsent`](crate::session::Config::max_unsent), in bytes.
        limit: usize,
    },
}

impl Error {
    /// Whether the request may have been applied.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_) | Self::NoConnection | Self::Undeliverable => Outcome::NotApplied,
            Self::Server(code) | Self::Transaction { code, .. } => outcome_of(*code),
            Self::ConnectionLost | Self::Reply(_) | Self::Results { .. } => Outcome::Unknown,
            Self::Ended { outcome, .. } | Self::DeadlinePassed { outcome } => *outcome,
        }
    }

    /// The server's error code, if it was the server that refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Server(code) | Self::Transaction { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// How the session ended, if that is why the request failed.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Ended { end, .. } => Some(*end),
            _ => None,
        }
    }
}

/// Whether a request that was answered with `code` may have been applied.
fn outcome_of(code: ErrorCode) -> Outcome {
    match code {
        // A server that stumbles does not say how far it got.
        ErrorCode::SYSTEM_ERROR
        | ErrorCode::DATA_INCONSISTENCY
        | ErrorCode::CONNECTION_LOSS
        | ErrorCode::OPERATION_TIMEOUT
        | ErrorCode::REQUEST_TIMEOUT => Outcome::Unknown,
        // Nor is it known what a newer one means by a code of its own.
        code if code.name().is_none() => Outcome::Unknown,
        _ => Outcome::NotApplied,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(code) => write!(f, "the server refused the request: {code}"),
            Self::Transaction { index, code } => {
                write!(f, "operation {index} of the transaction was refused: {code}")
            }
            Self::ConnectionLost => {
                f.write_str("the connection was lost; the request may have been applied")
            }
            Self::Undeliverable => f.write_str(
                "connections were lost while the request was being sent; it is probably too long",
            ),
            Self::DeadlinePassed { outcome: Outcome::NotApplied } => {
                f.write_str("the deadline passed before the request was sent")
            }
            Self::DeadlinePassed { outcome: Outcome::Unknown } => f.write_str(
                "the deadline passed before the answer came; the request may have been applied",
            ),
            Self::NoConnection => f.write_str("there has been no connection for too long"),
            Self::Ended { end, outcome: Outcome::NotApplied } => write!(f, "{end}"),
            Self::Ended { end, outcome: Outcome::Unknown } => {
                write!(f, "{end}; the request may have been applied")
            }
            Self::Reply(error) => write!(f, "the server's reply cannot be read: {error}"),
            Self::Results { asked, answered } => {
                write!(f, "the server answered {asked} operations with {answered} results")
            }
            Self::Invalid(invalid) => write!(f, "{invalid}"),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(error) => write!(f, "{error}"),
            Self::Reserved(opcode) => write!(f, "only the session itself sends {opcode}"),
            Self::TooLarge { length, limit } => {
                write!(f, "a request of {length} bytes exceeds the server's limit of {limit}")
            }
            Self::QueueFull { limit } => {
                write!(f, "no more requests can wait: the limit of {limit} is reached")
            }
        }
    }
}

impl core::error::Error for Error {}

impl From<Invalid> for Error {
    fn from(invalid: Invalid) -> Self {
        Self::Invalid(invalid)
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Invalid(Invalid::Path(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_code_whose_meaning_is_known_says_that_nothing_was_applied() {
        let cases = [
            (ErrorCode::NO_NODE, Outcome::NotApplied),
            (ErrorCode::RUNTIME_INCONSISTENCY, Outcome::NotApplied),
            (ErrorCode::SYSTEM_ERROR, Outcome::Unknown),
            (ErrorCode(-12_345), Outcome::Unknown),
            (ErrorCode(7), Outcome::Unknown),
        ];
        for (code, outcome) in cases {
            assert_eq!(Error::Server(code).outcome(), outcome, "{code}");
            assert_eq!(Error::Transaction { index: 0, code }.outcome(), outcome, "{code}");
        }
    }
}
