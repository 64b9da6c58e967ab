//! Two clients that send requests by turns, and a transcript of all messages that they receive.

use core::fmt::Debug;
use core::time::Duration;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use zk_proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, Encode, ErrorCode, ExistsRequest,
    GetChildrenRequest, GetDataRequest, List, OpCode, Request, SetDataRequest, Zxid,
};
use zk_testkit::raw::{Credentials, Message, RawClient};

use crate::render::Render;

const OPEN: &[Acl<'_>] = &[Acl::OPEN];
pub(crate) const ALICE: usize = 0;
pub(crate) const BOB: usize = 1;

pub(crate) struct Script {
    address: String,
    peers: [Peer; 2],
    sessions: [Credentials; 2],
    render: Render,
    pub(crate) last_zxid: Zxid,
    pub(crate) transcript: Vec<String>,
}

impl Script {
    pub(crate) fn start(address: &str) -> Self {
        let [(alice, a), (bob, b)] = [(); 2].map(|()| {
            let mut peer = Peer::connect(address, &RawClient::connect(10_000));
            match peer.next_message() {
                Some(Message::Connected(session)) => (peer, session),
                other => panic!("no session: {other:?}"),
            }
        });
        let mut script = Self {
            address: address.into(),
            peers: [alice, bob],
            render: Render::new(vec![a.id, b.id]),
            sessions: [a, b],
            last_zxid: Zxid::ZERO,
            transcript: Vec::new(),
        };
        script.begin("the last zxid");
        script.barrier(BOB);
        script
    }

    pub(crate) fn ask(&mut self, who: usize, request: Request<'_>) {
        self.begin(&format!("{request:?}"));
        self.peers[who].ask(&request);
        self.record_all(who);
    }

    /// Sends a request that may have no reply, or cost the connection.
    pub(crate) fn send(&mut self, who: usize, request: Request<'_>) {
        self.send_raw(who, request.opcode(), &request);
    }

    /// Sends a request of any opcode and body that may have no reply, or cost the connection.
    pub(crate) fn send_raw(&mut self, who: usize, opcode: OpCode, body: &(impl Encode + Debug)) {
        self.begin(&format!("{opcode} {body:?}"));
        self.peers[who].ask_raw(opcode, body);
        self.barrier(who);
    }

    pub(crate) fn ask_raw(&mut self, who: usize, opcode: OpCode, body: &impl Encode) {
        self.begin(&format!("{opcode} malformed"));
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
            if message.is_none() {
                self.resume(who);
            }
            if is_last {
                break;
            }
        }
        self.barrier(1 - who);
    }

    /// Continues a session on a new connection.
    fn resume(&mut self, who: usize) {
        let handshake = RawClient::resume(Zxid::ZERO, &self.sessions[who]);
        self.peers[who] = Peer::connect(&self.address, &handshake);
        let message = self.peers[who].next_message();
        self.write(&format!("{who}"), message.as_ref());
    }

    /// Records all messages sent up to now.
    pub(crate) fn barrier(&mut self, who: usize) {
        for message in self.peers[who].messages_until_pong() {
            self.write(&format!("{who}"), message.as_ref());
            if message.is_none() {
                self.resume(who);
            }
        }
    }

    pub(crate) fn newcomer(&mut self, handshake: &[u8]) -> Peer {
        self.begin("a new connection");
        Peer::connect(&self.address, handshake)
    }

    pub(crate) fn note(&mut self, who: &str, peer: &mut Peer) {
        let message = peer.next_message();
        self.write(who, message.as_ref());
    }

    fn begin(&mut self, what: &str) {
        let heading = self.render.begin(what);
        self.transcript.push(heading);
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

    /// Sends a ping. Returns all messages up to its reply, or up to the end of the connection, which
    /// is `None`.
    pub(crate) fn messages_until_pong(&mut self) -> Vec<Option<Message>> {
        self.ask(&Request::Ping(()));
        let mut messages = Vec::new();
        let mut is_refused = false;
        loop {
            let message = self.next_message();
            let reply = match &message {
                Some(Message::Reply(reply)) => Some(reply),
                _ => None,
            };
            let is_pong = reply.is_some_and(|reply| reply.opcode == OpCode::PING);
            is_refused |= reply.is_some_and(|reply| reply.header.err == ErrorCode::UNIMPLEMENTED);
            let is_last = message.is_none() || (is_pong && !is_refused);
            // A server closes the connection behind a refusal. It may still answer the ping.
            if !(is_pong && is_refused) {
                messages.push(message);
            }
            if is_last {
                return messages;
            }
        }
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
                // SIGSTOP and SIGCONT interrupt a read that has a time limit.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
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
