//! Streams as text: a title for every frame, and a line for every field.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

use zk_proto::explain::{self, MessageKind};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, OpCode, Reader, ReplyHeader, RequestHeader,
    Xid,
    frame::{self, FrameError},
};

/// The direction of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToServer,
    ToClient,
}

/// A frame of a stream, including its length prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'s> {
    pub(crate) direction: Direction,
    pub(crate) number: usize,
    /// The offset in its stream, in bytes.
    pub(crate) offset: usize,
    pub(crate) bytes: &'s [u8],
    pub(crate) message: MessageKind,
}

/// The whole frames of a stream, and the end of the stream.
#[derive(Debug)]
pub(crate) struct Stream<'s> {
    pub(crate) frames: Vec<Frame<'s>>,
    /// The number of bytes in whole frames.
    pub(crate) length: usize,
    pub(crate) end: End,
}

#[derive(Debug)]
pub(crate) enum End {
    Whole,
    /// That many bytes of an incomplete frame.
    Unfinished(usize),
    /// Bytes that cannot be a frame.
    Impossible(FrameError),
}

impl<'s> Stream<'s> {
    pub(crate) fn new(bytes: &'s [u8], direction: Direction) -> Self {
        // A limit saves memory, but these bytes are in memory already.
        let limit = frame::DEFAULT_LIMIT.max(bytes.len());
        let (mut frames, mut offset) = (Vec::new(), 0);
        let end = loop {
            match frame::split(&bytes[offset..], limit) {
                Ok(Some((payload, behind))) => {
                    let (number, end) = (frames.len(), bytes.len() - behind.len());
                    let message = classify(direction, number, payload);
                    let bytes = &bytes[offset..end];
                    frames.push(Frame { direction, number, offset, bytes, message });
                    offset = end;
                }
                Ok(None) if offset == bytes.len() => break End::Whole,
                Ok(None) => break End::Unfinished(bytes.len() - offset),
                Err(error) => break End::Impossible(error),
            }
        };
        Self { frames, length: offset, end }
    }
}

/// Returns the kind of a message, as far as its own stream shows it.
fn classify(direction: Direction, number: usize, payload: &[u8]) -> MessageKind {
    let refusal = ReplyHeader::decode_all(payload)
        .is_ok_and(|header| header.xid == Xid(0) && header.err != ErrorCode::OK);
    match direction {
        // A handshake begins with the protocol version 0, and no header begins with that xid.
        Direction::ToServer
            if number == 0
                && ConnectRequest::decode_all(payload)
                    .is_ok_and(|request| request.protocol_version == 0) =>
        {
            MessageKind::ConnectRequest
        }
        Direction::ToClient
            if number == 0
                && (refusal
                    || ConnectResponse::decode_all(payload)
                        .is_ok_and(|response| response.protocol_version == 0)) =>
        {
            MessageKind::ConnectResponse
        }
        Direction::ToServer => MessageKind::Request,
        Direction::ToClient => MessageKind::UnknownReply,
    }
}

/// Returns the frames of a connection, each reply behind its request, with its opcode.
pub(crate) fn pair<'s>(requests: &[Frame<'s>], replies: &[Frame<'s>]) -> Vec<Frame<'s>> {
    let mut unanswered: HashMap<Xid, VecDeque<(usize, OpCode)>> = HashMap::new();
    for (place, request) in requests.iter().enumerate() {
        if let Some(header) = request_header(request) {
            // The reply to a ping has the xid of pings, whatever the request had.
            let xid = if header.opcode == OpCode::PING { Xid::PING } else { header.xid };
            unanswered.entry(xid).or_default().push_back((place, header.opcode));
        }
    }
    let mut paired = Vec::new();
    let mut asked = requests.iter();
    let mut ask_up_to = |place: usize, paired: &mut Vec<Frame<'s>>| {
        let left = place.saturating_sub(requests.len() - asked.len());
        paired.extend(asked.by_ref().take(left).copied());
    };
    for reply in replies {
        let mut reply = *reply;
        let answers =
            reply_header(&reply).and_then(|header| unanswered.get_mut(&header.xid)?.pop_front());
        if reply.message == MessageKind::ConnectResponse {
            ask_up_to(1, &mut paired);
        } else if let Some((place, opcode)) = answers {
            ask_up_to(place + 1, &mut paired);
            reply.message = MessageKind::Reply(opcode);
        }
        paired.push(reply);
    }
    ask_up_to(requests.len(), &mut paired);
    paired
}

fn request_header(frame: &Frame<'_>) -> Option<RequestHeader> {
    match frame.message {
        MessageKind::Request => {
            RequestHeader::decode(&mut Reader::new(&frame.bytes[frame::PREFIX_LEN..])).ok()
        }
        _ => None,
    }
}

fn reply_header(frame: &Frame<'_>) -> Option<ReplyHeader> {
    match frame.message {
        MessageKind::Reply(_) | MessageKind::UnknownReply => {
            ReplyHeader::decode(&mut Reader::new(&frame.bytes[frame::PREFIX_LEN..])).ok()
        }
        _ => None,
    }
}

impl Frame<'_> {
    /// Returns a title for the frame.
    fn title(&self) -> String {
        let name = match (self.message, request_header(self), reply_header(self)) {
            (MessageKind::ConnectRequest, ..) => "handshake".to_owned(),
            (MessageKind::ConnectResponse, ..) => "handshake".to_owned(),
            (_, Some(header), _) => format!("{}, xid {}", header.opcode, header.xid),
            (_, _, Some(ReplyHeader { xid: Xid::NOTIFICATION, .. })) => "notification".to_owned(),
            (MessageKind::Reply(opcode), _, Some(header)) => {
                format!("reply to {opcode}, xid {}, {}", header.xid, header.err)
            }
            (_, _, Some(header)) => format!("reply, xid {}, {}", header.xid, header.err),
            _ => "not a message".to_owned(),
        };
        let arrow = match self.direction {
            Direction::ToServer => '>',
            Direction::ToClient => '<',
        };
        format!("{arrow} {}: {name} ({} bytes at {})", self.number, self.bytes.len(), self.offset)
    }

    /// Returns a title, and one or more lines for each field. It shortens long fields unless
    /// `full`.
    pub(crate) fn dump(&self, full: bool) -> String {
        let mut out = self.title() + "\n";
        let mut shown = 0;
        let explained = explain::frame(self.bytes, self.message, &mut |field| {
            let text = format!("{} = {}", field.path, cut(field.value.to_string(), full));
            rows(&mut out, self.bytes, field.range.clone(), full, field.wire_type, &text);
            shown = field.range.end;
        });
        if let Err(error) = explained {
            rows(&mut out, self.bytes, shown..self.bytes.len(), full, "?", &error.to_string());
        }
        out
    }
}

const BYTES_PER_ROW: usize = 8;
const ROWS: usize = 4;
const LETTERS: usize = 80;

fn cut(text: String, full: bool) -> String {
    match text.char_indices().nth(LETTERS) {
        Some((end, _)) if !full => format!("{}...", &text[..end]),
        _ => text,
    }
}

/// Prints the bytes of a field in rows, with its description in the first row.
fn rows(
    out: &mut String,
    frame: &[u8],
    range: std::ops::Range<usize>,
    full: bool,
    wire_type: &str,
    text: &str,
) {
    let shown = if full { range.len() } else { range.len().min(ROWS * BYTES_PER_ROW) };
    let bytes = &frame[range.start..range.start + shown];
    let mut label = format!("  {wire_type:<7}  {text}");
    // At least one row, for an error at the end.
    for row in 0..bytes.len().div_ceil(BYTES_PER_ROW).max(1) {
        let start = row * BYTES_PER_ROW;
        let bytes = &bytes[start..bytes.len().min(start + BYTES_PER_ROW)];
        let hex: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let line = format!("{:6}  {:<23}{label}", range.start + start, hex.join(" "));
        label.clear();
        writeln!(out, "{}", line.trim_end()).expect("a string has room");
    }
    if shown < range.len() {
        writeln!(out, "        ... {} bytes more", range.len() - shown).expect("a string has room");
    }
}
