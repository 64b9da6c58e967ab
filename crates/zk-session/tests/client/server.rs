//! A scripted server, and the pipes that connect a client to it.

use std::future::Future;
use std::io;
use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};
use tokio::sync::mpsc;
use zk_session::proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, ErrorCode, EventType, KeeperState, OpCode,
    Reader, ReplyHeader, Request, RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};
use zk_session::{Client, ClientBuilder, Connect, ServerAddress};
use zk_testkit::watchdog::Watchdog;

pub const SESSION: SessionId = SessionId(0x77);

/// A connector to its [`Listener`].
pub struct Pipes {
    arrivals: mpsc::UnboundedSender<Server>,
    buffer: usize,
}

/// A queue that accepts a client's connections.
pub struct Listener {
    arrivals: mpsc::UnboundedReceiver<Server>,
    _watchdog: Watchdog,
}

/// Sets the capacity of the pipes, in bytes for each direction.
pub fn pipes(buffer: usize) -> (Pipes, Listener) {
    let (sender, arrivals) = mpsc::unbounded_channel();
    let listener = Listener { arrivals, _watchdog: Watchdog::start() };
    (Pipes { arrivals: sender, buffer }, listener)
}

impl Connect for Pipes {
    type Transport = DuplexStream;

    fn connect(
        &mut self,
        server: &ServerAddress,
    ) -> Pin<Box<dyn Future<Output = io::Result<DuplexStream>> + Send>> {
        let (ours, theirs) = duplex(self.buffer);
        let server =
            Server { server: server.to_string(), stream: theirs, received: BytesMut::new() };
        let arrived = self.arrivals.send(server);
        Box::pin(async move { arrived.map(|()| ours).map_err(|_| io::ErrorKind::NotFound.into()) })
    }
}

impl Listener {
    pub async fn accept(&mut self) -> Server {
        self.arrivals.recv().await.expect("the client is there")
    }

    /// Accepts a connection and answers its handshake.
    pub async fn welcome(&mut self) -> Server {
        let mut server = self.accept().await;
        server.welcome().await;
        server
    }
}

/// The server side of one connection.
pub struct Server {
    /// The server that the client has connected to.
    pub server: String,
    pub stream: DuplexStream,
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
    pub fn request(&self) -> Request<'_> {
        Request::decode(self.opcode, &self.body).expect("a well-formed request")
    }
}

impl Server {
    /// Reads the next frame. Returns `None` if the client has closed the connection.
    pub async fn frame(&mut self) -> Option<Bytes> {
        loop {
            if let Some(payload) = frame::split_bytes(&mut self.received, 1 << 24).unwrap() {
                return Some(payload);
            }
            if self.stream.read_buf(&mut self.received).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }

    pub async fn handshake(&mut self) -> SessionId {
        let payload = self.frame().await.expect("a handshake");
        ConnectRequest::decode_all(&payload).expect("a handshake").session_id
    }

    pub async fn welcome(&mut self) {
        self.handshake().await;
        self.answer_handshake(6_000, SESSION).await;
    }

    pub async fn answer_handshake(&mut self, timeout: i32, session_id: SessionId) {
        self.send(&ConnectResponse {
            protocol_version: 0,
            timeout,
            session_id,
            password: Some(&[7; 16]),
            read_only: Some(false),
        })
        .await;
    }

    /// Reads the next request that is not a ping. Answers pings.
    pub async fn request(&mut self) -> Option<Sent> {
        loop {
            let body = self.frame().await?;
            let mut reader = Reader::new(&body);
            let RequestHeader { xid, opcode } = RequestHeader::decode(&mut reader).unwrap();
            if xid != Xid::PING {
                return Some(Sent { xid, opcode, body: body.slice(reader.position()..) });
            }
            self.reply(xid, ErrorCode::OK, &()).await;
        }
    }

    /// Reads the next request, which must be this operation.
    pub async fn expect(&mut self, opcode: OpCode) -> Sent {
        let sent = self.request().await.expect("a request");
        assert_eq!(sent.opcode, opcode);
        sent
    }

    pub async fn reply(&mut self, xid: Xid, err: ErrorCode, body: &impl Encode) {
        self.send(&(ReplyHeader { xid, zxid: Zxid(1), err }, body)).await;
    }

    pub async fn notify(&mut self, event_type: EventType, path: &str) {
        let event = WatcherEvent { event_type, state: KeeperState::SYNC_CONNECTED, path };
        self.reply(Xid::NOTIFICATION, ErrorCode::OK, &event).await;
    }

    pub async fn send(&mut self, message: &impl Encode) {
        let mut bytes = BytesMut::new();
        frame::encode(message, &mut bytes).unwrap();
        self.stream.write_all(&bytes).await.expect("the client is there");
    }
}

pub fn builder() -> ClientBuilder<Client> {
    Client::builder("one").seed(1)
}

/// A client and the server that it is connected to.
pub async fn connected_with(
    builder: ClientBuilder<Client>,
    buffer: usize,
) -> (Client, Server, Listener) {
    let (pipes, mut listener) = pipes(buffer);
    let (client, server) = tokio::join!(builder.connect_with(pipes), listener.welcome());
    (client.expect("a server answers"), server, listener)
}

pub async fn connected() -> (Client, Server, Listener) {
    connected_with(builder(), 1 << 16).await
}

/// Waits until all tasks are idle, without advancing the clock.
pub async fn settle() {
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
}
