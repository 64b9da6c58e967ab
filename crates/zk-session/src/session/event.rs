//! What a session tells, and what it asks for.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use bytes::Bytes;
use zk_proto::frame::FrameError;
use zk_proto::{Decode, DecodeError, ErrorCode, EventType, OpCode, Reader, SessionId, Xid, Zxid};

use super::RequestId;
use crate::error::Error;

/// How things stand with a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// There is no session yet.
    Connecting,
    /// The session lives on a connection to this member.
    Connected {
        /// The member, by its place in the list that the session was made with.
        member: usize,
        /// The session.
        session: SessionId,
    },
    /// The session lives on a connection to a member that has lost touch with its leader. It can
    /// read, but what it reads may be arbitrarily old.
    ReadOnly {
        /// The member, as in [`Connected`](Self::Connected).
        member: usize,
        /// The session.
        session: SessionId,
    },
    /// The connection is lost. The session may live on or not; only a member can tell.
    Suspended,
    /// The session has ended, for good.
    Ended(End),
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The ensemble had not heard of it for too long, and has deleted its ephemeral nodes.
    Expired,
    /// It was closed by its owner.
    Closed,
    /// A member refused a credential, or demands one that was not shown, as every other one would.
    AuthFailed,
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the session has expired",
            Self::Closed => "the session is closed",
            Self::AuthFailed => "a credential was refused, or is missing",
        })
    }
}

/// Why a connection, or the attempt to make one, came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The transport failed, or the member closed it.
    Transport,
    /// The member could not be reached in time, or did not answer the handshake in time.
    ConnectTimeout,
    /// The member was silent for two thirds of the session timeout.
    ReadTimeout,
    /// The member sent a frame of impossible length.
    Frame(FrameError),
    /// The member sent a frame that is not what it should be.
    Malformed(DecodeError),
    /// The member answered before the handshake, or what follows it in an exchange, had been sent
    /// to its end.
    Unasked,
    /// The member answered the handshake in another protocol, or in none.
    UnknownProtocol(i32),
    /// The member answered a request other than the oldest one.
    UnexpectedReply {
        /// The xid of the oldest request, if there is one.
        expected: Option<Xid>,
        /// The xid of the reply.
        received: Xid,
    },
    /// The member refused to set the watches again.
    WatchesRefused(ErrorCode),
    /// The member is read-only, and another one was found that is not.
    ReadWriteFound,
    /// The list of members has changed, and the session moves to another one.
    Rebalanced,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport => f.write_str("the connection was closed"),
            Self::ConnectTimeout => f.write_str("no answer in time"),
            Self::ReadTimeout => f.write_str("nothing was heard for too long"),
            Self::Frame(error) => write!(f, "{error}"),
            Self::Malformed(error) => write!(f, "a frame cannot be read: {error}"),
            Self::Unasked => f.write_str("an answer to what was not sent yet"),
            Self::UnknownProtocol(version) => write!(f, "unknown protocol {version}"),
            Self::UnexpectedReply { expected: Some(expected), received } => {
                write!(f, "a reply to request {received} where {expected} was due")
            }
            Self::UnexpectedReply { expected: None, received } => {
                write!(f, "a reply to request {received} where none was due")
            }
            Self::WatchesRefused(code) => write!(f, "watches were not set again: {code}"),
            Self::ReadWriteFound => f.write_str("a member was found that can write"),
            Self::Rebalanced => f.write_str("the list of members has changed"),
        }
    }
}

/// What whoever drives the session must do with its transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Connect to this member, then call [`handle_connected`](super::Session::handle_connected). It
    /// may take until the [`connect_deadline`](super::Session::connect_deadline).
    Connect(usize),
    /// Drop the connection, or the attempt to make one. Nothing needs to be reported back.
    Disconnect,
    /// Ask this member, on a connection of its own and while the present one stays, whether it can
    /// write: the four letters `isro` are answered by exactly `rw`, without a line's end. Then call
    /// [`handle_probed`](super::Session::handle_probed). A second is patience enough.
    Probe(usize),
}

/// What a session has to tell. `T` is what a request was submitted with.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<T> {
    /// The state has changed.
    State(State),
    /// A connection to a member, or an attempt to make one, has failed.
    Disconnected {
        /// The member.
        member: usize,
        /// Why.
        cause: Cause,
    },
    /// The handshake is answered, and [`Config::authenticate`](super::Config::authenticate) is
    /// set: it is time for [`authenticate`](super::Session::authenticate), and then for
    /// [`authenticated`](super::Session::authenticated), before the member's time for the
    /// handshake is over. Until then, all else is held back.
    Authenticate {
        /// The member.
        member: usize,
    },
    /// A request was answered, or never will be.
    Reply {
        /// What the request was submitted with.
        token: T,
        /// The answer.
        result: Result<Reply, Error>,
    },
    /// Watches have fired.
    Watch {
        /// The requests that had asked for watches that fire once. Those are over now.
        requests: Vec<RequestId>,
        /// The requests that had asked for watches that stay.
        persistent: Vec<RequestId>,
        /// What happened.
        event: WatchedEvent,
    },
    /// The connection is a new one, and persistent watches are not told what they missed in
    /// between (ZOOKEEPER-4698). A request submitted from now on is answered behind their being
    /// set again, so what it reads closes the gap.
    Gap {
        /// The requests that had asked for them. They stay.
        requests: Vec<RequestId>,
    },
    /// Persistent watches are over, for the member that serves the session now is too old to know
    /// them.
    WatchLost {
        /// The requests that had asked for them.
        requests: Vec<RequestId>,
        /// How the member put it.
        code: ErrorCode,
    },
    /// The [lease](super::Session::lease) has ended: no server has confirmed the session for so
    /// long that the ensemble need not keep it any longer. It comes once, with or without a
    /// connection; again only after an answer has renewed the lease.
    LeaseEnded,
    /// A request was refused for want of room, and there is room again.
    Room,
}

/// The answer to a request that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The operation that this answers.
    pub opcode: OpCode,
    /// The newest transaction that the member had applied when it answered.
    pub zxid: Zxid,
    /// The body, for [`zk_proto::Response::decode`] or, when its type is known,
    /// [`decode`](Self::decode).
    pub body: Bytes,
}

impl Reply {
    /// Reads the body as `R`. Bytes that a newer server appends to it are ignored.
    ///
    /// # Errors
    ///
    /// [`Error::Reply`] when the body is something else.
    pub fn decode<'a, R: Decode<'a>>(&'a self) -> Result<R, Error> {
        R::decode(&mut Reader::new(&self.body)).map_err(Error::Reply)
    }
}

/// Something happened to a watched node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedEvent {
    /// What happened.
    pub event_type: EventType,
    /// The node.
    pub path: Arc<str>,
    /// The transaction that did it; -1 from servers before 3.9 and after a reconnect.
    pub zxid: Zxid,
}
