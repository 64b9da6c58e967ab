//! Recordings of real clients and servers decode, and encode to the same bytes.

mod captures;

use std::collections::BTreeMap;
use std::fmt::Write;

use captures::{Capture, Kind, Message};
use zk_proto::{
    ConnectRequest, ConnectResponse, Decode, ErrorCode, OpCode, ReplyHeader, RequestHeader,
    WatcherEvent, frame,
};

/// Checks every frame, except those that are malformed on purpose.
///
/// `golden/connections.txt` has a row for each connection, and for each malformed frame.
#[test]
fn every_recorded_connection_is_what_its_row_says() {
    let list = captures::directory().join("connections.txt");
    let expected = std::fs::read_to_string(list).expect("the list");
    let [mut found, mut malformed] = <[String; 2]>::default();
    for capture in Capture::all() {
        writeln!(found, "{}", row(&capture, &mut malformed)).expect("room");
    }
    found += &malformed;
    assert!(found == expected, "golden/connections.txt should be:\n{found}");
}

#[test]
fn every_recording_has_the_order_of_its_bytes() {
    for capture in Capture::all() {
        let file = captures::directory().join(format!("{}.seq", capture.name));
        let order = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let bytes = |direction| -> usize {
            let chunks = order.lines().filter_map(|line| line.strip_prefix(direction));
            chunks.filter_map(|chunk| chunk.split(' ').next()?.parse::<usize>().ok()).sum()
        };
        let lengths = [capture.to_server().len(), capture.to_client().len()];
        assert_eq!([bytes("> "), bytes("< ")], lengths, "{}", file.display());
    }
}

/// Counts by name, printed in the order of the names.
#[derive(Default)]
struct Tally(BTreeMap<String, usize>);

impl Tally {
    fn add(&mut self, name: impl Into<String>) {
        *self.0.entry(name.into()).or_default() += 1;
    }

    fn list(&self) -> String {
        let names: Vec<_> = self
            .0
            .iter()
            .map(|(name, count)| match count {
                1 => name.clone(),
                _ => format!("{name} x{count}"),
            })
            .collect();
        names.join(", ")
    }
}

fn row(capture: &Capture, malformed: &mut String) -> String {
    let [mut requests, mut errors, mut events] = <[Tally; 3]>::default();
    let messages = capture.messages();
    let mut buffer = vec![0; capture.longest_frame()];
    for message in &messages {
        match message.round_trip(&mut buffer) {
            Ok(written) => {
                assert_eq!(written, message.bytes, "{}: {:?}", capture.name, message.kind);
            }
            Err(error) => {
                let (what, answer) = describe(message, &messages);
                writeln!(malformed, "| {} | {what} | {error} | {answer} |", capture.name)
                    .expect("room");
            }
        }
        let payload = &message.bytes[frame::PREFIX_LEN..];
        match message.kind {
            Kind::ConnectRequest => {
                requests.add(asked(&ConnectRequest::decode_all(payload).expect("decoded above")));
            }
            Kind::ConnectResponse => {
                let response = ConnectResponse::decode_all(payload).expect("decoded above");
                granted(&response).into_iter().for_each(|note| errors.add(note));
            }
            Kind::Refusal(header) => {
                errors.add(format!("handshake: bare header, err {}", header.err.0));
            }
            Kind::Request(header) => requests.add(name(header.opcode)),
            Kind::Reply(_, header) if header.err != ErrorCode::OK => {
                errors.add(header.err.0.to_string());
            }
            Kind::Reply(..) => {}
            Kind::Notification => {
                let (_, event) =
                    <(ReplyHeader, WatcherEvent<'_>)>::decode_all(payload).expect("decoded above");
                events.add(format!("type {}", event.event_type.0));
            }
        }
    }
    format!("| {} | {} | {} | {} |", capture.name, requests.list(), errors.list(), events.list())
}

/// Describes a message and, if it is a request, the answer of the server.
fn describe(message: &Message<'_>, messages: &[Message<'_>]) -> (String, String) {
    match message.kind {
        Kind::Request(RequestHeader { xid, opcode }) => {
            let answer = messages.iter().find_map(|message| match message.kind {
                Kind::Reply(_, header) if header.xid == xid => Some(header.err.to_string()),
                _ => None,
            });
            (format!("{} request", name(opcode)), answer.unwrap_or("the end".to_owned()))
        }
        Kind::Reply(opcode, _) => (format!("{} reply", name(opcode)), String::new()),
        kind => panic!("{kind:?} is not as it should be"),
    }
}

fn asked(request: &ConnectRequest<'_>) -> &'static str {
    match (request.session_id.0, request.read_only) {
        (0, Some(false)) => "connect",
        (0, Some(true)) => "connect(ro)",
        (0, None) => "connect(no ro flag)",
        _ => "connect(sid)",
    }
}

fn granted(response: &ConnectResponse<'_>) -> Option<&'static str> {
    match response.read_only {
        _ if response.is_expired() => Some("handshake: expired"),
        Some(true) => Some("handshake: read-only"),
        Some(false) => None,
        None => Some("handshake: no ro flag"),
    }
}

/// Returns ZooKeeper's own name of an operation.
fn name(opcode: OpCode) -> String {
    let name = match opcode.0 {
        1 => "create",
        2 => "delete",
        3 => "exists",
        4 => "get",
        5 => "set",
        6 => "getACL",
        7 => "setACL",
        8 => "getChildren",
        9 => "sync",
        11 => "ping",
        12 => "getChildren2",
        13 => "check",
        14 => "multi",
        15 => "create2",
        16 => "reconfig",
        17 => "checkWatches",
        18 => "removeWatches",
        19 => "createContainer",
        20 => "deleteContainer",
        21 => "createTTL",
        22 => "multiRead",
        100 => "auth",
        101 => "setWatches",
        102 => "sasl",
        103 => "getEphemerals",
        104 => "getAllChildrenNumber",
        105 => "setWatches2",
        106 => "addWatch",
        107 => "whoAmI",
        -11 => "closeSession",
        number => return format!("op {number}"),
    };
    name.to_owned()
}

/// Without this, an empty table would match an empty folder.
#[test]
fn the_captures_hold_every_operation_of_this_crate() {
    let seen: Vec<_> = Capture::all()
        .iter()
        .flat_map(|capture| {
            capture.messages().into_iter().map(|message| message.kind).collect::<Vec<_>>()
        })
        .collect();
    for opcode in OpCode::REQUESTS {
        assert!(
            seen.iter().any(|kind| matches!(kind, Kind::Request(h) if h.opcode == *opcode)),
            "no request {opcode}"
        );
        assert!(
            seen.iter().any(|kind| matches!(kind, Kind::Reply(asked, _) if asked == opcode)),
            "no reply {opcode}"
        );
    }
}
