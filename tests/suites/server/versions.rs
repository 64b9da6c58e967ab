//! Differences between releases.

use zk_proto::{
    Acl, AddWatchMode, CreateMode, CreateRequest, List, MultiOp, OpCode, ReconfigRequest, Request,
    Zxid,
};
use zk_testkit::raw::Message;
use zk_testkit::server::{Config, Version};

use crate::world::{World, add_watch, authenticate, create, exists, multi, node, set_data};

const ALL: [Version; 5] =
    [Version::V3_4, Version::V3_5, Version::V3_6, Version::V3_8, Version::V3_9];

fn world(version: Version) -> World {
    World::with(Config::default().with_version(version))
}

#[test]
fn an_operation_of_a_later_release_costs_the_connection() {
    for (opcode, since) in [
        (OpCode::MULTI, Version::V3_4),
        (OpCode::CREATE2, Version::V3_5),
        (OpCode::CREATE_TTL, Version::V3_5),
        (OpCode::REMOVE_WATCHES, Version::V3_5),
        (OpCode::ADD_WATCH, Version::V3_6),
        (OpCode::SET_WATCHES2, Version::V3_6),
        (OpCode::MULTI_READ, Version::V3_6),
        (OpCode::WHO_AM_I, Version::V3_8),
    ] {
        for version in ALL {
            let mut world = world(version);
            let (conn, _) = world.connect(0);
            world.send_raw(conn, opcode, &());
            let received = world.received(conn);
            let is_refused = received == [format!("{opcode} UNIMPLEMENTED"), "closed".into()];
            assert_eq!(is_refused, version < since, "{opcode} in {version:?}: {received:?}");
        }
    }
}

#[test]
fn events_report_their_zxid_since_3_9() {
    for version in ALL {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        world.call(conn, &exists("/a", true));
        world.send(conn, &create("/a"));
        let [Message::Event { zxid, .. }, Message::Reply(reply)] = &world.messages(conn)[..] else {
            panic!("an event and a reply");
        };
        let expected = if version >= Version::V3_9 { reply.header.zxid } else { Zxid(-1) };
        assert_eq!(*zxid, expected, "{version:?}");
    }
}

#[test]
fn without_read_permission_there_is_no_event_since_3_8_and_no_stat_since_3_9() {
    for version in [Version::V3_6, Version::V3_8, Version::V3_9] {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        let (owner, _) = world.connect(0);
        world.call(owner, &authenticate("u:p"));
        world.call(conn, &add_watch("/mine", AddWatchMode::PERSISTENT));
        let acl = List::new(&[Acl::CREATOR_ALL]);
        let request = CreateRequest { acl, ..node("/mine", CreateMode::PERSISTENT) };
        world.call(owner, &Request::Create(request));
        assert_eq!(world.received(conn).is_empty(), version >= Version::V3_8, "{version:?}");
        let is_denied = world.ask(conn, &exists("/mine", true)) == "EXISTS NO_AUTH";
        assert_eq!(is_denied, version >= Version::V3_9, "{version:?}");
        assert_eq!(world.ask(owner, &exists("/mine", false)), "EXISTS OK");
        world.call(conn, &authenticate("u:p"));
        world.call(owner, &set_data("/mine", -1));
        assert_eq!(world.received(conn), ["NODE_DATA_CHANGED /mine"], "{version:?}");
    }
}

#[test]
fn create2_in_a_multi_answers_with_a_stat_since_3_9_and_is_unknown_in_3_4() {
    for (version, answer) in [
        (Version::V3_4, "MULTI MARSHALLING_ERROR"),
        (Version::V3_5, "MULTI /a"),
        (Version::V3_8, "MULTI /a"),
        (Version::V3_9, "MULTI /a with its stat"),
    ] {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        let ops = [MultiOp::Create2(node("/a", CreateMode::PERSISTENT))];
        assert_eq!(world.ask(conn, &multi(&ops)), answer, "{version:?}");
    }
}

#[test]
fn an_unknown_mode_fails_its_part_of_a_multi_and_since_3_9_the_whole() {
    for (version, answer) in
        [(Version::V3_8, "MULTI OK, BAD_ARGUMENTS"), (Version::V3_9, "MULTI MARSHALLING_ERROR")]
    {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        let ops =
            [CreateMode::PERSISTENT, CreateMode(9)].map(|mode| MultiOp::Create(node("/a", mode)));
        assert_eq!(world.ask(conn, &multi(&ops)), answer);
        assert!(world.ensemble.node("/a").is_none());
    }
}

#[test]
fn the_members_are_listed_in_a_node_since_3_5() {
    for version in ALL {
        let world = world(version);
        let has_config = world.ensemble.node("/zookeeper/config").is_some();
        assert_eq!(has_config, version >= Version::V3_5);
    }
}

#[test]
fn the_members_cannot_be_changed_by_reconfig() {
    for (servers, reconfig, config, answer) in [
        (1, false, -1, "RECONFIG_DISABLED"),
        (1, true, -1, "UNIMPLEMENTED"),
        (3, false, -1, "RECONFIG_DISABLED"),
        (3, true, -1, "NEW_CONFIG_NO_QUORUM"),
        (3, true, 7, "BAD_VERSION"),
    ] {
        let mut world = World::with(Config { reconfig, ..Config::servers(servers) });
        let (conn, _) = world.connect(0);
        let request = ReconfigRequest {
            joining_servers: None,
            leaving_servers: Some("2"),
            new_members: None,
            cur_config_id: config,
        };
        assert_eq!(world.ask(conn, &Request::Reconfig(request)), format!("RECONFIG {answer}"));
    }
}
