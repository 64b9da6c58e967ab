//! The bytes of the session's ephemeral nodes.

use alloc::format;

use zk_proto::{
    CreateResponse, DeleteRequest, ErrorResponse, GetEphemeralsRequest, GetEphemeralsResponse,
    Multi, MultiOp, MultiResult,
};

use super::*;

/// Room for three nodes such as `/n0000`, with their prefixes of 4 bytes.
const LIMIT: usize = 35;
const NODES: [&str; 3] = ["/n0001", "/n0002", "/n0003"];
const FULL: Error = Error::EphemeralsFull { limit: LIMIT };

fn harness() -> Harness {
    let mut h = Harness::with(Config { max_ephemerals: Some(LIMIT), ..Config::new(1, 0) });
    h.connect();
    h.events();
    h
}

fn node(path: &str, mode: CreateMode) -> CreateRequest<'_> {
    CreateRequest { path, data: None, acl: List::new(&[]), mode }
}

fn ephemeral(path: &str) -> Request<'_> {
    Request::Create(node(path, CreateMode::EPHEMERAL))
}

fn delete(path: &str) -> Request<'_> {
    Request::Delete(DeleteRequest { path, version: -1 })
}

impl Harness {
    /// Answers the oldest request, which has this operation, and discards the reply.
    fn answer(&mut self, opcode: OpCode, err: ErrorCode, body: &impl Encode) {
        self.take_all();
        let sent = self.received().expect("a request is sent");
        assert_eq!(sent.opcode, opcode);
        self.reply_with(sent.xid.0, 1, err, body);
    }

    /// Answers the request for the list of nodes, if there is one. Returns whether there was.
    fn list(&mut self, ephemerals: &[&str]) -> bool {
        self.take_all();
        let Some(sent) = self.received() else { return false };
        assert_eq!(sent.opcode, OpCode::GET_EPHEMERALS);
        let ephemerals = List::new(ephemerals);
        self.reply_with(sent.xid.0, 1, ErrorCode::OK, &GetEphemeralsResponse { ephemerals });
        true
    }

    fn created(&mut self, path: &str) {
        self.submit(&ephemeral(path), 0);
        self.answer(OpCode::CREATE, ErrorCode::OK, &CreateResponse { path });
    }

    /// Creates nodes until the limit.
    fn fill(&mut self) {
        for count in 1..=NODES.len() {
            self.created(NODES[count - 1]);
            self.list(&NODES[..count]);
        }
    }

    fn is_full(&mut self) -> bool {
        match self.session.submit(&ephemeral("/n000a"), 0) {
            Ok(_) => {
                self.answer(OpCode::CREATE, ErrorCode::NODE_EXISTS, &());
                false
            }
            Err(error) => {
                assert_eq!(error, FULL);
                true
            }
        }
    }
}

#[test]
fn a_creation_beyond_the_limit_is_refused_until_a_node_is_deleted() {
    for answer in [ErrorCode::OK, ErrorCode::NO_NODE] {
        let mut h = harness();
        h.fill();
        assert!(h.is_full());
        assert!(h.list(&NODES), "the refusal asks for the list");
        assert!(h.is_full());
        // Nodes of others, and those that a server refuses to delete.
        h.submit(&delete("/other"), 0);
        h.answer(OpCode::DELETE, ErrorCode::OK, &());
        h.submit(&delete("/n0001"), 0);
        h.answer(OpCode::DELETE, ErrorCode::BAD_VERSION, &());
        assert!(h.is_full());
        h.submit(&delete("/n0001"), 0);
        assert!(h.is_full());
        h.answer(OpCode::DELETE, answer, &());
        assert!(!h.is_full());
        // Persistent nodes do not count.
        h.created("/n0004");
        h.submit(&create("/n0005"), 0);
        assert_eq!(h.sent()[0].opcode, OpCode::CREATE2);
    }
}

#[test]
fn nodes_may_take_exactly_the_limit() {
    let limit = 30;
    let mut h = Harness::with(Config { max_ephemerals: Some(limit), ..Config::new(1, 0) });
    h.connect();
    h.events();
    h.fill();
    let refused = h.session.submit(&ephemeral("/n"), 0).expect_err("it is full");
    assert_eq!(refused, Error::EphemeralsFull { limit });
}

#[test]
fn a_list_for_a_caller_does_not_change_the_count() {
    let mut h = harness();
    h.fill();
    h.submit(&Request::GetEphemerals(GetEphemeralsRequest { prefix_path: Some("/x") }), 0);
    assert!(h.list(&[]));
    assert!(h.is_full());
}

#[test]
fn a_lost_list_for_a_caller_is_no_loss_of_the_sessions_own() {
    let mut h = harness();
    for _ in 0..3 {
        h.submit(&Request::GetEphemerals(GetEphemeralsRequest { prefix_path: None }), 0);
        h.sent();
        h.disconnect();
        h.connect();
        h.events();
    }
    h.created(NODES[0]);
    h.created(NODES[1]);
    assert!(h.list(&NODES[..2]));
}

#[test]
fn a_deletion_is_admitted_however_many_nodes_there_are() {
    let mut h = harness();
    h.fill();
    assert!(h.is_full());
    assert!(h.list(&["/n0001", "/n0002", "/n0003", "/n0004"]));
    assert!(h.session.submit(&delete("/n0001"), 0).is_ok());
}

#[test]
fn requests_without_a_reply_count_at_their_longest() {
    let mut h = harness();
    // 14 bytes, or 16 with a number.
    h.submit(&Request::Create2(node("/ab", CreateMode::EPHEMERAL_SEQUENTIAL)), 0);
    h.submit(&Request::Create2(node("/ab", CreateMode::EPHEMERAL_SEQUENTIAL)), 0);
    assert_eq!(h.session.submit(&ephemeral("/n"), 0), Err(FULL));
    h.sent();
    h.disconnect();
    h.connect();
    h.events();
    // Both may exist.
    assert_eq!(h.session.submit(&ephemeral("/n"), 0), Err(FULL));
    assert!(h.list(&["/ab0000000001"]));
    h.created("/n");
    h.list(&["/ab0000000001", "/n"]);
    // The refusal of a creation gives its bytes back.
    h.submit(&ephemeral("/n00001"), 0);
    assert!(h.session.submit(&ephemeral("/n00002"), 0).is_err());
    h.answer(OpCode::CREATE, ErrorCode::NODE_EXISTS, &());
    h.created("/n00003");
}

#[test]
fn a_node_of_an_unknown_outcome_counts_once() {
    let mut h = harness();
    // A third connection that ends in the same way would be put down to the request.
    for _ in 0..2 {
        h.submit(&ephemeral("/n0001"), 0);
        h.sent();
        h.disconnect();
        h.connect();
        h.events();
    }
    h.created("/n0001");
    h.created("/n0002");
    assert!(h.list(&["/n0001", "/n0002"]));
    h.submit(&delete("/n0001"), 0);
    h.answer(OpCode::DELETE, ErrorCode::OK, &());
    h.created("/n0003");
    assert!(!h.is_full());
}

#[test]
fn the_operations_of_a_transaction_count() {
    let mut h = harness();
    let operations = [
        MultiOp::Create(node("/p", CreateMode::PERSISTENT)),
        MultiOp::Create2(node("/n", CreateMode::EPHEMERAL_SEQUENTIAL)),
        MultiOp::Create(node("/n00001", CreateMode::EPHEMERAL)),
    ];
    let multi = Request::Multi(Multi::new(&operations));
    for rolled_back in [true, false] {
        h.submit(&multi, 0);
        assert_eq!(h.session.submit(&ephemeral("/n0001"), 0), Err(FULL));
        let failed = |err| MultiResult::Error(ErrorResponse { err });
        let stat = Stat::default();
        let results = match rolled_back {
            true => [ErrorCode::OK, ErrorCode::OK, ErrorCode::NODE_EXISTS].map(failed),
            false => [
                MultiResult::Create(CreateResponse { path: "/p" }),
                MultiResult::Create2(Create2Response { path: "/n0000000001", stat }),
                MultiResult::Create(CreateResponse { path: "/n00001" }),
            ],
        };
        h.answer(OpCode::MULTI, ErrorCode::OK, &Multi::new(&results));
        if rolled_back {
            // The refusal before has asked for the list.
            assert!(h.list(&[]));
            assert!(!h.is_full());
        }
    }
    assert!(h.list(&["/n0000000001", "/n00001"]));
    assert!(h.is_full());
    let operations = [MultiOp::Delete(DeleteRequest { path: "/n00001", version: -1 })];
    h.submit(&Request::Multi(Multi::new(&operations)), 0);
    let results = [MultiResult::Delete(())];
    h.answer(OpCode::MULTI, ErrorCode::OK, &Multi::new(&results));
    assert!(!h.is_full());
}

#[test]
fn a_transaction_that_is_rolled_back_creates_nothing() {
    let mut h = harness();
    let operations = NODES.map(|path| MultiOp::Create(node(path, CreateMode::EPHEMERAL)));
    h.submit(&Request::Multi(Multi::new(&operations)), 0);
    let results = [ErrorCode::OK, ErrorCode::OK, ErrorCode::NODE_EXISTS]
        .map(|err| MultiResult::Error(ErrorResponse { err }));
    h.answer(OpCode::MULTI, ErrorCode::OK, &Multi::new(&results));
    assert!(!h.is_full());
}

#[test]
fn nodes_that_others_delete_do_not_block_the_session_for_ever() {
    let mut h = harness();
    let mut refused = 0;
    for count in 0..1_000 {
        let path = format!("/n{count:04}");
        match h.session.submit(&ephemeral(&path), 0) {
            Ok(_) => h.answer(OpCode::CREATE, ErrorCode::OK, &CreateResponse { path: &path }),
            Err(_) => refused += 1,
        }
        // Somebody has deleted the node by the time of the list.
        h.list(&[]);
    }
    assert_eq!(refused, 0);
    // A watch shows it without a list.
    h.created("/n0001");
    h.watch(&exists("/n0001"), ErrorCode::OK);
    h.notify(EventType::NODE_DELETED, "/n0001");
    h.created("/n0002");
    assert_eq!(h.sent(), []);
}

#[test]
fn a_server_without_the_list_is_asked_once_and_one_that_hangs_up_three_times() {
    let mut h = harness();
    h.created("/n0001");
    h.created("/n0002");
    h.answer(OpCode::GET_EPHEMERALS, ErrorCode::UNIMPLEMENTED, &());
    h.created("/n0003");
    assert!(h.is_full());
    assert_eq!(h.sent(), []);

    let mut h = harness();
    h.created("/n0001");
    h.created("/n0002");
    let mut asked = 0;
    for _ in 0..1_000 {
        if let Some(sent) = h.sent().first() {
            assert_eq!(sent.opcode, OpCode::GET_EPHEMERALS);
            asked += 1;
            h.disconnect();
            h.connect();
            h.events();
        }
        assert!(h.session.submit(&ephemeral("/long/enough/to/be/refused"), 0).is_err());
    }
    assert_eq!(asked, 3);
}

#[test]
fn refusals_rarely_ask_for_the_list() {
    let mut h = harness();
    h.fill();
    let mut asked = 0;
    for _ in 0..1_000 {
        assert!(h.is_full());
        asked += usize::from(h.list(&NODES));
    }
    assert!((10..=20).contains(&asked), "{asked}");
}

#[test]
#[cfg(feature = "full")]
fn a_new_session_has_no_nodes() {
    let config = Config { max_ephemerals: Some(LIMIT), renew: true, ..Config::new(1, 0) };
    let mut h = Harness::with(config);
    h.connect();
    h.events();
    h.fill();
    h.disconnect();
    h.reach();
    h.handshake();
    h.answer_handshake(0, SessionId::NONE);
    h.events();
    h.session.renew(h.now);
    h.connect();
    h.events();
    assert!(!h.is_full());
}
