//! A complete event loop over the core, on a non-blocking socket: a template for other runtimes.
//!
//! It creates a node, reads it, deletes it, and closes the session.
//!
//! `poll_loop [host:port]`. Without an address it starts its own ensemble, which needs tokio. The
//! loop does not.

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::io::{ErrorKind, Read, Result as IoResult, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::{Duration, Instant as Clock};

use bytes::BytesMut;
use zk_session::proto::frame::{Piece, Splitter};
use zk_session::proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, GetDataRequest, Request, Response,
};
use zk_session::session::{Action, Config, Event, Reply, Session, State};
use zk_session::time::Instant;
use zk_test_server::serve::Embedded;

const NODE: &str = "/example-poll-loop";
const TIMEOUT: Duration = Duration::from_secs(5);
const MAX_REPLY: usize = 1 << 20;

fn main() -> ExitCode {
    match run(std::env::args().nth(1)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

pub(crate) fn run(address: Option<String>) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let embedded = match address {
        Some(_) => None,
        None => Some(runtime.block_on(Embedded::start(1))?),
    };
    let servers: Vec<SocketAddr> = match (&embedded, &address) {
        (Some(embedded), _) => vec![embedded.address(0)],
        (None, address) => {
            address.iter().flat_map(ToSocketAddrs::to_socket_addrs).flatten().collect()
        }
    };
    if servers.is_empty() {
        return Err("the address is not host:port, or the name is unknown".into());
    }

    let mut client = Poller::new(servers);
    // All three requests are sent before the first reply. The token of each is a text.
    let acl = &[Acl::OPEN];
    let mode = CreateMode::EPHEMERAL;
    for (token, request) in [
        (
            "created",
            Request::Create2(CreateRequest {
                path: NODE,
                data: Some(b"hello"),
                acl: acl.into(),
                mode,
            }),
        ),
        ("read", Request::GetData(GetDataRequest { path: NODE, watch: false })),
        ("deleted", Request::Delete(DeleteRequest { path: NODE, version: -1 })),
    ] {
        client.session.submit(&request, token)?;
    }
    // Close after the replies: a session that has not begun would end without sending the requests.
    let mut is_closed = false;
    while !client.has_ended {
        if client.start.elapsed() > TIMEOUT {
            return Err(format!("no reply within {TIMEOUT:?}; {}", client.failure).into());
        }
        client.step();
        if !is_closed && client.session.pending() == 0 {
            client.session.close();
            is_closed = true;
        }
        // A real loop waits for the socket and the session's timeout, with `epoll` or the event
        // flags of an RTOS. This one sleeps until the timeout, at most a millisecond.
        let due = client.session.poll_timeout().unwrap_or(Instant::END);
        std::thread::sleep((due - client.now()).min(Duration::from_millis(1)));
    }
    Ok(())
}

/// A session with its transport and its clock.
struct Poller {
    session: Session<&'static str>,
    servers: Vec<SocketAddr>,
    stream: Option<TcpStream>,
    inbox: BytesMut,
    frames: Splitter,
    start: Clock,
    has_ended: bool,
    /// The reason why the last connection was lost, or failed.
    failure: String,
}

impl Poller {
    fn new(servers: Vec<SocketAddr>) -> Self {
        // Clients with the same seed connect to the same servers at the same time.
        let seed = RandomState::new().hash_one(());
        let session = Session::new(Instant::START, Config::new(servers.len(), seed));
        let (stream, inbox, start) = (None, BytesMut::new(), Clock::now());
        let frames = Splitter::new(MAX_REPLY);
        let failure = String::new();
        Self { session, servers, stream, inbox, frames, start, has_ended: false, failure }
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    /// Does everything that is possible without waiting.
    fn step(&mut self) {
        self.session.handle_timeout(self.now());
        self.run_actions();
        self.exchange_bytes();
        self.run_actions();
        while let Some(event) = self.session.poll_event() {
            self.handle_event(event);
        }
    }

    fn run_actions(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Connect(server) => {
                    self.inbox.clear();
                    self.frames = Splitter::new(MAX_REPLY);
                    // The standard library cannot connect without blocking.
                    let due = self.session.connect_deadline().unwrap_or(Instant::END);
                    match connect(&self.servers[server], due - self.now()) {
                        Ok(stream) => {
                            self.stream = Some(stream);
                            self.session.handle_connected(self.now());
                        }
                        Err(error) => {
                            self.failure = format!("{}: {error}", self.servers[server]);
                            self.session.handle_disconnected(self.now());
                        }
                    }
                }
                Action::Disconnect => self.stream = None,
                Action::Probe(server) => {
                    // The session requests this only with `Config::read_only`.
                    println!("{} was not probed", self.servers[server]);
                }
            }
        }
    }

    fn exchange_bytes(&mut self) {
        if let Err(error) = self.write().and_then(|()| self.read()) {
            self.failure = format!("the connection was lost: {error}");
            self.stream = None;
            self.session.handle_disconnected(self.now());
        }
    }

    fn write(&mut self) -> IoResult<()> {
        while let Some(stream) = &mut self.stream {
            // The lease counts from before the bytes were sent.
            let before = Instant::after_start(self.start.elapsed());
            let output = self.session.output();
            if output.is_empty() {
                break;
            }
            match stream.write(output) {
                Ok(count) => self.session.handle_sent(before, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> IoResult<()> {
        let mut chunk = [0; 4096];
        while let Some(stream) = &mut self.stream {
            match stream.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    self.inbox.extend_from_slice(&chunk[..count]);
                    self.session.handle_received(self.now(), count);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            // Handle these before the next read: frames before the end of a connection still count.
            self.handle_frames();
            self.run_actions();
        }
        Ok(())
    }

    fn handle_frames(&mut self) {
        loop {
            match self.frames.split(&mut self.inbox) {
                Ok(Some(Piece::Frame(payload))) => self.session.handle_frame(self.now(), payload),
                // Its request fails: none of this program asked for pieces.
                Ok(Some(Piece::TooLong { start, length })) => {
                    self.session.handle_oversized(self.now(), &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => self.session.handle_rest(self.now(), bytes),
                Ok(None) => return,
                Err(error) => return self.session.handle_bad_frame(self.now(), error),
            }
        }
    }

    fn handle_event(&mut self, event: Event<&'static str>) {
        match event {
            Event::Reply { token, result: Ok(Reply { opcode, body, .. }) } => {
                match Response::decode(opcode, &body) {
                    Ok(Response::GetData(read)) => {
                        println!("{token}: {}", read.data.unwrap_or_default().escape_ascii());
                    }
                    Ok(_) => println!("{token}"),
                    Err(error) => println!("{token}, but the reply is malformed: {error}"),
                }
            }
            Event::Reply { token, result: Err(error) } => println!("not {token}: {error}"),
            Event::State(state) => {
                println!("{state:?}");
                self.has_ended = matches!(state, State::Ended(_));
            }
            // `failure` has the reason.
            Event::Disconnected { .. } => {}
            other => println!("{other:?}"),
        }
    }
}

fn connect(address: &SocketAddr, timeout: Duration) -> IoResult<TcpStream> {
    let stream = TcpStream::connect_timeout(address, timeout)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    Ok(stream)
}
