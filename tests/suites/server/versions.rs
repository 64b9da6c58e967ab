//! Differences between releases.

use core::net::IpAddr;

use zk_proto::{
    Acl, AddWatchMode, CheckVersionRequest, CreateMode, CreateRequest, CreateTtlRequest, Id, List,
    MultiOp, OpCode, Perms, ReconfigRequest, Request, SessionId, Zxid,
};
use zk_testkit::raw::{Message, RawClient};
use zk_testkit::server::{Config, Version};

use crate::world::{World, add_watch, authenticate, check, create, exists, multi, node, set_data};

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
fn since_3_9_a_multi_with_a_mode_of_another_operation_is_refused_before_any_part_is_checked() {
    type Make = fn(CreateMode) -> MultiOp<'static>;
    let create: Make = |mode| MultiOp::Create(node("/a", mode));
    let create_2: Make = |mode| MultiOp::Create2(node("/a", mode));
    let container: Make = |mode| MultiOp::CreateContainer(node("/a", mode));
    let with_ttl: Make = |mode| {
        let CreateRequest { path, data, acl, .. } = node("/a", mode);
        MultiOp::CreateTtl(CreateTtlRequest { path, data, acl, mode, ttl: 1000 })
    };
    let (unknown, ttl) = (CreateMode(7), CreateMode::PERSISTENT_WITH_TTL);
    for (op, mode, of_3_8, of_3_9) in [
        (create, unknown, "BAD_ARGUMENTS", "MARSHALLING_ERROR"),
        (create_2, unknown, "BAD_ARGUMENTS", "MARSHALLING_ERROR"),
        (container, unknown, "BAD_ARGUMENTS", "MARSHALLING_ERROR"),
        (with_ttl, unknown, "BAD_ARGUMENTS", "BAD_ARGUMENTS"),
        (create, ttl, "MARSHALLING_ERROR", "MARSHALLING_ERROR"),
        (create_2, ttl, "MARSHALLING_ERROR", "MARSHALLING_ERROR"),
        (container, ttl, "MARSHALLING_ERROR", "MARSHALLING_ERROR"),
    ] {
        for (version, answer) in [(Version::V3_8, of_3_8), (Version::V3_9, of_3_9)] {
            let mut world = world(version);
            let (conn, _) = world.connect(0);
            let is_whole = answer == "MARSHALLING_ERROR";
            let expected =
                if is_whole { format!("MULTI {answer}") } else { format!("MULTI OK, {answer}") };
            let ops = [MultiOp::Create(node("/b", CreateMode::PERSISTENT)), op(mode)];
            assert_eq!(world.ask(conn, &multi(&ops)), expected, "{version:?} {ops:?}");
            assert!(world.ensemble.node("/b").is_none());

            let is_undecodable = is_whole && version >= Version::V3_9;
            let expected = match is_undecodable {
                true => "MULTI MARSHALLING_ERROR",
                false => "MULTI NO_NODE, RUNTIME_INCONSISTENCY",
            };
            let ops = [check("/missing", -1), op(mode)];
            assert_eq!(world.ask(conn, &multi(&ops)), expected, "{version:?} {ops:?}");
        }
    }
}

#[test]
fn since_3_9_create_container_in_a_multi_creates_a_container_whatever_its_mode() {
    for (version, owner) in [(Version::V3_8, true), (Version::V3_9, false)] {
        let mut world = world(version);
        let (conn, session) = world.connect(0);
        let ops = [MultiOp::CreateContainer(node("/a", CreateMode::EPHEMERAL))];
        let answer = if owner { "MULTI /a" } else { "MULTI /a with its stat" };
        assert_eq!(world.ask(conn, &multi(&ops)), answer);
        let owner = if owner { session.id } else { SessionId::NONE };
        assert_eq!(world.stat(conn, "/a").ephemeral_owner, owner, "{version:?}");
    }
}

#[test]
fn since_3_9_a_check_outside_a_multi_costs_the_connection() {
    for (version, answer) in [
        (Version::V3_8, &["CHECK BAD_VERSION"][..]),
        (Version::V3_9, &["CHECK UNIMPLEMENTED", "closed"]),
    ] {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        world.send(conn, &Request::Check(CheckVersionRequest { path: "/", version: 7 }));
        assert_eq!(world.received(conn), answer, "{version:?}");
        let (conn, _) = world.connect(0);
        assert_eq!(world.ask(conn, &multi(&[check("/", 7)])), "MULTI BAD_VERSION");
    }
}

#[test]
fn since_3_9_only_a_multi_takes_a_zxid_if_it_cannot_be_decoded() {
    for version in ALL.into_iter().filter(|version| *version >= Version::V3_5) {
        let mut world = world(version);
        let (conn, _) = world.connect(0);
        for opcode in [
            OpCode::CREATE,
            OpCode::CREATE2,
            OpCode::CREATE_CONTAINER,
            OpCode::CREATE_TTL,
            OpCode::DELETE,
            OpCode::SET_DATA,
            OpCode::SET_ACL,
            OpCode::MULTI,
        ] {
            let before = world.ensemble.zxid();
            world.send_raw(conn, opcode, &());
            assert_eq!(world.received(conn), [format!("{opcode} MARSHALLING_ERROR")]);
            let takes_one = version < Version::V3_9 || opcode == OpCode::MULTI;
            let taken = world.ensemble.zxid().0 - before.0;
            assert_eq!(taken, i64::from(takes_one), "{opcode} in {version:?}");
        }
    }
}

#[test]
fn access_control_lists_know_ipv6_addresses_since_3_9() {
    for (id, in_3_8, in_3_9) in [
        ("127.0.0.1", true, true),
        ("127.0.0.01/8", true, true),
        ("127.0.0.1/33", false, false),
        ("127.0.0.1/", false, false),
        ("::1", false, true),
        ("::/0", false, true),
        ("fe80::1/128", false, true),
        ("fe80::1/129", false, false),
        ("::ffff:127.0.0.1", false, false),
    ] {
        for (version, is_valid) in [(Version::V3_8, in_3_8), (Version::V3_9, in_3_9)] {
            let mut world = world(version);
            let (conn, _) = world.connect(0);
            let acl = [Acl { perms: Perms::ALL, id: Id { scheme: "ip", id: Some(id) } }];
            let acl = List::new(&acl);
            let request = CreateRequest { acl, ..node("/a", CreateMode::PERSISTENT) };
            let answer = if is_valid { "CREATE /a" } else { "CREATE INVALID_ACL" };
            assert_eq!(world.ask(conn, &Request::Create(request)), answer, "{id} in {version:?}");
        }
    }
}

#[test]
fn an_ipv6_network_admits_its_addresses() {
    let mut world = world(Version::V3_9);
    let address = |last| IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, last]);
    let connect = |world: &mut World, address| {
        let conn = world.ensemble.handle_connect_from(0, address).expect("a live server");
        world.admit(conn);
        world.send_bytes(conn, &RawClient::connect(10_000));
        world.messages(conn);
        conn
    };
    let acl = [Acl { perms: Perms::ALL, id: Id { scheme: "ip", id: Some("fe80::10/124") } }];
    let acl = List::new(&acl);
    let request = CreateRequest { acl, ..node("/a", CreateMode::PERSISTENT) };
    let inside = connect(&mut world, address(0x1f));
    world.call(inside, &Request::Create(request));
    assert_eq!(world.ask(inside, &exists("/a", false)), "EXISTS OK");
    for outside in [address(0x20), IpAddr::from([127, 0, 0, 1])] {
        let outside = connect(&mut world, outside);
        assert_eq!(world.ask(outside, &exists("/a", false)), "EXISTS NO_AUTH");
    }
}

#[test]
fn the_number_of_a_release_selects_the_version() {
    for version in ALL {
        assert_eq!(Version::of_release(version.number()), Some(version));
    }
    for (number, version) in [
        ("3.7.1, built on some day", Some(Version::V3_8)),
        ("3.8.0-${mvngit.commit.id}, built on some day", Some(Version::V3_8)),
        ("3.10.0-SNAPSHOT", Some(Version::V3_9)),
        ("4.0.0", Some(Version::V3_9)),
        ("3.3.6", None),
        ("", None),
    ] {
        assert_eq!(Version::of_release(number), version, "{number}");
    }
}

#[test]
fn the_members_are_listed_in_a_node_since_3_5() {
    for version in ALL {
        let world = world(version);
        let has_config = world.ensemble.node("/zookeeper/config").is_some();
        assert_eq!(has_config, version >= Version::V3_5);
    }
    let client_addresses = vec![([127, 0, 0, 1], 2181).into()];
    let world = World::with(Config { client_addresses, ..Config::servers(2) });
    let node = world.ensemble.node("/zookeeper/config").expect("it exists");
    let text = "server.1=127.0.0.1:2888:3888:participant;127.0.0.1:2181\n\
                server.2=127.0.0.2:2888:3888:participant\nversion=0";
    assert_eq!((node.data(), node.stat().version), (Some(text.as_bytes()), -1));
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
