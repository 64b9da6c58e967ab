//! Sends generated requests to a server, and reads every reply: `fuzz_server host:port [count]`.

use std::io::{Error, Read, Result, Write};
use std::{env, net::TcpStream};

use proptest::{prelude::any, strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use zk_proto::conversation::{Conversation, Direction, Kind};
use zk_proto::{ErrorCode, OpCode, RequestHeader, Xid, frame, owned::Request};
use zk_testkit::raw::RawClient;

fn main() -> Result<()> {
    let address = env::args().nth(1).ok_or_else(|| Error::other("an address is missing"))?;
    println!("{} of 1000 requests were executed", fuzz(&address, 1000)?);
    Ok(())
}

pub(crate) fn fuzz(address: &str, count: i32) -> Result<usize> {
    let (mut stream, mut state) = (TcpStream::connect(address)?, Conversation::new(1 << 24));
    let (requests, mut runner, mut executed) = (any::<Request>(), TestRunner::deterministic(), 0);
    let mut bytes = RawClient::connect(10_000).to_vec(); // The handshake comes first.
    for xid in (1..=count).map(Xid) {
        executed += usize::from(ask(&mut stream, &mut state, &bytes)?);
        let mut next = || requests.new_tree(&mut runner).expect("no filter").current();
        // These may end the connection.
        let last = [OpCode::AUTH, OpCode::CLOSE_SESSION, OpCode::SASL];
        let ends = |request: &Request| last.contains(&request.opcode());
        let request = std::iter::repeat_with(&mut next).find(|it| !ends(it)).expect("endless");
        bytes.clear();
        let header = RequestHeader { xid, opcode: request.opcode() };
        frame::encode(&(header, request), &mut bytes).map_err(Error::other)?;
    }
    Ok(executed)
}

fn ask(stream: &mut TcpStream, state: &mut Conversation, message: &[u8]) -> Result<bool> {
    stream.write_all(message)?;
    state.read(Direction::ToServer, message).map_err(Error::other)?;
    loop {
        let mut frame = vec![0; 4];
        stream.read_exact(&mut frame)?;
        let length = u32::from_be_bytes([frame[0], frame[1], frame[2], frame[3]]);
        stream.take(length.into()).read_to_end(&mut frame)?;
        let read = state.read(Direction::ToClient, &frame).map_err(Error::other)?;
        let (reply, _) = read.ok_or_else(|| Error::other("the connection ends within a reply"))?;
        reply.explain(&mut |_| {}).unwrap_or_else(|error| println!("{error}: {reply:?}"));
        match reply.kind {
            Kind::Notification(_) => {}
            Kind::Reply { header, .. } => return Ok(header.err == ErrorCode::OK),
            _ => return Ok(false),
        }
    }
}
