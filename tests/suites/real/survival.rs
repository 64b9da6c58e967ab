//! Which requests a real server survives, and how many random ones it executes.

use std::thread;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use zk_proto::{
    Acl, CheckVersionRequest, CreateMode, CreateTtlRequest, Decode, ErrorCode, GeneratorMode, List,
    MultiOp, OpCode, Reader, ReplyHeader, Request, RequestHeader, Xid, owned,
};
use zk_testkit::real::{RealEnsemble, ensemble_or_skip};
use zk_testkit::suite::HANG_TIMEOUT;

use crate::line::Line;

/// The number of requests generated in each mode.
const REQUESTS: usize = 1500;
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
        let is_closed =
            matches!(answer, None | Some(ErrorCode::AUTH_FAILED | ErrorCode::UNIMPLEMENTED));
        if is_closed || ends {
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

#[test]
fn the_fuzzing_harness_reads_every_reply_of_a_real_server() {
    let Some(mut ensemble) = ensemble_or_skip(1) else { return };
    let executed = crate::fuzz_server::fuzz(&ensemble.address(0), REQUESTS as i32, "");
    let executed = executed.expect("a reply to every request");
    println!("{executed} of {REQUESTS} requests were executed");
    ensemble.restart(0).expect("the server reads its log");
    assert!(executed > REQUESTS / 4, "only {executed}");
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
        let version = ensemble.version();
        let mut line = Line::new(&ensemble).expect("connected");
        let header = RequestHeader { xid: Xid(1), opcode: request.opcode() };
        line.write(&(header, request)).expect("the peer reads");
        let answer = line.read();
        let restarted = ensemble.restart(0);
        if request.opcode() == OpCode::CHECK && !version.checks_outside_multi() {
            restarted.expect("the server has refused the check");
            let header = ReplyHeader::decode(&mut Reader::new(&answer.expect("a refusal")));
            assert_eq!(header.expect("a header").err, ErrorCode::UNIMPLEMENTED);
        } else {
            assert!(answer.is_err(), "no answer");
            restarted.expect_err("the server cannot read its log");
        }
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

/// The epoch of an ensemble rises with every election.
#[test]
fn before_3_9_a_check_makes_the_leader_step_down() {
    let Some(ensemble) = ensemble_or_skip(3) else { return };
    if !ensemble.version().checks_outside_multi() {
        return;
    }
    let epoch = || {
        let answer = ensemble.four_letter(0, "srvr").ok()?;
        let zxid = answer.lines().find_map(|line| line.strip_prefix("Zxid: 0x"))?;
        i64::from_str_radix(zxid, 16).ok().map(|zxid| zxid >> 32)
    };
    let first = epoch().expect("a leader");
    let mut line = Line::new(&ensemble).expect("connected");
    let check = CheckVersionRequest { path: "/", version: -1 };
    line.write(&(RequestHeader { xid: Xid(1), opcode: OpCode::CHECK }, check)).expect("it reads");
    let until = Instant::now() + HANG_TIMEOUT;
    while epoch().is_none_or(|epoch| epoch == first) {
        assert!(Instant::now() < until, "the leader of epoch {first} still leads");
        thread::sleep(Duration::from_millis(100));
    }
}
