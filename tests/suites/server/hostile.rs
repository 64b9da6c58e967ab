//! Invalid bytes from a client.

use zk_proto::{
    Acl, AddWatchMode, CheckVersionRequest, CreateMode, CreateTtlRequest, ErrorCode, GetAclRequest,
    GetAllChildrenNumberRequest, GetDataRequest, GetEphemeralsRequest, List, MultiOp, MultiReadOp,
    MultiReadRequest, MultiRequest, OpCode, Request, SetAclRequest, SetWatches2, Zxid, frame,
};
use zk_testkit::raw::{Message, RawClient};
use zk_testkit::server::{Config, Version};

use crate::world::{
    World, add_watch, authenticate, create, delete, exists, get_children, multi, node, set_data,
};

#[test]
fn an_unknown_operation_is_refused_and_the_connection_closed() {
    let unknown = [OpCode(999), OpCode::CREATE_SESSION, OpCode::NOTIFICATION, OpCode::ERROR];
    for opcode in unknown {
        let mut world = World::new(1);
        let (conn, _) = world.connect(0);
        world.send_raw(conn, opcode, &());
        world.send(conn, &exists("/", false));
        assert_eq!(world.received(conn), [format!("{opcode} UNIMPLEMENTED"), "closed".into()]);
    }
}

#[test]
fn a_body_that_cannot_be_decoded_is_refused_and_the_connection_kept() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    for opcode in [OpCode::CREATE, OpCode::GET_DATA, OpCode::MULTI, OpCode::SET_WATCHES] {
        world.send_raw(conn, opcode, &-7i32);
        assert_eq!(world.received(conn), [format!("{opcode} MARSHALLING_ERROR")]);
    }
    assert_eq!(world.ask(conn, &create("/a")), "CREATE /a");
}

#[test]
fn invalid_lengths_and_short_frames_close_the_connection() {
    let too_long = i32::try_from(frame::DEFAULT_LIMIT + 1).unwrap_or(i32::MAX).to_be_bytes();
    let headerless = [0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7];
    let no_handshake = [0, 0, 0, 4, 1, 2, 3, 4];
    // Four-letter words are recognized only at the start of a connection.
    for bytes in [&too_long[..], &[255; 4], &headerless, b"ruok"] {
        let mut world = World::new(1);
        let (conn, _) = world.connect(0);
        world.send_bytes(conn, bytes);
        assert_eq!(world.received(conn), ["closed"], "{bytes:?}");
    }
    for bytes in [&too_long[..], &[255; 4], &no_handshake, b"word"] {
        let mut world = World::new(1);
        let conn = world.open(0);
        world.send_bytes(conn, bytes);
        assert_eq!(world.received(conn), ["closed"], "{bytes:?}");
    }
}

/// Sends every prefix and every change of one byte of a real conversation, to each release.
#[test]
fn no_bytes_make_the_server_panic() {
    let mut raw = RawClient::new();
    let mut conversation = RawClient::connect(10_000).to_vec();
    let (list, paths) = (List::new(&[Acl::CREATOR_ALL, Acl::READ]), List::new(&["/a", "/b"]));
    let ttl = CreateMode::PERSISTENT_WITH_TTL;
    let reads = [MultiReadOp::GetData(GetDataRequest { path: "/a", watch: false })];
    let writes = [MultiOp::Create2(node("/a/m-", CreateMode::PERSISTENT_SEQUENTIAL))];
    for request in [
        authenticate("u:p"),
        create("/a"),
        Request::Create2(node("/a/b-", CreateMode::EPHEMERAL_SEQUENTIAL)),
        Request::CreateTtl(CreateTtlRequest {
            path: "/t",
            data: None,
            acl: list,
            mode: ttl,
            ttl: 1,
        }),
        Request::SetAcl(SetAclRequest { path: "/a", acl: list, version: 0 }),
        Request::GetAcl(GetAclRequest { path: "/a" }),
        set_data("/a", 0),
        get_children("/a", true),
        add_watch("/", AddWatchMode::PERSISTENT_RECURSIVE),
        Request::SetWatches2(SetWatches2 {
            relative_zxid: Zxid(1),
            data_watches: paths,
            exist_watches: paths,
            child_watches: paths,
            persistent_watches: paths,
            persistent_recursive_watches: paths,
        }),
        Request::MultiRead(MultiReadRequest::new(&reads)),
        multi(&writes),
        Request::GetEphemerals(GetEphemeralsRequest { prefix_path: Some("/a") }),
        Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: "/" }),
        Request::WhoAmI(()),
        Request::CloseSession(()),
    ] {
        conversation.extend_from_slice(&raw.request(&request));
    }
    for version in [Version::V3_4, Version::V3_8, Version::V3_9] {
        for place in 0..conversation.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut bytes = conversation.clone();
                bytes[place] ^= flip;
                let mut world = World::with(Config::default().with_version(version));
                let conn = world.open(0);
                world.ensemble.handle_bytes(world.now, conn, &bytes);
                world.ensemble.handle_bytes(world.now, conn, &conversation[..place]);
                while world.ensemble.poll_output().is_some() {}
            }
        }
    }
}

#[test]
fn a_check_outside_a_multi_is_answered_only_if_it_fails() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    for (version, answers) in [(0, &[][..]), (7, &["CHECK BAD_VERSION"])] {
        let check = CheckVersionRequest { path: "/", version };
        let before = world.ensemble.zxid();
        world.send(conn, &Request::Check(check));
        assert_eq!(world.received(conn), answers);
        assert_eq!(world.ensemble.zxid(), Zxid(before.0 + 1));
    }
}

#[test]
fn malformed_credentials_close_the_connection_without_a_reply() {
    for opcode in [OpCode::AUTH, OpCode::SASL] {
        let mut world = World::new(1);
        let (conn, _) = world.connect(0);
        world.send_raw(conn, opcode, &-7i32);
        assert_eq!(world.received(conn), ["closed"]);
    }
}

#[test]
fn writes_in_a_multi_read_are_refused_with_an_empty_list() {
    let mut world = World::new(1);
    let (conn, _) = world.connect(0);
    let Request::Delete(deletion) = delete("/a") else { unreachable!() };
    let ops = [MultiOp::Delete(deletion)];
    world.send_raw(conn, OpCode::MULTI_READ, &MultiRequest::new(&ops));
    let [Message::Reply(reply)] = &world.messages(conn)[..] else { panic!("one reply") };
    assert_eq!(reply.header.err, ErrorCode::MARSHALLING_ERROR);
    assert_eq!(reply.body, [&[255; 4][..], &[1], &[255; 4]].concat());
}

#[test]
fn inputs_for_missing_connections_servers_and_sessions_do_nothing() {
    let mut world = World::new(1);
    let (conn, session) = world.connect(0);
    world.ensemble.handle_disconnect(conn);
    world.ensemble.handle_disconnect(conn);
    world.ensemble.handle_bytes(world.now, conn, b"late");
    world.ensemble.kill(world.now, 7);
    world.ensemble.restart(world.now, 7);
    world.ensemble.hold(7);
    world.ensemble.release(world.now, 7);
    assert!(!world.ensemble.step(world.now, 7));
    assert!(world.ensemble.handle_connect(7).is_none());
    assert!(world.ensemble.expire_session(world.now, session.id));
    assert_eq!(world.ensemble.poll_output(), None);
    assert_eq!(world.ensemble.zxid(), Zxid(2));
}
