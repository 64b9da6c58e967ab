//! Streams of frames and of messages for `tokio_util::codec`.
//!
//! What cannot be read any further is an [`io::Error`] of kind `InvalidData` around the
//! [`FrameError`](frame::FrameError) or [`DecodeError`] that says why.

use alloc::collections::VecDeque;
use core::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::codes::{ErrorCode, OpCode};
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::error::DecodeError;
use crate::frame;
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::operations::{Request, Response};
use crate::owned::{self, Keep, Storage};
use crate::records::WatcherEvent;
use crate::sink::Sink;
use crate::wire::{Decode, Encode, Reader};

/// Splits a stream into frames and writes messages as frames.
///
/// It decodes to the payload of each frame, sharing its buffer, and encodes anything that is
/// [`Encode`]: `(RequestHeader, Request)` on a client, `(ReplyHeader, Response)` on a server.
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    limit: usize,
}

impl FrameCodec {
    /// A codec that refuses to read frames longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { limit }
    }
}

impl Default for FrameCodec {
    fn default() -> Self {
        Self::new(frame::DEFAULT_LIMIT)
    }
}

impl Decoder for FrameCodec {
    type Item = Bytes;
    type Error = io::Error;

    fn decode(&mut self, stream: &mut BytesMut) -> io::Result<Option<Bytes>> {
        frame::split_bytes(stream, self.limit).map_err(invalid)
    }
}

impl<M: Encode> Encoder<M> for FrameCodec {
    type Error = io::Error;

    fn encode(&mut self, message: M, out: &mut BytesMut) -> io::Result<()> {
        frame::encode(&message, out).map_err(invalid)
    }
}

fn invalid(error: impl core::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

// ---- The side of the client --------------------------------------------------------------------

/// What a server says. Its buffers share the memory of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// The answer to the handshake. It may say that the session has expired.
    Connected(owned::ConnectResponse<Bytes>),
    /// In place of that answer: there will be no session.
    Refused(ReplyHeader),
    /// A watched node has changed.
    Notification(ReplyHeader, owned::WatcherEvent<Bytes>),
    /// The answer to a request; without a body if it failed.
    Reply(ReplyHeader, Option<owned::Response<Bytes>>),
}

/// One connection as a client has it: requests go out, [`ServerMessage`]s come in.
///
/// It remembers which operations were asked for, since replies do not say what they answer. Begin
/// with a [`ConnectRequest`], and with a new codec for every connection.
#[derive(Clone, Debug, Default)]
pub struct ClientCodec {
    frames: FrameCodec,
    connected: bool,
    unanswered: VecDeque<(Xid, OpCode)>,
}

impl ClientCodec {
    /// A codec that refuses to read frames longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { frames: FrameCodec::new(limit), connected: false, unanswered: VecDeque::new() }
    }

    fn ask(
        &mut self,
        header: RequestHeader,
        body: impl Encode,
        out: &mut BytesMut,
    ) -> io::Result<()> {
        self.frames.encode((header, body), out)?;
        // The answer to a ping has the xid of pings, whatever the ping had.
        let xid = if header.opcode == OpCode::PING { Xid::PING } else { header.xid };
        self.unanswered.push_back((xid, header.opcode));
        Ok(())
    }

    /// Answers come in the order of the requests, save those of pings and credentials.
    fn asked(&mut self, xid: Xid) -> Result<OpCode, UnexpectedReply> {
        let place = self.unanswered.iter().position(|(asked, _)| *asked == xid);
        let asked = place.and_then(|place| self.unanswered.remove(place));
        asked.map(|(_, opcode)| opcode).ok_or(UnexpectedReply(xid))
    }
}

/// A reply to what was not asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct UnexpectedReply(Xid);

impl fmt::Display for UnexpectedReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a reply has xid {}, which no request waits for", self.0)
    }
}

impl core::error::Error for UnexpectedReply {}

impl Encoder<ConnectRequest<'_>> for ClientCodec {
    type Error = io::Error;

    fn encode(&mut self, request: ConnectRequest<'_>, out: &mut BytesMut) -> io::Result<()> {
        self.frames.encode(request, out)
    }
}

impl Encoder<(Xid, Request<'_>)> for ClientCodec {
    type Error = io::Error;

    fn encode(&mut self, message: (Xid, Request<'_>), out: &mut BytesMut) -> io::Result<()> {
        let (xid, request) = message;
        self.ask(RequestHeader { xid, opcode: request.opcode() }, request, out)
    }
}

impl<S: Storage> Encoder<(Xid, owned::Request<S>)> for ClientCodec {
    type Error = io::Error;

    fn encode(&mut self, message: (Xid, owned::Request<S>), out: &mut BytesMut) -> io::Result<()> {
        let (xid, request) = message;
        self.ask(RequestHeader { xid, opcode: request.opcode() }, request, out)
    }
}

impl Decoder for ClientCodec {
    type Item = ServerMessage;
    type Error = io::Error;

    fn decode(&mut self, stream: &mut BytesMut) -> io::Result<Option<ServerMessage>> {
        let Some(frame) = self.frames.decode(stream)? else {
            return Ok(None);
        };
        if !self.connected {
            self.connected = true;
            // The shortest answer to a handshake is longer than a header.
            return match ReplyHeader::decode_all(&frame) {
                Ok(header) => Ok(ServerMessage::Refused(header)),
                Err(_) => ConnectResponse::decode_all(&frame)
                    .map(|response| ServerMessage::Connected(response.keep(&frame))),
            }
            .map(Some)
            .map_err(invalid);
        }
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader).map_err(invalid)?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode_all(reader.rest()).map_err(invalid)?;
            return Ok(Some(ServerMessage::Notification(header, event.keep(&frame))));
        }
        let opcode = self.asked(header.xid).map_err(invalid)?;
        let body = match header.err {
            ErrorCode::OK => Some(Response::decode(opcode, reader.rest()).map_err(invalid)?),
            _ => None,
        };
        Ok(Some(ServerMessage::Reply(header, body.map(|body| body.keep(&frame)))))
    }
}

// ---- The side of the server --------------------------------------------------------------------

/// What a client says. Its buffers share the memory of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// It asks for a session.
    Connect(owned::ConnectRequest<Bytes>),
    /// It asks for an operation. One whose body is not what it should be is answered with
    /// [`ErrorCode::MARSHALLING_ERROR`] or, if the operation is not known,
    /// [`ErrorCode::UNIMPLEMENTED`]; the connection can go on.
    Request(RequestHeader, Result<owned::Request<Bytes>, DecodeError>),
}

/// One connection as a server has it: [`ClientMessage`]s come in, replies go out.
///
/// It encodes whatever is [`Encode`]: a [`ServerMessage`], or one that borrows, such as
/// [`ConnectResponse`], `(ReplyHeader, Response)`, or a [`ReplyHeader`] alone. A connection that
/// begins with a four-letter word fails to decode, as a frame that is too long.
#[derive(Clone, Debug, Default)]
pub struct ServerCodec {
    frames: FrameCodec,
    connected: bool,
}

impl ServerCodec {
    /// A codec that refuses to read frames longer than `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { frames: FrameCodec::new(limit), connected: false }
    }
}

impl Decoder for ServerCodec {
    type Item = ClientMessage;
    type Error = io::Error;

    fn decode(&mut self, stream: &mut BytesMut) -> io::Result<Option<ClientMessage>> {
        let Some(frame) = self.frames.decode(stream)? else {
            return Ok(None);
        };
        if !self.connected {
            self.connected = true;
            let request = ConnectRequest::decode_all(&frame).map_err(invalid)?;
            return Ok(Some(ClientMessage::Connect(request.keep(&frame))));
        }
        let mut reader = Reader::new(&frame);
        let header = RequestHeader::decode(&mut reader).map_err(invalid)?;
        let body = Request::decode(header.opcode, reader.rest());
        Ok(Some(ClientMessage::Request(header, body.map(|body| body.keep(&frame)))))
    }
}

impl<M: Encode> Encoder<M> for ServerCodec {
    type Error = io::Error;

    fn encode(&mut self, message: M, out: &mut BytesMut) -> io::Result<()> {
        self.frames.encode(message, out)
    }
}

impl Encode for ServerMessage {
    fn encoded_len(&self) -> usize {
        match self {
            Self::Connected(response) => response.encoded_len(),
            Self::Refused(header) | Self::Reply(header, None) => header.encoded_len(),
            Self::Notification(header, event) => (header, event).encoded_len(),
            Self::Reply(header, Some(body)) => (header, body).encoded_len(),
        }
    }

    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self {
            Self::Connected(response) => response.encode(out),
            Self::Refused(header) | Self::Reply(header, None) => header.encode(out),
            Self::Notification(header, event) => (header, event).encode(out),
            Self::Reply(header, Some(body)) => (header, body).encode(out),
        }
    }
}
