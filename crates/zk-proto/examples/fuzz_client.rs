//! Answers a client with generated replies, until it ends or sends no more requests:
//! `fuzz_client good|odd SEED COUNT COMMAND [ARGUMENT ...]`.
//!
//! The command gets the address of this server as its last argument. It must send requests for
//! ever, whatever they return. `good` replies are those of servers, also of later ones: a client
//! may not know their error codes. `odd` adds replies that no server sends. `zk-explain` shows the
//! fields of a reply.

use std::io::{Read, Write};
use std::time::{Duration, Instant};
use std::{env, error::Error, net::TcpListener, process::Command, thread};

use proptest::prelude::{Strategy, any};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use proptest::{sample::Index, strategy::ValueTree};
use zk_proto::conversation::{Conversation, Direction, Kind};
use zk_proto::owned::{IntoOwned, Request, WatcherEvent};
use zk_proto::*;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A client that has sent no request for so long never will.
const SILENCE: Duration = Duration::from_secs(15);
/// Errors behind which a client may rightly end.
const LAST: [ErrorCode; 4] = [
    ErrorCode::OK,
    ErrorCode::SESSION_EXPIRED,
    ErrorCode::AUTH_FAILED,
    ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH,
];

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let mut next = || arguments.next().ok_or("good|odd SEED COUNT COMMAND [ARGUMENT ...]");
    let (is_odd, seed, count) = (next()? == "odd", next()?.parse()?, next()?.parse()?);
    let (listener, mut client) = (TcpListener::bind("127.0.0.1:0")?, Command::new(next()?));
    let mut client = client.args(arguments).arg(listener.local_addr()?.to_string()).spawn()?;
    let mut ended = || client.try_wait().ok()?.map(|status| format!("the client ended: {status}"));
    let found = fuzz(&listener, is_odd, seed, count, &mut ended)?;
    println!("{}", found.unwrap_or_else(|| format!("nothing found in {count} replies")));
    Ok(client.kill()?)
}

/// Serves one connection after another, and returns what it finds.
pub(crate) fn fuzz(
    listener: &TcpListener,
    is_odd: bool,
    seed: u64,
    count: i64,
    ended: &mut dyn FnMut() -> Option<String>,
) -> Result<Option<String>> {
    listener.set_nonblocking(true)?;
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed.to_be_bytes(); 4].concat());
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let (mut stream, mut state, mut input) = (None, Conversation::new(1 << 24), Vec::new());
    let (mut replies, mut last, mut since) = (0, String::new(), Instant::now());
    while replies < count {
        let silent = || (since.elapsed() > SILENCE).then(|| "the client is silent".to_owned());
        if let Some(found) = ended().or_else(silent) {
            return Ok(Some(format!("{found}, after {replies} replies. The last:\n{last}")));
        }
        if let Ok((new, _)) = listener.accept() {
            new.set_nonblocking(true)?;
            (stream, state, input) = (Some(new), Conversation::new(1 << 24), Vec::new());
        }
        let (mut bytes, mut output) = ([0; 4096], Vec::new());
        match stream.as_mut().map(|stream| stream.read(&mut bytes)) {
            Some(Ok(length @ 1..)) => input.extend_from_slice(&bytes[..length]),
            Some(Ok(0)) => stream = None,
            _ => thread::sleep(Duration::from_millis(1)),
        }
        while let Some((message, rest)) = state.read(Direction::ToServer, &input)? {
            let mut header =
                ReplyHeader { xid: Xid::PING, zxid: Zxid(replies), err: ErrorCode::OK };
            match (message.kind, message.request()) {
                (Kind::ConnectRequest, _) => {
                    let asked = ConnectRequest::decode_all(message.payload())?;
                    let granted = ConnectResponse {
                        protocol_version: 0,
                        timeout: 4000,
                        session_id: SessionId(1),
                        password: Some(&[1; 16]),
                        read_only: asked.read_only.map(|_| false),
                    };
                    frame::encode(&granted, &mut output)?;
                }
                (Kind::Request(_), Some(Ok(zk_proto::Request::Ping(())))) => {
                    frame::encode(&header, &mut output)?;
                }
                (Kind::Request(RequestHeader { xid, .. }), Some(Ok(request))) => {
                    (replies, since) = (replies + 1, Instant::now());
                    (header.xid, header.zxid) = (xid, Zxid(replies));
                    last = answer(&mut runner, is_odd, header, &request.into_owned(), &mut output)?;
                }
                _ => return Ok(Some(format!("{message:?} is no request"))),
            }
            input.drain(..input.len() - rest.len());
        }
        // A client that has closed the connection reads nothing.
        let _ = stream.as_mut().map(|stream| stream.write_all(&output));
    }
    Ok(None)
}

/// Writes a reply, sometimes behind a watch event, and returns both messages as text.
fn answer(
    runner: &mut TestRunner,
    is_odd: bool,
    header: ReplyHeader,
    request: &Request,
    output: &mut Vec<u8>,
) -> Result<String> {
    let (good, odd) =
        [GeneratorMode::Valid, GeneratorMode::Arbitrary].map(|it| request.replies(it)).into();
    let reply = (good, odd, any::<ErrorCode>(), any::<WatcherEvent>(), any::<Index>(), any::<u8>());
    let what = if is_odd { 0..10 } else { 0..6 };
    let (what, (good, odd, err, event, place, byte)) =
        (what, reply).new_tree(runner).expect("nothing is filtered").current();
    let start = output.len();
    match what {
        0 if !LAST.contains(&err) => frame::encode(&ReplyHeader { err, ..header }, output)?,
        1 => {
            let event_header = ReplyHeader { xid: Xid::NOTIFICATION, zxid: Zxid(-1), ..header };
            let event = WatcherEvent { state: KeeperState::SYNC_CONNECTED, ..event };
            frame::encode(&(event_header, event), output)?;
            frame::encode(&(header, good), output)?;
        }
        6 => frame::encode(&(header, odd), output)?,
        7 => frame::encode(&(ReplyHeader { xid: Xid(header.xid.0 + 1), ..header }, good), output)?,
        _ => frame::encode(&(header, good), output)?,
    }
    match what {
        // Changes a byte behind the length.
        8 => *place.get_mut(&mut output[start + 4..]) = byte,
        // Removes bytes from the end.
        9 => {
            let length = place.index(output.len() - start - 4);
            output.truncate(start + 4 + length);
            output[start..start + 4].copy_from_slice(&u32::try_from(length)?.to_be_bytes());
        }
        _ => {}
    }
    Ok(format!("{request:?}\nb\"{}\"", output[start..].escape_ascii()))
}
