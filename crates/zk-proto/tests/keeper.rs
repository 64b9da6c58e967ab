//! The dialect of ClickHouse Keeper. Bytes that ClickHouse 26.9 sent are marked as recorded.

use zk_proto::conversation::Direction::{self, ToClient, ToServer};
use zk_proto::conversation::{self, Conversation, Kind};
use zk_proto::explain::{self, MessageKind};
use zk_proto::frame::DEFAULT_LIMIT;
use zk_proto::keeper::blocks::{self, BlockError};
use zk_proto::keeper::{self, Dialect};
use zk_proto::{
    Decode, DecodeErrorKind, ErrorCode, ErrorResponse, MultiReadResponse, MultiReadResult, OpCode,
    Request, Response, Xid,
};

/// Reads hexadecimal digits, and text in quotation marks.
fn bytes(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (place, part) in text.split('"').enumerate() {
        if place % 2 == 1 {
            bytes.extend(part.bytes());
            continue;
        }
        let digits: Vec<_> = part.chars().filter_map(|c| c.to_digit(16)).collect();
        bytes.extend(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8));
    }
    bytes
}

fn framed(payload: &str) -> Vec<u8> {
    let payload = bytes(payload);
    [&(payload.len() as u32).to_be_bytes()[..], &payload].concat()
}

/// The fields of a message, without the length of the frame.
fn explained(explain: impl FnOnce(&mut explain::FieldVisitor<'_>)) -> Vec<String> {
    let mut fields = Vec::new();
    explain(&mut |field| fields.push(format!("{} = {}", field.path, field.value)));
    fields.retain(|field| !field.starts_with("Frame.length"));
    fields
}

fn explained_as(frame: &[u8], kind: MessageKind) -> Vec<String> {
    explained(|visit| explain::frame(frame, kind, visit).expect("a whole message"))
}

/// The handshakes of versions 10 to 12, as recorded. The last one asks for everything.
const HANDSHAKES: [&str; 4] = [
    "0000002d 0000000a 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 01",
    "0000002d 0000000b 00 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 01",
    "0000002d 0000000c 0000 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 01",
    "0000002d 0000000c 0101 0000000000000000 00007530 0000000000000000 00000010 00000000000000000000000000000000 01",
];

/// An answer with a protocol version, as Keeper has it.
fn answer(version: i32) -> Vec<u8> {
    framed(&format!("{version:08x} 00007530 0000000000000005 00000010 {}", "00".repeat(16)))
}

/// Reads whole messages, and returns what is left.
fn read<'s>(
    conversation: &mut Conversation,
    direction: Direction,
    mut stream: &'s [u8],
    seen: &mut Vec<(Kind, Vec<String>)>,
) -> &'s [u8] {
    while let Some((message, rest)) = conversation.read(direction, stream).expect("frames") {
        let fields = explained(|visit| message.explain(visit).expect("explained"));
        seen.push((message.kind, fields));
        stream = rest;
    }
    stream
}

#[test]
fn handshakes_of_each_version_are_read_to_their_last_byte() {
    let dialects = HANDSHAKES.map(|handshake| {
        let stream = [bytes(handshake), vec![0xff; 3]].concat();
        let length = Dialect::handshake_length(&stream, DEFAULT_LIMIT).expect("short");
        assert_eq!(length, Some(stream.len() - 3), "{handshake}");
        let mut conversation = Conversation::new(DEFAULT_LIMIT);
        for end in 0..stream.len() - 3 {
            assert_eq!(conversation.read(ToServer, &stream[..end]), Ok(None), "{handshake}");
        }
        let mut seen = Vec::new();
        assert_eq!(read(&mut conversation, ToServer, &stream[..stream.len() - 3], &mut seen), b"");
        let [(Kind::ConnectRequest, fields)] = &seen[..] else { panic!("{seen:?}") };
        assert_eq!(fields.last().map(String::as_str), Some("ConnectRequest.read_only = true"));
        assert!(fields.contains(&"ConnectRequest.timeout = 30000".to_owned()), "{fields:?}");
        let (dialect, request) = Dialect::handshake(&stream[4..stream.len() - 3]).expect("decoded");
        assert_eq!((request.timeout, request.read_only), (30_000, Some(true)));
        assert_eq!(conversation.dialect(), Some(dialect));
        let Dialect { wide_xids, tracing, compression, .. } = dialect;
        [wide_xids, tracing, compression].map(u8::from)
    });
    assert_eq!(dialects, [[0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1]]);
}

#[test]
fn a_zookeeper_that_ignores_the_version_is_read_as_one() {
    for handshake in HANDSHAKES {
        let mut conversation = Conversation::new(DEFAULT_LIMIT);
        let mut seen = Vec::new();
        read(&mut conversation, ToServer, &bytes(handshake), &mut seen);
        read(&mut conversation, ToClient, &answer(0), &mut seen);
        assert_eq!(conversation.dialect(), Some(Dialect::default()));
        read(&mut conversation, ToServer, &framed("fffffffe 0000000b"), &mut seen);
        let kinds: Vec<_> = seen.iter().map(|(kind, _)| *kind).collect();
        assert!(matches!(kinds[..], [_, Kind::ConnectResponse, Kind::Request(_)]), "{kinds:?}");
    }
}

#[test]
fn a_rejected_session_is_named() {
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    let mut seen = Vec::new();
    read(&mut conversation, ToServer, &bytes(HANDSHAKES[1]), &mut seen);
    read(&mut conversation, ToClient, &answer(keeper::REJECTED), &mut seen);
    assert_eq!(seen[1].0, Kind::ConnectResponse);
    assert_eq!(seen[1].1[0], "ConnectResponse.protocol_version = 42");
}

#[test]
fn xids_of_eight_bytes_pair_requests_with_replies() {
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    let mut seen = Vec::new();
    read(&mut conversation, ToServer, &bytes(HANDSHAKES[1]), &mut seen);
    read(&mut conversation, ToClient, &answer(11), &mut seen);
    // As recorded: the first request, and the one that closes the session.
    let get = bytes("00000026 0000000000000001 00000004 00000015\"/keeper/feature_flags\" 00");
    let close = framed("7fffffffffffffff fffffff5");
    read(&mut conversation, ToServer, &[get, close].concat(), &mut seen);
    let missing = bytes("00000014 0000000000000001 0000000000000002 ffffff9b");
    let event =
        framed("ffffffffffffffff ffffffffffffffff 00000000 00000001 00000003 00000002\"/a\"");
    read(&mut conversation, ToClient, &[missing, event].concat(), &mut seen);
    let [_, _, get, close, missing, event] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(get.1[..2], ["RequestHeader.xid = 1", "RequestHeader.opcode = GET_DATA"]);
    assert_eq!(get.1[2], "GetDataRequest.path = \"/keeper/feature_flags\"");
    assert_eq!(close.1[0], "RequestHeader.xid = 9223372036854775807");
    assert!(matches!(close.0, Kind::Request(header) if header.xid == Xid(i32::MAX)));
    assert!(matches!(missing.0, Kind::Reply { opcode: OpCode::GET_DATA, request: 1, .. }));
    assert_eq!(missing.1[2], "ReplyHeader.err = NO_NODE");
    assert!(matches!(event.0, Kind::Notification(_)));
    assert_eq!(event.1[5], "WatcherEvent.path = \"/a\"");
}

#[test]
fn a_message_knows_its_whole_xid_and_its_body() {
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    let (handshake, answer) = (bytes(HANDSHAKES[1]), answer(11));
    conversation.read(ToServer, &handshake).expect("a frame");
    conversation.read(ToClient, &answer).expect("a frame");
    let close = framed("7fffffffffffffff fffffff5");
    let (close, _) = conversation.read(ToServer, &close).expect("a frame").expect("whole");
    assert_eq!((close.xid(), close.body()), (Some(i64::MAX), &b""[..]));
    let get = framed("0000000100000002 00000004 00000002\"/a\" 00");
    let (get, _) = conversation.read(ToServer, &get).expect("a frame").expect("whole");
    assert_eq!((get.xid(), get.path()), (Some((1 << 32) + 2), Some("/a")));
}

#[test]
fn a_trace_context_stands_behind_its_request() {
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    let mut seen = Vec::new();
    read(&mut conversation, ToServer, &bytes(HANDSHAKES[2]), &mut seen);
    read(&mut conversation, ToClient, &answer(12), &mut seen);
    // As recorded.
    let untraced = bytes("00000022 00000001 00000004 00000015\"/keeper/feature_flags\" 00 00");
    let context = "7e2d5f3c-0000-4000-8000-0123456789ab\n1234567\n\n1\n";
    let traced = [framed("00000002 00000009 00000002\"/a\""), vec![1], context.into()].concat();
    let stream = [&untraced[..], &traced].concat();
    for end in untraced.len()..stream.len() {
        let left = read(&mut conversation.clone(), ToServer, &stream[..end], &mut Vec::new()).len();
        assert_eq!(left, end - untraced.len());
    }
    assert_eq!(read(&mut conversation, ToServer, &stream, &mut seen), b"");
    let [_, _, untraced, traced] = &seen[..] else { panic!("{seen:?}") };
    assert_eq!(untraced.1.last().map(String::as_str), Some("Trace.is_traced = false"));
    assert_eq!(traced.1[2..4], ["SyncRequest.path = \"/a\"", "Trace.is_traced = true"]);
    assert_eq!(traced.1[4], format!("Trace.context = b\"{}\"", context.escape_default()));
}

#[test]
fn an_unknown_dialect_is_not_decoded() {
    let unknown = HANDSHAKES[0].replacen("0000000a", "0000000d", 1);
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    let mut seen = Vec::new();
    read(&mut conversation, ToServer, &bytes(&unknown), &mut seen);
    assert_eq!(seen[0].1[0], "ConnectRequest.protocol_version = 13");
    read(&mut conversation, ToClient, &answer(13), &mut seen);
    assert_eq!(conversation.dialect(), None);
    read(&mut conversation, ToServer, &framed("00000001 00000009 00000002\"/a\""), &mut seen);
    read(&mut conversation, ToClient, &framed("00000001 0000000000000002 00000000"), &mut seen);
    let kinds: Vec<_> = seen.iter().map(|(kind, _)| *kind).collect();
    let expected = [Kind::ConnectRequest, Kind::ConnectResponse, Kind::Opaque, Kind::Opaque];
    assert_eq!(kinds, expected);
    // A server that grants what nobody asked for.
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    read(&mut conversation, ToServer, &bytes(HANDSHAKES[0]), &mut seen);
    read(&mut conversation, ToClient, &answer(12), &mut seen);
    assert_eq!(conversation.dialect(), None);
}

#[test]
fn compressed_streams_are_opaque_until_somebody_decompresses_them() {
    let sent = [bytes(HANDSHAKES[0]), vec![1, 2, 3]].concat();
    let received = [answer(10), vec![4, 5]].concat();
    let transcript = conversation::transcript(&sent, &received);
    let kinds: Vec<_> = transcript.messages.iter().map(|it| (it.kind, it.bytes.len())).collect();
    let expected = [(Kind::ConnectRequest, 49), (Kind::ConnectResponse, 40)];
    assert_eq!(kinds[..2], expected);
    assert_eq!(kinds[2..], [(Kind::Opaque, 3), (Kind::Opaque, 2)]);
    let mut conversation = Conversation::new(DEFAULT_LIMIT);
    conversation.read(ToServer, &sent).expect("a frame");
    conversation.read(ToClient, &received).expect("a frame");
    conversation.decompressed();
    let ping = framed("fffffffe 0000000b");
    let (ping, _) = conversation.read(ToServer, &ping).expect("a frame").expect("whole");
    assert_eq!(ping.opcode(), Some(OpCode::PING));
}

/// Blocks as recorded, and what they hold. The second has matches.
const BLOCKS: [(&str, &str); 2] = [
    (
        "5b331ad82102b38940e312b355256dd8 82 31000000 26000000 f017000000220000000100000004000000152f6b65657065722f666561747572655f666c61677300",
        "00000022 00000001 00000004 00000015\"/keeper/feature_flags\"00",
    ),
    (
        "e6e816aae91620dbe84c7951de43a310 82 50000000 5b000000 f321000000570000000200000005000000432f636c69636b686f7573652f73657373696f6e732f7a6f6f6b65657065722f300100102d08000b05000402008000000000ffffffff",
        "00000057 00000002 00000005 00000043\"/clickhouse/sessions/zookeeper/00000000-0000-0000-0000-000000000000\" 00000000 ffffffff",
    ),
];

#[test]
fn recorded_blocks_are_decompressed() {
    let stream = BLOCKS.map(|(block, _)| bytes(block)).concat();
    let mut out = Vec::new();
    let rest = blocks::decompress(&stream, DEFAULT_LIMIT, &mut out).expect("valid").expect("whole");
    let rest = blocks::decompress(rest, DEFAULT_LIMIT, &mut out).expect("valid").expect("whole");
    assert_eq!(rest, b"");
    assert_eq!(out, BLOCKS.map(|(_, plain)| bytes(plain)).concat());
    for end in 0..bytes(BLOCKS[0].0).len() {
        assert_eq!(blocks::decompress(&stream[..end], DEFAULT_LIMIT, &mut out), Ok(None));
    }
}

#[test]
fn damaged_blocks_are_errors_and_take_no_more_memory_than_they_claim() {
    for (block, plain) in BLOCKS {
        let (block, size) = (bytes(block), bytes(plain).len());
        for place in 16..block.len() {
            for byte in 0..=255 {
                let mut damaged = block.clone();
                damaged[place] = byte;
                let mut out = Vec::new();
                let limit = 200;
                match blocks::decompress(&damaged, limit, &mut out) {
                    Ok(Some(_)) => assert!(out.len() <= limit),
                    Ok(None) => assert!(out.is_empty()),
                    Err(_) => assert!(out.len() <= limit.max(size)),
                }
            }
        }
        let mut unknown = block.clone();
        unknown[16] = 0x90;
        let error = blocks::decompress(&unknown, DEFAULT_LIMIT, &mut Vec::new());
        assert_eq!(error, Err(BlockError::Method(0x90)));
        let error = blocks::decompress(&block, 20, &mut Vec::new());
        assert!(matches!(error, Err(BlockError::Length(_))), "{error:?}");
    }
}

#[test]
fn a_failed_part_of_keeper_has_no_body() {
    // The middle of three reads fails.
    let stat = format!("{}{}", "0000000000000001".repeat(2), "00".repeat(52));
    let body = format!(
        "00000004 00 00000000 00000001\"x\" {stat} 00000004 00 ffffff9b \
         00000008 00 00000000 00000000 ffffffff 01 ffffffff"
    );
    let decoded = bytes(&body);
    let reply = MultiReadResponse::decode_all(&decoded).expect("whole");
    let results: Vec<_> = reply.iter().collect();
    let failed = MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE });
    assert_eq!((results.len(), results[1]), (3, failed));
    let frame = framed(&format!("00000001 0000000000000001 00000000 {body}"));
    let fields = explained_as(&frame, MessageKind::Reply(OpCode::MULTI_READ));
    let failed: Vec<_> = fields.iter().filter(|field| field.starts_with("[1]")).collect();
    let expected = ["opcode = GET_DATA", "done = false", "err = NO_NODE"];
    assert_eq!(failed, expected.map(|field| format!("[1] MultiHeader.{field}")).each_ref());
}

#[test]
fn reads_that_only_keeper_has_in_a_multi_are_explained() {
    let frame = framed(
        "00000001 00000016 00000003 00 ffffffff 00000002\"/a\" 00 \
         000001f4 00 ffffffff 00000002\"/b\" 0001 ffffffff 01 ffffffff",
    );
    let fields = explained_as(&frame, MessageKind::Request);
    assert!(fields.contains(&"[0] ExistsRequest.path = \"/a\"".to_owned()), "{fields:?}");
    assert!(fields.contains(&"[1] MultiHeader.opcode = FILTERED_LIST".to_owned()));
    assert!(fields.contains(&"[1] FilteredListRequest.kind = 1".to_owned()), "{fields:?}");
}

/// As recorded: how ClickHouse creates the parents of a node where it may.
#[test]
fn a_recorded_multi_of_keeper_is_explained() {
    let part = |path: &str| {
        let acl = "00000001 0000001f 00000005\"world\" 00000006\"anyone\"";
        format!("000001f6 00 ffffffff {:08x}\"{path}\" 00000000 {acl} 00000000", path.len())
    };
    let paths = ["/clickhouse", "/clickhouse/sessions", "/clickhouse/sessions/zookeeper"];
    let frame =
        framed(&format!("00000003 0000000e {} ffffffff 01 ffffffff", paths.map(part).join(" ")));
    assert_eq!(frame[..4], [0, 0, 0, 0xde]);
    let fields = explained_as(&frame, MessageKind::Request);
    for (place, path) in paths.iter().enumerate() {
        assert!(fields.contains(&format!("[{place}] CreateRequest.path = {path:?}")), "{fields:?}");
    }
}

#[test]
fn operations_that_only_keeper_has_are_explained() {
    let stat = "00".repeat(68);
    for (opcode, request, reply, last) in [
        (
            500,
            "00000002\"/a\" 01 02".to_owned(),
            format!("00000001 00000001\"b\" {stat}"),
            "kind = 2",
        ),
        (501, "00000002\"/a\" ffffffff".to_owned(), String::new(), "version = -1"),
        (
            502,
            "00000002\"/a\" 00000000 00000000 00000000".to_owned(),
            "00000002\"/a\"".to_owned(),
            "mode = PERSISTENT",
        ),
        // As recorded, but for its path.
        (503, "00000002\"/a\" 000003e8".to_owned(), String::new(), "limit = 1000"),
        (504, format!("00000002\"/a\" ffffffff {stat}"), String::new(), "stat.pzxid = 0x0"),
        (505, "00000002\"/a\" 00000003".to_owned(), String::new(), "version = 3"),
        (
            506,
            "00000002\"/a\" 00 00 01 01".to_owned(),
            format!("00000001 00000001\"b\" {stat} 00000001 {stat} 00000001 00000001\"x\""),
            "with_data = true",
        ),
        (
            507,
            "00000002\"/a\" 00000064".to_owned(),
            "00000001 00000001\"b\"".to_owned(),
            "limit = 100",
        ),
    ] {
        let frame = framed(&format!("00000001 {opcode:08x} {request}"));
        let fields = explained_as(&frame, MessageKind::Request);
        assert!(fields[1].parse::<i32>().is_err() && !fields[1].ends_with(&opcode.to_string()));
        assert!(fields.last().is_some_and(|field| field.ends_with(last)), "{fields:?}");
        let frame = framed(&format!("00000001 0000000000000001 00000000 {reply}"));
        explained_as(&frame, MessageKind::Reply(OpCode(opcode)));
        assert!(keeper::layouts(OpCode(opcode)).is_some());
        // No ZooKeeper serves them, so no request of this crate has them.
        assert!(!OpCode(opcode).is_request());
        let body = bytes(&request);
        let error = Request::decode(OpCode(opcode), &body).map_err(|it| it.kind());
        assert_eq!(error, Err(DecodeErrorKind::UnknownOperation(opcode)));
    }
}

#[test]
fn other_operations_are_named_as_unknown() {
    for opcode in [10, 23, 200, 499, 508, 997] {
        let frame = framed(&format!("00000001 {opcode:08x} 00000002\"/a\""));
        let mut fields = 0;
        let error = explain::frame(&frame, MessageKind::Request, &mut |_| fields += 1);
        let kind = error.map_err(|error| error.kind());
        assert_eq!((kind, fields), (Err(DecodeErrorKind::UnknownOperation(opcode)), 3));
        assert!(Response::decode(OpCode(opcode), &[]).is_err());
        assert_eq!(keeper::layouts(OpCode(opcode)), None);
    }
}

#[test]
fn a_reply_in_the_middle_of_a_connection_is_no_handshake() {
    // A create of a path with 16 letters. It has the length of an answer, and could be one.
    let request =
        framed("0000000a 00000001 00000010\"/aaaaaaaaaaaaaaa\" ffffffff 00000000 00000000");
    let reply = framed("0000000a 0000000000000007 00000000 00000010\"/aaaaaaaaaaaaaaa\"");
    let transcript = conversation::transcript(&request, &reply);
    let is_reply = |kind| matches!(kind, Kind::Reply { opcode: OpCode::CREATE, .. });
    assert!(is_reply(transcript.messages[1].kind), "{:?}", transcript.messages);
}
