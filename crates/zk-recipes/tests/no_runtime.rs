//! The loop of the example `no_runtime`, on ensembles and networks that fail.
#![cfg(feature = "tokio")]

#[path = "../examples/no_runtime.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod example;

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use example::{EventLoop, Lock};
use tokio::runtime::Runtime;
use zk_recipes::Loss;
use zk_recipes::machine::Event;
use zk_recipes::session::dispatch::Token;
use zk_recipes::session::proto::{Request, SetDataRequest};
use zk_recipes::session::time::Instant;
use zk_recipes::session::{End, State};
use zk_testkit::serve::Embedded;
use zk_testkit::suite::{ephemerals, watches};
use zk_testkit::watchdog::Watchdog;

const LOCK: &str = "/locks/tested";

/// An ensemble on a thread of its own. The loop has the thread of the test.
struct World {
    ensemble: Embedded,
    _runtime: Runtime,
    _watchdog: Watchdog,
}

impl World {
    fn new(servers: usize) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let ensemble = runtime.block_on(Embedded::start(servers)).expect("an ensemble");
        Self { ensemble, _runtime: runtime, _watchdog: Watchdog::start() }
    }

    fn connect(&self) -> EventLoop {
        EventLoop::new(&self.ensemble.connect_string()).expect("addresses")
    }

    fn assert_clean(&self) {
        assert_eq!((ephemerals(&self.ensemble), watches(&self.ensemble)), (Vec::new(), 0));
    }
}

/// Waits for an event, however long it takes.
fn next(client: &mut EventLoop, lock: &Lock) -> Event {
    client.next_event(lock, Instant::END).expect("an event")
}

fn acquire(client: &mut EventLoop) -> Lock {
    let lock = client.enter_queue(LOCK);
    while !matches!(next(client, &lock), Event::Acquired { .. }) {}
    lock
}

#[test]
fn the_example_holds_a_lock() {
    let world = World::new(3);
    example::run(&world.ensemble.connect_string()).expect("the lock is held");
    world.assert_clean();
}

#[test]
fn the_next_in_the_queue_gets_the_lock_when_it_is_released() {
    let world = World::new(1);
    let (mut holder, mut waiter) = (world.connect(), world.connect());
    let held = acquire(&mut holder);
    let wanted = waiter.enter_queue(LOCK);
    while !matches!(next(&mut waiter, &wanted), Event::Waiting { ahead: 1, .. }) {}
    holder.release(&held);
    assert!(matches!(next(&mut waiter, &wanted), Event::Acquired { .. }));
    waiter.release(&wanted);
    world.assert_clean();
}

#[test]
fn a_lock_is_held_across_servers() {
    let world = World::new(3);
    let mut client = world.connect();
    let lock = acquire(&mut client);
    let State::Connected { server, .. } = client.session.dispatcher.session().state() else {
        panic!("a lock is held without a connection");
    };
    world.ensemble.kill(server);
    assert_eq!(next(&mut client, &lock), Event::Suspended);
    assert_eq!(next(&mut client, &lock), Event::Resumed);
    client.release(&lock);
    world.assert_clean();
    client.close();
}

#[test]
fn a_lock_is_lost_with_its_session() {
    let world = World::new(1);
    let mut client = world.connect();
    let lock = acquire(&mut client);
    world.ensemble.expire_session(client.session.dispatcher.session().id());
    let lost = core::iter::from_fn(|| client.next_event(&lock, Instant::END)).last();
    assert_eq!(lost, Some(Event::Lost(Loss::Ended(End::Expired))));
    assert_eq!(client.session.dispatcher.attached(), 0);
    // Neither has anything to wait for.
    client.release(&lock);
    client.close();
}

#[test]
fn a_loop_that_is_closed_before_it_has_a_connection_ends() {
    let _watchdog = Watchdog::start();
    // Nobody accepts; the kernel connects all the same.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("an address").to_string();
    let mut client = EventLoop::new(&address).expect("an address");
    let lock = client.enter_queue(LOCK);
    client.close();
    while client.next_event(&lock, Instant::END).is_some() {}
    assert_eq!(client.session.dispatcher.attached(), 0);
}

/// Passes bytes between one client and a server. After the handshake, it reads nothing more from
/// the client before `goes_on` says so.
fn pass_on(server: SocketAddr, goes_on: Receiver<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    thread::spawn(move || -> io::Result<()> {
        let (mut client, _) = listener.accept()?;
        let mut server = TcpStream::connect(server)?;
        let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
        thread::spawn(move || io::copy(&mut from_server, &mut to_client));
        // The handshake is shorter than this; all of it has arrived with its first byte.
        let mut handshake = [0; 256];
        let count = client.read(&mut handshake)?;
        server.write_all(&handshake[..count])?;
        let _ = goes_on.recv();
        io::copy(&mut client, &mut server).map(drop)
    });
    address
}

#[test]
fn what_a_full_socket_does_not_take_is_written_later() {
    let world = World::new(1);
    let (go_on, goes_on) = channel();
    let proxy = pass_on(world.ensemble.address(0), goes_on);
    let mut client = EventLoop::new(&proxy.to_string()).expect("an address");
    while !matches!(client.session.dispatcher.session().state(), State::Connected { .. }) {
        client.turn(Instant::END);
    }
    // More than the buffers of both sockets hold.
    let data = vec![0; 1_000_000];
    let request = SetDataRequest { path: "/missing", data: Some(&data), version: -1 };
    for _ in 0..32 {
        let submitted = client
            .session
            .dispatcher
            .session_mut()
            .submit(&Request::SetData(request), Token::Caller("answered"));
        submitted.expect("there is room");
    }
    let now = client.now();
    client.turn(now);
    let unsent = client.session.dispatcher.session().output().len();
    assert!(unsent > 0, "the socket has taken everything");
    assert_eq!(client.session.dispatcher.session().pending(), 32);
    go_on.send(()).expect("the proxy waits");
    while client.session.dispatcher.session().pending() > 0 {
        client.turn(Instant::END);
    }
    assert_eq!(client.session.dispatcher.session().statistics().connections, 1);
    client.close();
}
