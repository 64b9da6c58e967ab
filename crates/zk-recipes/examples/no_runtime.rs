//! A complete event loop that holds a distributed lock: one thread, one socket, no runtime.
//!
//! `no_runtime [host:port[,host:port...]]`, by default `127.0.0.1:2181`. It enters the queue of an
//! exclusive lock, holds the lock for a second, releases it, and closes the session. It needs no
//! feature of this crate. From the standard library it takes the socket, the clock, the seed, a
//! channel and the output, so it is a template for firmware and for other runtimes.

#[path = "links/tcp.rs"]
mod tcp;

use std::error::Error;
use std::hash::{BuildHasher, RandomState};
use std::net::ToSocketAddrs;
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::sleep;
use std::time::{Duration, Instant as Clock};

use tcp::TcpLink;
use uuid::Uuid;
use zk_recipes::machine::{AttemptConfig, Command, Contender, Event, Observer, OnSession, Scheme};
use zk_recipes::session::dispatch::{Key, Port, Token};
use zk_recipes::session::event_loop::Loop;
use zk_recipes::session::proto::{GetChildrenRequest, GetChildrenResponse, Request};
use zk_recipes::session::session::{Config, Event as SessionEvent, Reply, State};
use zk_recipes::session::time::Instant;

const LOCK: &str = "/locks/no-runtime";
const ACQUIRE_TIMEOUT: Duration = Duration::from_secs(10);
const HOLD: Duration = Duration::from_secs(1);
const RELEASE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the loop sleeps while it cannot wait in the socket.
const SHORT: Duration = Duration::from_millis(1);

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
pub(crate) struct EventLoop {
    pub(crate) session: Loop<&'static str, TcpLink>,
    attempts: u64,
    start: Clock,
}

impl EventLoop {
    /// Begins to connect.
    pub(crate) fn new(servers: &str) -> Result<Self, Box<dyn Error>> {
        // Each address is a server of its own. Names are resolved once, because that blocks.
        let mut link = TcpLink::default();
        for server in servers.split(',') {
            link.servers.extend(server.to_socket_addrs()?);
        }
        // Clients with the same seed would try the same servers at the same time.
        let seed = RandomState::new().hash_one("seed of the session");
        let config = Config::new(link.servers.len(), seed);
        let session = Loop::new(Instant::START, config, link)?;
        Ok(Self { session, attempts: 0, start: Clock::now() })
    }

    /// The time, which must not stand still while the machine sleeps: use `CLOCK_BOOTTIME` where
    /// that can happen.
    pub(crate) fn now(&self) -> Instant {
        Instant::after_start(self.start.elapsed())
    }

    /// Takes a turn, and sleeps until the next one, or `until`.
    pub(crate) fn turn(&mut self, until: Instant) {
        let due = self.session.turn(self.now(), |_, event| print(event));
        let wait = due.unwrap_or(Instant::END).min(until) - self.now();
        let is_full = !self.session.dispatcher.session().output().is_empty();
        match &self.session.link.stream {
            _ if wait.is_zero() => {}
            Some(stream) if !is_full => {
                // What this finds, or why it fails, the next turn finds as well.
                let _ = stream.set_read_timeout(Some(wait));
                let _ = stream.set_nonblocking(false);
                let _ = stream.peek(&mut [0]);
                let _ = stream.set_nonblocking(true);
            }
            _ => sleep(wait.min(SHORT)),
        }
    }

    /// Enters the queue of an exclusive lock.
    pub(crate) fn enter_queue(&mut self, path: &str) -> Lock {
        let (sender, events) = channel();
        // A count is enough: the machine mixes the id of the session into it.
        self.attempts += 1;
        let guid = Uuid::from_u128(self.attempts.into());
        let config = AttemptConfig::new(path.into(), Scheme::CURATOR_MUTEX, guid);
        let machine = OnSession::new(Contender::new(config), Report(sender), self.attempts);
        let key = self.session.dispatcher.attach(self.now(), Box::new(machine));
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
        if let Err(error) = self.session.dispatcher.session_mut().submit(&request, token) {
            println!("contenders: {error}");
        }
    }

    /// Releases the lock, or gives up waiting for it.
    pub(crate) fn release(&mut self, lock: &Lock) {
        self.session.dispatcher.command(self.now(), lock.key, &mut Command::Release);
        // The machine is detached and dropped once its node is gone. Without a connection, that
        // may take until the end of the session.
        let until = self.now() + RELEASE_TIMEOUT;
        while let Some(event) = self.next_event(lock, until) {
            println!("{event:?}");
        }
    }

    /// Closes the session, and waits until it has ended.
    pub(crate) fn close(&mut self) {
        self.session.dispatcher.close(self.now());
        // Without a connection the session ends at once. A server that stays silent costs the
        // connection within the session timeout.
        while !matches!(self.session.dispatcher.session().state(), State::Ended(_)) {
            self.turn(Instant::END);
        }
    }
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
