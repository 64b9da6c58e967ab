//! Encoding and decoding allocate nothing: the caller owns all memory.

mod captures;

use captures::Capture;
use zk_proto::{
    Acl, CreateMode, CreateRequest, DeleteRequest, GetChildrenRequest, GetChildrenResponse,
    GetDataRequest, List, OpCode, Request, RequestHeader, Response, SequenceNumber, Xid, frame,
};

#[track_caller]
fn assert_allocates_nothing(run: impl FnOnce()) {
    let allocations = allocation_counter::measure(run).count_total;
    assert_eq!(allocations, 0);
}

/// The other tests would pass if nothing were counted.
#[test]
fn an_allocation_is_counted() {
    let counted = allocation_counter::measure(|| drop(std::hint::black_box(Box::new(1))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn the_requests_of_a_lock_are_written_into_a_fixed_buffer() {
    let requests = [
        Request::Create(CreateRequest {
            path: "/locks/printer/_c_72c60c93-7e3a-4b3d-a1f5-8b1f6f8a9c11-lock-",
            data: Some(b"10.0.0.7"),
            acl: List::new(&[Acl::OPEN]),
            mode: CreateMode::EPHEMERAL_SEQUENTIAL,
        }),
        Request::GetChildren(GetChildrenRequest { path: "/locks/printer", watch: false }),
        Request::GetData(GetDataRequest { path: "/locks/printer/lock-0000000006", watch: true }),
        Request::Delete(DeleteRequest { path: "/locks/printer/lock-0000000007", version: -1 }),
    ];
    assert_allocates_nothing(|| {
        let mut xid = Xid::FIRST;
        for request in &requests {
            let mut buffer = [0; 256];
            let header = RequestHeader { xid, opcode: request.opcode() };
            let length = frame::encode_to_slice(&(header, request), &mut buffer).expect("it fits");
            let body = &buffer[frame::PREFIX_LEN + 8..length];
            assert_eq!(Request::decode(header.opcode, body), Ok(*request));
            xid = xid.next();
        }
    });
}

#[test]
fn the_lowest_contender_is_found_in_the_bytes_of_the_reply() {
    let children = ["x-0000000007", "x-0000000003", "not a contender", "x-0000000012"];
    assert_allocates_nothing(|| {
        let mut buffer = [0; 128];
        let response =
            Response::GetChildren(GetChildrenResponse { children: List::new(&children) });
        let length = frame::encode_to_slice(&response, &mut buffer).expect("it fits");
        let body = &buffer[frame::PREFIX_LEN..length];
        let Ok(Response::GetChildren(reply)) = Response::decode(OpCode::GET_CHILDREN, body) else {
            panic!("the reply is what was written");
        };
        let numbers = reply.children.iter().filter_map(|name| SequenceNumber::parse(&name[2..]));
        assert_eq!(numbers.min(), Some(SequenceNumber(3)));
    });
}

/// The comparison of messages iterates over every list.
#[test]
fn every_recorded_message_is_read_and_written_in_place() {
    let mut written = 0;
    for capture in Capture::all() {
        let messages = capture.messages();
        let mut buffer = vec![0; capture.longest_frame()];
        assert_allocates_nothing(|| {
            for message in &messages {
                written += usize::from(message.round_trip(&mut buffer).is_ok());
            }
        });
    }
    assert!(written > 1000, "{written}");
}
