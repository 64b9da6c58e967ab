//! Plays one scene: the servers, and the judge of the client.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use zk_proto::explain::{self, MessageKind};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode as _, Encode, ErrorCode, EventType, KeeperState,
    OpCode, Reader, ReplyHeader, Request, RequestHeader, SessionId, WatcherEvent, Xid, Zxid, frame,
};

use super::body::{body, hex};
use super::scene::{Scene, Step};
use super::subject::Subject;
use super::{Judgement, Settings};
use crate::ports::Port;
use crate::server::{Config, ConnId, Ensemble, Output};

/// The session that scripted servers grant.
const SESSION: SessionId = SessionId(0x7007);
/// The byte that its password repeats.
const PASSWORD: u8 = 7;
/// The granted timeout, so long that only scenes about timeouts meet it.
const TIMEOUT: i32 = 40_000;

/// The length of `$long`: seven of these do not fit into one request.
const LONG: usize = 150_000;

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
enum Stop {
    Failed(String),
    Unsupported,
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

type Played<T = ()> = Result<T, Stop>;

fn fail<T>(text: impl Into<String>) -> Played<T> {
    Err(Stop::Failed(text.into()))
}

/// A connection from the client.
struct Connection {
    server: usize,
    stream: TcpStream,
    inbox: BytesMut,
    handshake: Option<Handshake>,
    is_answered: bool,
    is_closed: bool,
    /// Requests that no step has expected yet, without their length.
    requests: VecDeque<Bytes>,
    /// Expected requests without an answer.
    pending: VecDeque<(Xid, OpCode)>,
    pings: usize,
    last_xid: i32,
    /// The connection at the ensemble, if that serves.
    served: Option<ConnId>,
    is_muted: bool,
}

#[derive(Clone, Debug)]
struct Handshake {
    session: SessionId,
    zxid: i64,
    timeout: i32,
    password: Option<Vec<u8>>,
    read_only: Option<bool>,
}

/// The state of a scene.
pub(crate) struct Player<'s> {
    settings: &'s Settings,
    sender: Sender<Input>,
    inputs: Receiver<Input>,
    addresses: Vec<SocketAddr>,
    refused: Port,
    is_over: Arc<AtomicBool>,
    /// Servers that close each connection at once.
    down: Vec<Arc<AtomicBool>>,
    subjects: Vec<Subject>,
    connections: BTreeMap<usize, Connection>,
    /// Connections that no step has accepted yet.
    arrived: VecDeque<usize>,
    current: Option<usize>,
    zxid: i64,
    /// The session and the password that the last welcome granted.
    granted: (SessionId, u8),
    answers_pings: bool,
    is_finishing: bool,
    /// The answer to `isro`.
    is_writable: bool,
    never: Vec<String>,
    ensemble: Option<Ensemble>,
    started: Instant,
    /// The operation that the ensemble does not get yet, and the caught request.
    trap: Option<String>,
    caught: Option<(usize, Bytes)>,
    /// A breach of the protocol that every scene judges.
    breach: Option<String>,
    transcript: Vec<String>,
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
            self.to_ensemble(number, &frame);
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

    fn settle(&mut self, number: usize) {
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

    // ---- Steps ---------------------------------------------------------------------------------

    fn step(&mut self, step: &Step) -> Played {
        let words = &step.words[..];
        let rest = words.join(" ");
        match step.verb.as_str() {
            "do" => self.ask(step.client, &rest),
            "ok" => self.judge(step.client, &format!("ok {rest}")),
            "error" => self.judge(step.client, &format!("error {rest}")),
            "answer" => self.judge(step.client, &rest),
            "auth-failed" => match self.judge(step.client, "error -115") {
                // Some clients report it only as a state.
                Err(Stop::Failed(why)) if why.ends_with("`ok`") => {
                    self.state(step.client, "auth-failed")
                }
                judged => judged,
            },
            "state" => self.state(step.client, &rest),
            "event" => self.event(step.client, &rest),
            "never" => {
                self.never.push(rest);
                Ok(())
            }
            "session" => {
                self.ask(step.client, "connect $0")?;
                self.accept(&[])?;
                self.welcome(words)?;
                self.state(step.client, "connected")
            }
            "ensemble" => self.start_ensemble(words),
            "accept" => self.accept(words),
            "welcome" => self.welcome(words),
            "reject" => {
                let timeout = number(words, "timeout", 0)?;
                self.answer_handshake((SessionId::NONE, 0), timeout, Some(false))
            }
            "expect" => self.expect(words),
            "again" => {
                self.follow_to_next_connection()?;
                self.expect(words)
            }
            "eventually" => self.expect_eventually(words),
            "unordered" => self.expect_unordered(words),
            "reply" => self.reply(words, &mut |stream, bytes| stream.write_all(bytes)),
            "drip" => self.reply(words, &mut |stream, bytes| {
                bytes.chunks(1).try_for_each(|byte| stream.write_all(byte))
            }),
            "cut-reply" => {
                let length: usize = parse(words.first())?;
                self.reply(&words[1..], &mut |stream, bytes| {
                    let cut = bytes.len().min(length);
                    stream.write_all(&bytes[..cut])?;
                    stream.shutdown(Shutdown::Both)
                })
            }
            "refuse" => self.refuse(words),
            "forget" => {
                self.connection()?.pending.pop_front();
                Ok(())
            }
            "fire" => self.fire(words),
            "raw" => {
                let bytes = hex(&words.concat()).map_err(Stop::Failed)?;
                Ok(self.connection()?.stream.write_all(&bytes)?)
            }
            "cut" => self.cut(),
            "closed" => {
                let number = self.current()?;
                self.wait("the client closes the connection", |player| {
                    player.connections[&number].is_closed.then_some(Ok(()))
                })
            }
            "ping" => {
                let number = self.current()?;
                self.wait("a ping", |player| {
                    (player.connections[&number].pings > 0).then_some(Ok(()))
                })?;
                self.connection()?.pings = 0;
                Ok(())
            }
            "hush" => {
                self.answers_pings = false;
                Ok(())
            }
            "speak" => {
                self.answers_pings = true;
                Ok(())
            }
            "down" | "up" => {
                let server: usize = parse(words.first())?;
                self.down[server].store(step.verb == "down", Ordering::Relaxed);
                Ok(())
            }
            "granted" => {
                let [session, password] = words else { return fail("a session and a byte") };
                self.granted = (SessionId(integer(session)?), parse_byte(password)?);
                self.connection()?.is_answered = true;
                Ok(())
            }
            "isro" => {
                self.is_writable = rest == "rw";
                Ok(())
            }
            "zxid" => {
                self.zxid = integer(&rest)?;
                Ok(())
            }
            "catch" => {
                self.trap = Some(rest);
                Ok(())
            }
            "caught" => {
                self.wait("the request", |player| player.caught.as_ref().map(|_| Ok(())))?;
                self.current = self.caught.as_ref().map(|(number, _)| *number);
                Ok(())
            }
            "apply" | "pass" => {
                self.trap = None;
                let Some((number, frame)) = self.caught.take() else { return fail("no request") };
                if step.verb == "apply"
                    && let Some(connection) = self.connections.get_mut(&number)
                {
                    connection.is_muted = true;
                }
                self.to_ensemble(number, &frame);
                Ok(())
            }
            "drop" => {
                (self.trap, self.caught) = (None, None);
                Ok(())
            }
            "expire" => self.expire(),
            "children" => self.count_children(words),
            _ => fail("no such step"),
        }
    }

    fn ask(&mut self, client: usize, command: &str) -> Played {
        let command = command.replace("$long", &"x".repeat(LONG));
        let mut command = command.replace("$refused", &self.refused.address().to_string());
        for (server, address) in self.addresses.iter().enumerate() {
            let local = format!("localhost:{}", address.port());
            command = command.replace(&format!("$localhost{server}"), &local);
            command = command.replace(&format!("${server}"), &address.to_string());
        }
        self.note(format!("client {client} < {}", abridged(&command)));
        self.subjects[client].ask(&command).or_else(|error| fail(format!("it has ended: {error}")))
    }

    /// Compares the answer to the oldest command with a pattern.
    fn judge(&mut self, client: usize, pattern: &str) -> Played {
        let Some((number, command)) = self.subjects[client].asked.pop_front() else {
            return fail("no command waits for an answer");
        };
        let what = format!("the answer to `{command}`");
        let answer =
            self.wait(&what, |player| player.subjects[client].answers.remove(&number).map(Ok))?;
        match matches(pattern, &answer) {
            true => Ok(()),
            false => fail(format!("`{command}` is answered `{answer}`")),
        }
    }

    fn state(&mut self, client: usize, pattern: &str) -> Played {
        // `connect` has no other answer than the states.
        self.pass_over_connect(client)?;
        self.wait("the state", |player| {
            let subject = &mut player.subjects[client];
            let states = &subject.states[subject.states_judged..];
            let place = states.iter().position(|state| matches(pattern, state))?;
            subject.states_judged += place + 1;
            Some(Ok(()))
        })
        .map_err(|stop| match stop {
            Stop::Failed(why) => {
                Stop::Failed(format!("{why}; the states were {:?}", self.subjects[client].states))
            }
            unsupported => unsupported,
        })
    }

    fn pass_over_connect(&mut self, client: usize) -> Played {
        match self.subjects[client].asked.front() {
            Some((_, command)) if command.starts_with("connect") => self.judge(client, "ok"),
            _ => Ok(()),
        }
    }

    fn event(&mut self, client: usize, pattern: &str) -> Played {
        let event =
            self.wait("the event", |player| player.subjects[client].events.pop_front().map(Ok))?;
        match matches(pattern, &event) {
            true => Ok(()),
            false => fail(format!("the event is `{event}`")),
        }
    }

    fn accept(&mut self, words: &[String]) -> Played {
        let at = number(words, "at", -1)?;
        let number = self.wait("a connection with a handshake", |player| {
            let place = player.arrived.iter().position(|number| {
                let connection = &player.connections[number];
                connection.handshake.is_some()
                    && !connection.is_closed
                    && (at < 0 || usize::try_from(at) == Ok(connection.server))
            })?;
            player.arrived.remove(place).map(Ok)
        })?;
        self.current = Some(number);
        let Some(handshake) = self.connection()?.handshake.clone() else { return Ok(()) };
        self.note(format!("{handshake:x?}"));
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let is_as_expected = match key {
                "at" => true,
                "session" => handshake.session == SessionId(integer(value)?),
                "zxid" => handshake.zxid == integer(value)?,
                "timeout" => i64::from(handshake.timeout) == integer(value)?,
                "readonly" => handshake.read_only.unwrap_or(false) == (value == "true"),
                "password" if value == "none" => {
                    handshake.password.as_ref().is_none_or(|bytes| *bytes == [0; 16])
                }
                "password" => handshake.password == Some(vec![parse_byte(value)?; 16]),
                _ => return fail(format!("no such field: {key}")),
            };
            if !is_as_expected {
                let handshake = self.connection()?.handshake.clone();
                return fail(format!("the handshake is {handshake:x?}"));
            }
        }
        Ok(())
    }

    fn welcome(&mut self, words: &[String]) -> Played {
        let (mut session, mut password) = (SESSION, PASSWORD);
        let mut read_only = Some(false);
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "session" => session = SessionId(integer(value)?),
                "password" => password = parse_byte(value)?,
                "no-flag" => read_only = None,
                "read-only" => read_only = Some(true),
                "timeout" => {}
                _ => return fail(format!("no such field: {key}")),
            }
        }
        self.granted = (session, password);
        let timeout = number(words, "timeout", TIMEOUT)?;
        self.answer_handshake(self.granted, timeout, read_only)
    }

    fn answer_handshake(
        &mut self,
        granted: (SessionId, u8),
        timeout: i32,
        read_only: Option<bool>,
    ) -> Played {
        let connection = self.connection()?;
        // Servers read on when they have a session, so what belongs to the handshake may come early.
        let early = connection.requests.iter().find(|request| {
            RequestHeader::decode(&mut Reader::new(request)).is_ok_and(|header| {
                ![OpCode::AUTH, OpCode::SET_WATCHES, OpCode::SET_WATCHES2].contains(&header.opcode)
            })
        });
        if let Some(request) = early {
            let text = explained(request).unwrap_or_default();
            return fail(format!("a request before the answer to the handshake: {text}"));
        }
        connection.is_answered = true;
        Ok(send_welcome(&mut connection.stream, granted, timeout, read_only)?)
    }

    fn next_request(&mut self) -> Played<(RequestHeader, String)> {
        let number = self.current()?;
        let request = self.wait("a request", |player| {
            let connection = player.connections.get_mut(&number)?;
            match connection.requests.pop_front() {
                Some(request) => Some(Ok(request)),
                None if connection.is_closed => Some(fail("the client has closed the connection")),
                None => None,
            }
        })?;
        let header = RequestHeader::decode(&mut Reader::new(&request));
        let header = header.or_else(|error| fail(error.to_string()))?;
        Ok((header, explained(&request).map_err(Stop::Failed)?))
    }

    fn expect(&mut self, words: &[String]) -> Played {
        let (header, text) = self.next_request()?;
        self.connection()?.pending.push_back((header.xid, header.opcode));
        match has_fields(words, &text) {
            true => Ok(()),
            false => fail(format!("the request is {text}")),
        }
    }

    /// Confirms other requests until the expected one comes.
    fn expect_eventually(&mut self, words: &[String]) -> Played {
        loop {
            let (header, text) = self.next_request()?;
            self.connection()?.pending.push_back((header.xid, header.opcode));
            if has_fields(words, &text) {
                return Ok(());
            }
            self.reply(&[], &mut |stream, bytes| stream.write_all(bytes))?;
        }
    }

    /// Waits for a request, and welcomes the client if it connects again first.
    fn follow_to_next_connection(&mut self) -> Played {
        loop {
            let number = self.current()?;
            let is_next = self.wait("a request", |player| {
                let connection = &player.connections[&number];
                let has_request = !connection.requests.is_empty() && !connection.is_closed;
                (has_request || !player.arrived.is_empty()).then_some(Ok(!has_request))
            })?;
            if !is_next {
                return Ok(());
            }
            self.accept(&[])?;
            self.welcome(&[])?;
        }
    }

    /// Expects one request for each operation, in any order. Their replies follow the order of the
    /// words.
    fn expect_unordered(&mut self, words: &[String]) -> Played {
        let mut found = vec![None; words.len()];
        for _ in words {
            let (header, text) = self.next_request()?;
            let open = (0..words.len())
                .find(|&index| found[index].is_none() && has_fields(&words[index..=index], &text));
            match open {
                Some(index) => found[index] = Some((header.xid, header.opcode)),
                None => return fail(format!("the request is {text}")),
            }
        }
        self.connection()?.pending.extend(found.into_iter().flatten());
        Ok(())
    }

    fn reply(
        &mut self,
        words: &[String],
        write: &mut dyn FnMut(&mut TcpStream, &[u8]) -> io::Result<()>,
    ) -> Played {
        let default = self.zxid + 1;
        let (mut zxid, mut err, mut shift, mut place) = (default, 0, 0, 0);
        let mut fixed_xid = None;
        let mut rest = Vec::new();
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            match key {
                "zxid" => zxid = integer(value)?,
                "err" => err = i32::try_from(integer(value)?).unwrap_or(0),
                "shift" => shift = i32::try_from(integer(value)?).unwrap_or(0),
                "xid" => fixed_xid = Some(i32::try_from(integer(value)?).unwrap_or(0)),
                "nth" => place = usize::try_from(integer(value)?).unwrap_or(0),
                _ => rest.push(word.clone()),
            }
        }
        if zxid > 0 {
            self.zxid = self.zxid.max(zxid);
        }
        let connection = self.connection()?;
        let Some((xid, opcode)) = connection.pending.remove(place) else {
            return fail("no request waits for a reply");
        };
        let xid = Xid(fixed_xid.unwrap_or(xid.0 + shift));
        let body = body(opcode, &rest).map_err(Stop::Failed)?;
        let header = ReplyHeader { xid, zxid: Zxid(zxid), err: ErrorCode(err) };
        let mut bytes = Vec::new();
        header.encode(&mut bytes);
        bytes.extend(body);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut frame = length.to_be_bytes().to_vec();
        frame.extend(bytes);
        // The client may have closed the connection, which later steps judge.
        let _ = write(&mut self.connection()?.stream, &frame);
        Ok(())
    }

    fn refuse(&mut self, words: &[String]) -> Played {
        let Some((code, rest)) = words.split_first() else { return fail("no code") };
        let mut words = vec![format!("err={code}")];
        words.extend(rest.iter().cloned());
        self.reply(&words, &mut |stream, bytes| stream.write_all(bytes))
    }

    fn fire(&mut self, words: &[String]) -> Played {
        let event_type = match words.first().map(String::as_str) {
            Some("created") => EventType::NODE_CREATED,
            Some("deleted") => EventType::NODE_DELETED,
            Some("changed") => EventType::NODE_DATA_CHANGED,
            Some("children") => EventType::NODE_CHILDREN_CHANGED,
            Some(other) => EventType(i32::try_from(integer(other)?).unwrap_or(0)),
            None => return fail("no type"),
        };
        let path = words.get(1).map_or("", String::as_str);
        let zxid = Zxid(i64::from(number(words, "zxid", -1)?));
        let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid, err: ErrorCode::OK };
        let state = KeeperState(number(words, "state", KeeperState::SYNC_CONNECTED.0)?);
        let event = WatcherEvent { event_type, state, path };
        Ok(send(&mut self.connection()?.stream, &(header, event))?)
    }

    fn cut(&mut self) -> Played {
        let number = self.current()?;
        self.close(number);
        Ok(())
    }

    fn close(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(&number) {
            let _ = connection.stream.shutdown(Shutdown::Both);
            connection.is_closed = true;
            connection.requests.clear();
            if let (Some(ensemble), Some(served)) = (&mut self.ensemble, connection.served.take()) {
                ensemble.handle_disconnect(served);
            }
        }
    }

    // ---- The ensemble --------------------------------------------------------------------------

    fn start_ensemble(&mut self, words: &[String]) -> Played {
        let mut config = Config::servers(self.addresses.len());
        for word in words {
            match word.split_once('=') {
                Some(("closes-at", opcode)) => {
                    config.closes_at.push(OpCode(i32::try_from(integer(opcode)?).unwrap_or(0)));
                }
                _ => return fail(format!("no such setting: {word}")),
            }
        }
        self.ensemble = Some(Ensemble::new(config));
        Ok(())
    }

    fn now(&self) -> Duration {
        Duration::from_secs(1_600_000_000) + self.started.elapsed()
    }

    fn to_ensemble(&mut self, number: usize, bytes: &[u8]) {
        let now = self.now();
        let Some(connection) = self.connections.get(&number) else { return };
        if let (Some(ensemble), Some(served)) = (&mut self.ensemble, connection.served) {
            ensemble.handle_bytes(now, served, bytes);
        }
        self.pass_on();
    }

    fn pass_on(&mut self) {
        loop {
            let Some(output) = self.ensemble.as_mut().and_then(Ensemble::poll_output) else {
                break;
            };
            let (Output::Send { conn, .. } | Output::Close { conn }) = &output;
            let connection = self.connections.values_mut().find(|it| it.served == Some(*conn));
            let Some(connection) = connection.filter(|connection| !connection.is_muted) else {
                continue;
            };
            match output {
                Output::Send { frame, .. } => drop(connection.stream.write_all(&frame)),
                Output::Close { .. } => drop(connection.stream.shutdown(Shutdown::Both)),
            }
        }
    }

    fn expire(&mut self) -> Played {
        let now = self.now();
        let Some(ensemble) = &mut self.ensemble else { return fail("no ensemble") };
        let Some(session) = ensemble.sessions().next() else { return fail("no session") };
        ensemble.expire_session(now, session);
        self.pass_on();
        Ok(())
    }

    /// Judges how many children a node has, as soon as it has so many.
    fn count_children(&mut self, words: &[String]) -> Played {
        let [path, count] = words else { return fail("a path and a number") };
        let count: usize = parse(Some(count))?;
        self.wait("so many children", |player| {
            let node = player.ensemble.as_ref()?.node(path);
            let found = node.map_or(0, |node| node.children().len());
            (found == count).then_some(Ok(()))
        })
    }

    // ---- Inputs --------------------------------------------------------------------------------

    fn current(&self) -> Played<usize> {
        self.current.map_or_else(|| fail("no connection"), Ok)
    }

    fn connection(&mut self) -> Played<&mut Connection> {
        let number = self.current()?;
        self.connections.get_mut(&number).map_or_else(|| fail("no connection"), Ok)
    }

    fn note(&mut self, line: String) {
        self.transcript.push(format!("{:>8.3} {line}", self.started.elapsed().as_secs_f64()));
    }

    /// Handles inputs until `ready` returns something.
    fn wait<T>(
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

    fn handle(&mut self, input: Input) {
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
        if connection.handshake.is_none() && connection.inbox.starts_with(b"isro") {
            let answer: &[u8] = if self.is_writable { b"rw" } else { b"ro" };
            let _ = connection.stream.write_all(answer);
            let _ = connection.stream.shutdown(Shutdown::Both);
            connection.inbox.clear();
            return;
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
            self.to_ensemble(number, &framed(payload));
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

fn send_welcome(
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

fn send(stream: &mut TcpStream, message: &impl Encode) -> io::Result<()> {
    let mut bytes = Vec::new();
    frame::encode(message, &mut bytes).map_err(io::Error::other)?;
    // A client may have closed the connection already, which later steps judge.
    let _ = stream.write_all(&bytes);
    Ok(())
}

fn framed(payload: &[u8]) -> Bytes {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    [&length.to_be_bytes()[..], payload].concat().into()
}

/// Returns the opcode and the fields of a request, such as `GET_DATA path=/a watch=true`.
fn explained(payload: &[u8]) -> Result<String, String> {
    let header =
        RequestHeader::decode(&mut Reader::new(payload)).map_err(|error| error.to_string())?;
    let mut text = header.opcode.to_string();
    explain::frame(&framed(payload), MessageKind::Request, &mut |field| {
        let path = field.path.to_string();
        if let Some((_, name)) = path.split_once('.')
            && !["length", "opcode"].contains(&name)
        {
            text += &format!(" {name}={}", field.value.to_string().trim_matches('"'));
        }
    })
    .map_err(|error| format!("{text}: {error}"))?;
    Ok(text)
}

/// Returns the beginning of long text.
fn abridged(text: &str) -> &str {
    text.char_indices().nth(400).map_or(text, |(end, _)| &text[..end])
}

/// Returns whether an explained request has the opcode and the fields.
fn has_fields(words: &[String], text: &str) -> bool {
    let fields: Vec<_> = text.split(' ').collect();
    words.iter().enumerate().all(|(index, word)| match index {
        0 if !word.contains('=') => fields.first().is_some_and(|first| word_matches(word, first)),
        _ => fields.iter().any(|field| word_matches(word, field)),
    })
}

/// Compares text with a pattern, word by word. A last word `*` stands for any rest.
fn matches(pattern: &str, text: &str) -> bool {
    let (mut pattern, mut text) = (pattern.split_whitespace(), text.split_whitespace());
    loop {
        match (pattern.next(), text.next()) {
            (Some("*"), _) if pattern.clone().next().is_none() => return true,
            (Some(word), Some(other)) if word_matches(word, other) => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

/// Compares a word with alternatives, which may end with `*`.
fn word_matches(pattern: &str, word: &str) -> bool {
    pattern.split('|').any(|pattern| match pattern.strip_suffix('*') {
        Some(start) => word.starts_with(start),
        None => word == pattern,
    })
}

fn integer(text: &str) -> Played<i64> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.or_else(|error| fail(format!("{text}: {error}")))
}

fn parse(word: Option<&String>) -> Played<usize> {
    let number = integer(word.map_or("", String::as_str))?;
    usize::try_from(number).or_else(|error| fail(error.to_string()))
}

fn parse_byte(text: &str) -> Played<u8> {
    u8::try_from(integer(text)?).or_else(|error| fail(error.to_string()))
}

/// Returns the number behind `key=`.
fn number(words: &[String], key: &str, default: i32) -> Played<i32> {
    let found = words.iter().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    match found {
        Some(value) => i32::try_from(integer(value)?).or_else(|error| fail(error.to_string())),
        None => Ok(default),
    }
}
