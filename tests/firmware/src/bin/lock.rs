//! A distributed lock on a microcontroller: takes the lock, holds it, releases it, for ever.
//!
//! In each turn it writes to its node twice, and prints the zxids of those transactions. So the
//! ensemble can tell whether two turns overlap: `exclusive <token> <first> <second>`. With the
//! feature `read-write`, it shares the lock in every other turn: `shared ...`. It also prints the
//! bytes of the heap in use before the attempt and with the lock held, and the most ever.

#![no_std]
#![no_main]

extern crate alloc;

use alloc::boxed::Box;
use core::cell::Cell;
use core::time::Duration;

use bytes::BytesMut;
use critical_section::Mutex;
use uuid::Uuid;
use zk_firmware::board::{self, print, print_number};
use zk_firmware::heap;
use zk_firmware::line::{self, Line};
use zk_recipes::machine::{
    AttemptConfig, Command, Contender, Event, LockMode, Observer, OnSession, Scheme,
};
use zk_recipes::session::dispatch::{Dispatcher, Key, Port, Token};
use zk_recipes::session::proto::frame::{Piece, Splitter};
use zk_recipes::session::proto::{Request, SetDataRequest, SetDataResponse, Zxid};
use zk_recipes::session::session::{Action, Config, Event as SessionEvent, Session, State};
use zk_recipes::session::time::Instant;

/// Whether the lock is a read/write lock, or a mutex.
const IS_READ_WRITE: bool = cfg!(feature = "read-write");
const LOCK: &str = "/locks/shared with firmware";
/// The node that every turn writes to.
const NODE: &str = "/turns-of-firmware";
const HOLD: Duration = Duration::from_millis(100);
const SERVERS: usize = 3;
/// The longest reply, in bytes. Longer lists come in pieces.
const MAX_REPLY: usize = 1024;
/// The longest of these pieces.
const PIECE: usize = 64;

/// What the lock reported last.
#[derive(Clone, Copy)]
enum Status {
    Waiting,
    Held(Zxid),
    /// The lock is not held any more, or never was. Its machine is done.
    Over,
}

/// Written by the machine, read by the main loop.
static STATUS: Mutex<Cell<Status>> = Mutex::new(Cell::new(Status::Over));

fn set_status(status: Status) {
    critical_section::with(|section| STATUS.borrow(section).set(status));
}

/// The work that the lock protects: two transactions, some time apart.
#[derive(Clone, Copy)]
enum Work {
    None,
    Entering,
    /// Holds the lock until the time, since the transaction.
    Inside {
        until: Instant,
        enter: Zxid,
    },
    Leaving {
        enter: Zxid,
    },
    Done,
}

struct Report;

impl Observer for Report {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        match event {
            Event::Enqueued { .. } => print("enqueued\n"),
            Event::Waiting { ahead, .. } => {
                print("waiting, ahead: ");
                print_number(ahead as u64);
                print("\n");
            }
            Event::Acquired { token, .. } => {
                print("acquired\n");
                set_status(Status::Held(token));
            }
            Event::Suspended => print("suspended\n"),
            Event::Resumed => print("resumed\n"),
            Event::Lost(_) => {
                print("lost\n");
                set_status(Status::Waiting);
            }
            Event::Released => print("released\n"),
            Event::Failed(_) => {
                print("failed\n");
                set_status(Status::Waiting);
            }
            _ => {}
        }
    }

    fn finish(&mut self, _: &mut Port<'_>) {
        set_status(Status::Over);
    }
}

struct Board {
    dispatcher: Dispatcher<()>,
    line: Line,
    received: BytesMut,
    frames: Splitter,
    lock: Option<Key>,
    work: Work,
    attempts: u64,
    /// The bytes in use before the last attempt.
    heap_before: usize,
}

// SAFETY: no other function has this name. The code that starts the board calls it.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    heap::start();
    board::start();
    let mut config = Config::small(SERVERS, board::seed());
    config.timeout = Duration::from_secs(40);
    config.max_reply = MAX_REPLY;
    let mut board = Board {
        dispatcher: Dispatcher::new(Session::new(now(), config)),
        line: Line::default(),
        received: BytesMut::new(),
        frames: Splitter::new(MAX_REPLY),
        lock: None,
        work: Work::None,
        attempts: 0,
        heap_before: 0,
    };
    loop {
        board.drain();
        board.work();
        board.drain();
        board.wait();
    }
}

fn now() -> Instant {
    Instant::after_start(Duration::from_millis(board::milliseconds()))
}

/// # The loop
impl Board {
    /// Delivers, connects and sends until only waiting is left.
    fn drain(&mut self) {
        loop {
            while let Some(event) = self.dispatcher.poll_event(now()) {
                self.handle(event);
            }
            self.dispatcher.take_effects().run();
            match self.dispatcher.session_mut().poll_action() {
                Some(Action::Connect(server)) => {
                    self.received.clear();
                    self.frames = Splitter::new(MAX_REPLY);
                    self.line.connect(server as u8);
                }
                Some(Action::Disconnect) => self.line.hang_up(),
                Some(Action::Probe(_)) => {}
                None => {
                    // The lease counts from before the bytes are handed over.
                    let before = now();
                    match self.line.send(self.dispatcher.session().output()) {
                        0 => return,
                        count => self.dispatcher.session_mut().handle_sent(before, count),
                    }
                }
            }
        }
    }

    /// Takes what has arrived. Sleeps first if nothing has, and nothing is due.
    fn wait(&mut self) {
        let is_unsettled = self.dispatcher.is_unsettled();
        let is_due = self.dispatcher.poll_timeout().is_some_and(|due| due <= now());
        let mut has_read = self.read();
        if !has_read && !is_unsettled && !is_due {
            board::sleep();
            has_read = self.read();
        }
        if is_unsettled && !has_read {
            self.dispatcher.settle(now());
        }
        self.dispatcher.handle_timeout(now());
    }

    /// Returns whether anything had arrived.
    fn read(&mut self) -> bool {
        let state = self.line.state();
        // No more than one frame is in memory, or a piece of a long one.
        let before = self.received.len();
        let missing = self.frames.missing(&self.received).unwrap_or(PIECE);
        self.received.reserve(missing);
        self.received.extend((0..missing).map_while(|_| self.line.receive()));
        let count = self.received.len() - before;
        let session = self.dispatcher.session_mut();
        session.handle_received(now(), count);
        loop {
            match self.frames.split(&mut self.received) {
                Ok(Some(Piece::Frame(payload))) => session.handle_frame(now(), payload),
                Ok(Some(Piece::TooLong { start, length })) => {
                    session.handle_oversized(now(), &start, length);
                }
                Ok(Some(Piece::Rest(bytes))) => session.handle_rest(now(), bytes),
                Ok(None) => break,
                Err(error) => {
                    session.handle_bad_frame(now(), error);
                    break;
                }
            }
        }
        if self.received.is_empty() {
            self.received = BytesMut::new();
        }
        match self.line.state() {
            new if new == state => return count > 0,
            line::State::Up => session.handle_connected(now()),
            _ => session.handle_disconnected(now()),
        }
        true
    }

    fn handle(&mut self, event: SessionEvent<()>) {
        match event {
            SessionEvent::State(State::Connected { server, .. }) => {
                print("connected to server ");
                print_number(server as u64);
                print("\n");
            }
            SessionEvent::State(State::Suspended) => print("disconnected\n"),
            // Only a board that was off for longer than the session timeout gets here.
            SessionEvent::State(State::Ended(_)) => board::exit(false),
            SessionEvent::Reply { result, .. } => {
                let stat = result.and_then(|reply| Ok(reply.decode::<SetDataResponse>()?.stat));
                self.work = match (self.work, stat) {
                    (Work::Entering, Ok(stat)) => {
                        Work::Inside { until: now() + HOLD, enter: stat.mzxid }
                    }
                    (Work::Leaving { enter }, Ok(stat)) => self.done(enter, stat.mzxid),
                    // It may have been written, or not. Writing it again does no harm.
                    (Work::Entering, Err(_)) => Work::None,
                    (Work::Leaving { enter }, Err(_)) => Work::Inside { until: now(), enter },
                    (work, _) => work,
                };
            }
            _ => {}
        }
    }
}

/// # The work
impl Board {
    /// Does the next step under the lock, or enters the queue again.
    fn work(&mut self) {
        let now = now();
        self.work =
            match (critical_section::with(|section| STATUS.borrow(section).get()), self.work) {
                (Status::Over, _) => {
                    self.enter_queue(now);
                    Work::None
                }
                (Status::Held(_), Work::None) => self.write(Work::Entering),
                (Status::Held(_), Work::Inside { until, enter }) if until <= now => {
                    self.write(Work::Leaving { enter })
                }
                (_, work) => work,
            };
    }

    fn enter_queue(&mut self, now: Instant) {
        set_status(Status::Waiting);
        self.heap_before = heap::used();
        self.attempts += 1;
        // A count is enough: the machine mixes the id of the session into it.
        let guid = Uuid::from_u128(self.attempts.into());
        let scheme = match IS_READ_WRITE {
            true => Scheme::CURATOR_READ_WRITE,
            false => Scheme::CURATOR_MUTEX,
        };
        let mut config = AttemptConfig::new(LOCK.into(), scheme, guid);
        config.mode = self.mode();
        let machine = OnSession::new(Contender::new(config), Report, self.attempts);
        self.lock = Some(self.dispatcher.attach(now, Box::new(machine)));
    }

    /// Returns the mode of this attempt.
    fn mode(&self) -> LockMode {
        match IS_READ_WRITE && self.attempts.is_multiple_of(2) {
            true => LockMode::Shared,
            false => LockMode::Exclusive,
        }
    }

    /// Writes to the node. If the session has no room, it is tried again.
    fn write(&mut self, next: Work) -> Work {
        let request = SetDataRequest { path: NODE, data: None, version: -1 };
        match self.dispatcher.session_mut().submit(&Request::SetData(request), Token::Caller(())) {
            Ok(_) => next,
            Err(_) => self.work,
        }
    }

    /// Prints the turn, and releases the lock.
    fn done(&mut self, enter: Zxid, leave: Zxid) -> Work {
        if let Status::Held(token) = critical_section::with(|section| STATUS.borrow(section).get())
        {
            let heap = [self.heap_before, heap::used(), heap::peak()].map(|bytes| bytes as u64);
            print_all("heap", heap);
            let name = match self.mode() {
                LockMode::Shared => "shared",
                LockMode::Exclusive => "exclusive",
            };
            print_all(name, [token, enter, leave].map(|zxid| zxid.0 as u64));
        }
        if let Some(key) = self.lock {
            self.dispatcher.command(now(), key, &mut Command::Release);
        }
        Work::Done
    }
}

fn print_all(name: &str, numbers: [u64; 3]) {
    print(name);
    for number in numbers {
        print(" ");
        print_number(number);
    }
    print("\n");
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    print("panic\n");
    board::exit(false)
}
