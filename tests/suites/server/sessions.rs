//! Sessions: the handshake, expiry, moving, closing.

use core::time::Duration;

use zk_proto::{CreateMode, OpCode, Password, Request, SessionId, Zxid};
use zk_testkit::raw::{Credentials, Message, RawClient};

use crate::world::{World, create, create_as, exists, get_children, get_data};

#[test]
fn the_timeout_is_kept_within_its_limits() {
    for (wanted, granted) in [(-1, 4_000), (0, 4_000), (10_000, 10_000), (i32::MAX, 40_000)] {
        let mut world = World::new(1);
        let conn = world.open(0);
        world.send_bytes(conn, &RawClient::connect(wanted));
        let [Message::Connected(session)] = &world.messages(conn)[..] else { panic!("refused") };
        assert_eq!(session.timeout, granted);
        assert_ne!(session.password, Password::NONE);
    }
}

#[test]
fn a_close_deletes_the_ephemerals_by_one_zxid_then_replies_then_disconnects() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let (watcher, _) = world.connect(0);
    for path in ["/e1", "/e2"] {
        world.ask(conn, &create_as(path, CreateMode::EPHEMERAL));
        world.call(watcher, &get_data(path, true));
    }
    world.call(conn, &get_children("/", true));
    let before = world.ensemble.zxid();
    world.send(conn, &Request::CloseSession(()));
    let answers = ["NODE_CHILDREN_CHANGED /", "CLOSE_SESSION OK", "closed"];
    assert_eq!(world.received(conn), answers);
    assert_eq!(world.received(watcher), ["NODE_DELETED /e1", "NODE_DELETED /e2"]);
    assert_eq!(world.ensemble.zxid(), Zxid(before.0 + 1));
    assert_eq!(world.stat(watcher, "/").pzxid, Zxid(before.0 + 1));
}

#[test]
fn a_session_and_its_ephemerals_survive_a_lost_connection() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    world.ensemble.handle_disconnect(conn);
    assert_eq!(world.ensemble.server_of(session.id), None);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid(2), &session));
    assert_eq!(world.messages(conn), [Message::Connected(session.clone())]);
    assert_eq!(world.stat(conn, "/e").ephemeral_owner, session.id);
    assert_eq!(world.ensemble.server_of(session.id), Some(0));
}

#[test]
fn a_silent_session_expires_within_one_tick_of_its_timeout() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    let (watcher, _) = world.connect(0);
    world.call(watcher, &exists("/e", true));
    for _ in 0..11 {
        world.advance(Duration::from_secs(1));
        world.call(watcher, &Request::Ping(()));
        assert_eq!(world.received(conn), [""; 0], "not at {:?}", world.now);
    }
    world.advance(Duration::from_secs(1));
    assert_eq!(world.received(conn), ["closed"]);
    assert_eq!(world.received(watcher), ["NODE_DELETED /e"]);
}

#[test]
fn pings_keep_a_session_alive_and_are_answered_with_their_own_xid() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    for _ in 0..50 {
        world.advance(Duration::from_secs(3));
        assert_eq!(world.ask(conn, &Request::Ping(())), "PING OK");
    }
    let raw = world.ensemble.session_counters(session.id).map(|c| c.requests(OpCode::PING));
    assert_eq!(raw, Some(50));
}

#[test]
fn an_expired_session_is_refused_with_a_reply() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    assert!(world.ensemble.expire_session(world.now, session.id));
    assert!(!world.ensemble.expire_session(world.now, session.id));
    world.deliver();
    assert_eq!(world.received(conn), ["closed"]);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid::ZERO, &session));
    assert_eq!(world.received(conn), ["expired", "closed"]);
}

#[test]
fn a_wrong_password_is_refused_but_still_disconnects_the_owner() {
    let mut world = World::new(1);
    let (owner, session) = world.connect(0);
    let thief = world.open(0);
    let Credentials { id, timeout, .. } = session;
    let wrong = Credentials { id, timeout, password: Password([7; 16]) };
    world.send_bytes(thief, &RawClient::resume(Zxid::ZERO, &wrong));
    assert_eq!(world.received(thief), ["expired", "closed"]);
    assert_eq!(world.received(owner), ["closed"]);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid::ZERO, &session));
    assert_eq!(world.received(conn), ["connected"]);
}

#[test]
fn a_client_that_has_seen_a_newer_zxid_is_disconnected_without_a_reply() {
    let mut world = World::new(1);
    let (_, session) = world.connect(0);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid(1_000), &session));
    assert_eq!(world.received(conn), ["closed"]);
}

#[test]
fn after_a_move_to_another_server_the_old_connection_is_closed_when_used() {
    let mut world = World::new(3);
    let (old, session) = world.connect(0);
    let seen = world.ensemble.zxid();
    let new = world.open(1);
    world.send_bytes(new, &RawClient::resume(seen, &session));
    assert_eq!(world.received(new), ["connected"]);
    assert_eq!(world.ensemble.server_of(session.id), Some(1));
    assert_eq!(world.received(old), [""; 0]);
    world.send(old, &create("/late"));
    assert_eq!(world.received(old), ["closed"]);
    assert!(world.ensemble.node("/late").is_none());
    assert_eq!(world.ask(new, &create("/new")), "CREATE /new");
}

#[test]
fn a_session_resumed_on_the_same_server_closes_its_old_connection() {
    let mut world = World::new(1);
    let (old, session) = world.connect(0);
    let new = world.open(0);
    world.send_bytes(new, &RawClient::resume(Zxid(1), &session));
    assert_eq!(world.received(old), ["closed"]);
    assert_eq!(world.received(new), ["connected"]);
    assert_eq!(world.ask(new, &create("/new")), "CREATE /new");
}

#[test]
fn requests_behind_the_handshake_are_answered_after_it() {
    let mut world = World::new(1);
    let conn = world.open(0);
    let mut bytes = RawClient::connect(10_000).to_vec();
    bytes.extend(world.frame(conn, &create("/a")));
    bytes.extend(world.frame(conn, &exists("/a", false)));
    // Byte by byte, since the server must accept any pieces.
    for byte in bytes {
        world.send_bytes(conn, &[byte]);
    }
    assert_eq!(world.received(conn), ["connected", "CREATE /a", "EXISTS OK"]);
}

#[test]
fn session_ids_are_unique_and_never_zero() {
    let mut world = World::new(3);
    let ids: Vec<SessionId> = (0..9).map(|n| world.connect(n % 3).1.id).collect();
    let mut unique = ids.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), ids.len());
    assert!(!ids.contains(&SessionId::NONE));
}
