//! Both directions of a connection: which message each frame holds, and which request it answers.
//!
//! The bytes of a reply do not show which operation it answers, and the first frame of each
//! direction has no header. A [`Conversation`] keeps what is needed to tell them apart: it splits
//! both streams into [`Message`]s and pairs each reply with its request. It serves proxies,
//! sniffers and tools, which see both directions; it works without a connection and without a
//! clock.
//!
//! | first bytes | message |
//! |---|---|
//! | to the server: a frame that is a `ConnectRequest` | [`Kind::ConnectRequest`] |
//! | to the server: four lower-case letters | [`Kind::Word`], and [`Kind::Text`] from then on |
//! | to the client: a frame that is a `ConnectResponse` | [`Kind::ConnectResponse`] |
//! | to the client: a header alone, with xid 0 and an error | [`Kind::Refusal`] |
//!
//! The protocol versions in the handshakes determine the [`Dialect`] of what follows. What is in an
//! unknown one is [`Kind::Opaque`].
//!
//! Replies come in the order of the requests, except those to pings, credentials and a few others.
//! So a reply answers the oldest unanswered request with its xid. Every reply to a ping has
//! [`Xid::PING`], whatever the request had. A recording that begins in the middle of a connection
//! has replies that match no request: [`Kind::UnmatchedReply`].
//!
//! ```
//! use zk_proto::conversation::{Conversation, Direction, Kind};
//! use zk_proto::{OpCode, frame};
//!
//! let mut conversation = Conversation::new(frame::DEFAULT_LIMIT);
//! let request = b"\0\0\0\x0f\0\0\0\x01\0\0\0\x03\0\0\0\x02/a\x01";
//! let reply = b"\0\0\0\x10\0\0\0\x01\0\0\0\0\0\0\0\x05\xff\xff\xff\x9b\0\0";
//! let (request, rest) = conversation.read(Direction::ToServer, request)?.expect("a whole frame");
//! assert_eq!((request.path(), rest), (Some("/a"), &[][..]));
//! let (reply, rest) = conversation.read(Direction::ToClient, reply)?.expect("a whole frame");
//! assert!(matches!(reply.kind, Kind::Reply { opcode: OpCode::EXISTS, request: 0, .. }));
//! // The rest is the beginning of the next frame.
//! assert_eq!(rest, [0, 0]);
//! assert_eq!(conversation.read(Direction::ToClient, rest)?, None);
//! # Ok::<(), frame::FrameError>(())
//! ```

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use crate::codes::{ErrorCode, OpCode};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::explain::{self, FieldVisitor, MessageKind};
use crate::frame::{self, FrameError};
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::ids::Password;
use crate::keeper::Dialect;
use crate::operations::{Request, Response};
use crate::records::WatcherEvent;
use crate::wire::{Decode, Reader};

/// The number of unanswered requests that a [`Conversation`] remembers: 65,536.
///
/// Beyond it, the oldest is forgotten, and its reply becomes a [`Kind::UnmatchedReply`].
pub const MAX_UNANSWERED: usize = 1 << 16;

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
    /// All bytes passed to [`Conversation::read`], on a connection that began with a four-letter
    /// word.
    Text,
    /// A frame without a header.
    Unreadable,
    /// All bytes passed to [`Conversation::read`] behind a handshake that leads to
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
    /// Unlike [`Xid`], it has as many bits as there are on the wire.
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

impl Dialect {
    /// Returns the length of an xid.
    fn xid_length(self) -> usize {
        if self.wide_xids { 8 } else { 4 }
    }
}

/// A message, and the bytes behind it.
pub type Split<'s> = (Message<'s>, &'s [u8]);

/// The state of one connection, seen by somebody who reads both directions.
///
/// It keeps no bytes: the caller has the buffers, and passes what is left of each. A request must
/// be read before its reply. Of its state, only the list of unanswered requests grows, up to
/// [`MAX_UNANSWERED`].
#[derive(Clone, Debug)]
pub struct Conversation {
    limit: usize,
    to_server: Position,
    to_client: Position,
    unanswered: Unanswered,
    is_text: bool,
    /// What the client asked for, until the server answers; then what it granted. `None` if that is
    /// not known.
    dialect: Option<Dialect>,
    /// Whether the handshake of the client was read.
    is_greeted: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Position {
    number: u64,
    offset: u64,
}

impl Conversation {
    /// Creates the state of a new connection. Payloads above `limit` bytes are an error.
    pub fn new(limit: usize) -> Self {
        Self::with_unanswered(limit, Unanswered::new(MAX_UNANSWERED))
    }

    fn with_unanswered(limit: usize, unanswered: Unanswered) -> Self {
        let (to_server, to_client) = Default::default();
        let dialect = Some(Dialect::default());
        let (is_text, is_greeted) = (false, false);
        Self { limit, to_server, to_client, unanswered, is_text, dialect, is_greeted }
    }

    /// Returns the form of the messages behind the handshake, or `None` if it is not known.
    pub fn dialect(&self) -> Option<Dialect> {
        self.dialect
    }

    /// Continues with streams that the caller decompresses.
    pub fn decompressed(&mut self) {
        if let Some(dialect) = &mut self.dialect {
            dialect.compression = false;
        }
    }

    /// Returns the number of requests that wait for their reply.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Splits the first message off `stream`, and returns it with the bytes behind it.
    ///
    /// `stream` must begin where the message before it ended. Returns `None` until the whole
    /// message has arrived; then the state is as before.
    ///
    /// # Errors
    ///
    /// Fails if the length of the frame is negative or above the limit. The rest of this direction
    /// is then unreadable, and every further call fails likewise. The other direction continues.
    pub fn read<'s>(
        &mut self,
        direction: Direction,
        stream: &'s [u8],
    ) -> Result<Option<Split<'s>>, FrameError> {
        let Position { number, offset } = *self.position(direction);
        let is_opaque = number > 0 && self.dialect.is_none_or(|dialect| dialect.compression);
        let dialect = self.dialect.filter(|_| number > 0).unwrap_or_default();
        let (kind, length) = match stream.first_chunk() {
            Some(word) if self.starts_with_word(direction, word) => {
                self.is_text = true;
                (Kind::Word(*word), word.len())
            }
            _ if (self.is_text || is_opaque) && stream.is_empty() => return Ok(None),
            _ if self.is_text => (Kind::Text, stream.len()),
            _ if is_opaque => (Kind::Opaque, stream.len()),
            _ => {
                let length = match direction {
                    Direction::ToServer if number == 0 => {
                        Dialect::handshake_length(stream, self.limit)
                    }
                    Direction::ToServer => dialect.request_length(stream, self.limit),
                    Direction::ToClient => {
                        frame::length(stream, self.limit).map(|it| Some(frame::PREFIX_LEN + it?))
                    }
                };
                let Some(length) = length? else { return Ok(None) };
                let Some(frame) = stream.get(..length) else { return Ok(None) };
                let payload = &frame[frame::PREFIX_LEN..];
                let kind = match direction {
                    Direction::ToServer => self.sent(payload, dialect),
                    Direction::ToClient => self.received(payload, dialect),
                };
                (kind, length)
            }
        };
        let (bytes, rest) = stream.split_at(length);
        let position = self.position(direction);
        position.number += 1;
        position.offset = position.offset.saturating_add(length as u64);
        Ok(Some((Message { direction, number, offset, bytes, kind, dialect }, rest)))
    }

    /// Passes over bytes of a direction that nobody has, or that cannot be read.
    ///
    /// The next call of [`read`](Self::read) begins behind them. Requests whose replies were lost
    /// stay unanswered; only pings are forgotten, since all have the same xid.
    ///
    /// ```
    /// use zk_proto::conversation::{Conversation, Direction};
    ///
    /// let mut conversation = Conversation::new(zk_proto::frame::DEFAULT_LIMIT);
    /// conversation.skip(Direction::ToServer, 100);
    /// let ping = b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b";
    /// let (ping, _) = conversation.read(Direction::ToServer, ping)?.expect("a whole frame");
    /// assert_eq!(ping.offset, 100);
    /// # Ok::<(), zk_proto::frame::FrameError>(())
    /// ```
    pub fn skip(&mut self, direction: Direction, length: u64) {
        let position = self.position(direction);
        position.offset = position.offset.saturating_add(length);
        if direction == Direction::ToClient && length > 0 {
            while self.unanswered.remove(Xid::PING).is_some() {}
        }
    }

    fn position(&mut self, direction: Direction) -> &mut Position {
        match direction {
            Direction::ToServer => &mut self.to_server,
            Direction::ToClient => &mut self.to_client,
        }
    }

    /// As a length, four letters exceed a gigabyte.
    fn starts_with_word(&self, direction: Direction, word: &[u8; 4]) -> bool {
        direction == Direction::ToServer
            && self.to_server.number == 0
            && word.iter().all(u8::is_ascii_lowercase)
    }

    fn sent(&mut self, payload: &[u8], dialect: Dialect) -> Kind {
        let number = self.to_server.number;
        match Dialect::handshake(payload) {
            Ok((asked, ConnectRequest { protocol_version, password, .. }))
                if number == 0 && (protocol_version == 0 || is_password(password)) =>
            {
                let is_known = protocol_version == 0 || asked != Dialect::default();
                self.dialect = is_known.then_some(asked);
                self.is_greeted = true;
                return Kind::ConnectRequest;
            }
            _ => {}
        }
        match dialect.request_header(&mut Reader::new(payload)) {
            Ok(header) => {
                self.unanswered.insert(header, number);
                Kind::Request(header)
            }
            Err(_) => Kind::Unreadable,
        }
    }

    fn received(&mut self, payload: &[u8], dialect: Dialect) -> Kind {
        if self.to_client.number == 0 {
            match ConnectResponse::decode_all(payload) {
                Ok(ConnectResponse { protocol_version, password, .. })
                    if protocol_version == 0 || self.is_greeted && is_password(password) =>
                {
                    self.dialect = match self.dialect {
                        // A ZooKeeper does not know other dialects.
                        None if protocol_version == 0 => Some(Dialect::default()),
                        None => None,
                        Some(asked) => asked.granted(protocol_version),
                    };
                    return Kind::ConnectResponse;
                }
                _ => {}
            }
            match ReplyHeader::decode_all(payload) {
                Ok(header @ ReplyHeader { xid: Xid(0), err, .. }) if err != ErrorCode::OK => {
                    return Kind::Refusal(header);
                }
                _ => {}
            }
        }
        match dialect.reply_header(&mut Reader::new(payload)) {
            Err(_) => Kind::Unreadable,
            Ok(header) if header.xid == Xid::NOTIFICATION => Kind::Notification(header),
            Ok(header) => match self.unanswered.remove(header.xid) {
                Some((opcode, request)) => Kind::Reply { header, opcode, request },
                None => Kind::UnmatchedReply(header),
            },
        }
    }
}

/// Returns whether a handshake has a password of the length that all have. No header begins with the
/// protocol version 0; behind another version, this tells a handshake from a header.
fn is_password(password: Option<&[u8]>) -> bool {
    password.is_some_and(|password| password.len() == Password::NONE.0.len())
}

/// The messages of a recorded connection.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Transcript<'s> {
    /// The messages of both directions, each reply behind its request.
    ///
    /// Recordings of bytes alone do not contain the order of the two directions. This order has
    /// each request as late as its replies permit, as if the client had waited for each reply.
    pub messages: Vec<Message<'s>>,
    /// How the stream to the server ends.
    pub to_server: End,
    /// How the stream to the client ends.
    pub to_client: End,
}

/// The end of a recorded stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum End {
    /// The stream ends with a whole message.
    Whole,
    /// The stream ends within a frame.
    Incomplete {
        /// The offset of the frame in bytes.
        offset: u64,
        /// The number of its bytes that are there.
        length: u64,
    },
    /// The rest of the stream cannot be a frame.
    Unreadable {
        /// The offset of the rest in bytes.
        offset: u64,
        /// What is wrong with it.
        error: FrameError,
    },
}

/// Reads both directions of a recorded connection. Either may be empty.
///
/// Frames of any length are read, since they are in memory already.
///
/// ```
/// use zk_proto::conversation::{self, End};
///
/// let ping = b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b";
/// let pong = b"\0\0\0\x10\xff\xff\xff\xfe\0\0\0\0\0\0\0\x05\0\0\0\0";
/// let (sent, received) = ([*ping, *ping].concat(), [&pong[..], &[0]].concat());
/// let transcript = conversation::transcript(&sent, &received);
/// let numbers: Vec<_> = transcript.messages.iter().map(|m| (m.direction, m.number)).collect();
/// use conversation::Direction::{ToClient, ToServer};
/// assert_eq!(numbers, [(ToServer, 0), (ToClient, 0), (ToServer, 1)]);
/// assert_eq!(transcript.to_server, End::Whole);
/// assert_eq!(transcript.to_client, End::Incomplete { offset: 20, length: 1 });
/// ```
pub fn transcript<'s>(to_server: &'s [u8], to_client: &'s [u8]) -> Transcript<'s> {
    let limit = frame::DEFAULT_LIMIT.max(to_server.len()).max(to_client.len());
    let mut conversation = Conversation::with_unanswered(limit, Unanswered::new(usize::MAX));
    let (mut requests, mut replies) = (Vec::new(), Vec::new());
    // The handshakes determine the form of what follows.
    let to_server = conversation.read_first(Direction::ToServer, to_server, &mut requests);
    let is_greeted = matches!(requests[..], [Message { kind: Kind::ConnectRequest, .. }]);
    let to_client = match is_greeted {
        true => conversation.read_first(Direction::ToClient, to_client, &mut replies),
        false => to_client,
    };
    let end_to_server = conversation.read_all(Direction::ToServer, to_server, &mut requests);
    let end_to_client = conversation.read_all(Direction::ToClient, to_client, &mut replies);
    let mut messages = Vec::with_capacity(requests.len() + replies.len());
    let mut asked = requests.into_iter().peekable();
    for reply in replies {
        let needed = match reply.kind {
            Kind::Reply { request, .. } => request + 1,
            Kind::ConnectResponse | Kind::Refusal(_) => 1,
            Kind::Text | Kind::Opaque => u64::MAX,
            _ => 0,
        };
        while let Some(request) = asked.next_if(|request| request.number < needed) {
            messages.push(request);
        }
        messages.push(reply);
    }
    messages.extend(asked);
    Transcript { messages, to_server: end_to_server, to_client: end_to_client }
}

impl Conversation {
    /// Reads one message, if it is whole. Returns the bytes behind it.
    fn read_first<'s>(
        &mut self,
        direction: Direction,
        stream: &'s [u8],
        messages: &mut Vec<Message<'s>>,
    ) -> &'s [u8] {
        match self.read(direction, stream) {
            Ok(Some((message, rest))) => {
                messages.push(message);
                rest
            }
            _ => stream,
        }
    }

    fn read_all<'s>(
        &mut self,
        direction: Direction,
        mut stream: &'s [u8],
        messages: &mut Vec<Message<'s>>,
    ) -> End {
        loop {
            match self.read(direction, stream) {
                Ok(Some((message, rest))) => {
                    messages.push(message);
                    stream = rest;
                }
                Ok(None) if stream.is_empty() => break End::Whole,
                Ok(None) => {
                    let Position { offset, .. } = *self.position(direction);
                    break End::Incomplete { offset, length: stream.len() as u64 };
                }
                Err(error) => {
                    let Position { offset, .. } = *self.position(direction);
                    break End::Unreadable { offset, error };
                }
            }
        }
    }
}

/// The requests that wait for their reply, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Unanswered {
    limit: usize,
    by_xid: BTreeMap<(Xid, u64), OpCode>,
    by_number: BTreeMap<u64, Xid>,
}

impl Unanswered {
    /// Creates an empty list that forgets its oldest request when it has more than `limit`.
    pub(crate) const fn new(limit: usize) -> Self {
        Self { limit, by_xid: BTreeMap::new(), by_number: BTreeMap::new() }
    }

    pub(crate) fn len(&self) -> usize {
        self.by_number.len()
    }

    /// Adds a request. Numbers must increase.
    pub(crate) fn insert(&mut self, header: RequestHeader, number: u64) {
        // The reply to a ping has the xid of pings, whatever the request had.
        let xid = if header.opcode == OpCode::PING { Xid::PING } else { header.xid };
        self.by_xid.insert((xid, number), header.opcode);
        self.by_number.insert(number, xid);
        let excess = if self.len() > self.limit { self.by_number.pop_first() } else { None };
        if let Some((oldest, xid)) = excess {
            self.by_xid.remove(&(xid, oldest));
        }
    }

    /// Removes the oldest request with the xid of a reply, and returns its operation and number.
    pub(crate) fn remove(&mut self, xid: Xid) -> Option<(OpCode, u64)> {
        let (key, opcode) = self.by_xid.range((xid, 0)..=(xid, u64::MAX)).next()?;
        let ((xid, number), opcode) = (*key, *opcode);
        self.by_xid.remove(&(xid, number));
        self.by_number.remove(&number);
        Some((opcode, number))
    }
}

formatted_by_debug! {
    [] Conversation;
    [] Direction;
    [] End;
    [] Kind;
    [] Message<'_>;
    [] Transcript<'_>;
}
