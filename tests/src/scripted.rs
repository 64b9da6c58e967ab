//! A server that follows a script, on threads of its own, so that its allocations are not counted
//! as a client's.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;

use bytes::BytesMut;
use zk_proto::{
    ConnectResponse, Decode as _, Encode, ErrorCode, OpCode, Reader, ReplyHeader, RequestHeader,
    SessionId, WatcherEvent, Xid, Zxid, frame,
};

/// Serves each connection by `serve`, in a thread of its own. `serve` receives the number of the
/// connection, counted from 0, and its [`Peer`]. Returns the address, which is served as long as
/// the process lives.
///
/// # Panics
///
/// If no port is free.
pub fn listen(serve: impl Fn(usize, Peer) -> io::Result<()> + Clone + Send + 'static) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let at = listener.local_addr().expect("a bound port").to_string();
    thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (stream, serve) = (stream.expect("a connection"), serve.clone());
            // A client that closes the connection is no failure of the server.
            thread::spawn(move || drop(serve(number, Peer::new(stream))));
        }
    });
    at
}

/// The server's side of a connection.
#[derive(Debug)]
pub struct Peer {
    /// The transport, for bytes that are no messages.
    pub stream: TcpStream,
    received: BytesMut,
}

impl Peer {
    fn new(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("a connected socket");
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
    /// If the client closes the connection.
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

    /// Answers every request until the client closes the session: no node exists. Calls `asked`
    /// with each opcode.
    ///
    /// # Errors
    ///
    /// If the client closes the connection.
    pub fn serve(&mut self, mut asked: impl FnMut(OpCode)) -> io::Result<()> {
        loop {
            self.answer(&mut asked)?;
        }
    }

    /// Answers one request like [`serve`](Self::serve).
    ///
    /// # Errors
    ///
    /// If the client closes the connection.
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

    /// Waits for a request, and begins a successful reply of `length` bytes. The caller sends the
    /// rest.
    ///
    /// # Errors
    ///
    /// If the client closes the connection.
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

    /// Sends a watch event.
    ///
    /// # Errors
    ///
    /// If the client closes the connection.
    pub fn notify(&mut self, event: &WatcherEvent<'_>) -> io::Result<()> {
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(1), err: ErrorCode::OK };
        self.send(&(header, event))
    }
}
