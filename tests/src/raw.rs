//! A client of bare frames: it numbers requests and matches replies, and that is all. It shows what
//! a server really says, over whatever carries the bytes.

use alloc::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, OpCode, Password,
    Reader, ReplyHeader, Request, RequestHeader, Response, SessionId, WatcherEvent, Xid, Zxid,
    frame,
};

/// A session as the server told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// Its id.
    pub id: SessionId,
    /// Its password.
    pub password: Password,
    /// The timeout that was granted, in milliseconds.
    pub timeout: i32,
}

/// What a server can say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// The handshake succeeded.
    Connected(Credentials),
    /// The handshake failed: there is no such session.
    Expired,
    /// An answer.
    Reply(Reply),
    /// A watch fired.
    Event {
        /// The transaction it comes from; -1 if the server does not tell.
        zxid: Zxid,
        /// What happened.
        kind: EventType,
        /// To which node.
        path: String,
    },
    /// Bytes that are none of these.
    Garbage(Bytes),
}

/// An answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// What was asked for.
    pub opcode: OpCode,
    /// Its header.
    pub header: ReplyHeader,
    /// Its body, not decoded yet.
    pub body: Bytes,
}

impl Reply {
    /// The body, if the request succeeded and the body is what it should be.
    pub fn response(&self) -> Option<Response<'_>> {
        match self.header.err {
            ErrorCode::OK => Response::decode(self.opcode, &self.body).ok(),
            _ => None,
        }
    }
}

/// One connection's worth of client; see the [module](self).
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
    /// For a new connection.
    pub fn new() -> Self {
        Self {
            xid: Xid(0),
            in_flight: VecDeque::new(),
            is_connected: false,
            inbox: BytesMut::new(),
        }
    }

    /// The frame that asks for a new session.
    pub fn connect(timeout: i32) -> Bytes {
        Self::handshake(Zxid::ZERO, timeout, SessionId::NONE, Password::NONE)
    }

    /// The frame that asks for a session again.
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

    /// The frame of a request.
    pub fn request(&mut self, request: &Request<'_>) -> Bytes {
        self.raw_request(request.opcode(), request)
    }

    /// The frame of a request with any number and any body.
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

    /// Whether every request has been answered.
    pub fn is_idle(&self) -> bool {
        self.is_connected && self.in_flight.is_empty()
    }

    /// Takes in bytes from the server.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.inbox.extend_from_slice(bytes);
    }

    /// The next message, once all of it has arrived.
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
    // Only what is 2 GiB long fits no frame.
    let _ = frame::encode(message, &mut out);
    out.freeze()
}
