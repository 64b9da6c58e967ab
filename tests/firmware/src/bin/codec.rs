//! The codec alone, in fixed buffers: connects, creates a node, and reads it again.

#![no_std]
#![no_main]

use zk_firmware::board::{self, print, print_number};
use zk_firmware::line::{Line, State};
use zk_proto::{
    Acl, ConnectRequest, ConnectResponse, Create2Response, CreateMode, CreateRequest, Decode,
    Encode, GetDataRequest, GetDataResponse, List, OpCode, Reader, ReplyHeader, RequestHeader,
    SessionId, Xid, Zxid, frame,
};

const NODE: &str = "/boards";

// SAFETY: no other function has this name. The code that starts the board calls it.
#[unsafe(no_mangle)]
extern "C" fn main() -> ! {
    board::start();
    board::exit(talk().is_some())
}

/// Returns `None` at the first surprise.
fn talk() -> Option<()> {
    let mut buffer = [0; 256];
    let mut line = Line::default();
    line.connect(0);
    while line.state() == State::Connecting {
        line.receive();
        board::sleep();
    }
    let connect = ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout: 10_000,
        session_id: SessionId::NONE,
        password: Some(&[0; 16]),
        read_only: Some(false),
    };
    let reply = ask(&mut line, &mut buffer, &connect)?;
    print("session timeout ");
    print_number(ConnectResponse::decode_all(reply).ok()?.timeout as u64);

    let acl = [Acl::OPEN];
    let create = CreateRequest {
        path: NODE,
        data: Some(b"made by a Cortex-M0"),
        acl: List::new(&acl),
        mode: CreateMode::EPHEMERAL,
    };
    let header = RequestHeader { xid: Xid(1), opcode: OpCode::CREATE2 };
    let mut reader = Reader::new(ask(&mut line, &mut buffer, &(header, create))?);
    let answer = ReplyHeader::decode(&mut reader).ok()?;
    let created = Create2Response::decode(&mut reader).ok()?;
    print("\ncreated ");
    print(created.path);
    let is_new = answer.xid == Xid(1) && created.stat.czxid == answer.zxid;

    let header = RequestHeader { xid: Xid(2), opcode: OpCode::GET_DATA };
    let request = (header, GetDataRequest { path: NODE, watch: false });
    let mut reader = Reader::new(ask(&mut line, &mut buffer, &request)?);
    ReplyHeader::decode(&mut reader).ok()?;
    let read = GetDataResponse::decode(&mut reader).ok()?;
    print("\nread ");
    print(str::from_utf8(read.data?).ok()?);
    print("\n");
    is_new.then_some(())
}

/// Sends a message, and returns the payload of the next frame.
fn ask<'a>(line: &mut Line, buffer: &'a mut [u8], message: &impl Encode) -> Option<&'a [u8]> {
    let mut left = frame::encode_to_slice(message, buffer).map(|length| 0..length).ok()?;
    while !left.is_empty() {
        left.start += line.send(buffer.get(left.clone())?);
    }
    let mut count = 0;
    loop {
        while let Some(byte) = line.receive() {
            *buffer.get_mut(count)? = byte;
            count += 1;
        }
        if line.state() != State::Up {
            return None;
        }
        if frame::split(buffer.get(..count)?, 252).ok()?.is_some() {
            break;
        }
        board::sleep();
    }
    frame::split(buffer.get(..count)?, 252).ok()?.map(|(payload, _)| payload)
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    board::exit(false)
}
