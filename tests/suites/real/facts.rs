//! Facts of `docs/servers.md` that the in-memory server does not share, so that no comparison with
//! it shows them.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, ExistsRequest, ExistsResponse, OpCode,
    Password, Reader, ReplyHeader, RequestHeader, SessionId, Xid, Zxid, frame,
};
use zk_testkit::real::{self, Settings, ensemble_or_skip};
use zk_testkit::server::Version;
use zk_testkit::suite::HANG_TIMEOUT;

use crate::line::Line;

const NULL: &[u8] = &[0xff; 4];
const ZERO: &[u8] = &[0; 4];
/// The path `/`.
const ROOT: &[u8] = &[0, 0, 0, 1, b'/'];

#[test]
fn pings_are_answered_in_order_and_the_first_nodes_have_odd_counters() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    for number in 1..=200 {
        let xid = if number % 10 == 0 { Xid::PING } else { Xid(number) };
        let opcode = if xid == Xid::PING { OpCode::PING } else { OpCode::SYNC };
        let header = RequestHeader { xid, opcode };
        match opcode {
            OpCode::PING => line.write(&header),
            _ => line.write(&(header, "/")),
        }
        .expect("the peer reads");
    }
    for number in 1..=200 {
        let payload = line.read().expect("an answer");
        let header = ReplyHeader::decode(&mut Reader::new(&payload)).expect("a header");
        assert_eq!(header.xid, if number % 10 == 0 { Xid::PING } else { Xid(number) });
    }
    for (path, counters) in
        [("/", (-1, 0)), ("/zookeeper", (-2, 0)), ("/zookeeper/config", (0, -1))]
    {
        let header = RequestHeader { xid: Xid(1), opcode: OpCode::EXISTS };
        line.write(&(header, ExistsRequest { path, watch: false })).expect("the peer reads");
        let payload = line.read().expect("an answer");
        let answer = <(ReplyHeader, ExistsResponse)>::decode_all(&payload);
        let (_, ExistsResponse { stat }) = answer.expect("the node exists");
        assert_eq!((stat.cversion, stat.aversion), counters, "{path}");
    }
}

#[test]
fn odd_records_are_accepted() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    let (ok, refused) = (ErrorCode::OK, ErrorCode::MARSHALLING_ERROR);

    // Bytes behind a record.
    assert_eq!(line.ask_raw(OpCode::EXISTS, &[ROOT, &[0], b"more"]).0, ok);

    // Vectors: -1 is null, which these cannot be, and what is below is empty.
    for (count, expected) in [(-1_i32, refused), (-2, ok), (i32::MIN, ok)] {
        let body = [&[0; 8][..], &count.to_be_bytes(), ZERO, ZERO];
        assert_eq!(line.ask_raw(OpCode::SET_WATCHES, &body).0, expected, "{count}");
    }

    // Null paths.
    assert_eq!(line.ask_raw(OpCode::SYNC, &[NULL]), (ok, NULL.to_vec()));
    assert_eq!(line.ask_raw(OpCode::ADD_WATCH, &[NULL, ZERO]).0, ok);
    for opcode in [OpCode::EXISTS, OpCode::GET_DATA, OpCode::GET_CHILDREN] {
        assert_eq!(line.ask_raw(opcode, &[NULL, &[0]]).0, refused, "{opcode}");
    }

    // Text: a character above U+FFFF becomes two surrogates, and a stray byte U+FFFD.
    for (sent, received) in
        [(&b"\xf0\x9f\x98\x80"[..], &b"\xed\xa0\xbd\xed\xb8\x80"[..]), (b"\xff", b"\xef\xbf\xbd")]
    {
        let length = |text: &[u8]| u32::try_from(text.len()).expect("short").to_be_bytes();
        let expected = [&length(received)[..], received].concat();
        assert_eq!(line.ask_raw(OpCode::SYNC, &[&length(sent), sent]), (ok, expected));
    }

    // Everyone may read the members, and nobody may change them.
    let config = [&[0, 0, 0, 17][..], b"/zookeeper/config"].concat();
    assert_eq!(line.ask_raw(OpCode::GET_DATA, &[&config, &[0]]).0, ok);
    let write = line.ask_raw(OpCode::SET_DATA, &[&config, ZERO, NULL]).0;
    assert_eq!(write, ErrorCode::NO_AUTH);

    // The creation of a session.
    line.write_raw(OpCode::CREATE_SESSION, &[&5_000_u32.to_be_bytes()]).expect("the peer reads");
    let answer = line.read().expect("a frame");
    let answer = ConnectResponse::decode_all(&answer).expect("the answer to a handshake");
    assert!(!answer.is_expired(), "{answer:?}");
}

#[test]
fn a_read_only_server_without_local_sessions_sends_a_bare_reply_header() {
    let properties = vec!["readonlymode.enabled=true".into()];
    let settings = Settings { servers: 3, properties, ..Settings::default() };
    let Some(mut ensemble) = real::ensemble_with_or_skip(settings) else { return };
    let version = ensemble.version();
    for server in [1, 2] {
        ensemble.kill(server).expect("a process");
    }
    let until = Instant::now() + HANG_TIMEOUT;
    while !ensemble.four_letter(0, "isro").is_ok_and(|answer| answer == "ro") {
        assert!(Instant::now() < until, "it does not become read-only");
        thread::sleep(Duration::from_millis(50));
    }
    let mut stream = TcpStream::connect(ensemble.address(0)).expect("it listens");
    stream.set_read_timeout(Some(HANG_TIMEOUT)).expect("a socket");
    let handshake = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid::ZERO,
        timeout: 10_000,
        session_id: SessionId::NONE,
        password: Some(&Password::NONE.0),
        read_only: Some(true),
    };
    let mut bytes = Vec::new();
    frame::encode(&handshake, &mut bytes).expect("short");
    stream.write_all(&bytes).expect("it reads");
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("an answer");
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).expect("an answer");
    if version < Version::V3_8 {
        let answer = ConnectResponse::decode_all(&answer).expect("a session");
        assert!(!answer.is_expired(), "{answer:?}");
    } else {
        let header = ReplyHeader::decode_all(&answer).expect("a bare header");
        assert_eq!((header.xid, header.err), (Xid(0), ErrorCode::NOT_READ_ONLY));
    }
}
