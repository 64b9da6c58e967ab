//! Runs a random script against a server and records what each client receives.

use zk_proto::{CreateMode, ErrorCode, OpCode, Request, SessionId, Zxid};
use zk_testkit::raw::{Credentials, Message, RawClient};
use zk_testkit::server::Version;

use crate::action::{Action, CLIENTS};
use crate::render::Render;
use crate::script::{Peer, create};

const TIMEOUT: i32 = 10_000;

/// The clients of one script, and the parent node that only this script uses.
struct Player<'a> {
    address: &'a str,
    version: Version,
    parent: &'a str,
    clients: Vec<Client>,
    render: Render,
    last_zxid: Zxid,
    transcript: Vec<String>,
}

struct Client {
    peer: Peer,
    session: Credentials,
}

/// Runs a script against the server of this version at `address`. Returns the transcript.
pub(crate) fn play(
    address: &str,
    version: Version,
    parent: &str,
    script: &[(usize, Action)],
) -> Vec<String> {
    let mut player = Player {
        address,
        version,
        parent,
        clients: Vec::new(),
        render: Render::default(),
        last_zxid: Zxid::ZERO,
        transcript: Vec::new(),
    };
    for _ in 0..CLIENTS {
        let client = player.begin();
        player.clients.push(client);
    }
    player.set_out();
    for (who, action) in script {
        let heading = player.render.begin(&format!("{who} {action:?}"));
        player.transcript.push(heading);
        player.act(*who, action);
    }
    for who in 0..CLIENTS {
        let heading = player.render.begin(&format!("{who} ends"));
        player.transcript.push(heading);
        player.close(who);
    }
    player.transcript
}

impl Player<'_> {
    fn connect(&self, handshake: &[u8]) -> (Peer, Credentials) {
        let mut peer = Peer::connect(self.address, handshake);
        match peer.next_message() {
            Some(Message::Connected(session)) => (peer, session),
            other => panic!("no session: {other:?}"),
        }
    }

    fn begin(&mut self) -> Client {
        let (peer, session) = self.connect(&RawClient::connect(TIMEOUT));
        self.render.sessions.push(session.id);
        Client { peer, session }
    }

    /// Creates the parent node with some children.
    fn set_out(&mut self) {
        for name in ["", "/a", "/b", "/a/x"] {
            let path = format!("{}{name}", self.parent);
            let peer = &mut self.clients[0].peer;
            peer.ask(&create(&path, CreateMode::PERSISTENT));
            match peer.next_message() {
                Some(Message::Reply(reply)) => {
                    self.last_zxid = reply.header.zxid;
                    self.render.message(Some(&Message::Reply(reply)));
                }
                other => panic!("no parent: {other:?}"),
            }
        }
    }

    fn act(&mut self, who: usize, action: &Action) {
        let request = action.request(self.parent, self.last_zxid);
        let peer = &mut self.clients[who].peer;
        match (action, request) {
            (Action::Close, _) => {
                self.close(who);
                self.clients[who] = self.begin();
            }
            (Action::Reconnect, _) => self.reconnect(who),
            (Action::Bare(opcode), _) => {
                peer.ask_raw(*opcode, &());
                self.record(who);
            }
            // A check that succeeds has no reply, and since 3.9 any check costs the connection.
            (Action::Check(..), Some(request)) => {
                peer.ask_raw(OpCode::CHECK, &request);
                self.barrier(who);
            }
            (_, Some(request)) => {
                peer.ask_raw(request.opcode(), &request);
                self.record(who);
            }
            (_, None) => {}
        }
    }

    /// Records all messages up to a reply. If the server then closes the connection, the session
    /// continues on a new one.
    fn record(&mut self, who: usize) {
        let mut is_refused = false;
        loop {
            let message = self.clients[who].peer.next_message();
            self.note(who, message.as_ref());
            match message {
                Some(Message::Event { .. }) => {}
                Some(Message::Reply(reply)) => {
                    let header = reply.header;
                    if header.zxid > Zxid::ZERO {
                        self.last_zxid = header.zxid;
                    }
                    is_refused = self.closes(reply.opcode, header.err);
                    if !is_refused {
                        return;
                    }
                }
                Some(_) => return,
                None => return self.resume(who),
            }
            if is_refused {
                let message = self.clients[who].peer.next_message();
                self.note(who, message.as_ref());
                return self.resume(who);
            }
        }
    }

    /// Records all messages sent up to now.
    fn barrier(&mut self, who: usize) {
        for message in self.clients[who].peer.messages_until_pong() {
            self.note(who, message.as_ref());
            if message.is_none() {
                self.resume(who);
            }
        }
    }

    fn resume(&mut self, who: usize) {
        let handshake = RawClient::resume(Zxid::ZERO, &self.clients[who].session);
        let (peer, session) = self.connect(&handshake);
        self.clients[who] = Client { peer, session };
        self.transcript.push(format!("{who}: resumed"));
    }

    /// Moves the session to a new connection. The server then closes the old one.
    fn reconnect(&mut self, who: usize) {
        let handshake = RawClient::resume(Zxid::ZERO, &self.clients[who].session);
        let (peer, session) = self.connect(&handshake);
        let mut old = core::mem::replace(&mut self.clients[who], Client { peer, session });
        loop {
            let message = old.peer.next_message();
            self.note(who, message.as_ref());
            if message.is_none() {
                break;
            }
        }
    }

    /// Closes a session. The order in which its ephemerals vanish is unspecified, so the events
    /// are sorted.
    fn close(&mut self, who: usize) {
        let start = self.transcript.len();
        self.clients[who].peer.ask(&Request::CloseSession(()));
        loop {
            let message = self.clients[who].peer.next_message();
            self.note(who, message.as_ref());
            match message {
                Some(Message::Event { .. }) => {}
                Some(Message::Reply(_)) => self.transcript[start..].sort_unstable(),
                _ => break,
            }
        }
        for other in (0..CLIENTS).filter(|other| *other != who) {
            let start = self.transcript.len();
            if self.clients[other].session.id != SessionId::NONE {
                self.barrier(other);
                self.transcript[start..].sort_unstable();
            }
        }
        self.clients[who].session.id = SessionId::NONE;
    }

    fn note(&mut self, who: usize, message: Option<&Message>) {
        let line = self.render.message(message);
        self.transcript.push(format!("{who}: {line}"));
    }

    /// Returns whether the server closes the connection after such a reply.
    fn closes(&self, opcode: OpCode, err: ErrorCode) -> bool {
        let is_unknown = err == ErrorCode::UNIMPLEMENTED && !self.version.serves(opcode);
        is_unknown || err == ErrorCode::AUTH_FAILED
    }
}
