//! A scripted server.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_session::ClientBuilder;
use zk_session::blocking::Client;
use zk_session::proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, KeeperState, OpCode,
    Reader, ReplyHeader, Request, RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zk_testkit::watchdog::Watchdog;

pub const SESSION: SessionId = SessionId(0x77);
/// A time limit that turns a hang into a failure. Nothing else takes this long.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A socket that accepts a client's connections.
pub struct Listener {
    socket: TcpListener,
    _watchdog: Watchdog,
}

impl Listener {
    pub fn new() -> Self {
        let socket = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        Self { socket, _watchdog: Watchdog::start() }
    }

    pub fn builder(&self) -> ClientBuilder<Client> {
        Client::builder(&self.address()).seed(1)
    }

    pub fn address(&self) -> String {
        self.socket.local_addr().unwrap().to_string()
    }

    pub fn accept(&self) -> Server {
        let (stream, _) = self.socket.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Server { stream, received: BytesMut::new() }
    }

    /// Accepts a connection and answers its handshake.
    pub fn welcome(&self) -> Server {
        let mut server = self.accept();
        server.welcome(20_000);
        server
    }
}

/// The server side of one connection.
pub struct Server {
    pub stream: TcpStream,
    received: BytesMut,
}

/// A request as the server receives it.
#[derive(Debug)]
pub struct Sent {
    pub xid: Xid,
    pub opcode: OpCode,
    body: Bytes,
}

impl Sent {
    pub fn new(opcode: OpCode, xid: Xid, body: Bytes) -> Self {
        Self { xid, opcode, body }
    }

    pub fn request(&self) -> Request<'_> {
        Request::decode(self.opcode, &self.body).expect("a well-formed request")
    }
}

impl Server {
    /// Reads the next frame. Returns `None` if the client has closed the connection.
    pub fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(payload) = frame::split_bytes(&mut self.received, 1 << 24).unwrap() {
                return Some(payload);
            }
            let mut chunk = [0; 8192];
            match self.stream.read(&mut chunk) {
                Ok(count) if count > 0 => self.received.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return None,
            }
        }
    }

    pub fn welcome(&mut self, timeout: i32) {
        self.handshake();
        self.answer_handshake(timeout, SESSION);
    }

    pub fn handshake(&mut self) -> SessionId {
        let payload = self.frame().expect("a handshake");
        ConnectRequest::decode_all(&payload).expect("a handshake").session_id
    }

    pub fn answer_handshake(&mut self, timeout: i32, session_id: SessionId) {
        self.answer_handshake_as(timeout, session_id, false);
    }

    pub fn answer_handshake_as(&mut self, timeout: i32, session_id: SessionId, read_only: bool) {
        self.send(&ConnectResponse {
            protocol_version: 0,
            timeout,
            session_id,
            password: Some(&[7; 16]),
            read_only: Some(read_only),
        });
    }

    /// Reads the next request that is not a ping. Answers pings.
    pub fn request(&mut self) -> Option<Sent> {
        loop {
            let body = self.frame()?;
            let mut reader = Reader::new(&body);
            let RequestHeader { xid, opcode } = RequestHeader::decode(&mut reader).unwrap();
            if xid != Xid::PING {
                return Some(Sent { xid, opcode, body: body.slice(reader.position()..) });
            }
            self.reply(xid, ErrorCode::OK, &());
        }
    }

    /// Reads the next request, which must be this operation.
    pub fn expect(&mut self, opcode: OpCode) -> Sent {
        let sent = self.request().expect("a request");
        assert_eq!(sent.opcode, opcode);
        sent
    }

    pub fn reply(&mut self, xid: Xid, err: ErrorCode, body: &impl Encode) {
        self.send(&(ReplyHeader { xid, zxid: Zxid(1), err }, body));
    }

    pub fn notify(&mut self, event_type: EventType, path: &str) {
        let event = WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path };
        self.reply(Xid::NOTIFICATION, ErrorCode::OK, &event);
    }

    fn send(&mut self, message: &impl Encode) {
        let mut bytes = BytesMut::new();
        frame::encode(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).expect("the client is there");
    }
}

/// A client and the server that it is connected to.
pub fn connected_with(
    change: impl FnOnce(ClientBuilder<Client>) -> ClientBuilder<Client>,
) -> (Client, Server, Listener) {
    let listener = Listener::new();
    let builder = change(listener.builder());
    let connecting = thread::spawn(move || builder.connect());
    let server = listener.welcome();
    (connecting.join().unwrap().expect("a server answers"), server, listener)
}

pub fn connected() -> (Client, Server, Listener) {
    connected_with(|builder| builder)
}

/// Returns what `call` returns while `serve` acts as the server.
pub fn during<T: Send>(call: impl FnOnce() -> T + Send, serve: impl FnOnce()) -> T {
    thread::scope(|scope| {
        let caller = scope.spawn(call);
        serve();
        caller.join().unwrap()
    })
}
