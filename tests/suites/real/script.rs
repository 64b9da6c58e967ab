//! Two clients that send requests by turns, and a transcript of all messages that they receive.

use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use zk_proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, Encode, ExistsRequest, GetChildrenRequest,
    GetDataRequest, List, OpCode, Request, SetDataRequest, Zxid,
};
use zk_testkit::raw::{Message, RawClient};

use crate::render::Render;

const OPEN: &[Acl<'_>] = &[Acl::OPEN];
pub(crate) const ALICE: usize = 0;
pub(crate) const BOB: usize = 1;

pub(crate) struct Script {
    address: String,
    peers: [Peer; 2],
    render: Render,
    pub(crate) last_zxid: Zxid,
    pub(crate) transcript: Vec<String>,
}

impl Script {
    pub(crate) fn start(address: &str) -> Self {
        let [(alice, a), (bob, b)] = [(); 2].map(|()| {
            let mut peer = Peer::connect(address, &RawClient::connect(10_000));
            match peer.next_message() {
                Some(Message::Connected(session)) => (peer, session.id),
                other => panic!("no session: {other:?}"),
            }
        });
        let mut script = Self {
            address: address.into(),
            peers: [alice, bob],
            render: Render { start: Zxid::ZERO, sessions: vec![a, b] },
            last_zxid: Zxid::ZERO,
            transcript: Vec::new(),
        };
        script.peers[BOB].ask(&Request::Ping(()));
        if let Some(Message::Reply(pong)) = script.peers[BOB].next_message() {
            script.render.start = pong.header.zxid;
        }
        script
    }

    pub(crate) fn ask(&mut self, who: usize, request: Request<'_>) {
        self.transcript.push(format!("? {request:?}"));
        self.peers[who].ask(&request);
        self.record_all(who);
    }

    /// Sends a request that may have no reply.
    pub(crate) fn send(&mut self, who: usize, request: Request<'_>) {
        self.transcript.push(format!("? {request:?}"));
        self.peers[who].ask(&request);
        self.peers[who].ask(&Request::Ping(()));
        loop {
            let message = self.peers[who].next_message();
            self.write(&format!("{who}"), message.as_ref());
            match message {
                Some(Message::Reply(reply)) if reply.opcode == OpCode::PING => return,
                None => return,
                Some(_) => {}
            }
        }
    }

    pub(crate) fn ask_raw(&mut self, who: usize, opcode: OpCode, body: &impl Encode) {
        self.transcript.push(format!("? {opcode} malformed"));
        self.peers[who].ask_raw(opcode, body);
        self.record_all(who);
    }

    /// Records the messages up to the reply, and those of the other client meanwhile.
    fn record_all(&mut self, who: usize) {
        loop {
            let message = self.peers[who].next_message();
            let is_last = !matches!(message, Some(Message::Event { .. }));
            if let Some(Message::Reply(reply)) = &message {
                self.last_zxid = reply.header.zxid;
            }
            self.write(&format!("{who}"), message.as_ref());
            if is_last {
                break;
            }
        }
        self.barrier(1 - who);
    }

    /// Records all messages sent up to now.
    pub(crate) fn barrier(&mut self, who: usize) {
        self.peers[who].ask(&Request::Ping(()));
        loop {
            let message = self.peers[who].next_message();
            self.write(&format!("{who}"), message.as_ref());
            if !matches!(message, Some(Message::Event { .. })) {
                break;
            }
        }
    }

    pub(crate) fn newcomer(&self, handshake: &[u8]) -> Peer {
        Peer::connect(&self.address, handshake)
    }

    pub(crate) fn note(&mut self, who: &str, peer: &mut Peer) {
        let message = peer.next_message();
        self.write(who, message.as_ref());
    }

    fn write(&mut self, who: &str, message: Option<&Message>) {
        let line = self.render.message(message);
        self.transcript.push(format!("{who}: {line}"));
    }
}

pub(crate) struct Peer {
    stream: TcpStream,
    raw: RawClient,
}

impl Peer {
    pub(crate) fn connect(address: &str, handshake: &[u8]) -> Self {
        let stream = TcpStream::connect(address).expect("a listening server");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a socket");
        let mut peer = Self { stream, raw: RawClient::new() };
        peer.send(handshake);
        peer
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        // A closed connection shows when it is read.
        let _ = self.stream.write_all(bytes);
    }

    pub(crate) fn ask(&mut self, request: &Request<'_>) {
        self.ask_raw(request.opcode(), request);
    }

    pub(crate) fn ask_raw(&mut self, opcode: OpCode, body: &impl Encode) {
        let frame = self.raw.raw_request(opcode, body);
        self.send(&frame);
    }

    /// Returns the next message, or `None` if the connection is closed.
    pub(crate) fn next_message(&mut self) -> Option<Message> {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            if let Some(message) = self.raw.poll() {
                return Some(message);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.raw.receive(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("no message: {error}"),
            }
        }
    }
}

pub(crate) fn node(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"data"), acl: List::new(OPEN), mode }
}

pub(crate) fn create(path: &str, mode: CreateMode) -> Request<'_> {
    Request::Create(node(path, mode))
}

pub(crate) fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

pub(crate) fn set_data(path: &str) -> Request<'_> {
    Request::SetData(SetDataRequest { path, data: Some(b"changed"), version: -1 })
}

pub(crate) fn exists(path: &str, watch: bool) -> Request<'_> {
    Request::Exists(ExistsRequest { path, watch })
}

pub(crate) fn get_data(path: &str, watch: bool) -> Request<'_> {
    Request::GetData(GetDataRequest { path, watch })
}

pub(crate) fn get_children(path: &str, watch: bool) -> Request<'_> {
    Request::GetChildren(GetChildrenRequest { path, watch })
}
