//! A message of a connection: what it is, and what it holds.

use crate::codes::{ErrorCode, OpCode};
use crate::error::DecodeError;
use crate::explain::{self, FieldVisitor, MessageKind};
use crate::frame;
use crate::header::{ReplyHeader, RequestHeader};
use crate::keeper::Dialect;
use crate::operations::{Request, Response};
use crate::records::WatcherEvent;
use crate::wire::Decode;

/// A message of a connection, with its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Message<'s> {
    /// The direction.
    pub direction: Direction,
    /// The number of earlier messages of this direction.
    pub number: u64,
    /// The offset of its first byte in the stream of its direction, in bytes.
    pub offset: u64,
    /// Its bytes: a whole frame with its length prefix, or text.
    pub bytes: &'s [u8],
    /// What it is.
    pub kind: Kind,
    /// The form in which it is.
    pub dialect: Dialect,
}

/// What a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// The request for a session: the first frame of a client.
    ConnectRequest,
    /// A request.
    Request(RequestHeader),
    /// The answer to the handshake: the first frame of a server.
    ConnectResponse,
    /// The refusal of a handshake: a header in place of an answer.
    Refusal(ReplyHeader),
    /// The reply to a request.
    Reply {
        /// The header of the reply.
        header: ReplyHeader,
        /// The operation that it answers.
        opcode: OpCode,
        /// The [number](Message::number) of the request among the messages to the server.
        request: u64,
    },
    /// A reply to a request that was not seen, or to none.
    UnmatchedReply(ReplyHeader),
    /// A watch event.
    Notification(ReplyHeader),
    /// A four-letter word, such as `ruok`, in place of a handshake. It is not a frame.
    Word([u8; 4]),
    /// All bytes passed to [`Conversation::read`](super::Conversation::read), on a connection that began with a four-letter
    /// word.
    Text,
    /// A frame without a header.
    Unreadable,
    /// All bytes passed to [`Conversation::read`](super::Conversation::read) behind a handshake that leads to
    /// [compressed](Dialect::compression) streams, or to a dialect that is not known.
    Opaque,
}

impl<'s> Message<'s> {
    /// Returns the payload: the frame without its length prefix, and without the trace context
    /// behind it. Of text and opaque bytes, it is everything.
    pub fn payload(&self) -> &'s [u8] {
        match self.kind {
            Kind::Word(_) | Kind::Text | Kind::Opaque => self.bytes,
            Kind::Request(_) => match frame::split(self.bytes, usize::MAX) {
                Ok(Some((payload, _))) => payload,
                _ => &[],
            },
            _ => self.bytes.get(frame::PREFIX_LEN..).unwrap_or_default(),
        }
    }

    /// Returns the payload without its header.
    pub fn body(&self) -> &'s [u8] {
        let header = match self.kind {
            Kind::Refusal(_) => 16,
            Kind::Request(_) => self.dialect.xid_length() + 4,
            Kind::Reply { .. } | Kind::UnmatchedReply(_) | Kind::Notification(_) => {
                self.dialect.xid_length() + 12
            }
            _ => 0,
        };
        self.payload().get(header..).unwrap_or_default()
    }

    /// Returns the xid of a request, a reply or a watch event.
    ///
    /// Unlike [`Xid`](crate::Xid), it has as many bits as there are on the wire.
    pub fn xid(&self) -> Option<i64> {
        let header = match self.kind {
            Kind::Request(header) => header.xid,
            _ => self.reply_header()?.xid,
        };
        match self.payload().first_chunk() {
            Some(xid) if self.dialect.wide_xids => Some(i64::from_be_bytes(*xid)),
            _ => Some(header.0.into()),
        }
    }

    /// Returns the operation of a request, or the operation that a reply answers.
    pub fn opcode(&self) -> Option<OpCode> {
        match self.kind {
            Kind::Request(header) => Some(header.opcode),
            Kind::Reply { opcode, .. } => Some(opcode),
            _ => None,
        }
    }

    /// Returns the header of a reply, a refusal or a watch event.
    pub fn reply_header(&self) -> Option<ReplyHeader> {
        match self.kind {
            Kind::Refusal(header)
            | Kind::Reply { header, .. }
            | Kind::UnmatchedReply(header)
            | Kind::Notification(header) => Some(header),
            _ => None,
        }
    }

    /// Decodes the body of a request. Returns `None` for other messages.
    pub fn request(&self) -> Option<Result<Request<'s>, DecodeError>> {
        match self.kind {
            Kind::Request(header) => Some(Request::decode(header.opcode, self.body())),
            _ => None,
        }
    }

    /// Decodes the body of a successful reply. Returns `None` for other messages.
    pub fn response(&self) -> Option<Result<Response<'s>, DecodeError>> {
        match self.kind {
            Kind::Reply { header, opcode, .. } if header.err == ErrorCode::OK => {
                Some(Response::decode(opcode, self.body()))
            }
            _ => None,
        }
    }

    /// Decodes a watch event. Returns `None` for other messages.
    pub fn event(&self) -> Option<Result<WatcherEvent<'s>, DecodeError>> {
        match self.kind {
            Kind::Notification(_) => Some(WatcherEvent::decode_all(self.body())),
            _ => None,
        }
    }

    /// Returns the path that a request or a watch event is about, if it is about a single node.
    pub fn path(&self) -> Option<&'s str> {
        match self.kind {
            Kind::Notification(_) => self.event()?.ok().map(|event| event.path),
            _ => self.request()?.ok()?.path(),
        }
    }

    /// Returns how [`explain::frame`](explain::frame()) reads the message, or `None` for text.
    pub fn explained_as(&self) -> Option<MessageKind> {
        Some(match self.kind {
            Kind::ConnectRequest => MessageKind::ConnectRequest,
            Kind::Request(_) => MessageKind::Request,
            Kind::ConnectResponse | Kind::Refusal(_) => MessageKind::ConnectResponse,
            Kind::Reply { opcode, .. } => MessageKind::Reply(opcode),
            Kind::UnmatchedReply(_) | Kind::Notification(_) => MessageKind::UnknownReply,
            Kind::Unreadable if self.direction == Direction::ToServer => MessageKind::Request,
            Kind::Unreadable => MessageKind::UnknownReply,
            Kind::Word(_) | Kind::Text | Kind::Opaque => return None,
        })
    }

    /// Passes every field of the frame to `visit`, the length prefix included. Text has no fields.
    ///
    /// # Errors
    ///
    /// Returns where the bytes first differ from such a message. The fields visited before the
    /// error are correct.
    pub fn explain(&self, visit: &mut FieldVisitor<'_>) -> Result<(), DecodeError> {
        match self.explained_as() {
            Some(kind) => explain::frame_in(self.dialect, self.bytes, kind, visit),
            None => Ok(()),
        }
    }
}

/// The direction of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Direction {
    /// From the client to the server.
    ToServer,
    /// From the server to the client.
    ToClient,
}

impl Direction {
    /// Returns the opposite direction.
    #[must_use]
    pub fn reverse(self) -> Self {
        match self {
            Self::ToServer => Self::ToClient,
            Self::ToClient => Self::ToServer,
        }
    }
}

impl Dialect {
    /// Returns the length of an xid.
    const fn xid_length(self) -> usize {
        if self.wide_xids { 8 } else { 4 }
    }
}
