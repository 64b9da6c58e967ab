//! An ensemble and its clients, on an instant network and a manual clock.

use alloc::collections::BTreeMap;
use core::time::Duration;

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, CreateMode, CreateRequest,
    DeleteRequest, Encode, ErrorCode, ExistsRequest, GetChildrenRequest, GetDataRequest, List,
    MultiOp, MultiRequest, MultiResult, OpCode, Request, Response, SetDataRequest, Stat,
};
use zk_testkit::raw::{Credentials, Message, RawClient, Reply};
use zk_testkit::server::{Config, ConnId, Ensemble, Output};

/// An ensemble, its clients, and the messages that each client has received since the last look.
pub(crate) struct World {
    pub(crate) ensemble: Ensemble,
    pub(crate) now: Duration,
    clients: BTreeMap<ConnId, Client>,
}

#[derive(Default)]
struct Client {
    raw: RawClient,
    received: Vec<Message>,
    is_closed: bool,
}

impl World {
    pub(crate) fn new(servers: usize) -> Self {
        Self::with(Config::servers(servers))
    }

    pub(crate) fn with(config: Config) -> Self {
        Self { ensemble: Ensemble::new(config), now: Duration::ZERO, clients: BTreeMap::new() }
    }

    /// Opens a connection, without a handshake.
    pub(crate) fn open(&mut self, server: usize) -> ConnId {
        let conn = self.ensemble.handle_connect(server).expect("a live server");
        self.admit(conn);
        conn
    }

    /// Adds a connection that was opened elsewhere.
    pub(crate) fn admit(&mut self, conn: ConnId) {
        self.clients.insert(conn, Client::default());
    }

    /// Opens a connection, and creates a session.
    pub(crate) fn connect(&mut self, server: usize) -> (ConnId, Credentials) {
        let conn = self.open(server);
        self.send_bytes(conn, &RawClient::connect(10_000));
        match &self.messages(conn)[..] {
            [Message::Connected(session)] => (conn, session.clone()),
            other => panic!("no session: {other:?}"),
        }
    }

    pub(crate) fn send_bytes(&mut self, conn: ConnId, bytes: &[u8]) {
        self.ensemble.handle_bytes(self.now, conn, bytes);
        self.deliver();
    }

    pub(crate) fn send(&mut self, conn: ConnId, request: &Request<'_>) {
        let frame = self.frame(conn, request);
        self.send_bytes(conn, &frame);
    }

    /// Encodes a request that is sent later.
    pub(crate) fn frame(&mut self, conn: ConnId, request: &Request<'_>) -> Vec<u8> {
        self.client(conn).raw.request(request).to_vec()
    }

    /// Sends any operation with any body.
    pub(crate) fn send_raw(&mut self, conn: ConnId, opcode: OpCode, body: &impl Encode) {
        let frame = self.client(conn).raw.raw_request(opcode, body);
        self.send_bytes(conn, &frame);
    }

    /// Sends a request, and returns its reply, which must be the only message.
    pub(crate) fn call(&mut self, conn: ConnId, request: &Request<'_>) -> Reply {
        self.send(conn, request);
        match &self.messages(conn)[..] {
            [Message::Reply(reply)] => reply.clone(),
            other => panic!("one answer to {request:?}, not {other:?}"),
        }
    }

    /// Sends a request, and returns its outcome as text.
    pub(crate) fn ask(&mut self, conn: ConnId, request: &Request<'_>) -> String {
        text(&Message::Reply(self.call(conn, request)))
    }

    pub(crate) fn stat(&mut self, conn: ConnId, path: &str) -> Stat {
        match self.call(conn, &exists(path, false)).response() {
            Some(Response::Exists(found)) => found.stat,
            other => panic!("not a stat of {path}: {other:?}"),
        }
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        self.ensemble.handle_timeout(self.now);
        self.deliver();
    }

    /// Returns the messages that a client has received since the last call.
    pub(crate) fn messages(&mut self, conn: ConnId) -> Vec<Message> {
        core::mem::take(&mut self.client(conn).received)
    }

    /// Returns these messages as text, with `closed` at the end if the connection is closed.
    pub(crate) fn received(&mut self, conn: ConnId) -> Vec<String> {
        let mut received: Vec<_> = self.messages(conn).iter().map(text).collect();
        if core::mem::take(&mut self.client(conn).is_closed) {
            received.push("closed".into());
        }
        received
    }

    /// Delivers the output of the ensemble to the clients.
    pub(crate) fn deliver(&mut self) {
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send { conn, frame } => {
                    let client = self.client(conn);
                    client.raw.receive(&frame);
                    while let Some(message) = client.raw.poll() {
                        client.received.push(message);
                    }
                }
                Output::Close { conn } => self.client(conn).is_closed = true,
            }
        }
    }

    fn client(&mut self, conn: ConnId) -> &mut Client {
        self.clients.get_mut(&conn).expect("a connection of this world")
    }
}

/// Returns a message as text: the operation and its outcome.
pub(crate) fn text(message: &Message) -> String {
    match message {
        Message::Connected(_) => "connected".into(),
        Message::Expired => "expired".into(),
        Message::Event { kind, path, .. } => format!("{kind} {path}"),
        Message::Reply(reply) => format!("{} {}", reply.opcode, outcome(reply)),
        Message::Garbage(bytes) => format!("garbage {bytes:?}"),
    }
}

fn outcome(reply: &Reply) -> String {
    match (reply.header.err, reply.response()) {
        (ErrorCode::OK, Some(Response::Create(created))) => created.path.into(),
        (ErrorCode::OK, Some(Response::Create2(created))) => created.path.into(),
        (ErrorCode::OK, Some(Response::CreateContainer(created))) => created.path.into(),
        (ErrorCode::OK, Some(Response::CreateTtl(created))) => created.path.into(),
        (ErrorCode::OK, Some(Response::GetChildren(list))) => {
            list.children.iter().collect::<Vec<_>>().join(" ")
        }
        (ErrorCode::OK, Some(Response::Multi(results))) => {
            let results: Vec<_> = results
                .iter()
                .map(|result| match result {
                    MultiResult::Create(created) => created.path.into(),
                    MultiResult::Create2(created) => format!("{} with its stat", created.path),
                    MultiResult::Error(error) => error.err.to_string(),
                    _ => "done".into(),
                })
                .collect();
            results.join(", ")
        }
        (ErrorCode::OK, None) => "undecodable".into(),
        (err, _) => err.to_string(),
    }
}

const OPEN: &[Acl<'_>] = &[Acl::OPEN];

pub(crate) fn node(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path, data: Some(b"x"), acl: List::new(OPEN), mode }
}

pub(crate) fn create(path: &str) -> Request<'_> {
    Request::Create(node(path, CreateMode::PERSISTENT))
}

pub(crate) fn create_as(path: &str, mode: CreateMode) -> Request<'_> {
    Request::Create(node(path, mode))
}

pub(crate) fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

pub(crate) fn set_data(path: &str, version: i32) -> Request<'_> {
    Request::SetData(SetDataRequest { path, data: Some(b"y"), version })
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

pub(crate) fn add_watch(path: &str, mode: AddWatchMode) -> Request<'_> {
    Request::AddWatch(AddWatchRequest { path, mode })
}

pub(crate) fn authenticate(credentials: &str) -> Request<'_> {
    let auth = Some(credentials.as_bytes());
    Request::Auth(AuthPacket { auth_type: 0, scheme: "digest", auth })
}

pub(crate) fn check(path: &str, version: i32) -> MultiOp<'_> {
    MultiOp::Check(CheckVersionRequest { path, version })
}

pub(crate) fn multi<'a>(ops: &'a [MultiOp<'a>]) -> Request<'a> {
    Request::Multi(MultiRequest::new(ops))
}
