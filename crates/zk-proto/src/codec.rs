//! Codecs for `tokio_util::codec`: streams of frames and of messages.
//!
//! All of them fail with a [`CodecError`].

use core::fmt;
use std::io;

use bytes::{Bytes, BytesMut};
use tokio_util::codec::{Decoder, Encoder};

use crate::codes::ErrorCode;
use crate::connect::{ConnectRequest, ConnectResponse};
use crate::conversation::Unanswered;
use crate::error::{DecodeError, EncodeError};
use crate::frame::{self, FrameError};
use crate::header::{ReplyHeader, RequestHeader, Xid};
use crate::operations::{Request, Response};
use crate::owned::{self, IntoOwned, Storage};
use crate::records::WatcherEvent;
use crate::sink::Sink;
use crate::wire::{Decode, Encode, Reader};

/// A codec that splits a stream into frames and writes messages as frames.
///
/// It decodes to the payload of each frame without copying. It encodes every type that implements
/// [`Encode`]: `(RequestHeader, Request)` on a client, `(ReplyHeader, Response)` on a server.
///
/// ```
/// use bytes::BytesMut;
/// use tokio_util::codec::{Decoder, Encoder};
/// use zk_proto::{FrameCodec, OpCode, RequestHeader, Xid};
///
/// let mut codec = FrameCodec::default();
/// let mut stream = BytesMut::new();
/// codec.encode(RequestHeader { xid: Xid::PING, opcode: OpCode::PING }, &mut stream)?;
/// let payload = codec.decode(&mut stream)?.expect("a whole frame");
/// assert_eq!(&payload[..], b"\xff\xff\xff\xfe\0\0\0\x0b");
/// # Ok::<(), zk_proto::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct FrameCodec {
    limit: usize,
}

impl FrameCodec {
    /// Creates a codec that refuses to read payloads above `limit` bytes.
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
    type Error = CodecError;

    fn decode(&mut self, stream: &mut BytesMut) -> Result<Option<Bytes>, CodecError> {
        Ok(frame::split_bytes(stream, self.limit)?)
    }
}

impl<M: Encode> Encoder<M> for FrameCodec {
    type Error = CodecError;

    fn encode(&mut self, message: M, out: &mut BytesMut) -> Result<(), CodecError> {
        Ok(frame::encode(&message, out)?)
    }
}

named! {
    /// An error of a codec. The stream is unusable afterwards, except after
    /// [`Encode`](Self::Encode), which writes nothing.
    #[derive(Debug)]
    #[non_exhaustive]
    pub enum CodecError {
        /// The transport failed.
        [from] Io(io::Error),
        /// The length of a frame is invalid.
        [from] Frame(FrameError),
        /// The payload of a frame is malformed.
        [from] Decode(DecodeError),
        /// A reply has an xid that no unanswered request has.
        UnexpectedReply(Xid),
        /// A message is too long to be written.
        [from] Encode(EncodeError),
    }
}

impl fmt::Display for CodecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::Frame(error) => error.fmt(f),
            Self::Decode(error) => error.fmt(f),
            Self::UnexpectedReply(xid) => {
                write!(f, "the xid {xid} of a reply matches no request")
            }
            Self::Encode(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for CodecError {
    fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
        match self {
            Self::Io(error) => error.source(),
            _ => None,
        }
    }
}

/// Every error but that of the transport is of kind `InvalidData`, or `InvalidInput` for
/// [`CodecError::Encode`].
impl From<CodecError> for io::Error {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Io(error) => error,
            CodecError::Encode(_) => Self::new(io::ErrorKind::InvalidInput, error),
            _ => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

// ---- Client --------------------------------------------------------------------

/// A message from a server. Its buffers share the memory of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    /// The answer to the handshake. It may say that the session has expired.
    Connected(owned::ConnectResponse<Bytes>),
    /// The refusal of a handshake, in place of an answer. There is no session.
    Refused(ReplyHeader),
    /// A watch event.
    Notification(ReplyHeader, owned::WatcherEvent<Bytes>),
    /// The reply to a request, without a body if the request failed.
    Reply(ReplyHeader, Option<owned::Response<Bytes>>),
}

/// The codec of one connection of a client: it writes requests and reads [`ServerMessage`]s.
///
/// Use a new codec for every connection, and encode a [`ConnectRequest`] first. The codec
/// remembers the opcodes of its requests, because replies do not contain them.
///
/// ```
/// use bytes::BytesMut;
/// use tokio_util::codec::{Decoder, Encoder};
/// use zk_proto::{
///     ClientCodec, ConnectResponse, Password, ServerCodec, ServerMessage, SessionId,
/// };
///
/// let mut stream = BytesMut::new();
/// let response = ConnectResponse {
///     protocol_version: 0,
///     timeout: 30_000,
///     session_id: SessionId(7),
///     password: Some(&Password::NONE.0),
///     read_only: Some(false),
/// };
/// ServerCodec::default().encode(response, &mut stream)?;
/// let Some(ServerMessage::Connected(session)) = ClientCodec::default().decode(&mut stream)? else {
///     panic!("the first message of a server is the handshake");
/// };
/// assert_eq!(session.session_id, SessionId(7));
/// # Ok::<(), zk_proto::CodecError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ClientCodec {
    frames: FrameCodec,
    connected: bool,
    sent: u64,
    unanswered: Unanswered,
}

impl Default for ClientCodec {
    fn default() -> Self {
        Self::new(frame::DEFAULT_LIMIT)
    }
}

impl ClientCodec {
    /// Creates a codec that refuses to read payloads above `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        // The caller determines how many requests are in flight.
        let unanswered = Unanswered::new(usize::MAX);
        Self { frames: FrameCodec::new(limit), connected: false, sent: 0, unanswered }
    }

    fn encode_request(
        &mut self,
        header: RequestHeader,
        body: impl Encode,
        out: &mut BytesMut,
    ) -> Result<(), CodecError> {
        self.frames.encode((header, body), out)?;
        self.unanswered.insert(header, self.sent);
        self.sent += 1;
        Ok(())
    }
}

impl Encoder<ConnectRequest<'_>> for ClientCodec {
    type Error = CodecError;

    fn encode(
        &mut self,
        request: ConnectRequest<'_>,
        out: &mut BytesMut,
    ) -> Result<(), CodecError> {
        self.frames.encode(request, out)
    }
}

impl Encoder<(Xid, Request<'_>)> for ClientCodec {
    type Error = CodecError;

    fn encode(
        &mut self,
        message: (Xid, Request<'_>),
        out: &mut BytesMut,
    ) -> Result<(), CodecError> {
        let (xid, request) = message;
        self.encode_request(RequestHeader { xid, opcode: request.opcode() }, request, out)
    }
}

impl<S: Storage> Encoder<(Xid, owned::Request<S>)> for ClientCodec {
    type Error = CodecError;

    fn encode(
        &mut self,
        message: (Xid, owned::Request<S>),
        out: &mut BytesMut,
    ) -> Result<(), CodecError> {
        let (xid, request) = message;
        self.encode_request(RequestHeader { xid, opcode: request.opcode() }, request, out)
    }
}

impl Decoder for ClientCodec {
    type Item = ServerMessage;
    type Error = CodecError;

    fn decode(&mut self, stream: &mut BytesMut) -> Result<Option<ServerMessage>, CodecError> {
        let Some(frame) = self.frames.decode(stream)? else {
            return Ok(None);
        };
        if !self.connected {
            self.connected = true;
            // The shortest answer to a handshake is longer than a header.
            return match ReplyHeader::decode_all(&frame) {
                Ok(header) => Ok(ServerMessage::Refused(header)),
                Err(_) => ConnectResponse::decode_all(&frame)
                    .map(|response| ServerMessage::Connected(response.to_owned_in(&frame))),
            }
            .map(Some)
            .map_err(CodecError::Decode);
        }
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader)?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode_all(reader.rest())?;
            return Ok(Some(ServerMessage::Notification(header, event.to_owned_in(&frame))));
        }
        let asked = self.unanswered.remove(header.xid);
        let (opcode, _) = asked.ok_or(CodecError::UnexpectedReply(header.xid))?;
        let body = match header.err {
            ErrorCode::OK => Some(Response::decode(opcode, reader.rest())?),
            _ => None,
        };
        Ok(Some(ServerMessage::Reply(header, body.map(|body| body.to_owned_in(&frame)))))
    }
}

// ---- Server --------------------------------------------------------------------

/// A message from a client. Its buffers share the memory of the frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    /// A request for a session.
    Connect(owned::ConnectRequest<Bytes>),
    /// A request for an operation.
    ///
    /// An error means that the body is malformed, or the operation unknown. Answer it with
    /// [`ErrorCode::MARSHALLING_ERROR`] or [`ErrorCode::UNIMPLEMENTED`]; the stream stays readable.
    Request(RequestHeader, Result<owned::Request<Bytes>, DecodeError>),
}

/// The codec of one connection of a server: it reads [`ClientMessage`]s and writes replies.
///
/// It encodes every type that implements [`Encode`]: a [`ServerMessage`], [`ConnectResponse`],
/// `(ReplyHeader, Response)`, or a [`ReplyHeader`] alone. A connection that begins with a
/// four-letter word fails to decode, as a frame that is too long.
///
/// ```
/// use bytes::BytesMut;
/// use tokio_util::codec::{Decoder, Encoder};
/// use zk_proto::{
///     ClientCodec, ClientMessage, ConnectRequest, Password, ServerCodec, SessionId, Zxid,
/// };
///
/// let mut stream = BytesMut::new();
/// let request = ConnectRequest {
///     protocol_version: 0,
///     last_zxid_seen: Zxid::ZERO,
///     timeout: 30_000,
///     session_id: SessionId::NONE,
///     password: Some(&Password::NONE.0),
///     read_only: Some(false),
/// };
/// ClientCodec::default().encode(request, &mut stream)?;
/// let message = ServerCodec::default().decode(&mut stream)?;
/// assert!(matches!(message, Some(ClientMessage::Connect(request)) if request.timeout == 30_000));
/// # Ok::<(), zk_proto::CodecError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ServerCodec {
    frames: FrameCodec,
    connected: bool,
}

impl ServerCodec {
    /// Creates a codec that refuses to read payloads above `limit` bytes.
    pub const fn new(limit: usize) -> Self {
        Self { frames: FrameCodec::new(limit), connected: false }
    }
}

impl Decoder for ServerCodec {
    type Item = ClientMessage;
    type Error = CodecError;

    fn decode(&mut self, stream: &mut BytesMut) -> Result<Option<ClientMessage>, CodecError> {
        let Some(frame) = self.frames.decode(stream)? else {
            return Ok(None);
        };
        if !self.connected {
            self.connected = true;
            let request = ConnectRequest::decode_all(&frame)?;
            return Ok(Some(ClientMessage::Connect(request.to_owned_in(&frame))));
        }
        let mut reader = Reader::new(&frame);
        let header = RequestHeader::decode(&mut reader)?;
        let body = Request::decode(header.opcode, reader.rest());
        Ok(Some(ClientMessage::Request(header, body.map(|body| body.to_owned_in(&frame)))))
    }
}

impl<M: Encode> Encoder<M> for ServerCodec {
    type Error = CodecError;

    fn encode(&mut self, message: M, out: &mut BytesMut) -> Result<(), CodecError> {
        self.frames.encode(message, out)
    }
}

impl Encode for ServerMessage {
    fn encode<S: Sink + ?Sized>(&self, out: &mut S) {
        match self {
            Self::Connected(response) => response.encode(out),
            Self::Refused(header) | Self::Reply(header, None) => header.encode(out),
            Self::Notification(header, event) => (header, event).encode(out),
            Self::Reply(header, Some(body)) => (header, body).encode(out),
        }
    }
}
