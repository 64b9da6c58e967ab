//! A server that does what it is told, on threads of its own, so that what it takes is not counted
//! as a client's.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use bytes::BytesMut;
use zk_proto::{
    ConnectResponse, Decode as _, Encode, ErrorCode, OpCode, Reader, ReplyHeader, RequestHeader,
    SessionId, WatcherEvent, Xid, Zxid, frame,
};

/// Has `serve` serve each connection, in a thread of its own: its number, counted from 0, and it.
/// Returns the address. It listens as long as the process lives.
///
/// # Panics
///
/// When there is no port to listen on.
pub fn listen(serve: impl Fn(usize, Peer) -> io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("it is bound").to_string();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, serve) = (stream.expect("a connection"), serve.clone());
            // A client that hangs up is no failure of this end.
            thread::spawn(move || drop(serve(number, Peer::new(stream))));
        }
    });
    at
}

/// The server's end of a connection.
#[derive(Debug)]
pub struct Peer {
    /// For bytes that are no messages.
    pub stream: TcpStream,
    received: BytesMut,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("it is connected");
        Self { stream, received: BytesMut::new() }
    }

    fn frame(&mut self) -> io::Result<BytesMut> {
        loop {
            if let Some(payload) = frame::split_bytes(&mut self.received, frame::DEFAULT_LIMIT)
                .map_err(io::Error::other)?
            {
                return Ok(payload.into());
            }
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => self.received.extend_from_slice(&chunk[..count]),
            }
        }
    }

    fn send(&mut self, message: &impl Encode) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes).map_err(io::Error::other)?;
        self.stream.write_all(&bytes)
    }

    /// Waits for the handshake, and answers it with a session of `timeout` milliseconds.
    ///
    /// # Errors
    ///
    /// When the client hangs up.
    pub fn welcome(&mut self, timeout: i32) -> io::Result<()> {
        self.frame()?;
        self.send(&ConnectResponse {
            protocol_version: 0,
            timeout,
            session_id: SessionId(7),
            password: Some(&[7; 16]),
            read_only: Some(false),
        })
    }

    /// Answers pings, and the close; knows no node. Calls `asked` with each.
    ///
    /// # Errors
    ///
    /// When the client hangs up.
    pub fn serve(&mut self, mut asked: impl FnMut(OpCode)) -> io::Result<()> {
        loop {
            self.answer(&mut asked)?;
        }
    }

    /// Answers one request, as [`serve`](Self::serve) does.
    ///
    /// # Errors
    ///
    /// When the client hangs up.
    pub fn answer(&mut self, asked: impl FnOnce(OpCode)) -> io::Result<()> {
        let frame = self.frame()?;
        let RequestHeader { xid, opcode } =
            RequestHeader::decode(&mut Reader::new(&frame)).map_err(io::Error::other)?;
        asked(opcode);
        let err = match opcode {
            OpCode::PING | OpCode::CLOSE_SESSION => ErrorCode::OK,
            _ => ErrorCode::NO_NODE,
        };
        self.reply(xid, err)
    }

    /// Waits for a request, and begins a reply of `length` bytes to it, which says that it went
    /// well. The rest is for the caller to send.
    ///
    /// # Errors
    ///
    /// When the client hangs up.
    pub fn begin_reply(&mut self, length: i32) -> io::Result<()> {
        let xid = loop {
            let frame = self.frame()?;
            let RequestHeader { xid, opcode } =
                RequestHeader::decode(&mut Reader::new(&frame)).map_err(io::Error::other)?;
            if opcode != OpCode::PING {
                break xid;
            }
            self.reply(xid, ErrorCode::OK)?;
        };
        let mut start = length.to_be_bytes().to_vec();
        ReplyHeader { xid, zxid: Zxid(1), err: ErrorCode::OK }.encode(&mut start);
        self.stream.write_all(&start)
    }

    fn reply(&mut self, xid: Xid, err: ErrorCode) -> io::Result<()> {
        self.send(&ReplyHeader { xid, zxid: Zxid(1), err })
    }

    /// Tells of an event.
    ///
    /// # Errors
    ///
    /// When the client hangs up.
    pub fn notify(&mut self, event: &WatcherEvent<'_>) -> io::Result<()> {
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(1), err: ErrorCode::OK };
        self.send(&(header, event))
    }
}
