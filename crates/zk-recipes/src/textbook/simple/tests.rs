//! Tests of the textbook lock. Outputs are compared as lines of text, in order.

mod exploring;

use alloc::format;
use alloc::vec::Vec;

use zk_session::proto::{Create2Response, CreateMode, Encode, OpCode, Request, Stat};

use super::*;
use crate::error::Loss;
use crate::tests::{Command, Given, Input, fired};
use bytes::Bytes;

use crate::attempt::{DisconnectPolicy, LockMode, Scheme, WaitPolicy};
use crate::tests::noise::check_ignores_noise;
use crate::tests::{Driven, Output};

const PATH: &str = "/locks/printer";
const GUID: Uuid = Uuid::from_u128(7);
const OURS: SessionId = SessionId(0x51);
const THEIRS: SessionId = SessionId(0x52);
const CONNECTED: State = State::Connected { server: 0, session: OURS };
const TOKEN: Zxid = Zxid(105);

fn reply(opcode: OpCode, body: &impl Encode) -> Result<Reply, Error> {
    let mut bytes = Vec::new();
    body.encode(&mut bytes);
    Ok(Reply::new(opcode, Zxid(1), bytes.into()))
}

fn done() -> Result<Reply, Error> {
    Ok(Reply::new(OpCode::DELETE, Zxid(1), Bytes::new()))
}

fn refused(code: ErrorCode) -> Result<Reply, Error> {
    Err(Error::Server(code))
}

fn lost() -> Result<Reply, Error> {
    Err(Error::ConnectionLost)
}

fn created() -> Result<Reply, Error> {
    let stat = Stat { czxid: TOKEN, ephemeral_owner: OURS, ..Stat::default() };
    reply(OpCode::CREATE2, &Create2Response { path: PATH, stat })
}

/// A node with this data, owned by this session.
fn node(data: &str, owner: SessionId) -> Result<Reply, Error> {
    let stat = Stat { czxid: TOKEN, ephemeral_owner: owner, ..Stat::default() };
    reply(OpCode::GET_DATA, &GetDataResponse { data: Some(data.as_bytes()), stat })
}

fn stat(czxid: Zxid) -> Result<Reply, Error> {
    reply(OpCode::EXISTS, &ExistsResponse { stat: Stat { czxid, ..Stat::default() } })
}

struct Harness {
    machine: Driven<SimpleContender>,
    asked: Vec<(OpId, String)>,
    lines: Vec<String>,
}

impl Harness {
    fn new() -> Self {
        Self::with(DisconnectPolicy::UntilServerReports)
    }

    fn with(disconnect_policy: DisconnectPolicy) -> Self {
        let config = AttemptConfig::of_node(PATH.into(), Scheme::CURATOR_MUTEX, GUID, OURS);
        let config =
            AttemptConfig { data: Bytes::from_static(b"who"), disconnect_policy, ..config };
        let machine = Driven::new(SimpleContender::new(config));
        let mut h = Self { machine, asked: Vec::new(), lines: Vec::new() };
        h.take_outputs();
        h.expect(&["create"]);
        h
    }

    fn waiting() -> Self {
        let mut h = Self::new();
        h.answer("create", refused(ErrorCode::NODE_EXISTS));
        h.expect(&["look"]);
        h.answer("look", node("somebody", THEIRS));
        h.expect(&["Waiting behind printer"]);
        h
    }

    fn held() -> Self {
        let mut h = Self::new();
        h.answer("create", created());
        h.expect(&["Acquired token 105", "timer"]);
        h
    }

    /// The outcome of the deletion is unknown.
    fn releasing() -> Self {
        let mut h = Self::held();
        h.feed(Command::Release);
        h.expect(&["delete"]);
        h.answer("delete", lost());
        h.expect(&["sync", "stat"]);
        h
    }

    fn feed(&mut self, given: impl Into<Given>) {
        self.machine.handle(given);
        self.take_outputs();
        check_ignores_noise(&self.machine);
    }

    /// Answers the newest request of this line.
    #[track_caller]
    fn answer(&mut self, line: &str, result: Result<Reply, Error>) {
        let op = self.op(line);
        self.feed(Input::Reply { tag: op.tag(), result });
    }

    #[track_caller]
    fn fire(&mut self, line: &str, event_type: EventType) {
        let op = self.op(line);
        self.feed(fired(op, event_type));
    }

    #[track_caller]
    fn op(&self, line: &str) -> OpId {
        let asked = self.asked.iter().rfind(|(_, asked)| asked == line);
        asked.unwrap_or_else(|| panic!("{line} was not asked")).0
    }

    #[track_caller]
    fn expect(&mut self, lines: &[&str]) {
        assert_eq!(core::mem::take(&mut self.lines), lines);
    }

    #[track_caller]
    fn expect_last(&mut self, lines: &[&str]) {
        self.expect(lines);
        assert!(self.machine.is_done(), "there is more to come");
        for (op, _) in self.asked.clone() {
            self.feed(Input::Reply { tag: op.tag(), result: created() });
            self.feed(fired(op, EventType::NODE_DELETED));
        }
        self.feed(Input::State(State::Ended(End::Expired)));
        self.feed(Input::Timer);
        self.expect(&[]);
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            let line = match output {
                Output::Submit { op, operation } => {
                    let line = operation.with_request(line);
                    self.asked.push((op, line.clone()));
                    line
                }
                Output::Unwatch(op) => {
                    let asked = self.asked.iter().find(|(asked, _)| *asked == op);
                    format!("un{}", asked.expect("it was asked for").1)
                }
                Output::SetTimer(_) => "timer".to_string(),
                Output::Settle => {
                    self.machine.handle(Input::Settled);
                    continue;
                }
                Output::Event(Event::Acquired { node, token }) => {
                    assert_eq!(&*node, "printer");
                    format!("Acquired token {}", token.0)
                }
                Output::Event(Event::Waiting { behind, .. }) => format!("Waiting behind {behind}"),
                Output::Event(Event::Failed(LockError::Request(error))) => {
                    format!("Failed {:?}", error.code())
                }
                Output::Event(event) => format!("{event:?}"),
            };
            self.lines.push(line);
        }
    }
}

fn line(request: &Request<'_>) -> String {
    let (line, path) = match request {
        Request::Create2(create) => {
            assert_eq!(create.mode, CreateMode::EPHEMERAL);
            let data = create.data.expect("a mark");
            assert_eq!(data, format!("{}who", mark(GUID)).as_bytes());
            ("create", create.path)
        }
        Request::CreateContainer(create) => return format!("container {}", create.path),
        Request::GetData(get) => {
            assert!(get.watch);
            ("look", get.path)
        }
        Request::Exists(exists) => ("stat", exists.path),
        Request::Sync(sync) => ("sync", sync.path),
        Request::Delete(delete) => ("delete", delete.path),
        request => panic!("{request:?}"),
    };
    assert_eq!(path, PATH);
    line.to_string()
}

#[test]
fn a_free_lock_takes_one_request_and_its_release_another() {
    let mut h = Harness::held();
    h.feed(Command::Release);
    h.expect(&["delete"]);
    h.answer("delete", done());
    h.expect_last(&["Released"]);
}

#[test]
fn all_waiters_try_to_create_the_node_when_it_is_deleted() {
    let mut h = Harness::waiting();
    h.fire("look", EventType::NODE_DELETED);
    h.expect(&["create"]);
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["look"]);
    h.answer("look", node("somebody else", THEIRS));
    h.expect(&["Waiting behind printer"]);
    h.fire("look", EventType::NODE_DELETED);
    h.expect(&["create"]);
    h.answer("create", created());
    h.expect(&["Acquired token 105", "timer"]);
}

#[test]
fn a_node_that_changes_meanwhile_is_read_again() {
    let mut h = Harness::waiting();
    h.fire("look", EventType::NODE_DATA_CHANGED);
    h.expect(&["unlook", "look"]);
    h.answer("look", refused(ErrorCode::NO_NODE));
    h.expect(&["unlook", "create"]);
}

#[test]
fn missing_parents_are_created() {
    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks"]);
    h.answer("container /locks", done());
    h.expect(&["create"]);
    h.answer("create", created());
    h.expect(&["Acquired token 105", "timer"]);
}

#[test]
fn a_creation_with_an_unknown_outcome_is_repeated_and_its_node_recognized() {
    let mut h = Harness::new();
    h.answer("create", lost());
    h.expect(&["create"]);
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["look"]);
    h.answer("look", node(&format!("{}who", mark(GUID)), OURS));
    h.expect(&["unlook", "Acquired token 105", "timer"]);
}

#[test]
fn an_attempt_begun_on_a_read_only_server_recognizes_the_node_of_its_new_session() {
    let mut h = Harness::new();
    h.machine.config.session = SessionId(0x99);
    h.feed(Input::State(CONNECTED));
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.answer("look", node(&mark(GUID), OURS));
    h.expect(&["look", "unlook", "Acquired token 105", "timer"]);
}

#[test]
fn a_node_of_no_session_is_refused_unless_it_is_ignored() {
    for owner in [SessionId(0), SessionId(i64::MIN)] {
        let mut h = Harness::new();
        h.answer("create", refused(ErrorCode::NODE_EXISTS));
        h.answer("look", node("", owner));
        let why = LockError::UnknownNode { node: "printer".to_string() };
        h.expect(&["look", "unlook", &format!("Failed({why:?})")]);
        assert!(h.machine.is_done());

        let mut h = Harness::new();
        h.machine.config.unknown_nodes = UnknownNodePolicy::Ignore;
        h.answer("create", refused(ErrorCode::NODE_EXISTS));
        h.answer("look", node("", owner));
        h.expect(&["look", "Waiting behind printer"]);
    }
}

#[test]
fn a_renewed_watch_reports_the_deleted_node() {
    let mut h = Harness::waiting();
    h.answer("look", node("somebody", THEIRS));
    h.expect(&[]);
    h.answer("look", refused(ErrorCode::NO_NODE));
    h.expect(&["unlook", "create"]);
}

#[test]
fn only_a_node_with_our_guid_and_session_is_ours() {
    for (data, owner) in [(mark(GUID), THEIRS), (mark(Uuid::from_u128(8)), OURS)] {
        let mut h = Harness::new();
        h.answer("create", refused(ErrorCode::NODE_EXISTS));
        h.expect(&["look"]);
        h.answer("look", node(&data, owner));
        h.expect(&["Waiting behind printer"]);
    }
}

#[test]
fn a_request_refused_for_now_is_repeated_later() {
    let full = || Err(Error::QueueFull { limit: 1 });
    let mut h = Harness::new();
    h.answer("create", full());
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["create"]);
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.answer("look", full());
    h.expect(&["look", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["unlook", "look"]);
    h.answer("look", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["unlook", "Failed(Unreadable { node: \"printer\" })"]);
}

#[test]
fn a_permanent_refusal_fails() {
    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed Some(ErrorCode(NO_AUTH))"]);
}

/// The first creation has an unknown outcome, and the second one is refused for ever.
fn refused_after_an_unknown_outcome() -> Harness {
    let mut h = Harness::new();
    h.answer("create", lost());
    h.expect(&["create"]);
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed Some(ErrorCode(NO_AUTH))", "sync", "look"]);
    h
}

#[test]
fn the_node_of_an_earlier_creation_is_deleted_when_the_next_one_is_refused() {
    let mut h = refused_after_an_unknown_outcome();
    // A reply on another connection does not count.
    h.answer("sync", lost());
    h.expect(&["unlook", "sync", "look"]);
    h.answer("sync", done());
    h.answer("look", node(&mark(GUID), OURS));
    h.expect(&["unlook", "timer", "delete"]);
    h.answer("delete", done());
    h.expect_last(&[]);
}

#[test]
fn nothing_is_deleted_if_the_earlier_creation_was_not_applied() {
    for found in [refused(ErrorCode::NO_NODE), node("somebody", THEIRS), node(&mark(GUID), THEIRS)]
    {
        let mut h = refused_after_an_unknown_outcome();
        h.feed(Command::Release);
        h.answer("sync", done());
        h.answer("look", found);
        h.expect_last(&["unlook"]);
    }
}

#[test]
fn a_release_waits_for_the_node_of_an_earlier_creation() {
    let mut h = Harness::new();
    h.answer("create", lost());
    h.feed(Command::Release);
    h.answer("create", refused(ErrorCode::NO_AUTH));
    h.expect(&["create", "sync", "look"]);
    h.answer("sync", refused(ErrorCode::THROTTLED_OP));
    h.expect(&["unlook", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "look"]);
    h.answer("sync", done());
    h.answer("look", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["unlook", "Released"]);
    // Or it ends with the session.
    let mut h = refused_after_an_unknown_outcome();
    h.feed(Input::State(State::Ended(End::Expired)));
    h.expect_last(&[]);
}

#[test]
fn a_release_during_the_creation_waits_for_its_outcome() {
    let mut h = Harness::new();
    h.feed(Command::Release);
    h.expect(&[]);
    h.answer("create", created());
    h.expect(&["timer", "delete"]);
    h.answer("delete", done());
    h.expect_last(&["Released"]);

    let mut h = Harness::new();
    h.feed(Command::Release);
    h.answer("create", lost());
    h.expect(&["create"]);
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["look"]);
    h.answer("look", node(&mark(GUID), OURS));
    h.expect(&["unlook", "timer", "delete"]);
    h.answer("delete", done());
    h.expect_last(&["Released"]);

    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["look"]);
    h.feed(Command::Release);
    h.expect(&[]);
    h.answer("look", node("somebody", THEIRS));
    h.expect_last(&["unlook", "Released"]);

    let mut h = Harness::new();
    h.feed(Command::Release);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);
}

#[test]
fn a_waiter_releases_at_once() {
    let mut h = Harness::waiting();
    h.feed(Command::Release);
    h.expect_last(&["unlook", "Released"]);
}

#[test]
fn a_lock_held_while_connected_is_lost_with_the_connection() {
    let mut h = Harness::with(DisconnectPolicy::WhileConnected);
    h.feed(Input::State(State::Suspended));
    h.feed(Command::Release);
    h.answer("create", created());
    h.expect(&["Released", "delete"]);
    h.answer("delete", done());
    h.expect_last(&[]);
}

#[test]
fn a_deletion_is_only_repeated_while_the_node_is_ours() {
    let mut h = Harness::releasing();
    h.answer("sync", done());
    h.answer("stat", stat(TOKEN));
    h.expect(&["delete"]);
    h.answer("delete", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);

    for gone in [stat(Zxid(200)), refused(ErrorCode::NO_NODE)] {
        let mut h = Harness::releasing();
        h.answer("sync", done());
        h.answer("stat", gone);
        h.expect_last(&["Released"]);
    }
}

#[test]
fn a_node_is_trusted_only_after_a_sync() {
    let mut h = Harness::releasing();
    h.answer("sync", lost());
    h.expect(&["sync", "stat"]);
    h.answer("sync", refused(ErrorCode::THROTTLED_OP));
    h.answer("stat", stat(TOKEN));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "stat"]);
    h.answer("sync", done());
    h.answer("stat", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);
}

#[test]
fn the_deletion_of_our_node_is_a_loss() {
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["look"]);
    h.answer("look", node(&mark(GUID), OURS));
    h.feed(Input::State(State::Suspended));
    h.expect(&["Suspended"]);
    h.feed(Input::State(CONNECTED));
    h.expect(&["stat"]);
    h.answer("stat", stat(TOKEN));
    h.expect(&["Resumed"]);
    h.fire("look", EventType::NODE_DELETED);
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn the_node_of_the_next_owner_is_not_taken_for_ours() {
    let mut h = Harness::held();
    h.feed(Input::State(State::Suspended));
    h.feed(Input::State(CONNECTED));
    h.expect(&["Suspended", "look"]);
    let stat = Stat { czxid: Zxid(106), ephemeral_owner: THEIRS, ..Stat::default() };
    h.answer("look", reply(OpCode::GET_DATA, &GetDataResponse { data: Some(b"theirs"), stat }));
    h.expect_last(&["unlook", "Lost(NodeDeleted)"]);
}

#[test]
fn the_end_of_the_session_ends_every_step() {
    let end = || Input::State(State::Ended(End::Expired));
    let mut h = Harness::held();
    h.feed(end());
    h.expect_last(&[&*format!("{:?}", Event::Lost(Loss::Ended(End::Expired)))]);
    let failed = format!("{:?}", Event::Failed(LockError::Ended(End::Expired)));
    let mut h = Harness::new();
    h.feed(end());
    h.expect_last(&[&failed]);
    let mut h = Harness::waiting();
    h.feed(end());
    h.expect_last(&["unlook", &failed]);
    let mut h = Harness::releasing();
    h.feed(end());
    h.expect_last(&["Released"]);
}

fn asking() -> Harness {
    asking_by(WaitPolicy::OnlyIfFirst)
}

fn asking_by(wait_policy: WaitPolicy) -> Harness {
    let config = AttemptConfig::of_node(PATH.into(), Scheme::CURATOR_MUTEX, GUID, OURS);
    let data = Bytes::from_static(b"who");
    let machine = Driven::new(SimpleContender::new(AttemptConfig { data, wait_policy, ..config }));
    let mut h = Harness { machine, asked: Vec::new(), lines: Vec::new() };
    h.take_outputs();
    h.expect(&[]);
    h
}

#[test]
fn only_if_first_acquires_a_free_lock_and_fails_otherwise() {
    let mut h = asking();
    h.feed(Input::State(CONNECTED));
    h.expect(&["create"]);
    h.answer("create", created());
    assert!(h.machine.holder.is_some());

    let mut h = asking();
    h.feed(Input::State(CONNECTED));
    h.answer("create", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["create", "look"]);
    h.answer("look", node("theirs", THEIRS));
    h.expect(&["unlook", "Failed(TimedOut)"]);
    assert!(h.machine.is_done());
}

#[test]
fn only_if_first_and_only_if_free_do_not_wait_for_a_connection() {
    let failed = "Failed(NoConnection)";
    for wait_policy in [WaitPolicy::OnlyIfFirst, WaitPolicy::OnlyIfFree] {
        let mut h = asking_by(wait_policy);
        h.feed(Input::State(State::Suspended));
        h.expect(&[failed]);
        assert!(h.machine.is_done());

        let mut h = asking_by(wait_policy);
        h.feed(Input::State(CONNECTED));
        h.expect(&["create"]);
        h.answer("create", lost());
        h.expect(&[failed, "create"]);
        h.feed(Input::State(State::Suspended));
        h.feed(Input::State(CONNECTED));
        h.answer("create", created());
        h.expect(&["timer", "delete"]);
        h.answer("delete", done());
        h.expect(&[]);
        assert!(h.machine.is_done());
    }
}

#[test]
fn parents_that_are_missing_again_and_again_end_the_attempt() {
    let mut h = Harness::new();
    while !h.machine.is_done() {
        h.answer("create", refused(ErrorCode::NO_NODE));
        if !h.machine.is_done() {
            h.expect(&["container /locks"]);
            h.answer("container /locks", done());
            h.expect(&["create"]);
        }
    }
    h.expect_last(&["Failed Some(ErrorCode(NO_NODE))"]);
}

#[test]
fn parents_that_are_refused_for_now_are_made_later() {
    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NO_NODE));
    for _ in 0..9 {
        h.expect(&["container /locks"]);
        h.answer("container /locks", refused(ErrorCode::THROTTLED_OP));
        h.expect(&["timer"]);
        h.feed(Input::Timer);
    }
    h.expect(&["container /locks"]);
    h.answer("container /locks", done());
    h.expect(&["create"]);
}

#[test]
fn parents_may_be_refused_or_not_wanted_any_more() {
    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks"]);
    h.answer("container /locks", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed Some(ErrorCode(NO_AUTH))"]);

    let mut h = Harness::new();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks"]);
    h.answer("container /locks", lost());
    h.expect(&["container /locks"]);
    h.feed(Command::Release);
    h.answer("container /locks", done());
    h.expect_last(&["Released"]);
}

#[test]
fn a_node_whose_deletion_cannot_be_confirmed_is_reported() {
    let mut h = Harness::releasing();
    h.answer("sync", done());
    h.answer("stat", refused(ErrorCode::NO_AUTH));
    assert!(h.lines[0].starts_with("Abandoned { node: \"printer\""), "{:?}", h.lines);
    h.lines.remove(0);
    h.expect_last(&["Failed Some(ErrorCode(NO_AUTH))"]);
}

#[test]
fn a_release_during_the_creation_ends_with_the_session() {
    for end in [End::Expired, End::Closed] {
        let mut h = Harness::new();
        h.feed(Command::Release);
        h.answer("create", Err(Error::Ended { end, outcome: Outcome::NotApplied }));
        h.expect_last(&[&format!("{:?}", Event::gone_with(end))]);
    }
}

#[test]
fn the_end_of_the_lease_and_a_conversion_concern_the_holder() {
    let mut h = Harness::held();
    h.feed(Input::LeaseEnded);
    h.expect(&["Suspended", "look"]);
    #[cfg(feature = "full")]
    {
        h.feed(Command::Convert(LockMode::Shared));
        h.expect(&["NotConverted(NoReaders)"]);
    }
}

#[test]
fn a_try_goes_on_when_it_is_connected_once_more() {
    let mut h = asking();
    h.feed(Input::State(CONNECTED));
    h.expect(&["create"]);
    h.feed(Input::State(CONNECTED));
    h.expect(&[]);
}

#[test]
fn a_release_whose_node_cannot_be_deleted_fails() {
    let mut h = Harness::new();
    h.feed(Command::Release);
    h.answer("create", created());
    h.answer("delete", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["timer", "delete", "Failed Some(ErrorCode(NO_AUTH))"]);
}

#[test]
fn a_look_after_a_reconnect_finds_the_node_of_the_next_owner() {
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.answer("look", node(&mark(GUID), OURS));
    h.feed(Input::State(State::Suspended));
    h.feed(Input::State(CONNECTED));
    h.expect(&["look", "Suspended", "stat"]);
    h.answer("stat", stat(Zxid(106)));
    h.expect_last(&["unlook", "Lost(NodeDeleted)"]);
}
