//! Messages next to the bytes that they are.

use std::fmt::Debug;

use zk_proto::{
    Acl, CheckVersionRequest, ConnectRequest, ConnectResponse, CreateMode, CreateRequest,
    CreateResponse, Decode, DecodeError, DeleteRequest, Encode, ErrorCode, ErrorResponse,
    EventType, ExistsRequest, KeeperState, List, Multi, MultiOp, MultiResult, OpCode, Reader,
    ReplyHeader, Request, RequestHeader, Response, SessionId, WatcherEvent, Xid, Zxid, frame,
};

const NO_PASSWORD: Option<&[u8]> = Some(&[0; 16]);

#[test]
fn a_new_session_is_asked_for() {
    check(
        "0000002d 00000000 0000000000000000 00007530 0000000000000000
         00000010 00000000000000000000000000000000 00",
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout: 30_000,
            session_id: SessionId::NONE,
            password: NO_PASSWORD,
            read_only: Some(false),
        },
        ConnectRequest::decode_all,
    );
}

#[test]
fn an_old_client_leaves_the_read_only_byte_out() {
    check(
        "0000002c 00000000 0000000000000000 00007530 0000000000000000
         00000010 00000000000000000000000000000000",
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: Zxid::ZERO,
            timeout: 30_000,
            session_id: SessionId::NONE,
            password: NO_PASSWORD,
            read_only: None,
        },
        ConnectRequest::decode_all,
    );
}

#[test]
fn a_session_is_granted() {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session_id: SessionId(0x0100_0000_0000_0001),
        password: Some(b"0123456789abcdef"),
        read_only: Some(false),
    };
    assert!(!response.is_expired());
    check(
        "00000025 00000000 00007530 0100000000000001
         00000010 30313233343536373839616263646566 00",
        response,
        ConnectResponse::decode_all,
    );
}

#[test]
fn a_session_has_expired() {
    let response = ConnectResponse {
        protocol_version: 0,
        timeout: 0,
        session_id: SessionId::NONE,
        password: NO_PASSWORD,
        read_only: Some(false),
    };
    assert!(response.is_expired());
    check(
        "00000025 00000000 00000000 0000000000000000
         00000010 00000000000000000000000000000000 00",
        response,
        ConnectResponse::decode_all,
    );
}

#[test]
fn requests() {
    check_request("00000008 fffffffe 0000000b", Xid::PING, Request::Ping(()));
    check_request("00000008 00000004 fffffff5", Xid(4), Request::CloseSession(()));
    check_request(
        "0000000f 00000001 00000003 00000002 2f61 01",
        Xid(1),
        Request::Exists(ExistsRequest { path: "/a", watch: true }),
    );
    check_request(
        "00000032 00000002 00000001 000000022f61 0000000178
         00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000000",
        Xid(2),
        Request::Create(CreateRequest {
            path: "/a",
            data: Some(b"x"),
            acl: List::new(&[Acl::OPEN]),
            mode: CreateMode::PERSISTENT,
        }),
    );
    check_request(
        "00000037 00000003 0000000e 0000000d00ffffffff 000000022f61 00000000
         0000000200ffffffff 000000022f62 ffffffff ffffffff01ffffffff",
        Xid(3),
        Request::Multi(Multi::new(&[
            MultiOp::Check(CheckVersionRequest { path: "/a", version: 0 }),
            MultiOp::Delete(DeleteRequest { path: "/b", version: -1 }),
        ])),
    );
}

#[test]
fn replies() {
    check(
        "00000010 fffffffe 0000000000000005 00000000",
        ReplyHeader { xid: Xid::PING, zxid: Zxid(5), err: ErrorCode::OK },
        ReplyHeader::decode_all,
    );
    check(
        "00000010 00000001 0000000000000005 ffffff9b",
        ReplyHeader { xid: Xid(1), zxid: Zxid(5), err: ErrorCode::NO_NODE },
        ReplyHeader::decode_all,
    );
    check(
        "0000001e ffffffff 0000000000000006 00000000 00000001 00000003 000000022f61",
        (
            ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(6), err: ErrorCode::OK },
            WatcherEvent {
                event_type: EventType::NODE_CREATED,
                state: KeeperState::SYNC_CONNECTED,
                path: "/a",
            },
        ),
        Decode::decode_all,
    );
}

#[test]
fn a_failed_multi_says_which_operation_failed() {
    let results = Multi::new(&[
        MultiResult::Error(ErrorResponse { err: ErrorCode::OK }),
        MultiResult::Error(ErrorResponse { err: ErrorCode::NO_NODE }),
    ]);
    assert_eq!(results.failure(), Some((1, ErrorCode::NO_NODE)));
    let not_run = [MultiResult::Error(ErrorResponse { err: ErrorCode::RUNTIME_INCONSISTENCY })];
    assert_eq!(Multi::new(&not_run).failure(), None);
    check(
        "00000033 00000003 0000000000000007 00000000 ffffffff0000000000 00000000
         ffffffff00ffffff9b ffffff9b ffffffff01ffffffff",
        (ReplyHeader { xid: Xid(3), zxid: Zxid(7), err: ErrorCode::OK }, Response::Multi(results)),
        |payload| {
            let mut reader = Reader::new(payload);
            let header = ReplyHeader::decode(&mut reader)?;
            Ok((header, Response::decode(OpCode::MULTI, reader.rest())?))
        },
    );
}

#[test]
fn a_multi_that_was_applied_has_a_result_for_each_operation() {
    let results = Multi::new(&[
        MultiResult::Create(CreateResponse { path: "/a" }),
        MultiResult::Check(()),
        MultiResult::Delete(()),
    ]);
    assert_eq!(results.failure(), None);
    check(
        "0000002a 000000010000000000 000000022f61 0000000d0000000000 000000020000000000
         ffffffff01ffffffff",
        results,
        Decode::decode_all,
    );
}

#[test]
fn any_byte_but_zero_is_true_and_true_is_written_as_one() {
    let body = unhex("00000002 2f61 02");
    let request = Request::decode(OpCode::EXISTS, &body);
    assert_eq!(request, Ok(Request::Exists(ExistsRequest { path: "/a", watch: true })));
}

#[test]
fn a_list_yields_as_many_items_as_it_counts() {
    let names = ["a", "b", "c"];
    let bytes = unhex("00000003 00000001 61 00000001 62 00000001 63");
    let read = List::decode_all(&bytes).expect("three names");
    assert_eq!(read, List::new(&names));
    for list in [read, List::new(&names)] {
        assert_eq!((list.len(), list.iter().len(), list.iter().count()), (3, 3, 3));
    }
    assert_eq!(List::new(&[(), ()]).iter().count(), 2);
}

#[test]
fn a_null_list_is_not_an_empty_one() {
    check("00000004 ffffffff", List::<'_, &str>::NULL, Decode::decode_all);
    check("00000004 00000000", List::<'_, &str>::default(), Decode::decode_all);
    assert_ne!(List::<'_, &str>::NULL, List::default());
    assert_eq!(List::<'_, &str>::NULL.iter().next(), None);
}

fn check_request(bytes: &str, xid: Xid, request: Request<'static>) {
    check(bytes, (RequestHeader { xid, opcode: request.opcode() }, request), |payload| {
        let mut reader = Reader::new(payload);
        let header = RequestHeader::decode(&mut reader)?;
        Ok((header, Request::decode(header.opcode, reader.rest())?))
    });
}

/// The message is these bytes as a frame, and these bytes are the message.
fn check<M: Encode + PartialEq + Debug>(
    hexadecimal: &str,
    message: M,
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) {
    let bytes: &[u8] = Box::leak(unhex(hexadecimal).into());
    let mut encoded = vec![0; bytes.len()];
    assert_eq!(frame::encode_to_slice(&message, &mut encoded), Ok(bytes.len()));
    assert_eq!(encoded, bytes);
    assert_eq!(decode(&bytes[frame::PREFIX..]), Ok(message));
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}
