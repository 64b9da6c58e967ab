//! Sends generated requests to a server, and explains every reply: `fuzz_server HOST:PORT COUNT`.

use std::{env, error::Error, io::Read, io::Write, net::TcpStream};

use proptest::{prelude::any, strategy::Strategy, strategy::ValueTree, test_runner::TestRunner};
use zk_proto::conversation::{Conversation, Direction};
use zk_proto::{OpCode, RequestHeader, Xid, frame, owned::Request};
use zk_testkit::raw::RawClient;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let [address, count] = [1, 2].map(|place| env::args().nth(place).unwrap_or_default());
    fuzz(&address, count.parse()?).map(|it| println!("{it} of {count} requests were executed"))
}

pub(crate) fn fuzz(address: &str, count: i32) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let (mut stream, mut state) = (TcpStream::connect(address)?, Conversation::new(1 << 24));
    let (mut runner, mut executed) = (TestRunner::deterministic(), 0);
    let last = [OpCode::AUTH, OpCode::CLOSE_SESSION, OpCode::SASL]; // They may end the connection.
    let requests = any::<Request>().prop_filter("last", |it| !last.contains(&it.opcode()));
    let mut message = RawClient::connect(10_000).to_vec();
    for xid in (1..=count + 1).map(Xid) {
        stream.write_all(&message)?;
        state.read(Direction::ToServer, &message)?;
        message.clear();
        while message.is_empty() || state.unanswered() > 0 {
            let mut length = [0; 4];
            stream.read_exact(&mut length)?;
            message = length.to_vec();
            (&stream).take(u32::from_be_bytes(length).into()).read_to_end(&mut message)?;
            let (reply, _) = state.read(Direction::ToClient, &message)?.ok_or("a reply is cut")?;
            reply.explain(&mut |_| {}).unwrap_or_else(|error| println!("{error}: {reply:?}"));
            executed += usize::from(matches!(reply.response(), Some(Ok(_))));
        }
        message.clear();
        let request = requests.new_tree(&mut runner).expect("few are filtered").current();
        frame::encode(&(RequestHeader { xid, opcode: request.opcode() }, request), &mut message)?;
    }
    Ok(executed)
}
