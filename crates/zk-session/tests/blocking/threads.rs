//! Several threads that share one client: which one reads, which one writes, and when they sleep.

use std::collections::HashSet;
use std::io;
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use zk_session::blocking::{Client, Connect, TcpConnect, TcpTransport, Transport};
use zk_session::dispatch::{Attached, Input, Port};
use zk_session::proto::{
    Decode, ErrorCode, EventType, ExistsRequest, ExistsResponse, GetDataRequest, OpCode, Reader,
    Request, RequestHeader, Stat, SyncResponse, Xid,
};
use zk_session::{Answer, Error, ServerAddress, State};

use crate::server::{Listener, PATIENCE, SESSION, Sent, Server, connected_with};

/// A session timeout. After a third of it, an idle session sends a ping.
const TIMEOUT: i32 = 60_000;

/// Answers requests and fires each watch at once. Closes the connection after so many requests.
fn serve(server: &mut Server, most: usize) {
    for _ in 0..most {
        let Some(body) = server.frame() else { return };
        let mut reader = Reader::new(&body);
        let RequestHeader { xid, opcode } = RequestHeader::decode(&mut reader).unwrap();
        assert_ne!(xid, Xid::PING, "everybody sleeps");
        match opcode {
            OpCode::EXISTS => {
                let stat = Stat::default();
                server.reply(xid, ErrorCode::OK, &ExistsResponse { stat });
                let sent = Sent::new(opcode, xid, body.slice(reader.position()..));
                let Request::Exists(exists) = sent.request() else { unreachable!() };
                if exists.watch {
                    server.notify(EventType::NODE_DELETED, exists.path);
                }
            }
            OpCode::SYNC => server.reply(xid, ErrorCode::OK, &SyncResponse { path: "/" }),
            _ => server.reply(xid, ErrorCode::NO_NODE, &()),
        }
        if opcode == OpCode::CLOSE_SESSION {
            return;
        }
    }
}

/// A server that runs until it is stopped.
fn start_server(most: usize) -> (Listener, impl FnOnce(&Listener)) {
    let listener = Listener::new();
    let run = move |listener: &Listener| {
        loop {
            let mut server = listener.accept();
            server.stream.set_nodelay(true).unwrap();
            // The connection that stops the server sends nothing.
            let Some(_) = server.frame() else { return };
            server.answer_handshake(TIMEOUT, SESSION);
            serve(&mut server, most);
        }
    };
    (listener, run)
}

/// Also if the last connection was cut, on which the client would have sent its close.
fn stop(listener: &Listener) {
    drop(TcpStream::connect(listener.address()).unwrap());
}

fn check<T, E: Into<Error>>(answer: Result<T, E>) {
    match answer.map_err(Into::into) {
        Ok(_) | Err(Error::Server(ErrorCode::NO_NODE) | Error::ConnectionLost) => {}
        Err(error) => assert!(error.is_full(), "{error}"),
    }
}

fn use_client(client: &Client, number: usize) {
    const ROUNDS: usize = 200;
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    for round in 0..ROUNDS {
        match number % 5 {
            0 => check(client.sync("/").wait()),
            1 => {
                client.ready().wait().unwrap();
                let answers: Vec<_> = (0..5).map(|_| client.submit(&request)).collect();
                answers.into_iter().map(Answer::wait).for_each(check);
            }
            2 => match client.exists_and_watch(&format!("/{number}/{round}")).wait() {
                Ok((_, watch)) => check(watch.wait()),
                failed => check(failed),
            },
            3 => {
                let mut answer = client.submit(&request);
                while let Ok(None) = answer.wait_timeout(Duration::from_millis(1)) {}
            }
            _ => {
                client.ready().wait().unwrap();
                drop(client.submit(&request));
            }
        }
    }
}

#[test]
fn no_thread_sleeps_while_there_is_work() {
    for (max_pending, most) in [(1000, usize::MAX), (7, usize::MAX), (7, 150)] {
        let (listener, run) = start_server(most);
        let builder = listener.builder().max_pending(max_pending);
        thread::scope(|scope| {
            let server = scope.spawn(|| run(&listener));
            let client = builder.connect().unwrap();
            let users: Vec<_> = (0..10)
                .map(|number| {
                    let client = client.clone();
                    scope.spawn(move || use_client(&client, number))
                })
                .collect();
            for user in users {
                user.join().unwrap();
            }
            client.close();
            stop(&listener);
            server.join().unwrap();
        });
    }
}

/// A TCP transport that records which threads have read.
#[derive(Clone, Default)]
struct Watched(Arc<Mutex<HashSet<ThreadId>>>);

struct WatchedTransport(TcpTransport, Watched);

impl Connect for Watched {
    type Transport = WatchedTransport;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<WatchedTransport> {
        Ok(WatchedTransport(TcpConnect::default().connect(server, timeout)?, self.clone()))
    }
}

impl Transport for WatchedTransport {
    fn read(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        self.1.0.lock().unwrap().insert(thread::current().id());
        self.0.read(buffer, timeout)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

#[test]
fn a_thread_that_waits_reads_by_itself() {
    let (listener, run) = start_server(usize::MAX);
    let watched = Watched::default();
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&listener));
        let client = listener.builder().connect_with(watched.clone()).unwrap();
        // The session's own thread, which runs already, reads the first replies.
        while !watched.0.lock().unwrap().contains(&thread::current().id()) {
            client.sync("/").wait().unwrap();
        }
        client.close();
        stop(&listener);
        server.join().unwrap();
    });
}

/// A transport that panics on the second read.
struct Broken(TcpTransport, Mutex<usize>);

struct BrokenOnce(Mutex<usize>);

impl Connect for BrokenOnce {
    type Transport = Broken;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<Broken> {
        let mut made = self.0.lock().unwrap();
        *made += 1;
        let left = if *made == 1 { 2 } else { usize::MAX };
        Ok(Broken(TcpConnect::default().connect(server, timeout)?, Mutex::new(left)))
    }
}

impl Transport for Broken {
    fn read(&self, buffer: &mut [u8], timeout: Duration) -> io::Result<usize> {
        let left = {
            let mut left = self.1.lock().unwrap();
            *left -= 1;
            *left
        };
        assert!(left > 0, "a transport that is broken");
        self.0.read(buffer, timeout)
    }

    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn shutdown(&self) {
        self.0.shutdown();
    }
}

#[test]
fn a_transport_that_panics_costs_the_connection_only() {
    let (listener, run) = start_server(usize::MAX);
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&listener));
        let client = listener.builder().connect_with(BrokenOnce(Mutex::default())).unwrap();
        let sync = || client.sync("/").wait().map_err(Error::from);
        let mut synced = sync();
        while synced.is_err() {
            assert_eq!(synced, Err(Error::ConnectionLost));
            synced = sync();
        }
        client.close();
        stop(&listener);
        server.join().unwrap();
    });
}

#[test]
fn replies_are_read_while_no_thread_waits() {
    const ROUNDS: usize = 5;
    const MANY: usize = 5_000;
    let (answered, next) = mpsc::channel();
    let (client, mut server, _listener) = connected_with(|builder| builder.max_pending(MANY));
    let request = Request::GetData(GetDataRequest { path: "/a", watch: false });
    let submit = || {
        let answer = client.submit(&request);
        next.recv().unwrap();
        answer
    };
    thread::scope(|scope| {
        scope.spawn(move || {
            while let Some(sent) = server.request() {
                server.reply(sent.xid, ErrorCode::NO_NODE, &());
                let _ = answered.send(());
            }
        });
        let is_read = (0..ROUNDS).all(|_| {
            // Waiting threads read, until none waits.
            (0..3).for_each(|_| check(submit().wait()));
            let mut first = submit();
            (1..MANY / 2).any(|_| {
                drop(submit());
                !matches!(first.wait_timeout(Duration::ZERO), Ok(None))
            })
        });
        client.clone().close();
        assert!(is_read, "nobody reads");
    });
}

/// Sets a watch, and defers a callback when it fires.
struct WhenFired(Option<Box<dyn FnOnce() + Send>>);

impl Attached for WhenFired {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        match input {
            Input::State(State::Connected { .. }) => {
                let request = Request::Exists(ExistsRequest { path: "/a", watch: true });
                port.submit_and_watch(0, &request);
            }
            Input::Watch { .. } => self.0.take().into_iter().for_each(|run| port.defer(run)),
            _ => {}
        }
    }

    fn is_done(&self) -> bool {
        self.0.is_none()
    }
}

#[test]
fn a_callback_may_wait_for_the_client() {
    let calls: [fn(&Client); 3] = [
        |client| check(client.sync("/").wait()),
        |client| client.ready().wait().unwrap(),
        |client| client.clone().close(),
    ];
    for (call, waits) in calls.into_iter().flat_map(|call| [(call, false), (call, true)]) {
        let (listener, run) = start_server(usize::MAX);
        thread::scope(|scope| {
            let server = scope.spawn(|| run(&listener));
            let client = listener.builder().connect().unwrap();
            let (sender, called) = mpsc::channel();
            let theirs = client.clone();
            let run = move || {
                call(&theirs);
                sender.send(()).unwrap();
            };
            client.attach(Box::new(WhenFired(Some(Box::new(run)))));
            if waits {
                // The callback may have closed the client by now.
                let _ = client.sync("/").wait();
            }
            called.recv_timeout(PATIENCE).unwrap();
            client.close();
            stop(&listener);
            server.join().unwrap();
        });
    }
}

#[test]
fn a_callback_may_wait_for_the_thread_that_has_read_its_event() {
    let (listener, run) = start_server(usize::MAX);
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&listener));
        let client = listener.builder().connect().unwrap();
        for _ in 0..5 {
            let (returned, returns) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            let wait = move || end.send(returns.recv_timeout(PATIENCE)).unwrap();
            client.attach(Box::new(WhenFired(Some(Box::new(wait)))));
            (0..10).for_each(|_| check(client.sync("/").wait()));
            returned.send(()).unwrap();
            assert_eq!(ended.recv(), Ok(Ok(())));
        }
        client.close();
        stop(&listener);
        server.join().unwrap();
    });
}

/// Sets timers, one after the other, and defers a callback at the first.
struct Ticks(u32, mpsc::Sender<()>, Option<Box<dyn FnOnce() + Send>>);

impl Attached for Ticks {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        if let Input::Timer = input {
            self.0 -= 1;
            self.1.send(()).unwrap();
            self.2.take().into_iter().for_each(|run| port.defer(run));
        }
        port.set_timer(Some(port.now() + Duration::from_millis(10)));
    }

    fn is_done(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn a_timer_fires_while_a_thread_reads() {
    let (listener, run) = start_server(usize::MAX);
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&listener));
        let client = listener.builder().connect().unwrap();
        for _ in 0..10 {
            let (sender, ticked) = mpsc::channel();
            client.attach(Box::new(Ticks(3, sender, None)));
            (0..3).for_each(|_| ticked.recv_timeout(PATIENCE).unwrap());
        }
        client.close();
        stop(&listener);
        server.join().unwrap();
    });
}

#[test]
fn a_callback_that_waits_delays_no_timer() {
    let (listener, run) = start_server(usize::MAX);
    thread::scope(|scope| {
        let server = scope.spawn(|| run(&listener));
        let client = listener.builder().connect().unwrap();
        // The session's own thread may see to the first timers. Then it reads.
        for _ in 0..5 {
            let (sender, ticked) = mpsc::channel();
            let (end, ended) = mpsc::channel();
            let wait = move || {
                let ticks = (0..3).map_while(|_| ticked.recv_timeout(PATIENCE).ok()).count();
                end.send(ticks).unwrap();
            };
            client.attach(Box::new(Ticks(3, sender, Some(Box::new(wait)))));
            assert_eq!(ended.recv(), Ok(3));
        }
        client.close();
        stop(&listener);
        server.join().unwrap();
    });
}
