//! ClickHouse Keeper: what it lacks, and how its sessions end.

use core::time::Duration;

use zk_proto::{
    CreateMode, MultiOp, MultiReadRequest, MultiRequest, OpCode, Request, SessionId, Zxid,
};
use zk_testkit::raw::{Message, RawClient};
use zk_testkit::server::{Config, Keeper};

use crate::world::{World, create, create_as, exists, get_children, get_data};

fn world(keeper: Keeper) -> World {
    World::with(Config::servers(3).with_keeper(keeper))
}

#[test]
fn an_operation_that_it_lacks_ends_the_connection_without_a_reply() {
    for (opcode, since) in [
        (OpCode::MULTI_READ, Some(Keeper::Early)),
        (OpCode::CREATE2, Some(Keeper::WithWatches)),
        (OpCode::REMOVE_WATCHES, Some(Keeper::WithWatches)),
        (OpCode::ADD_WATCH, Some(Keeper::WithWatches)),
        (OpCode::SET_WATCHES, Some(Keeper::WithWatches)),
        (OpCode::CREATE_CONTAINER, Some(Keeper::WithContainers)),
        (OpCode::CREATE_TTL, None),
        (OpCode::SASL, None),
        (OpCode::GET_EPHEMERALS, None),
        (OpCode::WHO_AM_I, None),
    ] {
        for keeper in Keeper::ALL {
            assert_eq!(keeper.serves(opcode), since.is_some_and(|since| since <= keeper));
            let mut world = world(keeper);
            let (conn, _) = world.connect(0);
            match opcode {
                OpCode::MULTI_READ => {
                    world.send(conn, &Request::MultiRead(MultiReadRequest::new(&[])));
                }
                _ => world.send_raw(conn, opcode, &()),
            }
            let is_lacking = world.received(conn) == ["closed"];
            assert_eq!(is_lacking, !keeper.serves(opcode), "{opcode} of {keeper:?}");
        }
    }
}

#[test]
fn a_part_that_it_lacks_ends_the_connection_too() {
    let Request::Create(part) = create("/a") else { panic!("a create") };
    for keeper in Keeper::ALL {
        let mut world = world(keeper);
        let (conn, _) = world.connect(0);
        let parts = [MultiOp::Create2(part)];
        world.send(conn, &Request::Multi(MultiRequest::new(&parts)));
        let is_lacking = world.received(conn) == ["closed"];
        assert_eq!(is_lacking, keeper < Keeper::WithWatches, "{keeper:?}");
        assert_eq!(world.ensemble.node("/a").is_some(), !is_lacking, "{keeper:?}");
    }
}

#[test]
fn no_session_is_resumed_and_its_nodes_stay_until_its_timeout() {
    let mut world = world(Keeper::WithContainers);
    let (conn, session) = world.connect(0);
    world.ask(conn, &create_as("/e", CreateMode::EPHEMERAL));
    world.ensemble.handle_disconnect(conn);
    let conn = world.open(0);
    world.send_bytes(conn, &RawClient::resume(Zxid(2), &session));
    let [Message::Connected(next)] = &world.messages(conn)[..] else { panic!("no session") };
    assert!(next.id != session.id && next.id != SessionId::NONE, "{next:?}");
    assert_eq!(world.stat(conn, "/e").ephemeral_owner, session.id);
    world.advance(Duration::from_secs(9));
    world.ask(conn, &exists("/e", true));
    world.advance(Duration::from_secs(2));
    assert_eq!(world.received(conn), ["NODE_DELETED /e"]);
}

#[test]
fn sessions_last_ten_seconds_at_least() {
    for (wanted, granted) in [(0, 10_000), (4_000, 10_000), (30_000, 30_000), (i32::MAX, 100_000)] {
        let mut world = world(Keeper::Early);
        let conn = world.open(0);
        world.send_bytes(conn, &RawClient::connect(wanted));
        let [Message::Connected(session)] = &world.messages(conn)[..] else { panic!("refused") };
        assert_eq!(session.timeout, granted);
    }
}

#[test]
fn clients_can_see_that_it_is_no_zookeeper() {
    for keeper in Keeper::ALL {
        let mut world = world(keeper);
        let (conn, _) = world.connect(0);
        let children = format!("{:?}", world.call(conn, &get_children("/", false)));
        assert!(children.contains("keeper") && !children.contains("zookeeper"), "{children}");
        world.call(conn, &get_data("/keeper/feature_flags", false));
        let flags = world.ensemble.node("/keeper/feature_flags").and_then(|node| node.data());
        // `multi_read` alone is the second bit.
        let is_early = flags.is_some_and(|flags| flags == [0x40, 0]);
        assert_eq!(is_early, keeper == Keeper::Early, "{flags:?}");
    }
}
