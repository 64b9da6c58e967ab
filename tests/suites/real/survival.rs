//! Which requests a real server survives, and how many random ones it executes.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use zk_proto::{
    Acl, CheckVersionRequest, CreateMode, CreateTtlRequest, Decode, Encode, ErrorCode,
    ExistsRequest, ExistsResponse, GeneratorMode, List, MultiOp, OpCode, Reader, ReplyHeader,
    Request, RequestHeader, Xid, frame, owned,
};
use zk_testkit::raw::RawClient;
use zk_testkit::real::{RealEnsemble, ensemble_or_skip};

/// The number of requests generated in each mode.
const REQUESTS: usize = 1500;
/// How long to wait for a reply that may never arrive.
const READ_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection with its own session, for one request at a time.
struct Line {
    stream: TcpStream,
}

impl Line {
    fn new(ensemble: &RealEnsemble) -> io::Result<Self> {
        let mut line = Self { stream: TcpStream::connect(ensemble.address(0))? };
        line.stream.set_read_timeout(Some(READ_TIMEOUT))?;
        line.stream.write_all(&RawClient::connect(10_000))?;
        line.read()?;
        Ok(line)
    }

    fn write(&mut self, message: &impl Encode) -> io::Result<()> {
        let mut bytes = Vec::new();
        frame::encode(message, &mut bytes).map_err(io::Error::other)?;
        self.stream.write_all(&bytes)
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut payload = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    /// Returns the server's reply, or `None` if there is none.
    fn ask(&mut self, request: &owned::Request) -> Option<ErrorCode> {
        let header = RequestHeader { xid: Xid(1), opcode: request.opcode() };
        self.write(&(header, request)).ok()?;
        loop {
            let payload = self.read().ok()?;
            let header = ReplyHeader::decode(&mut Reader::new(&payload)).ok()?;
            if header.xid != Xid::NOTIFICATION {
                return Some(header.err);
            }
        }
    }
}

/// Returns the percentage of executed requests, and that of creates.
fn executed_share(ensemble: &RealEnsemble, mode: GeneratorMode) -> (usize, usize) {
    let mut runner = TestRunner::deterministic();
    let strategy = any_with::<owned::Request>(mode);
    let mut line = Line::new(ensemble).expect("connected");
    let (mut done, mut creations, mut created) = (0, 0, 0);
    for _ in 0..REQUESTS {
        let request = strategy.new_tree(&mut runner).expect("unfiltered").current();
        let answer = line.ask(&request);
        let is_done = answer == Some(ErrorCode::OK);
        done += usize::from(is_done);
        if matches!(request, owned::Request::Create(_) | owned::Request::Create2(_)) {
            creations += 1;
            created += usize::from(is_done);
        }
        let ends = matches!(request, owned::Request::CloseSession(()));
        if answer.is_none() || ends || answer == Some(ErrorCode::AUTH_FAILED) {
            line = Line::new(ensemble).unwrap_or_else(|error| panic!("{error} after {request:?}"));
        }
    }
    (done * 100 / REQUESTS, created * 100 / creations.max(1))
}

#[test]
fn a_real_server_survives_random_requests_and_executes_most_valid_ones() {
    let Some(mut ensemble) = ensemble_or_skip(1) else { return };
    let arbitrary = executed_share(&ensemble, GeneratorMode::Arbitrary);
    let valid = executed_share(&ensemble, GeneratorMode::Valid);
    println!(
        "executed: {arbitrary:?} % of arbitrary requests and creations, {valid:?} % of valid ones"
    );
    ensemble.restart(0).expect("the server reads its log");
    assert!(valid.0 >= 60 && valid.1 >= 50 && arbitrary.0 < valid.0, "{arbitrary:?} {valid:?}");
}

/// If a later release survives this, update `docs/servers.md`.
#[test]
fn requests_known_to_crash_servers_crash_a_real_one() {
    let check = CheckVersionRequest { path: "/", version: -1 };
    let acl = List::new(&[Acl::OPEN]);
    let mode = CreateMode::EPHEMERAL;
    let create = CreateTtlRequest { path: "/a", data: None, acl, mode, ttl: -2 };
    for request in [Request::Check(check), Request::CreateTtl(create)] {
        assert!(request.harms_servers());
        let Some(mut ensemble) = ensemble_or_skip(1) else { return };
        let mut line = Line::new(&ensemble).expect("connected");
        let header = RequestHeader { xid: Xid(1), opcode: request.opcode() };
        line.write(&(header, request)).expect("the peer reads");
        assert!(line.read().is_err(), "no answer");
        ensemble.restart(0).expect_err("the server cannot read its log");
    }
    // Within a multi they are checked, and applied correctly.
    let Some(mut ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    let operations = [MultiOp::Check(check), MultiOp::CreateTtl(create)];
    let header = RequestHeader { xid: Xid(1), opcode: OpCode::MULTI };
    line.write(&(header, zk_proto::Multi::new(&operations))).expect("the peer reads");
    line.read().expect("an answer");
    ensemble.restart(0).expect("the server reads its log");
}

/// Facts in `docs/servers.md` about the order of replies and the first nodes.
#[test]
fn pings_are_answered_in_order_and_the_first_nodes_have_odd_counters() {
    let Some(ensemble) = ensemble_or_skip(1) else { return };
    let mut line = Line::new(&ensemble).expect("connected");
    for number in 1..=200 {
        let xid = if number % 10 == 0 { Xid::PING } else { Xid(number) };
        let opcode = if xid == Xid::PING { OpCode::PING } else { OpCode::SYNC };
        let header = RequestHeader { xid, opcode };
        match opcode {
            OpCode::PING => line.write(&header),
            _ => line.write(&(header, "/")),
        }
        .expect("the peer reads");
    }
    for number in 1..=200 {
        let payload = line.read().expect("an answer");
        let header = ReplyHeader::decode(&mut Reader::new(&payload)).expect("a header");
        assert_eq!(header.xid, if number % 10 == 0 { Xid::PING } else { Xid(number) });
    }
    for (path, counters) in
        [("/", (-1, 0)), ("/zookeeper", (-2, 0)), ("/zookeeper/config", (0, -1))]
    {
        let header = RequestHeader { xid: Xid(1), opcode: OpCode::EXISTS };
        line.write(&(header, ExistsRequest { path, watch: false })).expect("the peer reads");
        let payload = line.read().expect("an answer");
        let answer = <(ReplyHeader, ExistsResponse)>::decode_all(&payload);
        let (_, ExistsResponse { stat }) = answer.expect("the node exists");
        assert_eq!((stat.cversion, stat.aversion), counters, "{path}");
    }
}
