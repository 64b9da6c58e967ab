//! Everything that can be decoded can be explained, and nothing else, down to the last byte.

mod captures;
#[path = "../examples/explain/main.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod tool;

use captures::{Capture, Kind};
use zk_proto::explain::{self, MessageKind};
use zk_proto::{DecodeError, frame};

fn message(kind: Kind) -> MessageKind {
    match kind {
        Kind::ConnectRequest => MessageKind::ConnectRequest,
        Kind::ConnectResponse | Kind::Refusal(_) => MessageKind::ConnectResponse,
        Kind::Request(_) => MessageKind::Request,
        Kind::Reply(opcode, _) => MessageKind::Reply(opcode),
        Kind::Notification => MessageKind::UnknownReply,
    }
}

/// Explains a frame, and checks that its fields are contiguous.
///
/// The fields must cover the frame, unless it is invalid.
fn explained(frame: &[u8], message: MessageKind) -> Result<(), DecodeError> {
    let mut end = 0;
    let result = explain::frame(frame, message, &mut |field| {
        assert_eq!(field.range.start, end, "{field:?}");
        assert!(!field.range.is_empty(), "{field:?}");
        end = field.range.end;
    });
    match result {
        Ok(()) => assert_eq!(end, frame.len()),
        Err(error) => assert!(end <= frame.len() && error.offset() <= frame.len(), "{error}"),
    }
    result
}

#[test]
fn every_byte_of_every_recorded_frame_belongs_to_one_field() {
    for capture in Capture::all() {
        let mut buffer = vec![0; capture.longest_frame()];
        for recorded in capture.messages() {
            let decoded = recorded.round_trip(&mut buffer).map(|_| ()).map_err(|e| e.kind());
            let result = explained(recorded.bytes, message(recorded.kind)).map_err(|e| e.kind());
            assert_eq!(result, decoded, "{} {:?}", capture.name, recorded.kind);
        }
    }
}

#[test]
fn a_frame_that_is_not_as_long_as_it_says_is_refused() {
    let ping = b"\0\0\0\x08\xff\xff\xff\xfe\0\0\0\x0b";
    assert_eq!(explained(ping, MessageKind::Request), Ok(()));
    for (bytes, error) in [
        (&ping[..11], "at least 1 bytes are missing at byte 4"),
        (&[&ping[..], b"\0\0"].concat(), "2 bytes are left over at byte 12"),
        (&ping[..3], "at least 1 bytes are missing at byte 0 in Frame.length"),
        (b"\xff\xff\xff\xff", "length -1 is negative at byte 0"),
        (b"\xff\xff\xff\xfe", "length -2 is negative at byte 0"),
    ] {
        let result = explained(bytes, MessageKind::Request).map_err(|error| error.to_string());
        assert_eq!(result, Err(error.to_owned()));
    }
}

#[test]
fn the_body_of_a_failure_is_shown_as_bytes_if_it_is_nothing_else() {
    let mut reply = b"\0\0\0\x12\0\0\0\x01\0\0\0\0\0\0\0\x05\xff\xff\xff\x9bhi".to_vec();
    let mut last = String::new();
    let reading = MessageKind::Reply(zk_proto::OpCode::GET_DATA);
    let result = explain::frame(&reply, reading, &mut |field| last = format!("{field:?}"));
    assert_eq!((result, &last[..]), (Ok(()), "20..22 bytes Frame.body = b\"hi\""));
    reply[16..20].fill(0);
    let error = explained(&reply, reading).expect_err("it did not fail, so these are data");
    assert_eq!(error.field().map(|name| name.field), Some("data"));
}

/// Returns each field with its path.
fn fields(frame: &[u8], message: MessageKind) -> Vec<String> {
    let mut fields = Vec::new();
    explain::frame(frame, message, &mut |field| {
        fields.push(format!("{}: {} = {}", field.wire_type, field.path, field.value));
    })
    .expect("a valid frame");
    fields
}

#[test]
fn a_value_is_named_by_the_way_to_it() {
    let (acl, item) = (zk_proto::Acl::OPEN, zk_proto::List::NULL);
    let create = |acl| {
        zk_proto::MultiOp::Create(zk_proto::CreateRequest {
            path: "/\"",
            data: Some(b"\0"),
            acl,
            mode: zk_proto::CreateMode(77),
        })
    };
    let (items, acls) = ([create(item)], [acl]);
    let ops = [items[0], create(zk_proto::List::new(&acls))];
    let request = zk_proto::Request::Multi(zk_proto::Multi::new(&ops));
    let header = zk_proto::RequestHeader { xid: zk_proto::Xid(7), opcode: request.opcode() };
    let mut buffer = [0; 256];
    let length = frame::encode_to_slice(&(header, request), &mut buffer).expect("room");
    let expected = [
        "int: Frame.length = 96",
        "int: RequestHeader.xid = 7",
        "int: RequestHeader.opcode = MULTI",
        "int: [0] MultiHeader.opcode = CREATE",
        "boolean: [0] MultiHeader.done = false",
        "int: [0] MultiHeader.err = SYSTEM_ERROR",
        "ustring: [0] CreateRequest.path = \"/\\\"\"",
        "buffer: [0] CreateRequest.data = b\"\\x00\"",
        "vector: [0] CreateRequest.acl = null",
        "int: [0] CreateRequest.mode = 77",
        "int: [1] MultiHeader.opcode = CREATE",
        "boolean: [1] MultiHeader.done = false",
        "int: [1] MultiHeader.err = SYSTEM_ERROR",
        "ustring: [1] CreateRequest.path = \"/\\\"\"",
        "buffer: [1] CreateRequest.data = b\"\\x00\"",
        "vector: [1] CreateRequest.acl = 1 item",
        "int: [1] CreateRequest.acl[0].perms = ALL",
        "ustring: [1] CreateRequest.acl[0].id.scheme = \"world\"",
        "ustring: [1] CreateRequest.acl[0].id.id = \"anyone\"",
        "int: [1] CreateRequest.mode = 77",
        "int: [2] MultiHeader.opcode = ERROR",
        "boolean: [2] MultiHeader.done = true",
        "int: [2] MultiHeader.err = SYSTEM_ERROR",
    ];
    assert_eq!(fields(&buffer[..length], MessageKind::Request), expected);
}

// ---- The tool ----------------------------------------------------------------------------------

fn golden(name: &str) -> String {
    captures::directory().join(name).to_str().expect("UTF-8").to_owned()
}

fn run(arguments: &[&str]) -> (Result<(), String>, String) {
    let mut out = Vec::new();
    let result = tool::run([&["explain"], arguments].concat(), &mut out);
    (result, String::from_utf8(out).expect("UTF-8"))
}

#[test]
fn hexadecimal_is_explained() {
    let ping = "     0  00 00 00 08              int      Frame.length = 8
     4  ff ff ff fe              int      RequestHeader.xid = PING
     8  00 00 00 0b              int      RequestHeader.opcode = PING
";
    let (result, out) = run(&["00000008 fffffffe 0000000b 00000008 fffffffe 0000000b 0000"]);
    let expected = format!(
        "> 0: PING, xid PING (12 bytes at 0)\n{ping}\n> 1: PING, xid PING (12 bytes at 12)\n{ping}\n\
         2 bytes at byte 24 are an incomplete frame\n"
    );
    assert_eq!((result, out), (Ok(()), expected));
}

#[test]
fn hexadecimal_is_read_as_others_write_it() {
    let expected = run(&["00000008fffffffe0000000b"]);
    assert_eq!(expected.0, Ok(()));
    for written in [
        "00 00 00 08 ff ff ff fe 00 00 00 0b",
        "00:00:00:08:FF:FF:FF:FE:00:00:00:0B",
        "0x00000008fffffffe0000000b",
        "0X00000008\n0xfffffffe\t0x0000000b\n",
        "0x00, 0x00, 0x00, 0x08, 0xff, 0xff, 0xff, 0xfe, 0x00, 0x00, 0x00, 0x0b,",
    ] {
        assert_eq!(run(&[written]), expected, "{written}");
    }
}

#[test]
fn an_operation_that_nobody_knows_is_shown_as_bytes() {
    let (result, out) = run(&["0000000a 00000001 000003e7 6869"]);
    assert_eq!(result, Ok(()));
    let last = out.trim_end().lines().last().expect("a line");
    assert_eq!(
        last,
        "    12  68 69                    ?        operation 999 is not allowed here at byte 12"
    );
}

/// A limit would only hide the frame, which is in memory already.
#[test]
fn a_frame_that_a_server_would_refuse_as_too_long_is_shown() {
    let path = "61".repeat(1 << 20);
    let (result, out) = run(&[&format!("0010000d 00000001 00000003 00100000 {path} 00")]);
    assert_eq!(result, Ok(()));
    assert!(out.starts_with("> 0: EXISTS, xid 1 (1048593 bytes at 0)\n"));
    assert!(out.ends_with("boolean  ExistsRequest.watch = false\n\n"));
}

#[test]
fn replies_to_a_recorded_client_are_known_by_what_they_answer() {
    for capture in Capture::all() {
        let [c2s, s2c] = ["c2s", "s2c"].map(|end| golden(&format!("{}.{end}", capture.name)));
        let (result, out) = run(&["--pair", &c2s, &s2c]);
        assert_eq!(result, Ok(()), "{}", capture.name);
        let titles: Vec<_> = out.lines().filter(|line| line.starts_with(['<', '>'])).collect();
        let messages = capture.messages();
        assert_eq!(titles.len(), messages.len(), "{}", capture.name);
        assert!(!out.contains(": reply, "), "{}", capture.name);
        let (_, alone) = run(&["--server", &s2c]);
        let handshakes = out.lines().filter(|line| line.contains(": handshake")).count();
        assert_eq!(handshakes, 1 + alone.matches(": handshake").count(), "{}", capture.name);
        let replies = messages.iter().filter(|m| matches!(m.kind, Kind::Reply(..))).count();
        assert_eq!(alone.matches(": reply, ").count(), replies, "{}", capture.name);
    }
}

#[test]
fn what_cannot_be_explained_is_one_line() {
    for (arguments, error) in [
        (&["no such file"][..], "\"no such file\" is neither a file nor hexadecimal digits"),
        (&["123"], "\"123\" is neither a file nor hexadecimal digits"),
        (&["00x0"], "\"00x0\" is neither a file nor hexadecimal digits"),
        (&["72756f6b"], "a frame of 1920298859 bytes exceeds the limit of 1048575 bytes at byte 0"),
        (&["00000000 ffffffff"], "the frame length -1 is negative at byte 4"),
        (&[], "the following required arguments were not provided: <INPUT>"),
        (&["--what"], "unexpected argument '--what' found"),
    ] {
        assert_eq!(run(arguments).0, Err(error.to_owned()));
    }
}

// ---- The guide ---------------------------------------------------------------------------------

#[test]
fn the_guide_shows_what_the_recording_says() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/protocol.md");
    let guide = std::fs::read_to_string(guide).expect("the guide");
    let (c2s, s2c) = (golden("3.8.0-zkproto-lock.c2s"), golden("3.8.0-zkproto-lock.s2c"));
    let (result, recording) = run(&["--pair", &c2s, &s2c]);
    assert_eq!(result, Ok(()));
    let frames: Vec<_> = recording.split_inclusive("\n\n").map(str::trim_end).collect();
    let shown: Vec<_> = guide
        .split("\n```")
        .filter_map(|block| block.strip_prefix("text\n"))
        .flat_map(|block| block.split("\n\n"))
        .collect();
    assert_eq!(shown.len(), 16);
    let mut later = frames.iter();
    for block in shown {
        assert!(later.any(|frame| *frame == block), "not in the recording, or not here:\n{block}");
    }
}

#[test]
fn the_front_page_shows_what_the_tool_prints() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let page = std::fs::read_to_string(page).expect("the front page");
    let (_, shown) = page.split_once("--example explain -- ").expect("the command");
    let (hexadecimal, rest) = shown.split_once('\n').expect("and what it prints");
    let (result, out) = run(&[hexadecimal]);
    assert_eq!(result, Ok(()));
    assert_eq!(rest.split_once("```").expect("the end of it").0, out.trim_end().to_owned() + "\n");
}
