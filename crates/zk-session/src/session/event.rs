//! The events, actions and states that a session reports.

use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use zk_proto::frame::FrameError;
use zk_proto::{Decode, DecodeError, ErrorCode, EventType, OpCode, Reader, SessionId, Xid, Zxid};

use super::watches::slab::NOWHERE;
use crate::end::End;
use crate::error::Error;
use crate::sync::Arc;

/// The state of a session.
///
/// ```
/// use zk_session::State;
///
/// fn can_write(state: State) -> bool {
///     matches!(state, State::Connected { .. })
/// }
/// assert!(!can_write(State::Suspended));
/// ```
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// No server has answered the first handshake yet.
    Connecting,
    /// A server serves the session.
    Connected {
        /// The server, by its index in the list of servers.
        server: usize,
        /// The session.
        session: SessionId,
    },
    /// A server without a quorum serves the session. It serves only reads, which may be arbitrarily
    /// old.
    ReadOnly {
        /// The server, as in [`Connected`](Self::Connected).
        server: usize,
        /// The session.
        session: SessionId,
    },
    /// The connection is lost. Only a server knows whether the session is still alive.
    Suspended,
    /// The session has expired, and a new one is being opened in its place, because
    /// [`Config::renew`](super::Config::renew) is set.
    ///
    /// The ephemeral nodes of the expired session are deleted. Its requests have failed, and its
    /// one-shot watches are gone. Credentials and persistent watches pass to the new session.
    Renewing,
    /// The session has ended.
    Ended(End),
}

impl State {
    /// Returns whether only the index of the server has changed since the state before this one: the
    /// loss of a connection, or of the session, is a state in between.
    pub(crate) fn is_renumbered(self, before: Self) -> bool {
        matches!(
            (before, self),
            (Self::Connected { .. }, Self::Connected { .. })
                | (Self::ReadOnly { .. }, Self::ReadOnly { .. })
        )
    }
}

/// The software of the servers, as far as a client can tell. Without the feature `full`, it cannot.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ServerKind {
    /// Apache ZooKeeper, or not known yet.
    #[default]
    ZooKeeper,
    /// Most likely ClickHouse Keeper: the answer to the handshake has neither a password nor the
    /// flag of a read-only server.
    ///
    /// * It never resumes a session: with the connection, the session is lost.
    /// * An operation that it lacks ends the connection, and so the session. Keepers before 2026
    ///   lack `create2`, `addWatch` and `removeWatches`, those before July 2026 `createContainer`,
    ///   and all lack `createTTL`, `getEphemerals`, `whoAmI` and SASL.
    ///
    /// The recipes use none of these there. The session removes no watch until the server has set a
    /// persistent one: it has both operations, or none.
    Keeper,
}

zk_proto::named! {
    /// The reason why a connection, or an attempt to connect, ended.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[non_exhaustive]
    pub enum Cause {
        /// The transport failed, or the server closed the connection.
        Transport,
        /// The server was not reached in time, or did not answer the handshake in time.
        ConnectTimeout,
        /// The server sent nothing for two thirds of the session timeout.
        ReadTimeout,
        /// The server sent a frame with an invalid length.
        Frame(FrameError),
        /// The server sent a malformed frame.
        Malformed(DecodeError),
        /// The server replied to the handshake, or to an authentication request, before it was sent
        /// completely.
        Unasked,
        /// The server answered the handshake with another protocol version, or not in this
        /// protocol.
        UnknownProtocol(i32),
        /// The server answered a request out of order.
        UnexpectedReply {
            /// The xid of the oldest unanswered request, if there is one.
            expected: Option<Xid>,
            /// The xid of the reply.
            received: Xid,
        },
        /// The server refused a credential, or requires one that the session lacks.
        AuthRefused(ErrorCode),
        /// The server refused to set the watches again.
        WatchesRefused(ErrorCode),
        /// The server is read-only, and a read-write server was found.
        ReadWriteFound,
        /// The list of servers has changed, and the session moves to another server.
        Rebalanced,
        /// The servers have lost transactions that the session has seen, for example because they
        /// were restored from a backup. The session ends as [expired](End::Expired).
        OlderHistory,
    }
}

impl Cause {
    /// Returns whether the transport was lost. The derived comparison takes more code.
    pub(super) const fn is_transport(self) -> bool {
        matches!(self, Self::Transport)
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport => f.write_str("the connection was closed"),
            Self::ConnectTimeout => f.write_str("no reply within the connect timeout"),
            Self::ReadTimeout => f.write_str("the server sent nothing within the read timeout"),
            Self::Frame(error) => write!(f, "{error}"),
            Self::Malformed(error) => write!(f, "malformed frame: {error}"),
            Self::Unasked => {
                f.write_str("the server replied to a request that was not sent completely")
            }
            Self::UnknownProtocol(version) => write!(f, "unknown protocol version {version}"),
            Self::UnexpectedReply { expected: Some(expected), received } => {
                write!(f, "reply to request {received} instead of {expected}")
            }
            Self::UnexpectedReply { expected: None, received } => {
                write!(f, "reply to request {received}, but no request was pending")
            }
            Self::AuthRefused(code) => write!(f, "the server refused the credentials: {code}"),
            Self::WatchesRefused(code) => {
                write!(f, "the server refused to set watches again: {code}")
            }
            Self::ReadWriteFound => f.write_str("a read-write server was found"),
            Self::Rebalanced => f.write_str("the list of servers has changed"),
            Self::OlderHistory => f.write_str("the servers' history is older than this session's"),
        }
    }
}

/// An action that the driver of a session carries out on its transport.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to this server, then call [`handle_connected`](super::Session::handle_connected), or
    /// [`handle_disconnected`](super::Session::handle_disconnected) if that fails. The attempt may
    /// last until the [`connect_deadline`](super::Session::connect_deadline).
    Connect(usize),
    /// Drop the connection, or the attempt to connect. Report nothing back.
    Disconnect,
    /// Ask this server whether it is read-write, on a separate connection.
    ///
    /// Send the four letters `isro`. A read-write server answers exactly `rw`, without a line end.
    /// Report the answer to [`handle_probed`](super::Session::handle_probed). Give up after a
    /// second.
    Probe(usize),
}

/// Identifies a request, and the watch that it sets, within its session.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId {
    /// Counts the requests of a session, from 1.
    pub(crate) number: u64,
    /// Where the session keeps the watch. Later watches may reuse the place.
    pub(crate) place: u32,
    /// Who receives the events of the watch: a machine, by its place, or a caller.
    pub(crate) receiver: u32,
}

impl RequestId {
    /// Marks receivers that are callers. There are fewer machines.
    pub(crate) const CALLERS: u32 = 1 << 31;

    /// Returns the id of a request whose events no machine receives.
    pub(crate) const fn of_caller(number: u64, place: u32) -> Self {
        Self { number, place, receiver: NOWHERE }
    }

    pub(super) const fn without_watch(number: u64) -> Self {
        Self::of_caller(number, NOWHERE)
    }

    pub(crate) const fn has_watch(self) -> bool {
        self.place != NOWHERE
    }

    pub(crate) const fn is_callers(self) -> bool {
        self.receiver & Self::CALLERS != 0
    }
}

/// An event that a session reports. `T` is the token of a request.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<T> {
    /// The state of the session has changed.
    State(State),
    /// A connection, or an attempt to connect, has failed.
    Disconnected {
        /// The server.
        server: usize,
        /// The reason.
        cause: Cause,
    },
    /// The server has answered the handshake, and
    /// [`Config::authenticate`](super::Config::authenticate) is set.
    ///
    /// Call [`authenticate`](super::Session::authenticate) for each request of the exchange, then
    /// [`authenticated`](super::Session::authenticated). The connect timeout still applies. The
    /// session sends nothing else until then.
    Authenticate {
        /// The server.
        server: usize,
    },
    /// The server has replied to a request of [`authenticate`](super::Session::authenticate).
    ///
    /// An error code of [refusal](zk_proto::ErrorCode::AUTH_FAILED) has ended the connection already,
    /// and the session if all servers have refused.
    AuthenticationReply {
        /// The server.
        server: usize,
        /// The reply, or the error that the server sent.
        result: Result<Reply, Error>,
    },
    /// A request has a reply, or will never have one.
    Reply {
        /// The token that the request was submitted with.
        token: T,
        /// The reply, or the error that replaces it.
        result: Result<Reply, Error>,
    },
    /// One event has fired these watches.
    Watch {
        /// The requests that set one-shot watches. Those watches are no longer set.
        requests: Vec<RequestId>,
        /// The requests that set persistent watches. Those watches stay.
        persistent: Vec<RequestId>,
        /// The change of the node.
        event: WatchedEvent,
    },
    /// The session has a new connection, and persistent watches may have missed events.
    ///
    /// Servers do not report what happened in between (ZOOKEEPER-4698). A request submitted now is
    /// executed after the watches are set again, so its reply closes the gap.
    Gap {
        /// The requests that set the persistent watches. The watches stay.
        requests: Vec<RequestId>,
    },
    /// Persistent watches are lost: the server that serves the session now is too old for them.
    WatchLost {
        /// The requests that set these watches.
        requests: Vec<RequestId>,
        /// The error code of the server.
        code: ErrorCode,
    },
    /// The [lease](super::Session::lease) has ended: the ensemble may expire the session from now
    /// on.
    ///
    /// The session reports it once, with or without a connection. It reports it again only after a
    /// reply has renewed the lease.
    LeaseEnded,
    /// There is room again, after a request was refused for lack of it.
    Room,
}

impl<T> Event<T> {
    /// Returns the same event without its token.
    pub(crate) fn without_token(&self) -> Event<()> {
        match self {
            Self::State(state) => Event::State(*state),
            Self::Disconnected { server, cause } => {
                Event::Disconnected { server: *server, cause: *cause }
            }
            Self::Authenticate { server } => Event::Authenticate { server: *server },
            Self::AuthenticationReply { server, result } => {
                Event::AuthenticationReply { server: *server, result: result.clone() }
            }
            Self::Reply { result, .. } => Event::Reply { token: (), result: result.clone() },
            Self::Watch { requests, persistent, event } => Event::Watch {
                requests: requests.clone(),
                persistent: persistent.clone(),
                event: event.clone(),
            },
            Self::Gap { requests } => Event::Gap { requests: requests.clone() },
            Self::WatchLost { requests, code } => {
                Event::WatchLost { requests: requests.clone(), code: *code }
            }
            Self::LeaseEnded => Event::LeaseEnded,
            Self::Room => Event::Room,
        }
    }
}

/// The reply to a request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reply {
    /// The operation of the request.
    pub opcode: OpCode,
    /// The newest transaction that the server had applied when it replied.
    pub zxid: Zxid,
    /// The encoded body. Decode it with [`zk_proto::Response::decode`] or, if its type is known,
    /// with [`decode`](Self::decode).
    pub body: Bytes,
    /// Whether this is a piece of the body, and another reply with more of it follows. Only requests
    /// that were [submitted for it](super::Session::submit_in_pieces) have such replies.
    pub has_more: bool,
}

impl Reply {
    /// Creates a reply, to test what handles replies.
    pub const fn new(opcode: OpCode, zxid: Zxid, body: Bytes) -> Self {
        Self { opcode, zxid, body, has_more: false }
    }

    /// Decodes the body as `R`. Ignores fields that a newer server appends.
    ///
    /// # Errors
    ///
    /// [`Error::Reply`] if the body is not an `R`.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use zk_session::proto::{OpCode, SetDataResponse, Zxid};
    /// use zk_session::session::Reply;
    /// use zk_session::{Error, Outcome};
    ///
    /// let reply = Reply::new(OpCode::SET_DATA, Zxid(7), Bytes::from_static(b"short"));
    /// let error = reply.decode::<SetDataResponse>().unwrap_err();
    /// assert!(matches!(error, Error::Reply(_)));
    /// assert_eq!(error.outcome(), Outcome::Unknown);
    /// ```
    #[cfg_attr(not(target_os = "none"), inline)]
    pub fn decode<'a, R: Decode<'a>>(&'a self) -> Result<R, Error> {
        R::decode(&mut Reader::new(&self.body)).map_err(Error::Reply)
    }
}

/// A change of a watched node, reported by the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchedEvent {
    /// The kind of change.
    pub event_type: EventType,
    /// The path of the node.
    pub path: Arc<str>,
    /// The transaction that changed the node. It is -1 from servers before 3.9, and for changes
    /// reported after a reconnect.
    pub zxid: Zxid,
}

impl WatchedEvent {
    /// Creates an event, to test what handles events.
    pub const fn new(event_type: EventType, path: Arc<str>, zxid: Zxid) -> Self {
        Self { event_type, path, zxid }
    }
}
