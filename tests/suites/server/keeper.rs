//! ClickHouse Keeper: what it lacks, and how its sessions end.

use core::time::Duration;

use zk_proto::keeper::blocks;
use zk_proto::{
    ConnectResponse, CreateMode, Decode, ErrorCode, MultiOp, MultiReadRequest, MultiRequest,
    OpCode, Request, SessionId, Zxid, frame,
};
use zk_testkit::raw::{Message, RawClient};
use zk_testkit::server::{Config, ConnId, Ensemble, Keeper, Output};

use crate::world::{World, create, create_as, exists, get_children, get_data};

const ALL: [Keeper; 3] = [Keeper::Early, Keeper::WithWatches, Keeper::WithContainers];

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
        for keeper in ALL {
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
    for keeper in ALL {
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
    for keeper in ALL {
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

// ---- Its dialect -------------------------------------------------------------------------------

/// A client that asks for a protocol version, with the bytes behind it.
struct Speaker {
    ensemble: Ensemble,
    conn: ConnId,
}

impl Speaker {
    fn greet(config: Config, version: &[u8]) -> (Self, Option<Vec<u8>>) {
        let mut ensemble = Ensemble::new(config);
        let conn = ensemble.handle_connect(0).expect("a live server");
        let mut speaker = Self { ensemble, conn };
        let plain = RawClient::connect(30_000);
        // The length counts the version alone, as ClickHouse has it.
        let answer = speaker.say(&[&plain[..4], &[0, 0, 0], version, &plain[8..]].concat());
        (speaker, answer)
    }

    /// Sends bytes. Returns what the server sends, or `None` if it only closes the connection.
    fn say(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
        self.ensemble.handle_bytes(Duration::ZERO, self.conn, bytes);
        let mut sent = Vec::new();
        while let Some(output) = self.ensemble.poll_output() {
            match output {
                Output::Send { frame, .. } => sent.extend_from_slice(&frame),
                Output::Close { .. } if sent.is_empty() => return None,
                Output::Close { .. } => {}
            }
        }
        Some(sent)
    }
}

/// `getData` of a node that is missing, behind its xid; and the reply, behind its xid.
const GET: &[u8] = b"\0\0\0\x04\0\0\0\x02/a\0";
const MISSING: &[u8] = b"\0\0\0\0\0\0\0\x01\xff\xff\xff\x9b";

fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let payload = parts.concat();
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}

#[test]
fn a_handshake_of_its_clients_is_granted_or_closes_the_connection() {
    for (keeper, wide_xids, version, granted) in [
        (Some(Keeper::Early), false, &b"\x0a"[..], Some(10)),
        (Some(Keeper::Early), false, b"\x0b\0", None),
        (Some(Keeper::Early), true, b"\x0b\0", Some(11)),
        (Some(Keeper::Early), true, b"\x0c\0\0", None),
        (Some(Keeper::WithWatches), false, b"\x0c\0\0", Some(12)),
        (Some(Keeper::WithWatches), false, b"\x0c\x01\0", None),
        (Some(Keeper::WithContainers), true, b"\x0c\x01\x01", Some(12)),
        (Some(Keeper::WithContainers), true, b"\0", Some(0)),
        // A ZooKeeper ignores the version.
        (None, false, b"\x0a", Some(0)),
        // What is behind the version moves all fields, and a session seems to be resumed.
        (None, false, b"\x0b\0", Some(0)),
        (None, false, b"\x0c\0\0", Some(0)),
    ] {
        let config = match keeper {
            Some(keeper) => Config { wide_xids, ..Config::servers(1).with_keeper(keeper) },
            None => Config::servers(1),
        };
        let (_, answer) = Speaker::greet(config, version);
        let answer = answer.as_ref().map(|frame| ConnectResponse::decode_all(&frame[4..]));
        let answer = answer.map(|answer| answer.expect("an answer"));
        let case = format!("{keeper:?} {version:?}: {answer:?}");
        assert_eq!(answer.map(|answer| answer.protocol_version), granted, "{case}");
        let is_shifted = keeper.is_none() && version.len() > 1;
        assert!(answer.is_none_or(|answer| answer.is_expired() == is_shifted), "{case}");
    }
}

#[test]
fn xids_have_eight_bytes_if_the_handshake_says_so() {
    let config = Config::servers(1).with_keeper(Keeper::Early);
    let (mut speaker, _) = Speaker::greet(Config { wide_xids: true, ..config }, b"\x0b\0");
    let xid = &7i64.to_be_bytes()[..];
    let request = framed(&[xid, GET]);
    assert_eq!(speaker.say(&request[..9]), Some(Vec::new()));
    assert_eq!(speaker.say(&request[9..]), Some(framed(&[xid, MISSING])));
    let ping = (-2i64).to_be_bytes();
    let pong = framed(&[&ping, &1i64.to_be_bytes(), &[0; 4]]);
    assert_eq!(speaker.say(&framed(&[&ping, b"\0\0\0\x0b"])), Some(pong));
    // The last one closes the session, for which there is no reply.
    assert_eq!(speaker.say(&framed(&[&i64::MAX.to_be_bytes(), b"\xff\xff\xff\xf5"])), None);
    assert_eq!(speaker.ensemble.sessions().count(), 0);
}

#[test]
fn trace_contexts_behind_requests_are_passed_over() {
    let config = Config::servers(1).with_keeper(Keeper::WithWatches);
    let (mut speaker, _) = Speaker::greet(config, b"\x0c\0\0");
    let xid = &7i32.to_be_bytes()[..];
    let (request, reply) = (framed(&[xid, GET]), framed(&[xid, MISSING]));
    assert_eq!(speaker.say(&request), Some(Vec::new()));
    assert_eq!(speaker.say(&[0]), Some(reply.clone()));
    assert_eq!(speaker.say(&[&request[..], b"\x01id\n1\n\n1"].concat()), Some(Vec::new()));
    assert_eq!(speaker.say(b"\n"), Some(reply));
}

#[test]
fn streams_are_compressed_if_the_handshake_says_so() {
    let config = Config::servers(1).with_keeper(Keeper::Early);
    let (mut speaker, _) = Speaker::greet(config, b"\x0a");
    let xid = &7i32.to_be_bytes()[..];
    let request = framed(&[xid, GET]);
    let mut answer = Vec::new();
    for half in request.chunks(10) {
        let length = (blocks::HEADER_LEN + half.len()) as u8;
        let header = [blocks::NONE, length, 0, 0, 0, half.len() as u8, 0, 0, 0];
        let block = [&[0; blocks::CHECKSUM_LEN], &header[..], half].concat();
        answer = speaker.say(&block).expect("served");
    }
    let mut plain = Vec::new();
    let rest = blocks::decompress(&answer, frame::DEFAULT_LIMIT, &mut plain);
    assert_eq!((rest, plain), (Ok(Some(&b""[..])), framed(&[xid, MISSING])));
    assert_eq!(speaker.say(&[0xff; 40]), None);
}

#[test]
fn a_read_that_fails_in_a_multi_read_has_its_operation_and_no_body() {
    let config = Config::servers(1).with_keeper(Keeper::Early);
    let (mut speaker, _) = Speaker::greet(config, b"\0");
    let part = |opcode: u8, path: &str| {
        let head = [0, 0, 0, opcode, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, path.len() as u8];
        [&head[..], path.as_bytes(), &[0]].concat()
    };
    let end = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff";
    let parts = [part(4, "/a"), part(3, "/"), part(12, "/keeper"), part(8, "/b")].concat();
    let request = framed(&[&7i32.to_be_bytes(), b"\0\0\0\x16", &parts, end]);
    let reply = speaker.say(&request).expect("a reply");
    let missing = ErrorCode::NO_NODE.0.to_be_bytes();
    assert!(reply[20..].starts_with(&[&[0, 0, 0, 4, 0][..], &missing, &[0, 0, 0, 3, 0]].concat()));
    assert!(reply.ends_with(&[&[0, 0, 0, 8, 0][..], &missing, end].concat()));
}
