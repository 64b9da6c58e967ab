//! A complete event loop over the core, on a socket that never blocks: the template for other
//! runtimes. It creates a node, reads it, deletes it, and closes the session.
//!
//! `poll_loop [host:port]`; without an address it brings its own ensemble (which does need tokio;
//! the loop does not).

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
use zk_testkit::serve::Embedded;

const NODE: &str = "/example-poll-loop";
const PATIENCE: Duration = Duration::from_secs(5);
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
    let members: Vec<SocketAddr> = match (&embedded, &address) {
        (Some(embedded), _) => vec![embedded.address(0)],
        (None, address) => {
            address.iter().flat_map(ToSocketAddrs::to_socket_addrs).flatten().collect()
        }
    };
    if members.is_empty() {
        return Err("the address is not host:port, or the name is not known".into());
    }

    let mut client = Poller::new(members);
    // All three are sent before the first is answered. What comes back with an answer is the text.
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
    // Behind the requests, and not before there is a session to be closed.
    let mut is_closed = false;
    while !client.is_over {
        if client.start.elapsed() > PATIENCE {
            return Err(format!("no answer within {PATIENCE:?}; {}", client.failure).into());
        }
        client.turn();
        if !is_closed && client.session.pending() == 0 {
            client.session.close();
            is_closed = true;
        }
        // Instead of sleeping, wait for the socket and the session's timeout: `epoll`, an RTOS's
        // event flags, whatever there is. Here: the shorter of the timeout and a millisecond.
        let due = client.session.poll_timeout().unwrap_or(Instant::END);
        std::thread::sleep((due - client.now()).min(Duration::from_millis(1)));
    }
    Ok(())
}

/// A session with its transport and its clock.
struct Poller {
    session: Session<&'static str>,
    members: Vec<SocketAddr>,
    link: Option<TcpStream>,
    inbox: BytesMut,
    frames: Splitter,
    start: Clock,
    is_over: bool,
    /// Why a connection was lost or not made, the last time.
    failure: String,
}

impl Poller {
    fn new(members: Vec<SocketAddr>) -> Self {
        // Clients of one seed would all do the same at the same time.
        let seed = RandomState::new().hash_one(());
        let session = Session::new(Instant::START, Config::new(members.len(), seed));
        let (link, inbox, start) = (None, BytesMut::new(), Clock::now());
        let frames = Splitter::new(MAX_REPLY);
        let failure = String::new();
        Self { session, members, link, inbox, frames, start, is_over: false, failure }
    }

    fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    /// Does all that can be done now, without waiting.
    fn turn(&mut self) {
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
                Action::Connect(member) => {
                    self.inbox.clear();
                    self.frames = Splitter::new(MAX_REPLY);
                    // Connecting without blocking is beyond the standard library.
                    let due = self.session.connect_deadline().unwrap_or(Instant::END);
                    match connect(&self.members[member], due - self.now()) {
                        Ok(link) => {
                            self.link = Some(link);
                            self.session.handle_connected(self.now());
                        }
                        Err(error) => {
                            self.failure = format!("{}: {error}", self.members[member]);
                            self.session.handle_disconnected(self.now());
                        }
                    }
                }
                Action::Disconnect => self.link = None,
                Action::Probe(member) => {
                    // Only asked for with `Config::read_only`.
                    println!("whether {} can write was not asked", self.members[member]);
                }
            }
        }
    }

    fn exchange_bytes(&mut self) {
        if let Err(error) = self.write().and_then(|()| self.read()) {
            self.failure = format!("the connection was lost: {error}");
            self.link = None;
            self.session.handle_disconnected(self.now());
        }
    }

    fn write(&mut self) -> IoResult<()> {
        while let Some(link) = &mut self.link {
            // A lease counts from before the bytes were sent.
            let before = Instant::after_start(self.start.elapsed());
            let output = self.session.output();
            if output.is_empty() {
                break;
            }
            match link.write(output) {
                Ok(count) => self.session.handle_sent(before, count),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&mut self) -> IoResult<()> {
        let mut chunk = [0; 4096];
        while let Some(link) = &mut self.link {
            match link.read(&mut chunk) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.inbox.extend_from_slice(&chunk[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
            // Before the next read: what came before the end of a connection still counts.
            self.handle_frames();
            self.run_actions();
        }
        Ok(())
    }

    fn handle_frames(&mut self) {
        loop {
            match self.frames.split(&mut self.inbox) {
                Ok(Some(Piece::Frame(payload))) => self.session.handle_frame(self.now(), payload),
                // It fails the request that it answers, and is skipped.
                Ok(Some(Piece::TooLong { start, length })) => {
                    self.session.handle_oversized(self.now(), &start, length);
                }
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
                    Err(error) => println!("{token}, but the answer cannot be read: {error}"),
                }
            }
            Event::Reply { token, result: Err(error) } => println!("not {token}: {error}"),
            Event::State(state) => {
                println!("{state:?}");
                self.is_over = matches!(state, State::Ended(_));
            }
            // What there is to tell of it was said by whoever noticed.
            Event::Disconnected { .. } => {}
            other => println!("{other:?}"),
        }
    }
}

fn connect(address: &SocketAddr, patience: Duration) -> IoResult<TcpStream> {
    let link = TcpStream::connect_timeout(address, patience)?;
    link.set_nodelay(true)?;
    link.set_nonblocking(true)?;
    Ok(link)
}
