//! A stage: scripted clients that exchange frames with the in-memory ensemble, while a diagram is
//! drawn.

use alloc::vec::Vec;
use core::time::Duration;

use zk_proto::conversation::{Conversation, Direction, Message};
use zk_proto::diagram::{Activity, Diagram, Lane, Style};
use zk_proto::explain::MessageKind;
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, Encode, Reader, ReplyHeader, Request, RequestHeader,
    SessionId, Xid, Zxid, frame,
};

use super::label;
use crate::server::{Config, ConnId, Ensemble, Output};

/// The time that a frame takes from one end to the other.
const TRIP: Duration = Duration::from_millis(1);

/// A frame, with its length prefix.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Whether a client sent it.
    pub to_server: bool,
    /// What it is.
    pub kind: MessageKind,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Returns the frame of a message, unless that is text.
    pub fn new(message: &Message<'_>) -> Option<Self> {
        let to_server = message.direction == Direction::ToServer;
        Some(Self { to_server, kind: message.explained_as()?, bytes: message.bytes.to_vec() })
    }
}

/// A client on the stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Client(usize);

#[derive(Debug)]
struct Actor {
    lane: Lane,
    conn: Option<ConnId>,
    server: usize,
    session: SessionId,
    password: Vec<u8>,
    last_zxid: Zxid,
    next_xid: i32,
    conversation: Conversation,
}

/// See the module.
#[derive(Debug)]
pub struct Stage {
    /// The ensemble. Nothing that it sends is delivered before the next call.
    pub ensemble: Ensemble,
    /// The picture so far.
    pub diagram: Diagram,
    /// All frames so far.
    pub frames: Vec<Frame>,
    now: Duration,
    actors: Vec<Actor>,
    servers: Vec<Lane>,
}

impl Stage {
    /// Creates a stage. Lanes appear in the order of the names; a name with `server` is a server.
    pub fn new(title: &str, lanes: &[&str]) -> (Self, Vec<Client>) {
        let mut diagram = Diagram::new(title);
        diagram.set_label_limit(100);
        let (mut servers, mut actors) = (Vec::new(), Vec::new());
        for name in lanes {
            let lane = diagram.lane(name);
            if name.contains("server") {
                servers.push(lane);
                continue;
            }
            actors.push(Actor {
                lane,
                conn: None,
                server: 0,
                session: SessionId::NONE,
                password: alloc::vec![0; 16],
                last_zxid: Zxid::ZERO,
                next_xid: 1,
                conversation: Conversation::new(frame::DEFAULT_LIMIT),
            });
        }
        let ensemble = Ensemble::new(Config::servers(servers.len().max(1)));
        let clients = (0..actors.len()).map(Client).collect();
        let stage =
            Self { ensemble, diagram, frames: Vec::new(), now: Duration::ZERO, actors, servers };
        (stage, clients)
    }

    /// Returns the time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Lets time pass.
    pub fn wait(&mut self, time: Duration) {
        self.now += time;
        while let Some(at) = self.ensemble.poll_timeout().filter(|at| *at <= self.now) {
            self.ensemble.handle_timeout(at);
        }
        self.deliver();
    }

    /// Writes a note beside a client.
    pub fn note(&mut self, client: Client, style: Style, text: &str) {
        self.diagram.note(Some(self.now), self.actors[client.0].lane, style, text);
    }

    /// Writes a note beside a server.
    pub fn server_note(&mut self, server: usize, style: Style, text: &str) {
        self.diagram.note(Some(self.now), self.servers[server], style, text);
    }

    /// Says what a client does from now on.
    pub fn activity(&mut self, client: Client, activity: Activity) {
        self.diagram.activity(self.actors[client.0].lane, activity);
    }

    /// Opens a connection with the client's session, or a new one.
    pub fn connect(&mut self, client: Client, server: usize) {
        let actor = &mut self.actors[client.0];
        actor.conn = self.ensemble.handle_connect(server);
        actor.server = server;
        actor.conversation = Conversation::new(frame::DEFAULT_LIMIT);
        let request = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: actor.last_zxid,
            timeout: 10_000,
            session_id: actor.session,
            password: Some(&actor.password),
            read_only: Some(false),
        };
        let bytes = framed(&request);
        self.transmit(client, bytes);
        self.now += TRIP;
        self.deliver();
    }

    /// Sends requests in one go, then receives everything that the ensemble sends.
    pub fn ask(&mut self, client: Client, requests: &[Request<'_>]) {
        for request in requests {
            let actor = &mut self.actors[client.0];
            let xid = match request {
                Request::Ping(()) => Xid::PING,
                Request::Auth(_) => Xid::AUTH,
                Request::SetWatches(_) | Request::SetWatches2(_) => Xid::SET_WATCHES,
                _ => {
                    actor.next_xid += 1;
                    Xid(actor.next_xid - 1)
                }
            };
            let header = RequestHeader { xid, opcode: request.opcode() };
            self.transmit(client, framed(&(header, *request)));
        }
        self.now += TRIP;
        self.deliver();
    }

    /// Breaks the connection of a client.
    pub fn cut(&mut self, client: Client) {
        self.note(client, Style::Error, "connection lost");
        if let Some(conn) = self.actors[client.0].conn.take() {
            self.ensemble.handle_disconnect(conn);
        }
    }

    /// Returns the newest zxid that a client has seen in a reply.
    pub fn last_zxid(&self, client: Client) -> Zxid {
        self.actors[client.0].last_zxid
    }

    /// Draws a frame, and keeps it.
    fn frame(&mut self, index: usize, direction: Direction, bytes: &[u8]) -> Option<Frame> {
        let actor = &mut self.actors[index];
        let (message, _) = actor.conversation.read(direction, bytes).ok()??;
        let frame = Frame::new(&message)?;
        let (style, text) = label::of(message.payload(), frame.kind);
        let (client, server) = (actor.lane, self.servers[actor.server]);
        let (from, to) = if frame.to_server { (client, server) } else { (server, client) };
        self.diagram.message(Some(self.now), from, to, style, &text);
        self.frames.push(frame.clone());
        Some(frame)
    }

    fn transmit(&mut self, client: Client, bytes: Vec<u8>) {
        self.frame(client.0, Direction::ToServer, &bytes);
        if let Some(conn) = self.actors[client.0].conn {
            self.ensemble.handle_bytes(self.now, conn, &bytes);
        }
    }

    /// Delivers everything that the ensemble has sent.
    fn deliver(&mut self) {
        let mut arrived = false;
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send { conn, frame } => {
                    let Some(index) = self.actor(conn) else { continue };
                    self.receive(index, &frame);
                    arrived = true;
                }
                Output::Close { conn } => {
                    let Some(index) = self.actor(conn) else { continue };
                    self.actors[index].conn = None;
                    let (server, lane) =
                        (self.servers[self.actors[index].server], self.actors[index].lane);
                    self.diagram.message(
                        Some(self.now),
                        server,
                        lane,
                        Style::Error,
                        "closes the connection",
                    );
                }
            }
        }
        if arrived {
            self.now += TRIP;
        }
    }

    fn actor(&self, conn: ConnId) -> Option<usize> {
        self.actors.iter().position(|actor| actor.conn == Some(conn))
    }

    fn receive(&mut self, index: usize, bytes: &[u8]) {
        let Some(frame) = self.frame(index, Direction::ToClient, bytes) else { return };
        let (actor, payload) = (&mut self.actors[index], &bytes[frame::PREFIX_LEN..]);
        if frame.kind == MessageKind::ConnectResponse {
            if let Ok(response) = ConnectResponse::decode_all(payload) {
                actor.session = response.session_id;
                actor.password = response.password.unwrap_or_default().to_vec();
            }
        } else if let Ok(header) = ReplyHeader::decode(&mut Reader::new(payload))
            && header.xid.0 > 0
        {
            actor.last_zxid = actor.last_zxid.max(header.zxid);
        }
    }
}

fn framed(message: &impl Encode) -> Vec<u8> {
    let mut bytes = alloc::vec![0; frame::PREFIX_LEN + message.encoded_len()];
    let _ = frame::encode_to_slice(message, &mut bytes);
    bytes
}
