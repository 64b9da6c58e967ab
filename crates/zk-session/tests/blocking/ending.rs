use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use zk_session::blocking::{Client, Connect, TcpConnect, TcpTransport, Threads};
use zk_session::proto::{ErrorCode, OpCode, SessionId};
use zk_session::{ConnectError, End, Error, Outcome, ServerAddress, State};
use zk_testkit::ports::Port;

use crate::server::{Listener, PATIENCE, connected, during};

#[test]
fn handles_and_futures_are_send() {
    fn shared<T: Send + Sync + Clone>() {}
    fn sent<T: Send>() {}
    shared::<Client>();
    sent::<zk_session::Watch<Threads>>();
    sent::<zk_session::PersistentWatch<Threads>>();
    sent::<zk_session::Answer<(), Threads>>();
    // This name does not depend on features.
    sent::<zk_session::ClientBuilder<Client>>();
    sent::<(zk_session::Transaction<'_, Client>, zk_session::MultiRead<'_, Client>)>();
}

#[test]
fn an_unreachable_ensemble_is_reported_with_the_last_error() {
    let port = Port::reserve().unwrap();
    let at = port.address().to_string();
    let timeout = Duration::from_millis(200);
    let start = Instant::now();
    let error = Client::builder(&at).connect_timeout(timeout).connect().unwrap_err();
    let ConnectError::Unreachable { last: Some((server, _)), .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(server, at);
    assert!(start.elapsed() >= timeout && start.elapsed() < PATIENCE, "{:?}", start.elapsed());
    assert!(matches!(Client::connect("user@one"), Err(ConnectError::Address(_))));
}

/// The first attempts fail: nothing listens.
struct Late(AtomicU64);

impl Connect for Late {
    type Transport = TcpTransport;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<TcpTransport> {
        if self.0.fetch_add(1, Ordering::Relaxed) < 3 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        TcpConnect::default().connect(server, timeout)
    }
}

#[test]
fn connecting_continues_until_its_time_limit() {
    let listener = Listener::new();
    let builder = listener.builder().connect_timeout(PATIENCE);
    let connect = || builder.connect_with(Late(AtomicU64::new(0)));
    let serve = || drop(listener.welcome());
    during(connect, serve).expect("a server comes in time");
}

/// A name with three addresses, the first of which fail.
#[derive(Clone, Default)]
struct Headless {
    tcp: TcpConnect,
    calls: Arc<Mutex<Vec<&'static str>>>,
}

impl Headless {
    fn note(&self, call: &'static str) {
        let mut calls = self.calls.lock().unwrap();
        if calls.last() != Some(&call) || call == "connect" {
            calls.push(call);
        }
    }
}

impl Connect for Headless {
    type Transport = TcpTransport;

    fn connect(&self, server: &ServerAddress, timeout: Duration) -> io::Result<TcpTransport> {
        self.note("connect");
        let connects = self.calls.lock().unwrap().iter().filter(|call| **call == "connect").count();
        if connects < 3 {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        self.tcp.connect(server, timeout)
    }

    fn addresses(&self, servers: &[ServerAddress]) -> Vec<usize> {
        self.note("addresses");
        vec![3; servers.len()]
    }

    fn served(&self, _: &ServerAddress) {
        self.note("served");
    }
}

#[test]
fn a_transport_counts_addresses_and_learns_which_of_them_serve() {
    let listener = Listener::new();
    let headless = Headless::default();
    let builder = listener.builder().connect_timeout(PATIENCE);
    let connect = || builder.connect_with(headless.clone());
    let mut server = None;
    let client = during(connect, || server = Some(listener.welcome()));
    let client = client.expect("a server comes in time");
    // A single address would count as a failed round, and its failure as that of the server.
    let attempt = ["addresses", "connect"];
    let calls = headless.calls.lock().unwrap().clone();
    assert_eq!(calls[..6], [attempt, attempt, attempt].concat());
    drop(server);
    let _server = listener.welcome();
    let calls = headless.calls.lock().unwrap().clone();
    let again = calls.iter().position(|call| *call == "served").expect("it has served");
    assert_eq!(calls[again..][..3], ["served", "addresses", "connect"]);
    drop(client);
}

#[test]
fn a_lease_ends_during_a_suspension_if_the_clock_continues() {
    let slept = Arc::new(AtomicU64::new(0));
    let (start, sleeping) = (Instant::now(), slept.clone());
    let clock = move || {
        let slept = Duration::from_secs(sleeping.load(Ordering::Relaxed));
        zk_session::time::Instant::after_start(start.elapsed() + slept)
    };
    let listener = Listener::new();
    let builder = listener.builder().session_timeout(3 * PATIENCE).clock(clock);
    let (client, _server) = thread::scope(|scope| {
        let client = scope.spawn(|| builder.connect());
        let mut server = listener.accept();
        server.welcome(60_000);
        (client.join().unwrap().unwrap(), server)
    });
    assert!(client.lease() > Some(Instant::now()));
    assert!(!client.lease_has_ended());
    slept.store(60, Ordering::Relaxed);
    assert!(client.lease() < Some(Instant::now()));
    assert!(client.lease_has_ended());
    // No ping is due for ten seconds, but the client looks at the clock soon.
    let woken = Instant::now();
    listener.accept().handshake();
    assert!(woken.elapsed() < Duration::from_secs(5), "{:?}", woken.elapsed());
}

#[test]
fn closing_waits_for_the_server_and_fails_later_requests() {
    let (client, mut server, _listener) = connected();
    let clone = client.clone();
    let serve = || {
        let sent = server.expect(OpCode::CLOSE_SESSION);
        server.reply(sent.xid, ErrorCode::OK, &());
        assert!(server.request().is_none(), "the client hangs up");
    };
    during(|| client.close(), serve);
    assert_eq!(clone.state(), State::Ended(End::Closed));
    let closed = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };
    assert_eq!(clone.sync("/").wait().map_err(Error::from), Err(closed.clone()));
    assert_eq!(clone.ready().wait(), Err(closed));
    assert_eq!(clone.session_ticket(), None);
}

#[test]
fn dropping_the_last_handle_closes_the_session() {
    let (client, mut server, _listener) = connected();
    drop(client.clone());
    drop(client);
    server.expect(OpCode::CLOSE_SESSION);
}

#[test]
fn an_expired_session_fails_pending_requests() {
    let (client, server, listener) = connected();
    drop(server);
    let failed = during(
        || (client.sync("/").wait(), client.ended()),
        || {
            let mut server = listener.accept();
            server.handshake();
            server.answer_handshake(0, SessionId::NONE);
        },
    );
    // The request may be lost or unsent, depending on which came first: the request or the loss.
    assert!(
        matches!(
            failed.0.as_ref().unwrap_err().reason,
            Error::Ended { .. } | Error::ConnectionLost
        ),
        "{failed:?}"
    );
    assert_eq!(failed.1, End::Expired);
}

#[test]
fn a_session_is_resumed_by_another_client() {
    let (first, server, _listener) = connected();
    let ticket = first.session_ticket().expect("the session is alive");
    drop(server);
    let listener = Listener::new();
    let builder = listener.builder().resume(ticket.clone());
    // Keep the connection until the client has seen it.
    let mut kept = None;
    let second = during(
        || builder.connect(),
        || {
            let mut server = listener.accept();
            assert_eq!(server.handshake(), ticket.id);
            server.answer_handshake(20_000, ticket.id);
            kept = Some(server);
        },
    );
    assert_eq!(second.unwrap().session_id(), ticket.id);
}
