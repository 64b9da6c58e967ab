//! The state of one connection: bytes in, messages with times and paths out.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use zk_proto::conversation::{Conversation, Direction, Kind, MAX_UNANSWERED, Message};
use zk_proto::explain::{self, FieldPath, FieldVisitor, MessageKind};
use zk_proto::frame::FrameError;
use zk_proto::keeper::blocks;
use zk_proto::{DecodeError, ErrorCode, OpCode, Response, Xid, frame};

use crate::Failure;
use crate::input;
use crate::resync::{self, Context};

/// The paths of a request that are remembered for its reply.
const PATHS: usize = 16;
/// The bytes that are searched for a frame. Those in front are dropped.
const SEARCHED: usize = 1 << 21;

/// Fewer bytes are searched whenever there are more.
const SEARCHED_AT_ONCE: usize = 1 << 16;

/// A message as it was seen on its connection.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'m> {
    /// The number of the connection, from 1.
    pub(crate) connection: usize,
    /// The name of the connection, which is empty if there is only one.
    pub(crate) name: &'m str,
    /// The address of the server, which is empty if it is not known.
    pub(crate) server: &'m str,
    pub(crate) time: Option<Duration>,
    /// The message. The bytes that are missing at its end are zeros.
    pub(crate) message: Message<'m>,
    pub(crate) missing: usize,
    /// The paths of the message, or of the request that it answers.
    pub(crate) paths: &'m [String],
    pub(crate) opcode: Option<OpCode>,
    /// The time since the request, of a reply.
    pub(crate) latency: Option<Duration>,
    /// The other requests that waited for a reply when this one was sent, if the order is known.
    pub(crate) in_flight: usize,
}

impl Seen<'_> {
    /// Returns the bytes that are there.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.message.bytes[..self.message.bytes.len() - self.missing]
    }

    /// Passes every field that is there to `visit`. Returns why there are no more.
    pub(crate) fn explain(&self, visit: &mut FieldVisitor<'_>) -> Result<(), String> {
        let captured = self.bytes().len();
        let explained = self.explain_padded(&mut |field| {
            if field.range.end <= captured {
                visit(field);
            }
        });
        match self.missing {
            0 => explained.map_err(|error| error.to_string()),
            missing => Err(format!("{missing} bytes are missing")),
        }
    }

    fn explain_padded(&self, visit: &mut FieldVisitor<'_>) -> Result<(), DecodeError> {
        match (self.message.kind, self.opcode) {
            (Kind::UnmatchedReply(_), Some(opcode)) => {
                let Message { dialect, bytes, .. } = self.message;
                explain::frame_in(dialect, bytes, MessageKind::Reply(opcode), visit)
            }
            _ => self.message.explain(visit),
        }
    }

    /// Returns the path of the created node, if this is the reply to a single `create`.
    pub(crate) fn created(&self) -> Option<&str> {
        match self.message.response()?.ok()? {
            Response::Create(body) => Some(body.path),
            Response::Create2(body) => Some(body.path),
            _ => None,
        }
    }

    /// Returns whether it reports a failure, itself or in a multi.
    pub(crate) fn is_error(&self) -> bool {
        let is_whole = self.missing == 0;
        let failed = self.message.reply_header().is_some_and(|header| header.err != ErrorCode::OK);
        let multi_failed = matches!(
            self.message.response(),
            Some(Ok(Response::Multi(multi))) if multi.failure().is_some()
        );
        let is_notification = matches!(self.message.kind, Kind::Notification(_));
        (failed && !is_notification) || (is_whole && multi_failed)
    }
}

/// Shows a message.
pub(crate) type Show<'s> = dyn FnMut(&Seen<'_>) -> Result<(), Failure> + 's;

/// The rest of a direction cannot be read.
#[derive(Debug)]
pub(crate) struct Unreadable {
    error: String,
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
    server: String,
    limit: usize,
    /// Whether to search for the next frame where bytes cannot be one.
    searches: bool,
    /// The newest zxid in a reply.
    zxid: Option<i64>,
    /// The operation that replies answer if their requests are not there.
    reply_to: Option<OpCode>,
    conversation: Conversation,
    /// Whether both directions are compressed.
    is_compressed: bool,
    /// By their direction.
    buffers: [Buffer; 2],
    asked: BTreeMap<u64, Asked>,
}

#[derive(Debug, Default)]
struct Buffer {
    /// What is not decompressed yet.
    compressed: Vec<u8>,
    bytes: Vec<u8>,
    offset: u64,
    state: State,
    missing: Missing,
}

#[derive(Clone, Copy, Debug, Default)]
enum State {
    #[default]
    Readable,
    /// So many bytes belong to a frame of which others are missing.
    Within(u64),
    /// Any byte may begin a frame.
    Search {
        /// The first place in the buffer that is searched.
        from: usize,
        /// The bytes that are there before the next search, so that long streams are not searched
        /// for each packet.
        until: usize,
    },
    Unreadable,
}

impl State {
    const SEARCH: Self = Self::Search { from: 0, until: 0 };
}

/// What is missing of a direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Missing {
    /// The bytes that were not captured.
    pub(crate) lost: u64,
    /// The bytes that belong to no whole frame, and are left out.
    pub(crate) skipped: u64,
    /// What the stream might be.
    pub(crate) hint: Option<String>,
}

/// Returns the paths of a request that has no record in the table of operations.
fn explained_paths(message: &Message<'_>) -> Vec<String> {
    let mut paths = Vec::new();
    // What is in front of an error is correct.
    let _ = message.explain(&mut |field| {
        let is_path = matches!(field.path, FieldPath::Field(_, name) if name.field == "path");
        let text = message.bytes.get(field.range.start + 4..field.range.end);
        if let (true, Some(text)) = (is_path && paths.len() < PATHS, text) {
            paths.push(String::from_utf8_lossy(text).into_owned());
        }
    });
    paths
}

#[derive(Debug)]
struct Asked {
    xid: Xid,
    opcode: OpCode,
    time: Option<Duration>,
    paths: Vec<String>,
}

impl Tracker {
    pub(crate) fn new(connection: usize, name: &str, server: &str, limit: usize) -> Self {
        Self {
            connection,
            name: name.to_owned(),
            server: server.to_owned(),
            limit,
            searches: false,
            zxid: None,
            reply_to: None,
            conversation: Conversation::new(limit),
            is_compressed: false,
            buffers: Default::default(),
            asked: BTreeMap::new(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Makes it search for the next frame behind bytes that cannot be one. A connection that was
    /// captured from its middle may begin within a frame.
    pub(crate) fn search(&mut self, is_whole: bool) {
        self.searches = true;
        if !is_whole {
            self.buffers.iter_mut().for_each(|buffer| buffer.state = State::SEARCH);
        }
    }

    /// Passes over bytes that were not captured. A message whose header is there is passed to
    /// `visit`.
    pub(crate) fn gap(
        &mut self,
        direction: Direction,
        lost: u64,
        time: Option<Duration>,
        visit: &mut Show<'_>,
    ) -> Result<(), Failure> {
        let (is_compressed, limit) = (self.is_compressed, self.limit);
        let buffer = self.buffer(direction);
        buffer.missing.lost += lost;
        if is_compressed {
            // Nothing tells where the next block begins.
            buffer.state = State::Unreadable;
            return Ok(());
        }
        let there = buffer.bytes.len();
        let rest = match buffer.state {
            State::Readable => {
                let length = buffer.bytes.first_chunk().map(|it| u32::from_be_bytes(*it) as usize);
                let length = length.filter(|length| *length <= limit);
                length.map(|it| (frame::PREFIX_LEN + it - there) as u64)
            }
            State::Within(rest) => Some(rest),
            State::Search { .. } | State::Unreadable => None,
        };
        buffer.state = match rest.and_then(|rest| rest.checked_sub(lost)) {
            Some(0) => State::Readable,
            Some(rest) => State::Within(rest),
            None => State::SEARCH,
        };
        let header = match direction {
            Direction::ToServer => 12,
            Direction::ToClient => 20,
        };
        buffer.offset += there as u64 + lost;
        let mut bytes = core::mem::take(&mut buffer.bytes);
        let mut passed = 0;
        match rest {
            Some(rest) if there >= header => {
                bytes.resize(there + rest as usize, 0);
                passed = bytes.len() as u64;
                let in_flight = self.conversation.unanswered();
                if let Ok(Some((message, _))) = self.conversation.read(direction, &bytes) {
                    self.see(message, rest as usize, in_flight, time, visit)?;
                }
            }
            _ => buffer.missing.skipped += there as u64,
        }
        // The offsets of a frame that is longer than what is lost are those of its end already.
        self.conversation.skip(direction, (there as u64 + lost).saturating_sub(passed));
        Ok(())
    }

    /// Returns what is missing of a direction, at the end of the connection.
    pub(crate) fn missing(&mut self, direction: Direction) -> Missing {
        let buffer = self.buffer(direction);
        let mut missing = core::mem::take(&mut buffer.missing);
        if let State::Search { .. } = buffer.state {
            missing.skipped += buffer.bytes.len() as u64;
        }
        missing
    }

    /// Drops the bytes in front of the next frame. Returns whether one was found.
    fn resume(&mut self, direction: Direction) -> bool {
        let Self { limit, zxid, asked, conversation, buffers, .. } = self;
        let buffer = &mut buffers[direction as usize];
        let found = match buffer.state {
            State::Readable => return true,
            State::Unreadable => return false,
            State::Within(rest) => {
                let taken = rest.min(buffer.bytes.len() as u64);
                if taken < rest {
                    buffer.state = State::Within(rest - taken);
                    buffer.drop(taken as usize, conversation, direction);
                    return false;
                }
                Ok(taken as usize)
            }
            State::Search { until, .. } if buffer.bytes.len() < until => return false,
            State::Search { from, .. } => {
                if buffer.offset == 0 && from == 0 {
                    buffer.missing.hint = input::foreign(&buffer.bytes);
                    if buffer.bytes.len() == 4 && buffer.bytes.iter().all(u8::is_ascii_lowercase) {
                        // A four-letter word, which is answered by text.
                        buffers.iter_mut().for_each(|buffer| buffer.state = State::Readable);
                        return true;
                    }
                }
                let asked = |xid| asked.values().find(|it| it.xid == xid).map(|it| it.opcode);
                let context = Context { direction, limit: *limit, zxid: *zxid, asked: &asked };
                resync::find(&context, &buffer.bytes, from)
            }
        };
        match found {
            Ok(place) => {
                buffer.drop(place, conversation, direction);
                buffer.state = State::Readable;
                true
            }
            Err(place) => {
                let excess = buffer.bytes.len().saturating_sub(SEARCHED);
                buffer.drop(excess, conversation, direction);
                let length = buffer.bytes.len();
                let until = if length < SEARCHED_AT_ONCE { 0 } else { length + length / 8 };
                buffer.state = State::Search { from: place.saturating_sub(excess), until };
                false
            }
        }
    }

    pub(crate) fn set_reply_to(&mut self, opcode: Option<OpCode>) {
        self.reply_to = opcode;
    }

    fn buffer(&mut self, direction: Direction) -> &mut Buffer {
        &mut self.buffers[direction as usize]
    }

    /// Takes bytes of one direction, and passes every whole message to `visit`.
    ///
    /// Once a direction is unreadable, its bytes are dropped.
    pub(crate) fn push(
        &mut self,
        direction: Direction,
        bytes: &[u8],
        time: Option<Duration>,
        visit: &mut Show<'_>,
    ) -> Result<(), Failure> {
        let (is_compressed, limit) = (self.is_compressed, self.limit);
        let buffer = self.buffer(direction);
        if matches!(buffer.state, State::Unreadable) {
            return Ok(());
        }
        if is_compressed {
            buffer.compressed.extend_from_slice(bytes);
            buffer.decompress(limit)?;
        } else {
            buffer.bytes.extend_from_slice(bytes);
        }
        while self.resume(direction) {
            let error = match self.read(direction, time, visit)? {
                None if self.begins_compression(direction) => {
                    self.buffer(direction).decompress(limit)?;
                    continue;
                }
                None => break,
                Some(error) => error,
            };
            let searches = self.searches && !self.is_compressed;
            let buffer = self.buffer(direction);
            if !searches {
                return Err(buffer.fail(error.to_string()).into());
            }
            if buffer.offset == 0 {
                buffer.missing.hint = input::foreign(&buffer.bytes);
            }
            buffer.state = State::Search { from: 1, until: 0 };
        }
        Ok(())
    }

    fn is_compression_agreed(&self) -> bool {
        self.conversation.dialect().is_some_and(|dialect| dialect.compression)
    }

    /// Returns whether a direction is that of an answer that begins compression. What is left in
    /// its buffer is compressed then.
    fn begins_compression(&mut self, direction: Direction) -> bool {
        let begins = direction == Direction::ToClient && self.is_compression_agreed();
        if begins {
            self.conversation.decompressed();
            self.is_compressed = true;
            let buffer = self.buffer(direction);
            buffer.compressed = core::mem::take(&mut buffer.bytes);
        }
        begins
    }

    /// Reads the whole messages in the buffer. Returns why the rest cannot be a frame.
    fn read(
        &mut self,
        direction: Direction,
        time: Option<Duration>,
        visit: &mut Show<'_>,
    ) -> Result<Option<FrameError>, Failure> {
        let mut bytes = core::mem::take(&mut self.buffer(direction).bytes);
        let mut rest = &bytes[..];
        let result = loop {
            let in_flight = self.conversation.unanswered();
            let (message, behind) = match self.conversation.read(direction, rest) {
                Ok(Some(split)) => split,
                Ok(None) => break Ok(None),
                Err(error) => break Ok(Some(error)),
            };
            rest = behind;
            let is_welcome = message.kind == Kind::ConnectResponse;
            if let Err(error) = self.see(message, 0, in_flight, time, visit) {
                break Err(error);
            }
            if is_welcome && self.is_compression_agreed() {
                break Ok(None);
            }
        };
        let read = bytes.len() - rest.len();
        bytes.drain(..read);
        let buffer = self.buffer(direction);
        buffer.offset += read as u64;
        buffer.bytes = bytes;
        result
    }

    /// Passes a message to `visit`, with what is known from the messages before.
    fn see(
        &mut self,
        message: Message<'_>,
        missing: usize,
        in_flight: usize,
        time: Option<Duration>,
        visit: &mut Show<'_>,
    ) -> Result<(), Failure> {
        let Self { connection, name, server, reply_to, asked, zxid, .. } = self;
        if let Some(header) = message.reply_header().filter(|header| header.zxid.0 > 0) {
            *zxid = Some(header.zxid.0);
        }
        let answered = match message.kind {
            Kind::Reply { request, .. } => asked.remove(&request),
            _ => None,
        };
        let latency = answered.as_ref().and_then(|asked| time?.checked_sub(asked.time?));
        let paths = match message.request() {
            _ if missing > 0 => answered.map(|asked| asked.paths).unwrap_or_default(),
            Some(Ok(request)) => request.paths().take(PATHS).map(str::to_owned).collect(),
            Some(Err(_)) => explained_paths(&message),
            None => match answered {
                Some(asked) => asked.paths,
                None => message.path().map(str::to_owned).into_iter().collect(),
            },
        };
        let opcode = message.opcode().or(*reply_to);
        visit(&Seen {
            connection: *connection,
            name,
            server,
            time,
            message,
            missing,
            paths: &paths,
            opcode,
            latency,
            in_flight,
        })?;
        if let Kind::Request(header) = message.kind {
            let (xid, opcode) = (header.xid, header.opcode);
            asked.insert(message.number, Asked { xid, opcode, time, paths });
            if asked.len() > MAX_UNANSWERED {
                asked.pop_first();
            }
        }
        Ok(())
    }

    /// Returns the bytes of an incomplete frame at the end of a direction, with their offset.
    pub(crate) fn incomplete(&mut self, direction: Direction) -> Option<(u64, &[u8])> {
        let buffer = self.buffer(direction);
        let is_readable = matches!(buffer.state, State::Readable);
        let bytes = if buffer.bytes.is_empty() { &buffer.compressed } else { &buffer.bytes };
        (is_readable && !bytes.is_empty()).then_some((buffer.offset, &bytes[..]))
    }
}

impl Buffer {
    /// Makes the whole blocks that have arrived readable.
    fn decompress(&mut self, limit: usize) -> Result<(), Unreadable> {
        loop {
            let rest = match blocks::decompress(&self.compressed, limit, &mut self.bytes) {
                Ok(Some(rest)) => rest.len(),
                Ok(None) => return Ok(()),
                Err(error) => return Err(self.fail(error.to_string())),
            };
            self.compressed.drain(..self.compressed.len() - rest);
        }
    }

    fn fail(&mut self, error: String) -> Unreadable {
        self.state = State::Unreadable;
        self.bytes = Vec::new();
        Unreadable { error, offset: self.offset }
    }

    /// Drops bytes that belong to no whole frame.
    fn drop(&mut self, count: usize, conversation: &mut Conversation, direction: Direction) {
        self.bytes.drain(..count);
        self.missing.skipped += count as u64;
        self.offset += count as u64;
        conversation.skip(direction, count as u64);
    }
}
