//! A client of bare frames that only numbers requests and matches replies. It shows exactly what a
//! server sends, over any transport.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, OpCode, Password,
    Reader, ReplyHeader, Request, RequestHeader, Response, SessionId, WatcherEvent, Xid, Zxid,
    frame,
};

/// A session as a server granted it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The session id.
    pub id: SessionId,
    /// The password of the session.
    pub password: Password,
    /// The granted timeout, in milliseconds.
    pub timeout: i32,
}

/// A message from a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The handshake succeeded.
    Connected(Credentials),
    /// The handshake failed: there is no such session.
    Expired,
    /// A reply.
    Reply(Reply),
    /// A watch fired.
    Event {
        /// The transaction that caused the event, or -1 if the server does not say.
        zxid: Zxid,
        /// The type of the event.
        kind: EventType,
        /// The path of the node.
        path: String,
    },
    /// Bytes that decode as none of these.
    Garbage(Bytes),
}

/// A reply to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The opcode of the request.
    pub opcode: OpCode,
    /// The header of the reply.
    pub header: ReplyHeader,
    /// The undecoded body of the reply.
    pub body: Bytes,
}

impl Reply {
    /// Decodes the body, if the request succeeded and the body is valid.
    pub fn response(&self) -> Option<Response<'_>> {
        match self.header.err {
            ErrorCode::OK => Response::decode(self.opcode, &self.body).ok(),
            _ => None,
        }
    }
}

/// The client's side of one connection; see the [module](self).
#[derive(Clone, Debug)]
pub struct RawClient {
    xid: Xid,
    in_flight: VecDeque<(Xid, OpCode)>,
    is_connected: bool,
    inbox: BytesMut,
}

impl Default for RawClient {
    fn default() -> Self {
        Self::new()
    }
}

impl RawClient {
    /// Returns a client for a new connection.
    pub fn new() -> Self {
        Self {
            xid: Xid(0),
            in_flight: VecDeque::new(),
            is_connected: false,
            inbox: BytesMut::new(),
        }
    }

    /// Returns the handshake for a new session.
    pub fn connect(timeout: i32) -> Bytes {
        Self::handshake(Zxid::ZERO, timeout, SessionId::NONE, Password::NONE)
    }

    /// Returns the handshake that resumes a session.
    pub fn resume(last_zxid_seen: Zxid, session: &Credentials) -> Bytes {
        Self::handshake(last_zxid_seen, session.timeout, session.id, session.password)
    }

    fn handshake(
        last_zxid_seen: Zxid,
        timeout: i32,
        session_id: SessionId,
        password: Password,
    ) -> Bytes {
        to_frame(&ConnectRequest {
            protocol_version: 0,
            last_zxid_seen,
            timeout,
            session_id,
            password: Some(&password.0),
            read_only: Some(false),
        })
    }

    /// Encodes a request.
    pub fn request(&mut self, request: &Request<'_>) -> Bytes {
        self.raw_request(request.opcode(), request)
    }

    /// Encodes a request of any opcode and body.
    pub fn raw_request(&mut self, opcode: OpCode, body: &impl Encode) -> Bytes {
        let xid = match opcode {
            OpCode::PING => Xid::PING,
            _ => {
                self.xid = self.xid.next();
                self.xid
            }
        };
        self.in_flight.push_back((xid, opcode));
        to_frame(&(RequestHeader { xid, opcode }, body))
    }

    /// Returns whether every request has been answered.
    pub fn is_idle(&self) -> bool {
        self.is_connected && self.in_flight.is_empty()
    }

    /// Adds bytes from the server.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// Returns the next message that has arrived completely.
    pub fn poll(&mut self) -> Option<Message> {
        let frame = frame::split_bytes(&mut self.inbox, usize::MAX).ok()??;
        Some(self.message(&frame).unwrap_or(Message::Garbage(frame)))
    }

    fn message(&mut self, frame: &Bytes) -> Option<Message> {
        if !self.is_connected {
            let answer = ConnectResponse::decode_all(frame).ok()?;
            if answer.is_expired() {
                return Some(Message::Expired);
            }
            self.is_connected = true;
            let password = Password::from_wire(answer.password)?;
            let (id, timeout) = (answer.session_id, answer.timeout);
            return Some(Message::Connected(Credentials { id, password, timeout }));
        }
        let mut reader = Reader::new(frame);
        let header = ReplyHeader::decode(&mut reader).ok()?;
        if header.xid == Xid::NOTIFICATION {
            let event = WatcherEvent::decode_all(reader.rest()).ok()?;
            let (kind, path) = (event.event_type, event.path.into());
            return Some(Message::Event { zxid: header.zxid, kind, path });
        }
        let place = self.in_flight.iter().position(|(xid, _)| *xid == header.xid)?;
        let (_, opcode) = self.in_flight.remove(place)?;
        Some(Message::Reply(Reply { opcode, header, body: frame.slice(reader.position()..) }))
    }
}

fn to_frame(message: &impl Encode) -> Bytes {
    let mut out = BytesMut::new();
    // Only a message of 2 GiB does not fit in a frame.
    let _ = frame::encode(message, &mut out);
    out.freeze()
}
