//! Errors of requests.

use alloc::boxed::Box;
use core::fmt;

use zk_proto::path::PathError;
use zk_proto::{DecodeError, ErrorCode, OpCode};

use crate::end::End;

/// Whether a failed request may have changed the tree.
///
/// Decide by it whether to repeat the request:
///
/// ```
/// use zk_session::{Error, Outcome};
///
/// fn advice(error: &Error) -> &'static str {
///     match error.outcome() {
///         Outcome::NotApplied => "repeat it",
///         Outcome::Unknown => "read the node first",
///         Outcome::Applied => "do not repeat it",
///     }
/// }
/// assert_eq!(advice(&Error::NoConnection), "repeat it");
/// assert_eq!(advice(&Error::ConnectionLost), "read the node first");
/// ```
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The request was not applied.
    NotApplied,
    /// The request was sent, and no conclusive reply arrived. It may have been applied.
    Unknown,
    /// The server confirmed that it applied the request. The rest of the reply is not available.
    Applied,
}

/// Whose fault an error is, and so what to do.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// The call, its options, permissions, or the nodes at its path. The same call fails again until
    /// one of them is changed.
    Caller,
    /// Others were in the way, as a server has said: contenders for a lock, or another
    /// reconfiguration. Call again later, or wait longer.
    Others,
    /// The network or the servers: no connection, no answer, or a server that cannot serve the
    /// request now. Call again later, but repeat a write only as its [`Outcome`] allows. The
    /// release of a lock continues in the background: do not repeat it.
    Ensemble,
    /// The session has ended, or the node of a lock in it was deleted. Call again, but repeat a write
    /// only as its [`Outcome`] allows; or acquire the lock again. If the session has ended and this
    /// client does not [renew](crate::ClientBuilder::renew) it, use another client.
    Session,
}

zk_proto::named! {
    /// The reason why a request failed.
    ///
    /// [`outcome`](Self::outcome) returns whether the request may have been applied.
    ///
    /// ```
    /// use zk_session::proto::ErrorCode;
    /// use zk_session::{Error, Outcome};
    ///
    /// let error = Error::Server(ErrorCode::NO_NODE);
    /// assert_eq!(error.code(), Some(ErrorCode::NO_NODE));
    /// assert_eq!(error.outcome(), Outcome::NotApplied);
    /// assert_eq!(error.to_string(), "the server refused the request: NO_NODE");
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Error {
        /// The server refused the request.
        Server(ErrorCode),
        /// The server does not support the operation, usually because it is too old. Servers since
        /// 3.4.6 then close the connection.
        Unsupported {
            /// The operation.
            opcode: OpCode,
            /// The server version or setting that the operation needs, such as `ZooKeeper 3.5`.
            needs: &'static str,
        },
        /// The server refused a transaction as a whole, because of one of its operations.
        Transaction {
            /// The index of that operation, counted from 0.
            index: usize,
            /// The error code of that operation.
            code: ErrorCode,
        },
        /// The connection was lost after the request was sent and before its reply arrived.
        ConnectionLost,
        /// The servers close the connection at requests of this operation and length: three
        /// connections in a row ended soon after one was sent, or while it was being sent.
        ///
        /// Most likely the request is longer than the servers' `jute.maxbuffer`, or they lack the
        /// operation. A server closes the connection then, without giving a reason. Nothing more was
        /// sent. The earlier requests have failed with [`ConnectionLost`](Self::ConnectionLost), so
        /// only a repetition fails with this error.
        Undeliverable {
            /// The operation.
            opcode: OpCode,
            /// The length of the request, in bytes.
            length: usize,
        },
        /// The caller's deadline passed before the reply arrived.
        DeadlinePassed {
            /// Whether the request may have been applied, or may still be applied later.
            outcome: Outcome,
        },
        /// The session was without a connection for longer than its [disconnect
        /// timeout](field@crate::session::Config::disconnect_timeout).
        NoConnection,
        /// The session has ended.
        Ended {
            /// How the session ended.
            end: End,
            /// Whether the request may have been applied before the end.
            outcome: Outcome,
        },
        /// The body of the reply is malformed, or belongs to another operation.
        Reply(DecodeError),
        /// The reply is longer than [`max_reply`](crate::session::Config::max_reply).
        ///
        /// The session skips such a reply and keeps the connection. It removes a watch that the
        /// request has set.
        ReplyTooLarge {
            /// The length of the reply, in bytes.
            length: usize,
            /// The limit, in bytes.
            limit: usize,
            /// Whether the request was applied, which depends on its operation:
            ///
            /// * [`NotApplied`](Outcome::NotApplied) if it only reads or watches.
            /// * [`Applied`](Outcome::Applied) if it writes, because the header of the reply
            ///   reports success.
            /// * [`Unknown`](Outcome::Unknown) for a multi, whose header does not say whether it
            ///   succeeded.
            outcome: Outcome,
        },
        /// The server returned more or fewer results than the request has operations. This is a
        /// fault of the server.
        Results {
            /// The number of operations in the request.
            asked: usize,
            /// The number of results in the reply.
            answered: usize,
        },
        /// Too many requests wait for a reply. Nothing was sent.
        QueueFull {
            /// The limit, in requests: [`max_pending`](crate::session::Config::max_pending).
            limit: usize,
        },
        /// Too many bytes of requests wait to be sent. Nothing was sent.
        BufferFull {
            /// The limit, in bytes: [`max_unsent`](crate::session::Config::max_unsent).
            limit: usize,
        },
        /// The paths of the session's ephemeral nodes would take too many bytes. Nothing was sent.
        ///
        /// The end of such a session stops the ensemble for good (ZOOKEEPER-4306). Delete nodes, use
        /// shorter paths, or spread the nodes over several clients.
        EphemeralsFull {
            /// The limit, in bytes: `max_ephemerals`.
            limit: usize,
        },
        /// The request is invalid. Nothing was sent.
        [from] Invalid(Invalid),
    }
}

zk_proto::named! {
    /// The reason why a request is invalid.
    #[derive(Clone, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Invalid {
        /// The path is malformed.
        Path(PathError),
        /// Only the session itself sends requests with this operation.
        ///
        /// * Pings, and the requests that set watches again: the session sends them when they are
        ///   due.
        /// * Removals of watches: use [`unwatch`](crate::session::Session::unwatch), because
        ///   several requests may share one watch on the server.
        /// * `auth`: use [`add_auth`](crate::session::Session::add_auth).
        /// * The end of the session: use [`close`](crate::session::Session::close).
        Reserved(OpCode),
        /// The request would crash some servers: it [harms
        /// servers](zk_proto::Request::harms_servers) outside a transaction.
        HarmsServer(OpCode),
        /// The request is longer than the server accepts. A server would close the connection.
        TooLarge {
            /// The length of the request, in bytes.
            length: usize,
            /// The limit, in bytes: [`max_request`](crate::session::Config::max_request).
            limit: usize,
        },
        /// No server has this scheme for credentials: it is empty, `world`, `auth` or `sasl`. The
        /// mechanisms of SASL have [methods of their own](crate::sasl).
        Scheme,
    }
}

/// A failed request of a client: the operation, the path and the reason.
///
/// It displays the operation, the path if known, and the [`reason`](Self::reason).
///
/// ```
/// fn delete_if_unchanged(
///     client: &zk_session::blocking::Client,
///     version: i32,
/// ) -> Result<bool, zk_session::RequestError> {
///     use zk_session::proto::ErrorCode;
///
///     match client.delete("/config", Some(version)).wait() {
///         Ok(()) => Ok(true),
///         Err(error) if error.code() == Some(ErrorCode::BAD_VERSION) => Ok(false),
///         Err(error) => Err(error),
///     }
/// }
/// ```
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestError {
    /// The operation. If a transaction failed because of one of its operations, that one.
    pub operation: OpCode,
    /// The path of the node, relative to the client's chroot, if the request is about one. If a
    /// transaction failed because of one of its operations, the path of that one.
    pub path: Option<Box<str>>,
    /// The reason for the failure.
    pub reason: Error,
}

impl RequestError {
    #[cfg(feature = "blocking")]
    pub(crate) fn new(operation: OpCode, path: Option<&str>, reason: Error) -> Self {
        Self { operation, path: path.map(Box::from), reason }
    }

    /// Returns the name of the [reason](Error::name).
    pub const fn name(&self) -> &'static str {
        self.reason.name()
    }

    /// Returns whether the request may have been applied. A read has nothing to apply.
    pub fn outcome(&self) -> Outcome {
        match self.is_read() {
            true => Outcome::NotApplied,
            false => self.reason.outcome(),
        }
    }

    /// Returns whether the request as a whole only reads or watches.
    fn is_read(&self) -> bool {
        let is_multi = matches!(self.reason, Error::Transaction { .. });
        !is_multi && outcome_of_success(self.operation) == Outcome::NotApplied
    }

    /// Returns whose [fault](Error::fault) it is, and so what to do.
    pub fn fault(&self) -> Fault {
        self.reason.fault()
    }

    /// Returns the server's error code, if the server refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        self.reason.code()
    }

    /// Returns how the session ended, if the request failed because of that.
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
        f.write_str(": ")?;
        match self.is_read() {
            true => self.reason.fmt_cause(f),
            false => self.reason.fmt(f),
        }
    }
}

// `Display` prints all of an error, so none has a source.
impl core::error::Error for RequestError {}
impl core::error::Error for Error {}
impl core::error::Error for Invalid {}

impl From<RequestError> for Error {
    fn from(error: RequestError) -> Self {
        error.reason
    }
}

impl Error {
    /// Returns whether the request may have been applied.
    pub fn outcome(&self) -> Outcome {
        match self {
            Self::Invalid(_)
            | Self::QueueFull { .. }
            | Self::BufferFull { .. }
            | Self::EphemeralsFull { .. }
            | Self::NoConnection
            | Self::Undeliverable { .. }
            | Self::Unsupported { .. } => Outcome::NotApplied,
            Self::Server(code) | Self::Transaction { code, .. } => outcome_of(*code),
            Self::ConnectionLost | Self::Reply(_) | Self::Results { .. } => Outcome::Unknown,
            Self::Ended { outcome, .. }
            | Self::DeadlinePassed { outcome }
            | Self::ReplyTooLarge { outcome, .. } => *outcome,
        }
    }

    /// Returns whose fault it is, and so what to do. A [full](Self::is_full) queue is the caller's
    /// fault, although the same call succeeds once there is room.
    ///
    /// ```
    /// use zk_session::proto::ErrorCode;
    /// use zk_session::{Error, Fault};
    ///
    /// assert_eq!(Error::Server(ErrorCode::NO_NODE).fault(), Fault::Caller);
    /// assert_eq!(Error::ConnectionLost.fault(), Fault::Ensemble);
    /// ```
    pub fn fault(&self) -> Fault {
        match (self, self.code()) {
            (Self::ReplyTooLarge { .. }, _) => Fault::Caller,
            (_, Some(ErrorCode::RECONFIG_IN_PROGRESS)) => Fault::Others,
            (Self::Ended { .. }, _) | (_, Some(ErrorCode::SESSION_EXPIRED)) => Fault::Session,
            (Self::NoConnection | Self::DeadlinePassed { .. }, _)
            | (_, Some(ErrorCode::NOT_READ_ONLY | ErrorCode::NEW_CONFIG_NO_QUORUM))
            | (_, Some(ErrorCode::SESSION_MOVED | ErrorCode::THROTTLED_OP)) => Fault::Ensemble,
            _ if self.outcome() == Outcome::Unknown => Fault::Ensemble,
            _ => Fault::Caller,
        }
    }

    /// Returns the server's error code, if the server refused the request.
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Server(code) | Self::Transaction { code, .. } => Some(*code),
            Self::Unsupported { .. } => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Returns whether the request failed because a queue was full.
    ///
    /// [`Event::Room`](crate::session::Event::Room) reports when there is room again, and
    /// `Client::ready` waits for it.
    ///
    /// ```
    /// use zk_session::Error;
    ///
    /// assert!(Error::QueueFull { limit: 65536 }.is_full());
    /// assert!(!Error::NoConnection.is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::QueueFull { .. } | Self::BufferFull { .. })
    }

    /// Returns the error for a request that the server refused with `code`.
    pub(crate) fn refused(opcode: OpCode, code: ErrorCode) -> Self {
        match required_version(opcode) {
            Some(needs) if code == ErrorCode::UNIMPLEMENTED => Self::Unsupported { opcode, needs },
            _ => Self::Server(code),
        }
    }

    /// Returns how the session ended, if the request failed because of that.
    pub fn end(&self) -> Option<End> {
        match self {
            Self::Ended { end, .. } => Some(*end),
            _ => None,
        }
    }
}

/// Returns what a server needs to support an operation that is newer than ZooKeeper 3.3.
pub(crate) fn required_version(opcode: OpCode) -> Option<&'static str> {
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

/// Returns whether a request was applied if the header of its reply reports success.
pub(crate) fn outcome_of_success(opcode: OpCode) -> Outcome {
    match opcode {
        // The header reports success also for a transaction that failed.
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

/// Returns whether a request may have been applied that the server refused with `code`.
fn outcome_of(code: ErrorCode) -> Outcome {
    match code {
        // These codes do not say how far the server got.
        ErrorCode::SYSTEM_ERROR
        | ErrorCode::DATA_INCONSISTENCY
        | ErrorCode::CONNECTION_LOSS
        | ErrorCode::OPERATION_TIMEOUT
        | ErrorCode::REQUEST_TIMEOUT => Outcome::Unknown,
        // The meaning of a code of a newer server is unknown.
        code if code.name().is_none() => Outcome::Unknown,
        _ => Outcome::NotApplied,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_cause(f)?;
        match self {
            Self::ConnectionLost
            | Self::DeadlinePassed { outcome: Outcome::Unknown | Outcome::Applied }
            | Self::Ended { outcome: Outcome::Unknown | Outcome::Applied, .. } => {
                f.write_str("; the request may have been applied")
            }
            _ => Ok(()),
        }
    }
}

impl Error {
    /// Prints what has happened, but not whether the request was applied.
    fn fmt_cause(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(code) => write!(f, "the server refused the request: {code}"),
            Self::Unsupported { opcode, needs } => {
                write!(f, "the server does not support {opcode}, which needs {needs}")
            }
            Self::Transaction { index, code } => {
                write!(f, "operation {index} of the transaction was refused: {code}")
            }
            Self::ConnectionLost => f.write_str("the connection was lost"),
            Self::Undeliverable { opcode, length } => write!(
                f,
                "servers close the connection at {opcode} of {length} bytes: it is probably too long, or they lack it"
            ),
            Self::DeadlinePassed { outcome: Outcome::NotApplied } => {
                f.write_str("the deadline passed before the request was sent")
            }
            Self::DeadlinePassed { outcome: Outcome::Unknown | Outcome::Applied } => {
                f.write_str("the deadline passed before the reply arrived")
            }
            Self::NoConnection => f.write_str(
                "the session was without a connection for longer than the disconnect timeout",
            ),
            Self::Ended { end, .. } => write!(f, "{end}"),
            Self::Reply(error) => write!(f, "the server's reply is malformed: {error}"),
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
                write!(f, "{limit} requests wait for a reply, which is the limit (max_pending)")
            }
            Self::BufferFull { limit } => {
                write!(
                    f,
                    "{limit} bytes or more of requests wait to be sent, which is the limit (max_unsent)"
                )
            }
            Self::EphemeralsFull { limit } if cfg!(feature = "blocking") => {
                write!(
                    f,
                    "the paths of the session's ephemeral nodes would take more than {limit} bytes \
                    (max_ephemerals); the end of such a session stops the ensemble (ZOOKEEPER-4306)"
                )
            }
            // Without the clients, no session counts them.
            Self::EphemeralsFull { .. } => Ok(()),
            Self::Invalid(invalid) => write!(f, "{invalid}"),
        }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(error) => write!(f, "{error}"),
            Self::Reserved(opcode) => {
                write!(f, "{opcode} is reserved: only the session itself sends it")
            }
            Self::HarmsServer(opcode) => {
                write!(f, "such a {opcode} outside a transaction crashes some servers")
            }
            Self::TooLarge { length, limit } => {
                write!(f, "a request of {length} bytes exceeds the server's limit of {limit}")
            }
            Self::Scheme => f.write_str("no server has this scheme for credentials"),
        }
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::Invalid(Invalid::Path(error))
    }
}

#[cfg(test)]
mod tests;
