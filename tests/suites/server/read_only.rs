//! A read-only server: one without a quorum.

use core::time::Duration;

use bytes::{Bytes, BytesMut};
use zk_proto::{
    ConnectRequest, ErrorCode, OpCode, Password, ReplyHeader, Request, SessionId, Xid, Zxid, frame,
};
use zk_testkit::raw::{Message, RawClient};
use zk_testkit::server::{Config, Output, Version};

use crate::world::{World, create, exists, get_data, multi};

/// Encodes a handshake that accepts read-only servers.
fn connect(session_id: SessionId, password: Password) -> Bytes {
    let request = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 10_000,
        session_id,
        password: Some(&password.0),
        read_only: Some(true),
    };
    let mut out = BytesMut::new();
    frame::encode(&request, &mut out).expect("a frame");
    out.freeze()
}

/// Starts three servers with a node, of which only the first is alive.
fn partitioned(config: Config) -> World {
    let mut world = World::with(Config { servers: 3, read_only_mode: true, ..config });
    let (conn, _) = world.connect(0);
    world.call(conn, &create("/a"));
    for server in [1, 2] {
        world.ensemble.kill(world.now, server);
    }
    world.deliver();
    world
}

fn with_local_sessions() -> World {
    partitioned(Config { local_sessions: true, ..Config::default() })
}

#[test]
fn a_read_only_server_serves_reads_and_refuses_writes() {
    let mut world = with_local_sessions();
    assert!(world.ensemble.is_read_only(0));
    let strict = world.open(0);
    world.send_bytes(strict, &RawClient::connect(10_000));
    assert_eq!(world.received(strict), ["closed"]);

    let conn = world.open(0);
    world.send_bytes(conn, &connect(SessionId::NONE, Password::NONE));
    assert_eq!(world.received(conn), ["connected"]);
    assert_eq!(world.ask(conn, &get_data("/a", true)), "GET_DATA OK");
    assert_eq!(world.ask(conn, &Request::Ping(())), "PING OK");
    assert_eq!(world.ask(conn, &create("/b")), "CREATE NOT_READ_ONLY");
    assert_eq!(world.ask(conn, &multi(&[])), "MULTI NOT_READ_ONLY");
    let zxid = world.ensemble.zxid();
    assert_eq!(world.call(conn, &exists("/b", false)).header.zxid, zxid);
    world.send(conn, &Request::CloseSession(()));
    assert_eq!(world.received(conn), ["CLOSE_SESSION OK", "closed"]);
    assert_eq!(world.ensemble.zxid(), zxid);
}

#[test]
fn without_local_sessions_the_handshake_is_an_error() {
    let mut world = partitioned(Config::default());
    let conn = world.open(0);
    world.send_bytes(conn, &connect(SessionId::NONE, Password::NONE));
    let header =
        ReplyHeader { xid: Xid(0), zxid: world.ensemble.zxid(), err: ErrorCode::NOT_READ_ONLY };
    let mut expected = BytesMut::new();
    frame::encode(&header, &mut expected).expect("a frame");
    assert_eq!(world.messages(conn), [Message::Garbage(expected.freeze().slice(4..))]);
    // A request of a session that does not exist, which could be read as a second handshake.
    world.send_bytes(conn, &connect(SessionId::NONE, Password::NONE));
    world.send(conn, &exists("/a", false));
    assert_eq!(world.messages(conn), []);

    let mut world = partitioned(Config::default().with_version(Version::V3_6));
    let conn = world.open(0);
    world.send_bytes(conn, &connect(SessionId::NONE, Password::NONE));
    assert_eq!(world.received(conn), ["connected"]);
}

#[test]
fn a_read_only_server_refuses_sessions_of_the_ensemble_since_3_7() {
    for (version, answer) in [(Version::V3_6, "connected"), (Version::V3_8, "closed")] {
        let config = Config { read_only_mode: true, ..Config::servers(3) };
        let mut world = World::with(config.with_version(version));
        let (_, session) = world.connect(0);
        world.ensemble.kill(world.now, 1);
        world.ensemble.kill(world.now, 2);
        let conn = world.open(0);
        world.send_bytes(conn, &connect(session.id, session.password));
        assert_eq!(world.received(conn), [answer], "{version:?}");
    }
}

#[test]
fn local_sessions_expire_and_end_with_the_return_of_the_quorum() {
    let mut world = with_local_sessions();
    let conn = world.open(0);
    world.send_bytes(conn, &connect(SessionId::NONE, Password::NONE));
    let [Message::Connected(session)] = &world.messages(conn)[..] else { panic!("no session") };
    let session = session.clone();
    let other = world.open(0);
    world.send_bytes(other, &connect(SessionId::NONE, Password::NONE));
    for _ in 0..13 {
        world.advance(Duration::from_secs(1));
        world.call(conn, &Request::Ping(()));
    }
    assert_eq!(world.received(other), ["connected", "closed"]);

    world.ensemble.restart(world.now, 1);
    world.deliver();
    assert!(!world.ensemble.is_read_only(0));
    assert_eq!(world.received(conn), ["closed"]);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid::ZERO, &session));
    assert_eq!(world.received(conn), ["expired", "closed"]);
    assert_eq!(world.ensemble.counters().requests(OpCode::CREATE), 1);
    assert!(!matches!(world.ensemble.poll_output(), Some(Output::Send { .. })));
}

#[test]
fn an_isolated_server_serves_stale_reads() {
    let config = Config { read_only_mode: true, local_sessions: true, ..Config::servers(3) };
    let mut world = World::with(config);
    let leader = world.ensemble.leader().expect("a leader");
    let (writer, _) = world.connect((leader + 1) % 3);
    let (left, _) = world.connect(leader);
    world.ensemble.cut_off(world.now, leader);
    world.deliver();
    assert_eq!(world.received(left), ["closed"]);
    assert_eq!(world.received(writer), ["closed"], "another leader");

    let (writer, _) = world.connect((leader + 1) % 3);
    assert_eq!(world.ask(writer, &create("/new")), "CREATE /new");
    assert!(world.ensemble.is_read_only(leader));
    let reader = world.open(leader);
    world.send_bytes(reader, &connect(SessionId::NONE, Password::NONE));
    assert_eq!(world.received(reader), ["connected"]);
    assert_eq!(world.ask(reader, &exists("/new", true)), "EXISTS NO_NODE");
    assert_eq!(world.ask(reader, &create("/b")), "CREATE NOT_READ_ONLY");

    world.ensemble.reunite(world.now, leader);
    world.deliver();
    assert_eq!(world.received(reader), ["closed"]);
    assert_eq!(
        world.ask(writer, &exists("/new", false)),
        "EXISTS OK",
        "the other servers are not affected"
    );
    let (reader, _) = world.connect(leader);
    assert_eq!(world.ask(reader, &exists("/new", false)), "EXISTS OK");
}
