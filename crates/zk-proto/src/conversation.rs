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

mod message;
mod transcript;
mod unanswered;

use crate::codes::ErrorCode;
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::frame::{self, FrameError};
use crate::header::{ReplyHeader, Xid};
use crate::ids::Password;
use crate::keeper::Dialect;
use crate::wire::{Decode, Reader};

pub use self::message::{Direction, Kind, Message};
pub use self::transcript::{End, Transcript, transcript};
pub(crate) use self::unanswered::Unanswered;

/// The number of unanswered requests that a [`Conversation`] remembers: 65,536.
///
/// Beyond it, the oldest is forgotten, and its reply becomes a [`Kind::UnmatchedReply`].
pub const MAX_UNANSWERED: usize = 1 << 16;

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

formatted_by_debug! {
    [] Conversation;
    [] Direction;
    [] End;
    [] Kind;
    [] Message<'_>;
    [] Transcript<'_>;
}
