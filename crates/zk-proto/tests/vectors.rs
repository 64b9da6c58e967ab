//! Messages next to their bytes.

use std::fmt::Debug;

use zk_proto::{
    Acl, AddWatchMode, AddWatchRequest, AuthPacket, CheckVersionRequest, ConnectRequest,
    ConnectResponse, CreateMode, CreateRequest, CreateResponse, Decode, DecodeError, DeleteRequest,
    Encode, ErrorCode, ErrorResponse, EventType, ExistsRequest, GetChildrenRequest,
    GetChildrenResponse, GetDataRequest, GetEphemeralsRequest, GetSaslRequest, KeeperState, List,
    Multi, MultiOp, MultiReadOp, MultiReadResponse, MultiReadResult, MultiResponse, MultiResult,
    NodeKind, OpCode, Perms, Reader, ReconfigRequest, ReplyHeader, Request, RequestHeader,
    Response, SessionId, SetAclRequest, SetWatches, SetWatches2, Sink, Ttl, WatcherEvent, Xid,
    Zxid, frame,
};

/// Checks that the message encodes to these bytes, and that they decode to the message.
macro_rules! check {
    ($hexadecimal:expr, $message:expr, $decode:expr $(,)?) => {
        // The message that is decoded borrows from the bytes, which end with this block.
        check(&unhex($hexadecimal), $message, $decode)
    };
}

const NO_PASSWORD: Option<&[u8]> = Some(&[0; 16]);

#[test]
fn a_new_session_is_asked_for() {
    check!(
        "0000002d 00000000 0000000000000000 00007530 0000000000000000
         00000010 00000000000000000000000000000000 00",
        ConnectRequest::new_session(30_000),
        ConnectRequest::decode_all,
    );
}

#[test]
fn an_old_client_leaves_the_read_only_byte_out() {
    check!(
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
    check!(
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
    check!(
        "00000025 00000000 00000000 0000000000000000
         00000010 00000000000000000000000000000000 00",
        response,
        ConnectResponse::decode_all,
    );
}

#[test]
fn a_session_without_a_timeout_or_an_id_is_none() {
    let response = |timeout, id| ConnectResponse {
        protocol_version: 0,
        timeout,
        session_id: SessionId(id),
        password: NO_PASSWORD,
        read_only: None,
    };
    let refused =
        [(1, 1), (0, 1), (-1, 1), (1, 0)].map(|(timeout, id)| response(timeout, id).is_expired());
    assert_eq!(refused, [false, true, true, true]);
}

#[test]
fn modes_and_permissions_say_what_they_include() {
    use CreateMode as Mode;

    let sequential = [
        Mode::PERSISTENT_SEQUENTIAL,
        Mode::EPHEMERAL_SEQUENTIAL,
        Mode::PERSISTENT_SEQUENTIAL_WITH_TTL,
    ];
    let ephemeral = [Mode::EPHEMERAL, Mode::EPHEMERAL_SEQUENTIAL];
    for mode in (0..8).map(CreateMode) {
        assert_eq!(mode.is_sequential(), sequential.contains(&mode), "{mode:?}");
        assert_eq!(mode.is_ephemeral(), ephemeral.contains(&mode), "{mode:?}");
    }
    let read_write = Perms::READ | Perms::WRITE;
    assert_eq!(read_write | Perms::WRITE, read_write);
    assert!(read_write.contains(Perms::WRITE) && !Perms::WRITE.contains(read_write));
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
fn requests_for_servers_since_3_5() {
    check_request(
        "0000003a 00000005 00000015 00000002 2f61 00000001 78
         00000001 0000001f 00000005 776f726c64 00000006 616e796f6e65 00000005 000000000000ea60",
        Xid(5),
        NodeKind::PersistentWithTtl(Ttl::from_millis(60_000).expect("in range")).create(
            "/a",
            Some(b"x"),
            List::new(&[Acl::OPEN]),
        ),
    );
    check_request(
        "0000001f 00000006 00000010 00000003 313d61 ffffffff ffffffff ffffffffffffffff",
        Xid(6),
        Request::Reconfig(ReconfigRequest {
            joining_servers: Some("1=a"),
            leaving_servers: None,
            new_members: None,
            cur_config_id: -1,
        }),
    );
    check_request(
        "00000012 00000007 0000006a 00000002 2f61 00000001",
        Xid(7),
        Request::AddWatch(AddWatchRequest { path: "/a", mode: AddWatchMode::PERSISTENT_RECURSIVE }),
    );
    check_request("0000000c 00000008 00000067 ffffffff", Xid(8), {
        Request::GetEphemerals(GetEphemeralsRequest { prefix_path: None })
    });
    check_request("00000008 00000009 0000006b", Xid(9), Request::WhoAmI(()));
    check_request(
        "00000030 0000000a 00000016 0000000400ffffffff 000000022f61 00
         0000000800ffffffff 000000012f 01 ffffffff01ffffffff",
        Xid(10),
        Request::MultiRead(Multi::new(&[
            MultiReadOp::GetData(GetDataRequest { path: "/a", watch: false }),
            MultiReadOp::GetChildren(GetChildrenRequest { path: "/", watch: true }),
        ])),
    );
}

#[test]
fn access_control_lists() {
    check_request(
        "00000054 00000001 00000007 00000002 2f61 00000003
         0000001f 00000005 776f726c64 00000006 616e796f6e65 0000001f 00000004 61757468 00000000
         00000001 00000005 776f726c64 00000006 616e796f6e65 ffffffff",
        Xid(1),
        Request::SetAcl(SetAclRequest {
            path: "/a",
            acl: List::new(&[Acl::OPEN, Acl::CREATOR_ALL, Acl::READ]),
            version: -1,
        }),
    );
    let all = [Perms::READ, Perms::WRITE, Perms::CREATE, Perms::DELETE, Perms::ADMIN];
    assert_eq!(all.into_iter().reduce(|a, b| a | b), Some(Perms::ALL));
    assert!(Perms::ALL.contains(Perms::ADMIN) && !Perms::READ.contains(Perms::ALL));
}

#[test]
fn credentials() {
    check_request(
        "0000001d fffffffc 00000064 00000000 00000006 646967657374 00000003 753a70",
        Xid::AUTH,
        Request::Auth(AuthPacket { auth_type: 0, scheme: "digest", auth: Some(b"u:p") }),
    );
    check_request(
        "0000000c 00000001 00000066 00000000",
        Xid(1),
        Request::Sasl(GetSaslRequest { token: Some(b"") }),
    );
}

#[test]
fn watches_that_are_set_again() {
    check_request(
        "0000002e fffffff8 00000065 0000000000000007 00000001 00000002 2f61 \
         00000002 00000002 2f62 00000002 2f63 00000000",
        Xid::SET_WATCHES,
        Request::SetWatches(SetWatches {
            relative_zxid: Zxid(7),
            data_watches: List::new(&["/a"]),
            exist_watches: List::new(&["/b", "/c"]),
            child_watches: List::new(&[]),
        }),
    );
}

#[test]
fn replies() {
    check!(
        "00000010 fffffffe 0000000000000005 00000000",
        ReplyHeader { xid: Xid::PING, zxid: Zxid(5), err: ErrorCode::OK },
        ReplyHeader::decode_all,
    );
    check!(
        "00000010 00000001 0000000000000005 ffffff9b",
        ReplyHeader { xid: Xid(1), zxid: Zxid(5), err: ErrorCode::NO_NODE },
        ReplyHeader::decode_all,
    );
    check!(
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
    check!(
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

/// Both values are equal so far.
#[test]
fn a_failed_result_keeps_the_error_of_its_header_and_the_one_of_its_body() {
    let bytes = unhex("ffffffff00fffffffe ffffff9b ffffffff01ffffff00");
    let results = MultiResponse::decode_all(&bytes).expect("a failed result");
    assert_eq!(results.failure(), Some((0, ErrorCode::NO_NODE)));
    let mut encoded = vec![0; bytes.len()];
    assert_eq!(results.encode_to_slice(&mut encoded), Ok(bytes.len()));
    assert_eq!(encoded, bytes);
}

#[test]
fn reads_fail_one_by_one() {
    const RESULTS: &[MultiReadResult<'_>] = &[
        MultiReadResult::GetChildren(GetChildrenResponse { children: List::new(&["a"]) }),
        MultiReadResult::Error(ErrorResponse { err: ErrorCode::NO_NODE }),
    ];
    check!(
        "00000028 000000080000000000 00000001 00000001 61 ffffffff00ffffff9b ffffff9b
         ffffffff01ffffffff",
        Multi::new(RESULTS),
        MultiReadResponse::decode_all,
    );
}

#[test]
fn numbers_that_nobody_knows_yet_stay_what_they_are() {
    check_request(
        "00000012 00000001 0000006a 00000002 2f61 7fffffff",
        Xid(1),
        Request::AddWatch(AddWatchRequest { path: "/a", mode: AddWatchMode(i32::MAX) }),
    );
    check!(
        "0000001e ffffffff 0000000000000006 ffffff01 00000063 80000000 000000022f61",
        (
            ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(6), err: ErrorCode(-255) },
            WatcherEvent { event_type: EventType(99), state: KeeperState(i32::MIN), path: "/a" },
        ),
        Decode::decode_all,
    );
    check!("00000008 00000001 fffffc18", RequestHeader { xid: Xid(1), opcode: OpCode(-1000) }, {
        Decode::decode_all
    });
}

#[test]
fn a_multi_that_was_applied_has_a_result_for_each_operation() {
    let results = Multi::new(&[
        MultiResult::Create(CreateResponse { path: "/a" }),
        MultiResult::Check(()),
        MultiResult::Delete(()),
    ]);
    assert_eq!(results.failure(), None);
    check!(
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
fn a_list_yields_the_items_that_it_counts() {
    let long = "n".repeat(200);
    for names in [["a", "b", "c"], ["a", "", "c"], ["a", "ü", "漢字"], ["a", &long, "c"]] {
        let mut buffer = [0; 256];
        let written = List::new(&names);
        let length = written.encode_to_slice(&mut buffer).expect("it fits");
        let read = List::decode_all(&buffer[..length]).expect("three names");
        assert_eq!(read, written);
        for list in [read, written, List::from(&names), List::from(&names[..])] {
            assert!(list.iter().eq(names));
            assert_eq!((list.len(), list.iter().len(), list.is_empty()), (3, 3, false));
            assert_eq!(list.encode_to_slice(&mut [0; 256]), Ok(length));
        }
    }
    assert_eq!(List::new(&[(), ()]).iter().count(), 2);
}

#[test]
fn a_null_list_is_not_an_empty_one() {
    check!("00000004 ffffffff", List::<'_, &str>::NULL, Decode::decode_all);
    check!("00000004 00000000", List::<'_, &str>::default(), Decode::decode_all);
    assert_ne!(List::<'_, &str>::NULL, List::default());
    assert_eq!(List::<'_, &str>::NULL.iter().next(), None);
}

fn check_request(bytes: &str, xid: Xid, request: Request<'static>) {
    check!(bytes, (RequestHeader { xid, opcode: request.opcode() }, request), |payload| {
        let mut reader = Reader::new(payload);
        let header = RequestHeader::decode(&mut reader)?;
        Ok((header, Request::decode(header.opcode, reader.rest())?))
    });
}

fn check<'b, M: Encode + PartialEq + Debug>(
    bytes: &'b [u8],
    message: M,
    decode: impl Fn(&'b [u8]) -> Result<M, DecodeError>,
) {
    let mut encoded = vec![0; bytes.len()];
    assert_eq!(frame::encode_to_slice(&message, &mut encoded), Ok(bytes.len()));
    assert_eq!(encoded, bytes);
    assert_eq!(decode(&bytes[frame::PREFIX_LEN..]), Ok(message));
}

fn unhex(digits: &str) -> Vec<u8> {
    let digits: Vec<_> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
}

#[test]
fn values_print_what_they_are() {
    assert_eq!(format!("{:?}", Xid(7)), "Xid(7)");
    let names: List<'_, &str> = List::decode_all(b"\xff\xff\xff\xff").expect("null");
    assert!(names.is_null() && names.is_empty());
    assert_eq!(format!("{names:?}"), "null");
    let operations = [MultiOp::Check(CheckVersionRequest { path: "/a", version: 3 })];
    let multi = Multi::new(&operations);
    assert_eq!(format!("{multi:?}"), format!("{operations:?}"));
    assert_ne!(multi, Multi::default());
    assert_eq!(format!("{:?}", Multi::<MultiOp<'_>>::default()), "[]");
}

#[test]
fn a_request_has_the_paths_of_its_parts() {
    let read = GetDataRequest { path: "/read", watch: false };
    let delete = DeleteRequest { path: "/deleted", version: -1 };
    let watches = SetWatches {
        relative_zxid: Zxid(1),
        data_watches: List::new(&["/a", "/b"]),
        exist_watches: List::new(&["/c"]),
        child_watches: List::new(&["/d"]),
    };
    let more_watches = SetWatches2 {
        relative_zxid: Zxid(1),
        data_watches: List::new(&["/a"]),
        exist_watches: List::new(&["/b"]),
        child_watches: List::NULL,
        persistent_watches: List::new(&["/c"]),
        persistent_recursive_watches: List::new(&["/d"]),
    };
    for (request, paths) in [
        (Request::GetData(read), &["/read"][..]),
        (Request::Multi(Multi::new(&[MultiOp::Delete(delete); 2])), &["/deleted"; 2]),
        (Request::MultiRead(Multi::new(&[MultiReadOp::GetData(read); 2])), &["/read"; 2]),
        (Request::SetWatches(watches), &["/a", "/b", "/c", "/d"]),
        (Request::SetWatches2(more_watches), &["/a", "/b", "/c", "/d"]),
        (Request::Ping(()), &[]),
    ] {
        assert!(request.paths().eq(paths.iter().copied()), "{request:?}");
    }
}

/// A sink that grows does so once for each message.
#[cfg(feature = "alloc")]
#[test]
fn room_is_made_for_a_whole_message() {
    let mut sink = Vec::new();
    Sink::reserve(&mut sink, 1000);
    assert!(sink.capacity() >= 1000);
    let mut sink = bytes::BytesMut::new();
    Sink::reserve(&mut sink, 1000);
    assert!(sink.capacity() >= 1000);
}

/// A sink need only take bytes.
#[test]
fn a_sink_that_counts_gets_every_byte_of_a_frame() {
    struct Count(usize);

    impl Sink for Count {
        fn put(&mut self, bytes: &[u8]) {
            self.0 += bytes.len();
        }
    }

    let request = ConnectRequest::new_session(30_000);
    let mut count = Count(0);
    frame::encode(&request, &mut count).expect("short");
    assert_eq!(count.0, 4 + request.encoded_len());
}

#[test]
fn an_operation_without_a_body_has_no_layout() {
    for opcode in [OpCode::CREATE_SESSION, OpCode(999)] {
        assert!(opcode.request_layout().is_none() && opcode.response_layout().is_none());
    }
}
