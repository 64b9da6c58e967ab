//! Plays one scene: the servers, and the judge of the client.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode as _, Encode, ErrorCode, OpCode, Reader, ReplyHeader,
    Request, RequestHeader, SessionId, Xid, Zxid, frame,
};

use super::pattern::{abridged, explained, has_fields};
use super::scene::Scene;
use super::subject::Subject;
use super::{Judgement, Settings};
use crate::ports::Port;
use crate::server::{ConnId, Ensemble};

/// The session that scripted servers grant.
pub(super) const SESSION: SessionId = SessionId(0x7007);
/// The byte that its password repeats.
pub(super) const PASSWORD: u8 = 7;
/// The granted timeout, so long that only scenes about timeouts meet it.
pub(super) const TIMEOUT: i32 = 40_000;

/// The length of `$long`: seven of these do not fit into one request.
pub(super) const LONG: usize = 150_000;

/// What happens in a scene.
#[derive(Debug)]
pub(crate) enum Input {
    Accepted { server: usize, number: usize, stream: TcpStream },
    Bytes(usize, Vec<u8>),
    Closed(usize),
    Line(usize, String),
    Exited(usize),
}

/// Why a scene ends early.
pub(super) enum Stop {
    Failed(String),
    Unsupported,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

pub(super) type Played<T = ()> = Result<T, Stop>;

pub(super) fn fail<T>(text: impl Into<String>) -> Played<T> {
    Err(Stop::Failed(text.into()))
}

/// A connection from the client.
pub(super) struct Connection {
    pub(super) server: usize,
    pub(super) stream: TcpStream,
    pub(super) inbox: BytesMut,
    pub(super) handshake: Option<Handshake>,
    pub(super) is_answered: bool,
    pub(super) is_closed: bool,
    /// Requests that no step has expected yet, without their length.
    pub(super) requests: VecDeque<Bytes>,
    /// Expected requests without an answer.
    pub(super) pending: VecDeque<(Xid, OpCode)>,
    pub(super) pings: usize,
    pub(super) last_xid: i32,
    /// The connection at the ensemble, if that serves.
    pub(super) served: Option<ConnId>,
    pub(super) is_muted: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Handshake {
    pub(super) session: SessionId,
    pub(super) zxid: i64,
    pub(super) timeout: i32,
    pub(super) password: Option<Vec<u8>>,
    pub(super) read_only: Option<bool>,
}

/// The state of a scene.
pub(crate) struct Player<'s> {
    pub(super) settings: &'s Settings,
    pub(super) sender: Sender<Input>,
    pub(super) inputs: Receiver<Input>,
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) refused: Port,
    pub(super) is_over: Arc<AtomicBool>,
    /// Servers that close each connection at once.
    pub(super) down: Vec<Arc<AtomicBool>>,
    pub(super) subjects: Vec<Subject>,
    pub(super) connections: BTreeMap<usize, Connection>,
    /// Connections that no step has accepted yet.
    pub(super) arrived: VecDeque<usize>,
    pub(super) current: Option<usize>,
    pub(super) zxid: i64,
    /// The session and the password that the last welcome granted.
    pub(super) granted: (SessionId, u8),
    pub(super) answers_pings: bool,
    pub(super) is_finishing: bool,
    /// The answer to `isro`.
    pub(super) is_writable: bool,
    /// Whether `srvr` is answered as by a ClickHouse Keeper.
    pub(super) is_keeper: bool,
    pub(super) never: Vec<String>,
    pub(super) ensemble: Option<Ensemble>,
    pub(super) started: Instant,
    /// The operation that the ensemble does not get yet, and the caught request.
    pub(super) trap: Option<String>,
    pub(super) caught: Option<(usize, Bytes)>,
    /// A breach of the protocol that every scene judges.
    pub(super) breach: Option<String>,
    pub(super) transcript: Vec<String>,
}

/// Plays a scene against a client.
pub(crate) fn play(scene: &Scene, settings: &Settings) -> (Judgement, Vec<String>, Option<String>) {
    let mut player = match Player::new(scene, settings) {
        Ok(player) => player,
        Err(error) => return (Judgement::Failed(error.to_string()), Vec::new(), None),
    };
    let judgement = match player.play(scene) {
        Ok(()) => Judgement::Passed,
        Err(Stop::Unsupported) => Judgement::Unsupported,
        Err(Stop::Failed(why)) => Judgement::Failed(why),
    };
    player.is_over.store(true, Ordering::Relaxed);
    for address in &player.addresses {
        // Wakes the thread that listens.
        let _ = TcpStream::connect(address);
    }
    let name = player.subjects.first().and_then(|subject| subject.name.clone());
    (judgement, player.transcript, name)
}

impl<'s> Player<'s> {
    fn new(scene: &Scene, settings: &'s Settings) -> io::Result<Self> {
        let (sender, inputs) = mpsc::channel();
        let is_over = Arc::<AtomicBool>::default();
        let connections = Arc::<AtomicUsize>::default();
        let (mut addresses, mut down) = (Vec::new(), Vec::new());
        for server in 0..scene.servers() {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            addresses.push(listener.local_addr()?);
            let is_down = Arc::<AtomicBool>::default();
            down.push(is_down.clone());
            let (sender, is_over) = (sender.clone(), is_over.clone());
            let connections = connections.clone();
            thread::spawn(move || {
                for stream in listener.incoming() {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    if is_down.load(Ordering::Relaxed) {
                        continue;
                    }
                    let Ok(stream) = stream else { continue };
                    let number = connections.fetch_add(1, Ordering::Relaxed);
                    serve(server, number, stream, sender.clone());
                }
            });
        }
        Ok(Self {
            settings,
            sender,
            inputs,
            addresses,
            refused: Port::reserve()?,
            is_over,
            down,
            subjects: Vec::new(),
            connections: BTreeMap::new(),
            arrived: VecDeque::new(),
            current: None,
            zxid: 0x10,
            granted: (SESSION, PASSWORD),
            answers_pings: true,
            is_finishing: false,
            is_writable: false,
            is_keeper: false,
            never: Vec::new(),
            ensemble: None,
            started: Instant::now(),
            trap: None,
            caught: None,
            breach: None,
            transcript: Vec::new(),
        })
    }

    fn play(&mut self, scene: &Scene) -> Played {
        let clients = 1 + scene.steps.iter().map(|step| step.client).max().unwrap_or(0);
        for number in 0..clients {
            let (command, shows) = (&self.settings.command, self.settings.is_verbose);
            let subject = Subject::start(command, number, self.sender.clone(), shows)?;
            self.subjects.push(subject);
        }
        for number in 0..clients {
            self.wait("its name", |player| player.subjects[number].name.clone().map(|_| Ok(())))?;
        }
        for step in &scene.steps {
            self.note(format!("-- {step}"));
            let place = || format!("line {} of {}.txt, `{step}`", step.line, scene.family);
            self.step(step).map_err(|stop| match stop {
                Stop::Failed(why) => Stop::Failed(format!("{}: {why}", place())),
                Stop::Unsupported => Stop::Unsupported,
            })?;
        }
        self.finish().map_err(|stop| match stop {
            Stop::Failed(why) => Stop::Failed(format!("at the end: {why}")),
            Stop::Unsupported => Stop::Unsupported,
        })
    }

    /// Closes each client while its servers behave, and judges what is left.
    fn finish(&mut self) -> Played {
        self.note("-- the end".into());
        (self.answers_pings, self.is_finishing) = (true, true);
        (self.trap, self.is_writable) = (None, true);
        for down in &self.down {
            down.store(false, Ordering::Relaxed);
        }
        if let Some((number, frame)) = self.caught.take() {
            self.forward(number, &frame);
        }
        self.settle_open_connections()?;
        for client in 0..self.subjects.len() {
            // Answers that the scene left open may be anything, but they must come.
            let is_closed =
                self.subjects[client].states.last().is_some_and(|last| last == "closed");
            let last = self.subjects[client].asked.back().is_some_and(|(_, last)| last == "close");
            if !is_closed && !last {
                self.ask(client, "close")?;
            }
            while let Some((number, command)) = self.subjects[client].asked.pop_front() {
                let what = format!("the answer to `{command}`");
                let answer = self.wait(&what, |player| {
                    player.subjects[client].answers.remove(&number).map(Ok)
                })?;
                if command == "close" && answer.starts_with("error") {
                    return fail(format!("`close` fails: {answer}"));
                }
            }
        }
        for client in 0..self.subjects.len() {
            if let Some(event) = self.subjects[client].events.pop_front() {
                return fail(format!("an event that nobody sent: {event}"));
            }
            if let Some(line) = &self.subjects[client].oddity {
                return fail(format!("a line that the protocol does not have: {line}"));
            }
            for state in &self.never {
                if self.subjects[client].states.contains(state) {
                    return fail(format!("the client reported the state `{state}`"));
                }
            }
            self.subjects[client].end(self.settings.limit).map_err(Stop::Failed)?;
        }
        match self.breach.take() {
            Some(breach) => fail(breach),
            None => Ok(()),
        }
    }

    /// Answers what waits when the scene is over.
    fn settle_open_connections(&mut self) -> Played {
        if self.ensemble.is_some() {
            return Ok(());
        }
        self.arrived.clear();
        let open: Vec<_> = self.connections.keys().copied().collect();
        for number in open {
            self.settle(number);
        }
        Ok(())
    }

    pub(super) fn settle(&mut self, number: usize) {
        let (zxid, granted) = (Zxid(self.zxid), self.granted);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.handshake.is_some() && !connection.is_answered {
            connection.is_answered = true;
            let _ = send_welcome(&mut connection.stream, granted, TIMEOUT, Some(false));
        }
        for (xid, _) in std::mem::take(&mut connection.pending) {
            let header = ReplyHeader { xid, zxid, err: ErrorCode::NO_NODE };
            let _ = send(&mut connection.stream, &header);
        }
        for request in std::mem::take(&mut connection.requests) {
            let Ok(header) = RequestHeader::decode(&mut Reader::new(&request)) else { continue };
            let is_close = header.opcode == OpCode::CLOSE_SESSION;
            let fine = is_close
                || [OpCode::SET_WATCHES, OpCode::SET_WATCHES2, OpCode::AUTH]
                    .contains(&header.opcode);
            let err = if fine { ErrorCode::OK } else { ErrorCode::NO_NODE };
            let _ = send(&mut connection.stream, &ReplyHeader { xid: header.xid, zxid, err });
            if is_close {
                let _ = connection.stream.shutdown(Shutdown::Both);
            }
        }
    }

    // ---- Inputs --------------------------------------------------------------------------------

    pub(super) fn current(&self) -> Played<usize> {
        self.current.map_or_else(|| fail("no connection"), Ok)
    }

    pub(super) fn connection(&mut self) -> Played<&mut Connection> {
        let number = self.current()?;
        self.connections.get_mut(&number).map_or_else(|| fail("no connection"), Ok)
    }

    pub(super) fn note(&mut self, line: String) {
        self.transcript.push(format!("{:>8.3} {line}", self.started.elapsed().as_secs_f64()));
    }

    /// Handles inputs until `ready` returns something.
    pub(super) fn wait<T>(
        &mut self,
        what: &str,
        mut ready: impl FnMut(&mut Self) -> Option<Played<T>>,
    ) -> Played<T> {
        let deadline = Instant::now() + self.settings.limit;
        loop {
            if self.subjects.iter().any(|subject| subject.lacks_a_command) {
                return Err(Stop::Unsupported);
            }
            if let Some(done) = ready(self) {
                return done;
            }
            if let Some(ended) = self.subjects.iter().position(|subject| subject.has_exited) {
                return fail(format!("client {ended} has ended while the scene waits for {what}"));
            }
            let mut left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let limit = self.settings.limit.as_secs();
                return fail(format!("nothing after {limit} s: {what}"));
            }
            if let Some(next) = self.ensemble.as_ref().and_then(Ensemble::poll_timeout) {
                left = left.min(next.saturating_sub(self.now()));
            }
            match self.inputs.recv_timeout(left) {
                Ok(input) => self.handle(input),
                Err(RecvTimeoutError::Timeout) => {
                    let now = self.now();
                    if let Some(ensemble) = &mut self.ensemble {
                        ensemble.handle_timeout(now);
                        self.pass_on();
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return fail("the scene has ended"),
            }
        }
    }

    pub(super) fn handle(&mut self, input: Input) {
        match input {
            Input::Line(client, line) => {
                self.note(format!("client {client} > {line}"));
                self.subjects[client].handle_line(line);
            }
            Input::Exited(client) => self.subjects[client].has_exited = true,
            Input::Accepted { server, number, stream } => {
                self.note(format!("connection {number} to server {server}"));
                let served =
                    self.ensemble.as_mut().and_then(|ensemble| ensemble.handle_connect(server));
                let connection = Connection {
                    server,
                    stream,
                    inbox: BytesMut::new(),
                    handshake: None,
                    is_answered: false,
                    is_closed: false,
                    requests: VecDeque::new(),
                    pending: VecDeque::new(),
                    pings: 0,
                    last_xid: 0,
                    served,
                    is_muted: false,
                };
                self.connections.insert(number, connection);
                if self.ensemble.is_none() {
                    self.arrived.push_back(number);
                }
            }
            Input::Closed(number) => {
                self.note(format!("connection {number} closed"));
                self.close(number);
            }
            Input::Bytes(number, bytes) => self.handle_bytes(number, &bytes),
        }
    }

    fn handle_bytes(&mut self, number: usize, bytes: &[u8]) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.is_closed {
            return;
        }
        connection.inbox.extend_from_slice(bytes);
        if connection.handshake.is_none() && connection.inbox.len() >= 4 {
            let answer: &[u8] = match &connection.inbox[..4] {
                b"isro" if self.is_writable => b"rw",
                b"isro" => b"ro",
                // Some clients ask for the version first.
                b"srvr" if self.is_keeper => {
                    b"ClickHouse Keeper version: zk-testkit\nMode: leader\n"
                }
                b"srvr" => {
                    b"Zookeeper version: 3.8.0-zk-testkit, built on 1970-01-01\nMode: leader\n"
                }
                _ => b"",
            };
            if !answer.is_empty() {
                let _ = connection.stream.write_all(answer);
                let _ = connection.stream.shutdown(Shutdown::Both);
                connection.inbox.clear();
                return;
            }
        }
        loop {
            let Some(connection) = self.connections.get_mut(&number) else { return };
            let Ok(payload) = frame::split_bytes(&mut connection.inbox, frame::DEFAULT_LIMIT)
            else {
                self.breach = Some("the client sends a frame that is too long".into());
                return;
            };
            let Some(payload) = payload else { return };
            self.handle_frame(number, payload);
        }
    }

    fn handle_frame(&mut self, number: usize, payload: Bytes) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        if connection.handshake.is_none() {
            match ConnectRequest::decode_all(&payload) {
                Ok(request) => {
                    connection.handshake = Some(Handshake {
                        session: request.session_id,
                        zxid: request.last_zxid_seen.0,
                        timeout: request.timeout,
                        password: request.password.map(Into::into),
                        read_only: request.read_only,
                    });
                }
                Err(error) => self.breach = Some(format!("the handshake: {error}")),
            }
            self.serve(number, &payload);
            return;
        }
        match self.check_request(number, &payload) {
            Err(breach) => self.breach = Some(breach),
            Ok(header) if header.opcode == OpCode::PING && self.ensemble.is_none() => {
                self.answer_ping(number);
                return;
            }
            Ok(_) => {}
        }
        let text = explained(&payload).unwrap_or_else(|error| error);
        self.note(format!("connection {number} > {}", abridged(&text)));
        if self.ensemble.is_some() {
            match &self.trap {
                Some(trap) if has_fields(std::slice::from_ref(trap), &text) => {
                    self.trap = None;
                    self.caught = Some((number, framed(&payload)));
                }
                _ => self.serve(number, &payload),
            }
        } else if let Some(connection) = self.connections.get_mut(&number) {
            connection.requests.push_back(payload);
            if self.is_finishing {
                self.settle(number);
            }
        }
    }

    /// Passes a frame to the ensemble, or answers a handshake at the end of a scene.
    fn serve(&mut self, number: usize, payload: &[u8]) {
        if self.ensemble.is_some() {
            self.forward(number, &framed(payload));
        } else if self.is_finishing {
            self.settle(number);
        }
    }

    fn answer_ping(&mut self, number: usize) {
        let zxid = Zxid(self.zxid);
        let Some(connection) = self.connections.get_mut(&number) else { return };
        connection.pings += 1;
        if self.answers_pings && connection.is_answered {
            let header = ReplyHeader { xid: Xid::PING, zxid, err: ErrorCode::OK };
            let _ = send(&mut connection.stream, &header);
        }
    }

    /// Checks what holds for every request.
    fn check_request(&mut self, number: usize, payload: &[u8]) -> Result<RequestHeader, String> {
        let mut reader = Reader::new(payload);
        let header = RequestHeader::decode(&mut reader).map_err(|error| error.to_string())?;
        Request::decode(header.opcode, reader.rest())
            .map_err(|error| format!("a request that no server can read: {error}"))?;
        let Some(connection) = self.connections.get_mut(&number) else { return Ok(header) };
        let is_special = match header.opcode {
            OpCode::PING => header.xid == Xid::PING,
            OpCode::AUTH => header.xid == Xid::AUTH,
            OpCode::SET_WATCHES | OpCode::SET_WATCHES2 => header.xid == Xid::SET_WATCHES,
            _ => false,
        };
        if is_special {
            return Ok(header);
        }
        if header.xid.0 < 0 || header.opcode == OpCode::PING {
            return Err(format!("{} has the reserved xid {}", header.opcode, header.xid));
        }
        if connection.last_xid != 0 && header.xid.0 == connection.last_xid {
            return Err(format!("the xid {} is used again", header.xid));
        }
        connection.last_xid = header.xid.0;
        Ok(header)
    }
}

/// Reads a connection in a thread of its own.
fn serve(server: usize, number: usize, stream: TcpStream, sender: Sender<Input>) {
    let _ = stream.set_nodelay(true);
    let Ok(mut reading) = stream.try_clone() else { return };
    if sender.send(Input::Accepted { server, number, stream }).is_err() {
        return;
    }
    thread::spawn(move || {
        let mut chunk = vec![0; 64 << 10];
        while let Ok(count @ 1..) = reading.read(&mut chunk) {
            if sender.send(Input::Bytes(number, chunk[..count].to_vec())).is_err() {
                return;
            }
        }
        let _ = sender.send(Input::Closed(number));
    });
}

pub(super) fn send_welcome(
    stream: &mut TcpStream,
    (session_id, password): (SessionId, u8),
    timeout: i32,
    read_only: Option<bool>,
) -> io::Result<()> {
    let password = Some(&[password; 16][..]);
    let protocol_version = 0;
    let answer = ConnectResponse { protocol_version, timeout, session_id, password, read_only };
    send(stream, &answer)
}

pub(super) fn send(stream: &mut TcpStream, message: &impl Encode) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame::encode(message, &mut bytes).map_err(io::Error::other)?;
    // A client may have closed the connection already, which later steps judge.
    let _ = stream.write_all(&bytes);
    Ok(())
}

pub(super) fn framed(payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], payload].concat().into()
}
