//! Sends generated requests to a server, and explains every reply:
//! `fuzz_server HOST:PORT COUNT [PATH]`. With a path, it changes only the nodes below it.

use std::{env, error::Error, io::Read, io::Write, net::TcpStream};

use proptest::prelude::{Strategy, any};
use proptest::{strategy::ValueTree, test_runner::TestRunner};
use zk_proto::conversation::{Conversation, Direction};
use zk_proto::owned::{IntoOwned, Request};
use zk_proto::{
    Acl, ConnectRequest, CreateMode, CreateRequest, List, OpCode, RequestHeader, Xid, frame,
};

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let [address, count, below] = [1, 2, 3].map(|place| env::args().nth(place).unwrap_or_default());
    fuzz(&address, count.parse()?, &below)
        .map(|it| println!("{it} of {count} requests were executed"))
}

pub(crate) fn fuzz(
    address: &str,
    count: i32,
    below: &str,
) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let (mut stream, mut state) = (TcpStream::connect(address)?, Conversation::new(1 << 24));
    let (mut runner, mut executed) = (TestRunner::deterministic(), 0);
    // The first three may end the connection. The last is about the whole ensemble.
    let left_out = [OpCode::AUTH, OpCode::CLOSE_SESSION, OpCode::SASL, OpCode::RECONFIG];
    let requests = any::<Request>().prop_filter("left out", |it| !left_out.contains(&it.opcode()));
    let mut message = Vec::new();
    frame::encode(&ConnectRequest::new_session(10_000), &mut message)?;
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
        let mut request = requests.new_tree(&mut runner).expect("few are filtered").current();
        for path in request.paths_mut().into_iter().filter(|_| !below.is_empty()) {
            // A sequential create at the path itself would be beside it.
            let rest = if path == "/" { "/root" } else { &**path };
            *path = format!("{below}{rest}");
        }
        if xid == Xid(1) && !below.is_empty() {
            let (path, data, acl) = (below, None, &[Acl::OPEN]);
            let create =
                CreateRequest { path, data, acl: List::new(acl), mode: CreateMode::PERSISTENT };
            request = zk_proto::Request::Create(create).into_owned();
        }
        frame::encode(&(RequestHeader { xid, opcode: request.opcode() }, request), &mut message)?;
    }
    Ok(executed)
}
