//! A complete event loop that holds a distributed lock: one thread, one socket, no runtime.
//!
//! `no_runtime [host:port[,host:port...]]`, by default `127.0.0.1:2181`. It enters the queue of an
//! exclusive lock, holds the lock for a second, releases it, and closes the session. It needs no
//! feature of this crate. From the standard library it takes the socket, the clock, the seed, a
//! channel and the output, so it is a template for firmware and for other runtimes.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::{Duration, Instant as Clock};

use bytes::BytesMut;
use uuid::Uuid;
use zk_recipes::machine::{AttemptConfig, Command, Contender, Event, Observer, OnSession, Scheme};
use zk_recipes::session::dispatch::{Dispatcher, Key, Port, Token};
use zk_recipes::session::proto::frame::{Piece, Splitter};
use zk_recipes::session::proto::{GetChildrenRequest, GetChildrenResponse, Request};
use zk_recipes::session::session::{Action, Config, Event as SessionEvent, Reply, Session, State};
use zk_recipes::session::time::Instant;

const LOCK: &str = "/locks/no-runtime";
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(1);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a full socket is given to take more, since one thread cannot wait for two things.
const WRITE_RETRY: Duration = Duration::from_millis(10);

fn main() -> ExitCode {
    let servers = std::env::args().nth(1);
    match run(servers.as_deref().unwrap_or("127.0.0.1:2181")) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn run(servers: &str) -> Result<(), Box<dyn Error>> {
    let mut client = EventLoop::new(servers)?;
    let lock = client.enter_queue(LOCK);
    let held = hold(&mut client, &lock);
    client.release(&lock);
    client.close();
    held
}

/// Waits for the lock, and holds it for a while.
fn hold(client: &mut EventLoop, lock: &Lock) -> Result<(), Box<dyn Error>> {
    let until = client.now() + ACQUIRE_TIMEOUT;
    loop {
        match client.next_event(lock, until) {
            // Give the token to what the lock protects; it refuses smaller ones.
            Some(Event::Acquired { node, token }) => {
                println!("acquired: {node}, fencing token {}", token.0);
                break;
            }
            Some(Event::Failed(error)) => return Err(error.into()),
            Some(event) => println!("{event:?}"),
            None => return Err("the lock was not acquired in time".into()),
        }
    }
    client.ask_for_contenders();
    let until = client.now() + HOLD;
    while let Some(event) = client.next_event(lock, until) {
        println!("{event:?}");
        // `Suspended` is only a warning; the lock is still held until one of these two.
        match event {
            Event::Lost(loss) => return Err(loss.into()),
            Event::Failed(error) => return Err(error.into()),
            _ => {}
        }
    }
    Ok(())
}

/// A lock machine that is attached to the session.
pub(crate) struct Lock {
    key: Key,
    events: Receiver<Event>,
}

/// Passes the machine's events to its owner. It is dropped with the machine.
struct Report(Sender<Event>);

impl Observer for Report {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        // The owner may have gone. A channel runs no user code; anything that does is deferred.
        let _ = self.0.send(event);
    }
}

/// A session with its transport and its clock.
///
/// Between two calls of its methods, everything is delivered and everything that the socket takes
/// is written: each method that gives the dispatcher something ends with [`drain`](Self::drain).
pub(crate) struct EventLoop {
    pub(crate) dispatcher: Dispatcher<&'static str>,
    servers: Vec<SocketAddr>,
    stream: Option<TcpStream>,
    received: BytesMut,
    frames: Splitter,
    max_reply: usize,
    attempts: u64,
    start: Clock,
}

/// # Commands
impl EventLoop {
    /// Begins to connect.
    pub(crate) fn new(servers: &str) -> io::Result<Self> {
        // Each address is a server of its own. Names are resolved once, because that blocks.
        let mut addresses = Vec::new();
        for server in servers.split(',') {
            addresses.extend(server.to_socket_addrs()?);
        }
        // Clients with the same seed would try the same servers at the same time.
        let seed = RandomState::new().hash_one("seed of the session");
        let config = Config::new(addresses.len(), seed);
        let max_reply = config.max_reply;
        let mut client = Self {
            dispatcher: Dispatcher::new(Session::new(Instant::START, config)),
            servers: addresses,
            stream: None,
            received: BytesMut::new(),
            frames: Splitter::new(max_reply),
            max_reply,
            attempts: 0,
            start: Clock::now(),
        };
        // A new session has an action already: to connect to a server.
        client.drain();
        Ok(client)
    }

    /// Enters the queue of an exclusive lock.
    pub(crate) fn enter_queue(&mut self, path: &str) -> Lock {
        let (sender, events) = channel();
        // A count is enough: the machine mixes the id of the session into it.
        self.attempts += 1;
        let guid = Uuid::from_u128(self.attempts.into());
        let config = AttemptConfig::new(path.into(), Scheme::CURATOR_MUTEX, guid);
        let machine = OnSession::new(Contender::new(config), Report(sender), self.attempts);
        let key = self.dispatcher.attach(self.now(), Box::new(machine));
        self.drain();
        Lock { key, events }
    }

    /// Returns the next event of a lock; `None` if there is none by `until`, or never again.
    pub(crate) fn next_event(&mut self, lock: &Lock, until: Instant) -> Option<Event> {
        loop {
            match lock.events.try_recv() {
                Ok(event) => return Some(event),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) if self.now() >= until => return None,
                Err(TryRecvError::Empty) => self.turn(until),
            }
        }
    }

    /// Submits a request. Its answer comes as an event with the same token.
    fn ask_for_contenders(&mut self) {
        let request = Request::GetChildren(GetChildrenRequest { path: LOCK, watch: false });
        let token = Token::Caller("contenders");
        // The owner's requests are refused at once; those of machines, by a reply.
        if let Err(error) = self.dispatcher.session_mut().submit(&request, token) {
            println!("contenders: {error}");
        }
        self.drain();
    }

    /// Releases the lock, or gives up waiting for it.
    pub(crate) fn release(&mut self, lock: &Lock) {
        self.dispatcher.command(self.now(), lock.key, &mut Command::Release);
        self.drain();
        // The machine is detached and dropped once its node is gone. Without a connection, that
        // may take until the end of the session.
        let until = self.now() + RELEASE_TIMEOUT;
        while let Some(event) = self.next_event(lock, until) {
            println!("{event:?}");
        }
    }

    /// Closes the session, and waits until it has ended.
    pub(crate) fn close(&mut self) {
        self.dispatcher.close(self.now());
        self.drain();
        // Without a connection the session ends at once. A server that stays silent costs the
        // connection within the session timeout.
        while !matches!(self.dispatcher.session().state(), State::Ended(_)) {
            self.turn(Instant::END);
        }
    }
}

/// # The loop
impl EventLoop {
    /// The time, which must not stand still while the machine sleeps: use `CLOCK_BOOTTIME` where
    /// that can happen.
    pub(crate) fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    /// Waits for bytes, until the next deadline or `until`, and does what follows.
    pub(crate) fn turn(&mut self, until: Instant) {
        let is_unsettled = self.dispatcher.is_unsettled();
        let due = self.dispatcher.poll_timeout().unwrap_or(Instant::END).min(until);
        let mut wait = due - self.now();
        if is_unsettled {
            // Machines wait for what has arrived, not for what will.
            wait = Duration::ZERO;
        } else if !self.dispatcher.session().output().is_empty() {
            wait = wait.min(WRITE_RETRY);
        }
        let has_read = self.read(wait);
        let now = self.now();
        if is_unsettled && !has_read {
            self.dispatcher.settle(now);
        }
        self.dispatcher.handle_timeout(now);
        self.drain();
    }

    /// Delivers, connects and writes until only waiting is left.
    fn drain(&mut self) {
        loop {
            let now = self.now();
            while let Some(event) = self.dispatcher.poll_event(now) {
                print(event);
            }
            // A loop that shares its dispatcher unlocks it for this.
            self.dispatcher.take_effects().run();
            // One at a time: what becomes of it is delivered before the next.
            if let Some(action) = self.dispatcher.session_mut().poll_action() {
                self.perform(action);
            } else if !self.write() {
                return;
            }
        }
    }

    fn perform(&mut self, action: Action) {
        self.stream = None;
        match action {
            Action::Connect(server) => self.connect(server),
            Action::Disconnect => {}
            Action::Probe(_) => unreachable!("only requested with `Config::read_only`"),
        }
    }

    fn connect(&mut self, server: usize) {
        // The standard library blocks here. So stop at the next deadline of any kind, and not at
        // `connect_deadline` only: the end of the lease must be reported in time.
        let due = self.dispatcher.poll_timeout().unwrap_or(Instant::END);
        let wait = (due - self.now()).max(Duration::from_millis(1));
        match connect(self.servers[server], wait) {
            Ok(stream) => {
                self.stream = Some(stream);
                self.received.clear();
                self.frames = Splitter::new(self.max_reply);
                let now = self.now();
                self.dispatcher.session_mut().handle_connected(now);
            }
            Err(error) => self.disconnected(&error),
        }
    }

    /// The connection failed, or could not be made. The session tries the next server.
    fn disconnected(&mut self, error: &io::Error) {
        println!("connection failed: {error}");
        self.stream = None;
        let now = self.now();
        self.dispatcher.session_mut().handle_disconnected(now);
    }

    /// Writes once, as much as the socket takes. Returns whether anything came of it.
    fn write(&mut self) -> bool {
        // The lease counts from before the bytes are handed over.
        let before = self.now();
        let output = self.dispatcher.session().output();
        let Some(stream) = self.stream.as_mut().filter(|_| !output.is_empty()) else {
            return false;
        };
        match stream.write(output) {
            Ok(count) => self.dispatcher.session_mut().handle_sent(before, count),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => return false,
                ErrorKind::Interrupted => {}
                _ => self.disconnected(&error),
            },
        }
        true
    }

    /// Reads once. Returns whether more may have arrived.
    fn read(&mut self, wait: Duration) -> bool {
        let Some(stream) = &mut self.stream else {
            std::thread::sleep(wait);
            return false;
        };
        let mut chunk = [0; 4096];
        match read_within(stream, &mut chunk, wait) {
            Ok(0) => self.disconnected(&ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                self.received.extend_from_slice(&chunk[..count]);
                let now = self.now();
                self.dispatcher.session_mut().handle_received(now, count);
                self.handle_frames();
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => return false,
                ErrorKind::Interrupted => {}
                _ => self.disconnected(&error),
            },
        }
        true
    }

    fn handle_frames(&mut self) {
        let now = self.now();
        let session = self.dispatcher.session_mut();
        loop {
            match self.frames.split(&mut self.received) {
                Ok(Some(Piece::Frame(payload))) => session.handle_frame(now, payload),
                Ok(Some(Piece::TooLong { start, length })) => {
                    session.handle_oversized(now, &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => session.handle_rest(now, bytes),
                Ok(None) => return,
                Err(error) => return session.handle_bad_frame(now, error),
            }
        }
    }
}

/// Connects, for a socket that never blocks but in [`read_within`].
fn connect(address: SocketAddr, wait: Duration) -> io::Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, wait)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}

/// Reads once, for as long as `wait`.
fn read_within(stream: &mut TcpStream, chunk: &mut [u8], wait: Duration) -> io::Result<usize> {
    if wait.is_zero() {
        return stream.read(chunk);
    }
    stream.set_read_timeout(Some(wait))?;
    stream.set_nonblocking(false)?;
    let received = stream.read(chunk);
    stream.set_nonblocking(true)?;
    received
}

/// Prints an event of the session, or the answer to the one request of our own.
fn print(event: SessionEvent<&'static str>) {
    let SessionEvent::Reply { token, result } = event else {
        return println!("session: {event:?}");
    };
    let count = |reply: Reply| Ok(reply.decode::<GetChildrenResponse<'_>>()?.children.len());
    match result.and_then(count) {
        Ok(count) => println!("{token}: {count}"),
        Err(error) => println!("{token}: {error}"),
    }
}
