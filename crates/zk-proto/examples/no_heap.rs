//! Encodes and decodes every request and every reply without a heap.
//!
//! ```text
//! cargo run -p zk-proto --example no_heap
//! cargo rustc -p zk-proto --example no_heap --target thumbv6m-none-eabi -- -C link-arg=--no-gc-sections
//! ```
//!
//! The second command fails to link if any code needs an allocator. Nothing calls that code, so the
//! linker must keep it.

#![cfg_attr(target_os = "none", no_std, no_main)]

use zk_proto::{
    Acl, CheckVersionRequest, ConnectRequest, ConnectResponse, CreateMode, CreateRequest,
    CreateResponse, Decode, DecodeError, DeleteRequest, Encode, ErrorCode, ErrorResponse,
    EventType, GetDataRequest, GetDataResponse, KeeperState, List, Multi, MultiOp, MultiReadOp,
    MultiReadResult, MultiResult, OpCode, Reader, ReplyHeader, Request, RequestHeader, Response,
    SessionId, SetDataResponse, Stat, WatcherEvent, Xid, Zxid, explain, frame,
};

#[cfg(not(target_os = "none"))]
fn main() {
    let count = every_message().expect("every message equals its decoded encoding");
    println!("{count} messages encoded and decoded without a heap");
}

#[cfg(target_os = "none")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    core::hint::black_box(every_message());
    loop {}
}

/// Returns the number of messages, if each of them equals its decoded encoding.
fn every_message() -> Option<usize> {
    let mut count = 0;
    for opcode in OpCode::REQUESTS {
        shortest(|body| Request::decode(*opcode, body))?;
        shortest(|body| Response::decode(*opcode, body))?;
        count += 2;
    }
    multis()?;
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(5),
        timeout: 30_000,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: Some(false),
    };
    let connected = ConnectResponse {
        protocol_version: 0,
        timeout: 30_000,
        session_id: SessionId(1),
        password: Some(&[1; 16]),
        read_only: None,
    };
    let event = WatcherEvent {
        event_type: EventType::NODE_DELETED,
        state: KeeperState::SYNC_CONNECTED,
        path: "/locks/a",
    };
    let header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(7), err: ErrorCode::OK };
    round_trip(connect, explain::MessageKind::ConnectRequest, |bytes, sent| {
        ConnectRequest::decode_all(bytes).as_ref() == Ok(sent)
    })?;
    round_trip(connected, explain::MessageKind::ConnectResponse, |bytes, sent| {
        ConnectResponse::decode_all(bytes).as_ref() == Ok(sent)
    })?;
    round_trip((header, event), explain::MessageKind::UnknownReply, |bytes, sent| {
        <(ReplyHeader, WatcherEvent<'_>)>::decode_all(bytes).as_ref() == Ok(sent)
    })?;
    Some(count + 5)
}

/// The shortest body consists of zeros: empty strings and lists. A multi consists of its end.
fn shortest<M: Encode + PartialEq>(
    decode: impl Fn(&'static [u8]) -> Result<M, DecodeError>,
) -> Option<()> {
    const ZEROS: &[u8] = &[0; 128];
    const END: &[u8] = b"\xff\xff\xff\xff\x01\xff\xff\xff\xff";

    let bodies = (0..ZEROS.len()).map(|length| &ZEROS[..length]).chain([END]);
    let (body, message) = bodies.filter_map(|body| Some((body, decode(body).ok()?))).next()?;
    let mut buffer = [0xa5; 128];
    let length = message.encode_to_slice(&mut buffer).ok()?;
    (buffer[..length] == *body).then_some(())
}

fn multis() -> Option<()> {
    let acl = [Acl::OPEN];
    let create = CreateRequest {
        path: "/locks/a",
        data: Some(b"10.0.0.7"),
        acl: List::new(&acl),
        mode: CreateMode::EPHEMERAL_SEQUENTIAL,
    };
    let ops = [
        MultiOp::Check(CheckVersionRequest { path: "/locks", version: 3 }),
        MultiOp::Create(create),
        MultiOp::Delete(DeleteRequest { path: "/locks/b", version: -1 }),
    ];
    let results = [
        MultiResult::Check(()),
        MultiResult::Create(CreateResponse { path: "/locks/a0000000001" }),
        MultiResult::SetData(SetDataResponse { stat: Stat::default() }),
        MultiResult::Error(ErrorResponse { err: ErrorCode::NO_NODE }),
    ];
    let reads = [MultiReadOp::GetData(GetDataRequest { path: "/locks", watch: false })];
    let read = [MultiReadResult::GetData(GetDataResponse { data: None, stat: Stat::default() })];
    for request in [Request::Multi(Multi::new(&ops)), Request::MultiRead(Multi::new(&reads))] {
        let header = RequestHeader { xid: Xid::FIRST, opcode: request.opcode() };
        round_trip((header, request), explain::MessageKind::Request, is_request)?;
    }
    for response in [Response::Multi(Multi::new(&results)), Response::MultiRead(Multi::new(&read))]
    {
        let header = ReplyHeader { xid: Xid::FIRST, zxid: Zxid(9), err: ErrorCode::OK };
        round_trip((header, response), explain::MessageKind::Reply(response.opcode()), is_reply)?;
    }
    Some(())
}

/// Encodes a message as a frame, explains the frame, and checks that it `is` the message.
fn round_trip<M: Encode>(
    message: M,
    context: explain::MessageKind,
    is: impl Fn(&[u8], &M) -> bool,
) -> Option<()> {
    let mut buffer = [0; 512];
    let length = frame::encode_to_slice(&message, &mut buffer).ok()?;
    let mut shown = 0;
    explain::frame(&buffer[..length], context, &mut |field| shown += field.range.len()).ok()?;
    (is(&buffer[frame::PREFIX_LEN..length], &message) && shown == length).then_some(())
}

fn is_request(payload: &[u8], (header, body): &(RequestHeader, Request<'_>)) -> bool {
    let mut reader = Reader::new(payload);
    RequestHeader::decode(&mut reader).as_ref() == Ok(header)
        && Request::decode(header.opcode, reader.rest()).as_ref() == Ok(body)
}

fn is_reply(payload: &[u8], (header, body): &(ReplyHeader, Response<'_>)) -> bool {
    let mut reader = Reader::new(payload);
    ReplyHeader::decode(&mut reader).as_ref() == Ok(header)
        && Response::decode(body.opcode(), reader.rest()).as_ref() == Ok(body)
}
