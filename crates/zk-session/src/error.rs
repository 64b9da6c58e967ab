//! What a caller sees when a request fails.

use alloc::boxed::Box;
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
    /// It was applied: the server confirmed it, but the rest of its reply is not available.
    Applied,
}

/// Why a request failed. [`outcome`](Self::outcome) says whether it may have been applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused it.
    Server(ErrorCode),
    /// The server does not support the operation: mostly because it is too old. A server since
    /// 3.4.6 then closes the connection.
    Unsupported {
        /// The operation.
        opcode: OpCode,
        /// What it needs: `ZooKeeper 3.5`.
        needs: &'static str,
    },
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
    /// The reply is longer than [`max_reply`](crate::session::Config::max_reply), so it was
    /// skipped. The connection stays. A watch that the request asked for is removed.
    ReplyTooLarge {
        /// The length of the reply in bytes.
        length: usize,
        /// The longest reply that is accepted, in bytes.
        limit: usize,
        /// [`NotApplied`](Outcome::NotApplied) for a request that only reads or watches;
        /// [`Applied`](Outcome::Applied) for one that writes, since the reply's header says that
        /// it succeeded; [`Unknown`](Outcome::Unknown) for a multi, whose header does not tell.
        outcome: Outcome,
    },
    /// The server answered several operations with more results, or fewer: it is at fault.
    Results {
        /// How many operations it was asked for.
        asked: usize,
        /// How many results it answered with.
        answered: usize,
    },
    /// Too many requests wait for an answer; nothing was sent.
    QueueFull {
        /// The limit in requests: [`max_pending`](crate::session::Config::max_pending).
        limit: usize,
    },
    /// Too many bytes of requests wait to be sent; nothing was sent.
    BufferFull {
        /// The limit in bytes: [`max_unsent`](crate::session::Config::max_unsent).
        limit: usize,
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
    /// Servers do not survive such a request: one outside of a transaction that
    /// [harms servers](zk_proto::Request::harms_servers).
    HarmsServer(OpCode),
    /// The request is longer than the server accepts. Sent, it would cost the connection.
    TooLarge {
        /// Its length in bytes.
        length: usize,
        /// The most that the server accepts.
        limit: usize,
    },
}

/// A failed request of a client: the operation, the path and the reason.
///
/// It prints the operation and the path, if that is known, and what the [`reason`](Self::reason)
/// prints.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestError {
    /// The operation; the one that made a transaction fail, if one did.
    pub operation: OpCode,
    /// The node, by its path as the client sees it.
    ///
    /// It is present where it is known without storing it for errors alone: in every error of the
    /// blocking client's methods that are about one node; in those of transactions; and where
    /// nothing was sent. A pipelined request that fails names its operation only.
    pub path: Option<Box<str>>,
    /// Why it failed.
    pub reason: Error,
}

impl RequestError {
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn new(operation: OpCode, path: Option<&str>, reason: Error) -> Self {
        Self { operation, path: path.map(Box::from), reason }
    }

    /// The same error, of a request that was about this node.
    #[cfg(any(feature = "tokio", feature = "blocking"))]
    pub(crate) fn at(mut self, path: &str) -> Self {
        self.path.get_or_insert_with(|| path.into());
        self
    }

    /// Whether the request may have been applied.
    pub fn outcome(&self) -> Outcome {
        self.reason.outcome()
    }

    /// The server's error code, if it was the server that refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        self.reason.code()
    }

    /// How the session ended, if that is why the request failed.
    pub fn end(&self) -> Option<End> {
        self.reason.end()
    }
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.operation)?;
        if let Some(path) = &self.path {
            write!(f, " {path:?}")?;
        }
        write!(f, ": {}", self.reason)
    }
}

impl core::error::Error for RequestError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        // The reason is printed with the error itself.
        self.reason.source()
    }
}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        error.reason
    }
}

impl Error {
    /// Whether the request may have been applied.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_)
            | Self::QueueFull { .. }
            | Self::BufferFull { .. }
            | Self::NoConnection
            | Self::Undeliverable
            | Self::Unsupported { .. } => Outcome::NotApplied,
            Self::Server(code) | Self::Transaction { code, .. } => outcome_of(*code),
            Self::ConnectionLost | Self::Reply(_) | Self::Results { .. } => Outcome::Unknown,
            Self::Ended { outcome, .. }
            | Self::DeadlinePassed { outcome }
            | Self::ReplyTooLarge { outcome, .. } => *outcome,
        }
    }

    /// The server's error code, if it was the server that refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Server(code) | Self::Transaction { code, .. } => Some(*code),
            Self::Unsupported { .. } => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Whether there was no room for the request. [`Event::Room`](crate::session::Event::Room)
    /// tells when there is some; so does `Client::ready`.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::BufferFull { .. })
    }

    /// Why a server answered `code` to a request for `opcode`.
    pub(crate) fn refused(opcode: OpCode, code: ErrorCode) -> Self {
        match needs(opcode) {
            Some(needs) if code == ErrorCode::UNIMPLEMENTED => Self::Unsupported { opcode, needs },
            _ => Self::Server(code),
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

/// What a server needs to support an operation, if it came after 3.3.
fn needs(opcode: OpCode) -> Option<&'static str> {
    Some(match opcode {
        OpCode::CHECK | OpCode::MULTI | OpCode::SASL => "ZooKeeper 3.4",
        OpCode::CREATE2
        | OpCode::CHECK_WATCHES
        | OpCode::REMOVE_WATCHES
        | OpCode::CREATE_CONTAINER
        | OpCode::DELETE_CONTAINER => "ZooKeeper 3.5",
        OpCode::RECONFIG => "ZooKeeper 3.5 and an ensemble",
        OpCode::CREATE_TTL => "ZooKeeper 3.5.4 with extendedTypesEnabled",
        OpCode::MULTI_READ
        | OpCode::GET_EPHEMERALS
        | OpCode::GET_ALL_CHILDREN_NUMBER
        | OpCode::SET_WATCHES2
        | OpCode::ADD_WATCH => "ZooKeeper 3.6",
        OpCode::WHO_AM_I => "ZooKeeper 3.7",
        _ => return None,
    })
}

/// Whether a request was applied that succeeded by the header of its reply.
pub(crate) fn outcome_of_success(opcode: OpCode) -> Outcome {
    match opcode {
        // A transaction that failed says so in the results alone.
        OpCode::MULTI => Outcome::Unknown,
        OpCode::EXISTS
        | OpCode::GET_DATA
        | OpCode::GET_ACL
        | OpCode::GET_CHILDREN
        | OpCode::GET_CHILDREN2
        | OpCode::GET_EPHEMERALS
        | OpCode::GET_ALL_CHILDREN_NUMBER
        | OpCode::MULTI_READ
        | OpCode::SYNC
        | OpCode::CHECK
        | OpCode::CHECK_WATCHES
        | OpCode::ADD_WATCH
        | OpCode::WHO_AM_I
        | OpCode::SASL => Outcome::NotApplied,
        _ => Outcome::Applied,
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
            Self::Unsupported { opcode, needs } => {
                write!(f, "the server does not support {opcode}, which needs {needs}")
            }
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
            Self::DeadlinePassed { outcome: Outcome::Unknown | Outcome::Applied } => f.write_str(
                "the deadline passed before the answer came; the request may have been applied",
            ),
            Self::NoConnection => f.write_str("there has been no connection for too long"),
            Self::Ended { end, outcome: Outcome::NotApplied } => write!(f, "{end}"),
            Self::Ended { end, outcome: Outcome::Unknown | Outcome::Applied } => {
                write!(f, "{end}; the request may have been applied")
            }
            Self::Reply(_) => f.write_str("the server's reply cannot be read"),
            Self::ReplyTooLarge { length, limit, outcome } => {
                write!(f, "the reply of {length} bytes exceeds the limit of {limit} (max_reply)")?;
                f.write_str(match outcome {
                    Outcome::NotApplied => "",
                    Outcome::Unknown => "; the request may have been applied",
                    Outcome::Applied => "; the request was applied",
                })
            }
            Self::Results { asked, answered } => {
                write!(f, "the server answered {asked} operations with {answered} results")
            }
            Self::QueueFull { limit } => {
                write!(f, "{limit} requests wait for an answer, and no more are allowed")
            }
            Self::BufferFull { limit } => {
                write!(f, "more than the allowed {limit} bytes of requests wait to be sent")
            }
            Self::Invalid(invalid) => write!(f, "{invalid}"),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(_) => f.write_str("the path is invalid"),
            Self::Reserved(opcode) => write!(f, "only the session itself sends {opcode}"),
            Self::HarmsServer(opcode) => {
                write!(f, "some servers do not survive such a {opcode} outside of a transaction")
            }
            Self::TooLarge { length, limit } => {
                write!(f, "a request of {length} bytes exceeds the server's limit of {limit}")
            }
        }
    }
}

impl core::error::Error for Error {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Reply(error) => Some(error),
            // What is invalid is printed with the error itself.
            Self::Invalid(invalid) => invalid.source(),
            _ => None,
        }
    }
}

impl core::error::Error for Invalid {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Path(error) => Some(error),
            _ => None,
        }
    }
}

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
    use alloc::string::ToString as _;

    use zk_proto::{Decode as _, Reader, Xid, path};

    use super::*;
    use crate::ConnectString;

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

    #[test]
    fn a_server_that_lacks_an_operation_is_told_by_what_it_needs() {
        for (opcode, text) in [
            (OpCode::CREATE2, "the server does not support CREATE2, which needs ZooKeeper 3.5"),
            (OpCode::ADD_WATCH, "the server does not support ADD_WATCH, which needs ZooKeeper 3.6"),
            (OpCode::CREATE, "the server refused the request: UNIMPLEMENTED"),
        ] {
            let error = Error::refused(opcode, ErrorCode::UNIMPLEMENTED);
            assert_eq!(error.to_string(), text);
            assert_eq!(error.code(), Some(ErrorCode::UNIMPLEMENTED));
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
        assert_eq!(
            Error::refused(OpCode::CREATE2, ErrorCode::NO_NODE),
            Error::Server(ErrorCode::NO_NODE)
        );
    }

    #[test]
    fn no_error_prints_its_source() {
        let malformed = Xid::decode(&mut Reader::new(&[])).expect_err("no bytes");
        let path = path::validate("a").expect_err("relative");
        let port: Result<ConnectString, _> = "a//b".parse();
        let chroot = port.expect_err("an empty name");
        let errors: [(&dyn core::error::Error, &str); 5] = [
            (&Error::Reply(malformed), "the server's reply cannot be read"),
            (&Error::from(path), "the path is invalid"),
            (&Invalid::Path(path), "the path is invalid"),
            (&chroot, "the chroot is invalid"),
            (&Error::ConnectionLost, "the connection was lost; the request may have been applied"),
        ];
        for (error, text) in errors {
            assert_eq!(error.to_string(), text);
            let is_last = matches!(text.as_bytes().last(), Some(b'd')) && text.contains("lost");
            assert_eq!(error.source().is_none(), is_last, "{text}");
        }
    }
}
