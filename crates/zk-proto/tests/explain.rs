//! Everything that can be decoded can be explained, and nothing else, down to the last byte.

mod captures;

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
