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

use critical_section::Mutex;
use uuid::Uuid;
use zk_firmware::board::{self, print, print_number};
use zk_firmware::heap;
use zk_firmware::line::Line;
use zk_recipes::machine::{
    AttemptConfig, Command, Contender, Event, LockMode, Observer, OnSession, Scheme,
};
use zk_recipes::session::dispatch::{Dispatcher, Key, Port, Token};
use zk_recipes::session::event_loop::{ConfigError, Loop};
use zk_recipes::session::proto::{Request, SetDataRequest, SetDataResponse, Zxid};
use zk_recipes::session::session::{Config, Event as SessionEvent, State};
use zk_recipes::session::time::Instant;

/// Whether the lock is a read/write lock, or a mutex.
const IS_READ_WRITE: bool = cfg!(feature = "read-write");
const LOCK: &str = "/locks/shared with firmware";
/// The node that every turn writes to.
const NODE: &str = "/turns-of-firmware";
const HOLD: Duration = Duration::from_millis(100);
const SERVERS: usize = 3;

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

struct Program {
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
    let mut program = Program { lock: None, work: Work::None, attempts: 0, heap_before: 0 };
    let mut line = Line::default();
    // Another session follows one that has expired: the servers have not heard of the board for so
    // long.
    loop {
        // Not moved, which would take stack for another one.
        let mut started = start_session(line);
        let Ok(session) = &mut started else { board::exit(false) };
        while !matches!(session.dispatcher.session().state(), State::Ended(_)) {
            program.work(&mut session.dispatcher);
            let now = now();
            let due = session.turn(now, |session, event| program.handle(session, event));
            // The board sleeps for 5 ms at most.
            if due.is_none_or(|due| due > now) {
                board::sleep();
            }
        }
        line = core::mem::take(&mut session.link);
    }
}

/// The parts of a session take stack while they are put together, but no longer.
#[inline(never)]
fn start_session(line: Line) -> Result<Loop<(), Line>, ConfigError> {
    let mut config = Config::small(SERVERS, board::seed());
    config.timeout = Duration::from_secs(40);
    Loop::new(now(), config, line)
}

fn now() -> Instant {
    Instant::after_start(Duration::from_millis(board::milliseconds()))
}

/// # The work
impl Program {
    fn handle(&mut self, dispatcher: &mut Dispatcher<()>, event: SessionEvent<()>) {
        match event {
            SessionEvent::State(State::Connected { server, .. }) => {
                print("connected to server ");
                print_number(server as u64);
                print("\n");
            }
            SessionEvent::State(State::Suspended) => print("disconnected\n"),
            SessionEvent::State(State::Ended(_)) => print("expired\n"),
            SessionEvent::Reply { result, .. } => {
                let stat = result.and_then(|reply| Ok(reply.decode::<SetDataResponse>()?.stat));
                self.work = match (self.work, stat) {
                    (Work::Entering, Ok(stat)) => {
                        Work::Inside { until: now() + HOLD, enter: stat.mzxid }
                    }
                    (Work::Leaving { enter }, Ok(stat)) => self.done(dispatcher, enter, stat.mzxid),
                    // It may have been written, or not. Writing it again does no harm.
                    (Work::Entering, Err(_)) => Work::None,
                    (Work::Leaving { enter }, Err(_)) => Work::Inside { until: now(), enter },
                    (work, _) => work,
                };
            }
            _ => {}
        }
    }

    /// Does the next step under the lock, or enters the queue again.
    fn work(&mut self, dispatcher: &mut Dispatcher<()>) {
        let now = now();
        self.work =
            match (critical_section::with(|section| STATUS.borrow(section).get()), self.work) {
                (Status::Over, _) => {
                    self.enter_queue(dispatcher, now);
                    Work::None
                }
                (Status::Held(_), Work::None) => self.write(dispatcher, Work::Entering),
                (Status::Held(_), Work::Inside { until, enter }) if until <= now => {
                    self.write(dispatcher, Work::Leaving { enter })
                }
                (_, work) => work,
            };
    }

    fn enter_queue(&mut self, dispatcher: &mut Dispatcher<()>, now: Instant) {
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
        self.lock = Some(dispatcher.attach(now, Box::new(machine)));
    }

    /// Returns the mode of this attempt.
    fn mode(&self) -> LockMode {
        match IS_READ_WRITE && self.attempts.is_multiple_of(2) {
            true => LockMode::Shared,
            false => LockMode::Exclusive,
        }
    }

    /// Writes to the node. If the session has no room, it is tried again.
    fn write(&self, dispatcher: &mut Dispatcher<()>, next: Work) -> Work {
        let request = SetDataRequest { path: NODE, data: None, version: -1 };
        match dispatcher.session_mut().submit(&Request::SetData(request), Token::Caller(())) {
            Ok(_) => next,
            Err(_) => self.work,
        }
    }

    /// Prints the turn, and releases the lock.
    fn done(&self, dispatcher: &mut Dispatcher<()>, enter: Zxid, leave: Zxid) -> Work {
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
            dispatcher.command(now(), key, &mut Command::Release);
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
