//! The state of one connection: bytes in, messages with times and paths out.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use zk_proto::conversation::{Conversation, Direction, Kind, MAX_UNANSWERED, Message};
use zk_proto::explain::{self, FieldVisitor, MessageKind};
use zk_proto::frame::FrameError;
use zk_proto::{DecodeError, ErrorCode, OpCode, Response};

/// The paths of a request that are remembered for its reply.
const PATHS: usize = 16;

/// A message as it was seen on its connection.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'m> {
    /// The number of the connection, from 1.
    pub(crate) connection: usize,
    /// The name of the connection, which is empty if there is only one.
    pub(crate) name: &'m str,
    pub(crate) time: Option<Duration>,
    pub(crate) message: Message<'m>,
    /// The paths of the message, or of the request that it answers.
    pub(crate) paths: &'m [String],
    pub(crate) opcode: Option<OpCode>,
    /// The time since the request, of a reply.
    pub(crate) latency: Option<Duration>,
    /// The other requests that waited for a reply when this one was sent, if the order is known.
    pub(crate) in_flight: usize,
}

impl Seen<'_> {
    /// Passes every field of the message to `visit`.
    pub(crate) fn explain(&self, visit: &mut FieldVisitor<'_>) -> Result<(), DecodeError> {
        match (self.message.kind, self.opcode) {
            (Kind::UnmatchedReply(_), Some(opcode)) => {
                explain::frame(self.message.bytes, MessageKind::Reply(opcode), visit)
            }
            _ => self.message.explain(visit),
        }
    }

    /// Returns whether it reports a failure, itself or in a multi.
    pub(crate) fn is_error(&self) -> bool {
        let failed = self.message.reply_header().is_some_and(|header| header.err != ErrorCode::OK);
        let multi_failed = matches!(
            self.message.response(),
            Some(Ok(Response::Multi(multi))) if multi.failure().is_some()
        );
        let is_notification = matches!(self.message.kind, Kind::Notification(_));
        (failed && !is_notification) || multi_failed
    }
}

/// The rest of a direction cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    error: FrameError,
    offset: u64,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.error, self.offset)
    }
}

impl std::error::Error for Unreadable {}

#[derive(Debug)]
pub(crate) struct Tracker {
    connection: usize,
    name: String,
    /// The operation that replies answer if their requests are not there.
    reply_to: Option<OpCode>,
    conversation: Conversation,
    sent: Buffer,
    received: Buffer,
    asked: BTreeMap<u64, Asked>,
}

#[derive(Debug, Default)]
struct Buffer {
    bytes: Vec<u8>,
    offset: u64,
    is_unreadable: bool,
}

#[derive(Debug)]
struct Asked {
    time: Option<Duration>,
    paths: Vec<String>,
}

impl Tracker {
    pub(crate) fn new(connection: usize, name: &str, limit: usize) -> Self {
        let (conversation, name) = (Conversation::new(limit), name.to_owned());
        let (sent, received, asked) = Default::default();
        Self { connection, name, reply_to: None, conversation, sent, received, asked }
    }

    pub(crate) fn set_reply_to(&mut self, opcode: Option<OpCode>) {
        self.reply_to = opcode;
    }

    fn buffer(&mut self, direction: Direction) -> &mut Buffer {
        match direction {
            Direction::ToServer => &mut self.sent,
            Direction::ToClient => &mut self.received,
        }
    }

    /// Takes bytes of one direction, and passes every whole message to `visit`.
    ///
    /// Once a direction is unreadable, its bytes are dropped.
    pub(crate) fn push<E: From<Unreadable>>(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        time: Option<Duration>,
        visit: &mut dyn FnMut(&Seen<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { connection, name, reply_to, conversation, asked, .. } = self;
        let buffer = match direction {
            Direction::ToServer => &mut self.sent,
            Direction::ToClient => &mut self.received,
        };
        if buffer.is_unreadable {
            return Ok(());
        }
        buffer.bytes.extend_from_slice(bytes);
        let mut rest = &buffer.bytes[..];
        let result = loop {
            let in_flight = conversation.unanswered();
            let (message, behind) = match conversation.read(direction, rest) {
                Ok(Some(split)) => split,
                Ok(None) => break Ok(()),
                Err(error) => {
                    buffer.is_unreadable = true;
                    let read = (buffer.bytes.len() - rest.len()) as u64;
                    rest = &[];
                    break Err(Unreadable { error, offset: buffer.offset + read }.into());
                }
            };
            rest = behind;
            let answered = match message.kind {
                Kind::Reply { request, .. } => asked.remove(&request),
                _ => None,
            };
            let latency = answered.as_ref().and_then(|asked| time?.checked_sub(asked.time?));
            let paths = match message.request() {
                Some(Ok(request)) => request.paths().take(PATHS).map(str::to_owned).collect(),
                Some(Err(_)) => Vec::new(),
                None => match answered {
                    Some(asked) => asked.paths,
                    None => message.path().map(str::to_owned).into_iter().collect(),
                },
            };
            let seen = Seen {
                connection: *connection,
                name,
                time,
                message,
                paths: &paths,
                opcode: message.opcode().or(*reply_to),
                latency,
                in_flight,
            };
            if let Err(error) = visit(&seen) {
                break Err(error);
            }
            if let Kind::Request(_) = message.kind {
                asked.insert(message.number, Asked { time, paths });
                if asked.len() > MAX_UNANSWERED {
                    asked.pop_first();
                }
            }
        };
        let read = buffer.bytes.len() - rest.len();
        buffer.offset += read as u64;
        buffer.bytes.drain(..read);
        result
    }

    /// Returns the bytes of an incomplete frame at the end of a direction, with their offset.
    pub(crate) fn incomplete(&mut self, direction: Direction) -> Option<(u64, &[u8])> {
        let buffer = self.buffer(direction);
        let is_incomplete = !buffer.is_unreadable && !buffer.bytes.is_empty();
        is_incomplete.then_some((buffer.offset, &buffer.bytes[..]))
    }
}
