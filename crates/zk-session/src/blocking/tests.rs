//! The blocking client and servers that are slow to connect to.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Mutex, PoisonError};
use std::{io, thread};

use zk_proto::{ConnectResponse, SessionId, frame};

use super::*;
use crate::client::{ClientHandle, Clock, Router};
use crate::connect_string::{ConnectString, ServerAddress};
use crate::error::{Error, Outcome};
use crate::session::{Cause, Config, Session};
use crate::threads::REFUSES;

/// More than the backlog that the standard library requests.
const MOST_QUEUED: usize = 5000;
const HANG: Duration = Duration::from_millis(50);
/// The time after which a hang becomes a failure.
const MOST_WAIT: Duration = Duration::from_secs(30);

fn threads(
    connect: impl Connect,
    make: impl FnOnce(crate::time::Instant) -> Router,
) -> Arc<Threads> {
    let clock = Clock::new(Instant::now, None);
    let router = make(clock.now());
    Arc::new(Threads::new(connect, clock, router))
}

/// Returns a listener with a full backlog: connecting hangs until queued connections are accepted.
fn full_listener() -> (TcpListener, Vec<TcpStream>, SocketAddr) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || TcpStream::connect_timeout(&address, HANG);
    let queued: Vec<_> = core::iter::repeat_with(connect).map_while(Result::ok).collect();
    assert!(queued.len() < MOST_QUEUED);
    (listener, queued, address)
}

/// A connector that hangs until it is released, like a slow lookup of a name.
struct Hanging {
    reached: Arc<AtomicUsize>,
    release: Mutex<Receiver<()>>,
}

impl Connect for Hanging {
    type Transport = TcpTransport;

    fn connect(&self, _: &ServerAddress, _: Duration) -> io::Result<TcpTransport> {
        self.reached.fetch_add(1, Ordering::Relaxed);
        // Dropping the sender releases all of them.
        let _ = self.release.lock().unwrap_or_else(PoisonError::into_inner).recv();
        Err(io::ErrorKind::NotFound.into())
    }
}

#[test]
fn hanging_attempts_to_connect_take_few_threads() {
    let (release, hang) = mpsc::channel();
    let reached = Arc::new(AtomicUsize::new(0));
    let connect = Hanging { reached: reached.clone(), release: Mutex::new(hang) };
    let at: ConnectString = "one,two".parse().unwrap();
    let make = |now| Router::new(Session::new(now, Config::new(2, 0)), at.servers, None);
    let shared = threads(connect, make);
    // A session that is closed asks for no more connections.
    shared.act(&mut |router, _| router.session_mut().close());
    for _ in 0..10 {
        shared.lock().connect(&shared, 0);
        shared.lock().connect(&shared, 1);
        shared.lock().probe(&shared, 1);
    }
    let error = shared.lock().router.error.take().unwrap();
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    drop(release);
    let reached = || {
        while Arc::strong_count(&shared) > 1 {
            thread::yield_now();
        }
        reached.load(Ordering::Relaxed)
    };
    assert_eq!(reached(), 2 * driver::MOST_ATTEMPTS);
    shared.lock().connect(&shared, 0);
    assert_eq!(reached(), 2 * driver::MOST_ATTEMPTS + 1, "there is room for more");
}

#[test]
fn request_deadlines_pass_while_connecting_and_do_not_end_the_attempt() {
    let (_listener, _queued, address) = full_listener();
    let at: ConnectString = address.to_string().parse().unwrap();
    let timeout = Duration::from_millis(100);
    let config = Config { disconnect_timeout: Some(timeout), ..Config::new(1, 0) };
    let shared = threads(TcpConnect::default(), |now| {
        Router::new(Session::new(now, config), at.servers, None)
    });
    let handle = Arc::new(ClientHandle { driver: shared.clone(), retries_reads: false });
    let client = Client { handle, chroot: at.chroot, request_timeout: None };
    driver::start(shared.clone()).unwrap();
    let hurried = client.with_request_timeout(Some(timeout / 5));
    for _ in 0..2 {
        // By the deadline; or, on a slow machine, for lack of a connection.
        assert_eq!(hurried.sync("/").wait().unwrap_err().outcome(), Outcome::NotApplied);
    }
    assert_eq!(
        client.sync("/").wait().map_err(Error::from),
        Err(Error::NoConnection),
        "reported by the session's thread"
    );
    assert_eq!(shared.lock().router.last_failure, None);
}

/// A transport with limited room until it is flushed, like that of TLS libraries.
struct Bounded {
    held: Mutex<Vec<u8>>,
    sent: Arc<Mutex<Vec<u8>>>,
    says_zero: bool,
}

const ROOM: usize = 16;

impl Transport for Bounded {
    fn read(&self, _: &mut [u8], timeout: Duration) -> io::Result<usize> {
        thread::sleep(timeout.min(HANG));
        Err(io::ErrorKind::WouldBlock.into())
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut held = self.held.lock().unwrap();
        let taken = bytes.len().min(ROOM - held.len());
        held.extend_from_slice(&bytes[..taken]);
        if taken == 0 && !self.says_zero {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(taken)
    }

    fn flush(&self) -> io::Result<()> {
        self.sent.lock().unwrap().append(&mut self.held.lock().unwrap());
        Ok(())
    }

    fn shutdown(&self) {}
}

struct BoundedConnect(Arc<Mutex<Vec<u8>>>, bool);

impl Connect for BoundedConnect {
    type Transport = Bounded;

    fn connect(&self, _: &ServerAddress, _: Duration) -> io::Result<Bounded> {
        let (sent, says_zero) = (self.0.clone(), self.1);
        Ok(Bounded { held: Mutex::default(), sent, says_zero })
    }
}

#[test]
fn a_transport_with_little_room_is_flushed_before_it_is_given_more() {
    const HANDSHAKE: usize = 44;
    for says_zero in [false, true] {
        let sent = Arc::new(Mutex::new(Vec::new()));
        let at: ConnectString = "one".parse().unwrap();
        let make = |now| Router::new(Session::new(now, Config::new(1, 0)), at.servers, None);
        let connect = BoundedConnect(sent.clone(), says_zero);
        let shared = threads(connect, make);
        driver::start(shared.clone()).unwrap();
        let begun = Instant::now();
        let count = || sent.lock().unwrap().len();
        while count() < HANDSHAKE && begun.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(1));
        }
        shared.act(&mut |router, _| router.session_mut().close());
        assert!(count() >= HANDSHAKE, "{} bytes of the handshake were sent", count());
    }
}

#[test]
fn threads_that_stopped_waiting_take_no_memory() {
    const SHORT: Duration = Duration::from_millis(1);
    let (release, hang) = mpsc::channel();
    let connect = Hanging { reached: Arc::default(), release: Mutex::new(hang) };
    let at: ConnectString = "one".parse().unwrap();
    let make = |now| Router::new(Session::new(now, Config::new(1, 0)), at.servers, None);
    let shared = threads(connect, make);
    for _ in 0..3 {
        let waits = shared.clone();
        let wait = move || assert!(!waits.wait_until(Some(Instant::now() + SHORT), |_| false));
        thread::spawn(wait).join().unwrap();
    }
    assert!(shared.lock().observers.is_empty());
    drop(release);
    shared.act(&mut |router, _| router.session_mut().close());
}

#[test]
fn an_attempt_that_times_out_counts_as_silent() {
    let hours = Arc::new(AtomicUsize::new(0));
    let read = hours.clone();
    let now = move || {
        let hours = read.load(Ordering::Relaxed) as u64;
        crate::time::Instant::after_start(Duration::from_secs(hours * 3600))
    };
    let (release, hang) = mpsc::channel();
    let connect = Hanging { reached: Arc::default(), release: Mutex::new(hang) };
    let drive = |clock, router| Threads::new(connect, clock, router);
    let new = Client::builder("one").clock(now).client(Instant::now, drive).unwrap();
    let shared = new.client.driver().clone();
    shared.act(&mut |_, _| {});
    hours.store(1, Ordering::Relaxed);
    drop(release);
    let failure = loop {
        if let Some(failure) = shared.lock().router.last_failure.clone() {
            break failure;
        }
        thread::yield_now();
    };
    assert_eq!(failure.1, Cause::ConnectTimeout.to_string());
    shared.act(&mut |router, _| router.session_mut().close());
}

/// Accepts a connection, and welcomes its session. Returns the connection.
fn welcome(listener: &TcpListener) -> TcpStream {
    let end = Instant::now() + MOST_WAIT;
    listener.set_nonblocking(true).unwrap();
    let mut stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break stream,
            Err(error) => assert!(Instant::now() < end, "{error}"),
        }
        thread::sleep(Duration::from_millis(1));
    };
    stream.set_nonblocking(false).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut request = alloc::vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut request).unwrap();
    let welcome = ConnectResponse {
        protocol_version: 0,
        timeout: 60_000,
        session_id: SessionId(7),
        password: Some(&[1; 16]),
        read_only: Some(false),
    };
    let mut frame = bytes::BytesMut::new();
    frame::encode(&welcome, &mut frame).unwrap();
    stream.write_all(&frame).unwrap();
    stream
}

#[test]
fn without_a_thread_to_be_had_the_session_connects_by_its_own() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let at: ConnectString = listener.local_addr().unwrap().to_string().parse().unwrap();
    let make = |now| Router::new(Session::new(now, Config::new(1, 0)), at.servers, None);
    let shared = threads(TcpConnect::default(), make);
    let theirs = shared.clone();
    let keeper = thread::spawn(move || {
        REFUSES.set(true);
        theirs.keep();
    });
    let connected = |connections: u64| {
        let condition = |inner: &ThreadsState| {
            let session = inner.router.session();
            session.statistics().connections == connections
                && matches!(session.state(), State::Connected { .. })
        };
        let end = Instant::now() + MOST_WAIT;
        assert!(
            shared.wait_until(Some(end), condition),
            "{:?}",
            shared.lock().router.last_failure()
        );
    };
    REFUSES.set(true);
    let first = welcome(&listener);
    connected(1);
    drop(first);
    let second = welcome(&listener);
    connected(2);
    shared.act(&mut |router, _| router.session_mut().close());
    drop(second);
    keeper.join().unwrap();
    REFUSES.set(false);
}
