//! The memory and allocations of an idle session.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::runtime::{Builder, Runtime};
use tokio::task::yield_now;
use zk_session::Client;
use zk_session::proto::{
    ConnectResponse, Encode, ErrorCode, OpCode, ReplyHeader, Request, SessionId, SetDataRequest,
    Xid, Zxid,
};
use zk_session::session::{Action, Config, Session, State};
use zk_session::time::Instant;
use zk_testkit::scripted;

use super::frozen::Frozen;

const SESSIONS: usize = 1_000;
const TIMEOUT: Duration = Duration::from_secs(3);

fn payload(message: &impl Encode) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes.freeze()
}

/// Returns a connected, idle session core.
fn idle_core() -> Session<()> {
    let mut config = Config::new(3, 7);
    config.timeout = TIMEOUT;
    let now = Instant::START;
    let mut session = Session::new(now, config);
    assert!(matches!(session.poll_action(), Some(Action::Connect(_))));
    session.handle_connected(now);
    session.handle_sent(now, session.output().len());
    let welcome = ConnectResponse {
        protocol_version: 0,
        timeout: TIMEOUT.as_millis() as i32,
        session_id: SessionId(7),
        password: Some(&[7; 16]),
        read_only: Some(false),
    };
    session.handle_frame(now, payload(&welcome));
    while session.poll_event().is_some() {}
    assert!(matches!(session.state(), State::Connected { .. }));
    session
}

/// Lets the next ping become due, and answers it.
fn keep_alive(session: &mut Session<()>, pong: &Bytes) {
    let mut due = Instant::START;
    while session.output().is_empty() {
        // The end of the lease may be due before the ping.
        due = session.poll_timeout().expect("a ping");
        session.handle_timeout(due);
    }
    session.handle_sent(due, session.output().len());
    session.handle_frame(due, pong.clone());
    assert_eq!(session.poll_event(), None);
}

fn pong() -> Bytes {
    payload(&ReplyHeader { xid: Xid::PING, zxid: Zxid(1), err: ErrorCode::OK })
}

#[test]
fn an_idle_core_takes_four_kibibytes_at_most() {
    let pong = pong();
    let mut sessions = Vec::with_capacity(SESSIONS);
    let allocations = allocation_counter::measure(|| {
        sessions.extend((0..SESSIONS).map(|_| idle_core()));
        sessions.iter_mut().for_each(|session| keep_alive(session, &pong));
    });
    let each = allocations.bytes_current as usize / SESSIONS + size_of::<Session<()>>();
    println!("an idle session: {each} bytes in the core");
    assert!(each <= 4 * 1024, "{each}");
}

#[test]
fn keeping_a_core_alive_allocates_nothing() {
    let pong = pong();
    let mut session = idle_core();
    keep_alive(&mut session, &pong);
    let allocations = allocation_counter::measure(|| {
        for _ in 0..100 {
            keep_alive(&mut session, &pong);
        }
    });
    assert_eq!(allocations.count_total, 0);
}

#[test]
fn memory_of_a_burst_is_freed() {
    const REQUESTS: i32 = 1_000;
    let data = [7; 4096];
    let request = Request::SetData(SetDataRequest { path: "/a", data: Some(&data), version: 1 });
    let mut session = idle_core();
    let now = Instant::START;
    let allocations = allocation_counter::measure(|| {
        for lost in [false, true] {
            for _ in 0..REQUESTS {
                session.submit(&request, ()).expect("room");
            }
            while !session.output().is_empty() {
                session.handle_sent(now, session.output().len().min(50_000));
            }
            if lost {
                session.handle_disconnected(now);
            }
            for xid in 1..=REQUESTS {
                let (zxid, err) = (Zxid(1), ErrorCode::OK);
                session.handle_frame(now, payload(&ReplyHeader { xid: Xid(xid), zxid, err }));
            }
            while session.poll_event().is_some() {}
            assert_eq!(session.pending(), 0);
        }
    });
    assert!(allocations.bytes_max > 4 << 20, "{allocations:?}");
    assert!(allocations.bytes_current < 64 << 10, "{allocations:?}");
}

/// Advances the clock until the clients send a ping, and waits for the answers.
async fn ping(clients: &[Client]) {
    let leases = || clients.iter().map(Client::lease);
    let first = leases().max().expect("a client");
    tokio::time::advance(TIMEOUT / 2).await;
    while leases().any(|lease| lease <= first) {
        yield_now().await;
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

#[test]
fn an_idle_client_takes_sixteen_kibibytes_at_most() {
    let at = scripted::listen(|_, mut peer| {
        peer.welcome(TIMEOUT.as_millis() as i32)?;
        peer.serve(|_| {})
    });
    let runtime = runtime();
    let mut clients = Vec::with_capacity(SESSIONS);
    let allocations = allocation_counter::measure(|| {
        runtime.block_on(async {
            let _frozen = Frozen::start();
            for _ in 0..SESSIONS {
                clients.push(Client::connect(&at).await.expect("connected"));
            }
            ping(&clients).await;
        });
    });
    let is_connected = |client: &Client| matches!(client.state(), State::Connected { .. });
    assert!(clients.iter().all(is_connected));
    let each = allocations.bytes_current as usize / SESSIONS;
    println!("an idle session: {each} bytes with the async client");
    assert!(each <= 16 * 1024, "{each}");
}

#[test]
fn keeping_a_client_alive_allocates_nothing() {
    let pings = Arc::new(AtomicUsize::new(0));
    let counted = pings.clone();
    let at = scripted::listen(move |_, mut peer| {
        peer.welcome(TIMEOUT.as_millis() as i32)?;
        peer.serve(|opcode| {
            assert_eq!(opcode, OpCode::PING);
            counted.fetch_add(1, Ordering::SeqCst);
        })
    });
    let runtime = runtime();
    let (_frozen, clients) = runtime
        .block_on(async { (Frozen::start(), [Client::connect(&at).await.expect("connected")]) });
    let pings_answered = async || {
        for _ in 0..3 {
            ping(&clients).await;
        }
    };
    runtime.block_on(pings_answered());
    let before = pings.load(Ordering::SeqCst);
    // Allocations of a runtime that is entered and waits.
    let of_runtime = allocation_counter::measure(|| runtime.block_on(yield_now()));
    let allocations = allocation_counter::measure(|| runtime.block_on(pings_answered()));
    assert_eq!(pings.load(Ordering::SeqCst), before + 3);
    assert!(matches!(clients[0].state(), State::Connected { .. }));
    assert_eq!(allocations.count_total, of_runtime.count_total);
}
