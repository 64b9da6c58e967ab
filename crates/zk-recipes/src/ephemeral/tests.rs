//! An ephemeral node, input by input.

mod exploring;

use alloc::string::String;
use alloc::vec::Vec;

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_session::proto::{Create2Response, Encode, OpCode, SessionId, Stat};
use zk_session::{End, Outcome};

use super::super::tests::noise::check_ignores_noise;
use super::super::tests::{Driven, Output};
use super::*;
use crate::attempt::Scheme;
use crate::tests::{Command, Given, Input, fired};

const NODE: &str = "/services/me";
const OURS: SessionId = SessionId(1);
const NEXT: SessionId = SessionId(2);
const LOST: Error = Error::ConnectionLost;
const NO_NODE: Error = Error::Server(ErrorCode::NO_NODE);
const NODE_EXISTS: Error = Error::Server(ErrorCode::NODE_EXISTS);

const fn connected(session: SessionId) -> Input {
    Input::State(State::Connected { server: 0, session })
}

fn reply(opcode: OpCode, body: &impl Encode) -> Result<Reply, Error> {
    let mut bytes = BytesMut::new();
    body.encode(&mut bytes);
    Ok(Reply::new(opcode, Zxid(1), bytes.freeze()))
}

/// The machine, its requests without a reply, and its other outputs.
struct World {
    machine: Driven<EphemeralMachine>,
    asked: Vec<(OpId, OpCode)>,
    lines: Vec<String>,
}

impl World {
    fn new() -> Self {
        let config = AttemptConfig {
            data: Bytes::from_static(b"at 10.0.0.7"),
            ..AttemptConfig::of_node(
                NODE.into(),
                Scheme::CURATOR_MUTEX,
                Uuid::nil(),
                SessionId::NONE,
            )
        };
        Self {
            machine: Driven::new(EphemeralMachine::new(config)),
            asked: Vec::new(),
            lines: Vec::new(),
        }
    }

    fn feed(&mut self, given: impl Into<Given>) {
        self.machine.handle(given);
        while let Some(output) = self.machine.poll_output() {
            let line = match output {
                Output::Submit { op, operation } => {
                    self.asked.push((op, operation.with_request(|request| request.opcode())));
                    continue;
                }
                Output::Unwatch(_) => "unwatch".into(),
                Output::SetTimer(_) => "timer".into(),
                Output::Event(event) => alloc::format!("{event:?}"),
                Output::Settle => unreachable!("nothing has to settle"),
            };
            self.lines.push(line);
        }
        check_ignores_noise(&self.machine);
    }

    /// Answers the oldest request, which is of this operation.
    #[track_caller]
    fn answer(&mut self, opcode: OpCode, result: Result<Reply, Error>) {
        let (op, asked) = self.asked.remove(0);
        assert_eq!(asked, opcode);
        self.feed(Input::Reply { tag: op.tag(), result });
    }

    #[track_caller]
    fn created(&mut self, czxid: i64) {
        let stat = Stat { czxid: Zxid(czxid), ..Stat::default() };
        self.answer(OpCode::CREATE2, reply(OpCode::CREATE2, &Create2Response { path: NODE, stat }));
    }

    #[track_caller]
    fn seen(&mut self, ephemeral_owner: SessionId, czxid: i64) -> OpId {
        let stat = Stat { czxid: Zxid(czxid), ephemeral_owner, ..Stat::default() };
        let op = self.asked[0].0;
        self.answer(OpCode::EXISTS, reply(OpCode::EXISTS, &ExistsResponse { stat }));
        op
    }

    #[track_caller]
    fn expect(&mut self, lines: &[&str]) {
        assert_eq!(core::mem::take(&mut self.lines), lines);
    }

    /// Returns a machine whose node exists, and the request of its watch.
    fn holding() -> (Self, OpId) {
        let mut world = Self::new();
        world.feed(connected(OURS));
        world.created(7);
        let watch = world.seen(OURS, 7);
        world.lines.clear();
        (world, watch)
    }

    fn is_quiet(&self) -> bool {
        self.asked.is_empty() && self.lines.is_empty()
    }
}

fn acquired(czxid: i64) -> [String; 2] {
    ["Enqueued", "Acquired"]
        .map(|event| alloc::format!("{event} {{ node: \"me\", token: {:?} }}", Zxid(czxid)))
}

#[test]
fn the_node_is_created_with_its_ancestors_and_watched() {
    let mut world = World::new();
    world.feed(Input::State(State::Suspended));
    assert!(world.is_quiet());
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(NO_NODE));
    world.answer(OpCode::CREATE_CONTAINER, reply(OpCode::CREATE_CONTAINER, &()));
    world.created(7);
    assert_eq!(world.lines, acquired(7));
    world.lines.clear();
    world.seen(OURS, 7);
    assert!(world.is_quiet());
}

#[test]
fn a_node_that_was_deleted_is_created_again() {
    let (mut world, op) = World::holding();
    world.feed(fired(op, EventType::NODE_DELETED));
    world.expect(&["Lost(NodeDeleted)"]);
    world.created(9);
    assert_eq!(world.lines, acquired(9));
    // It is deleted once more before the watch is set.
    world.lines.clear();
    world.answer(OpCode::EXISTS, Err(NO_NODE));
    world.expect(&["unwatch", "Lost(NodeDeleted)"]);
    world.created(11);
    world.seen(OURS, 11);
    assert_eq!(world.lines, acquired(11));
}

#[test]
fn a_node_that_was_lost_is_not_reported_again_by_a_server_that_lags() {
    let (mut world, op) = World::holding();
    world.feed(fired(op, EventType::NODE_DELETED));
    world.expect(&["Lost(NodeDeleted)"]);
    world.answer(OpCode::CREATE2, Err(LOST));
    // The event did not advance the last zxid of the session, so the next server may be older.
    let op = world.seen(OURS, 7);
    assert!(world.is_quiet());
    world.feed(fired(op, EventType::NODE_DELETED));
    world.created(9);
    assert_eq!(world.lines, acquired(9));
}

#[test]
fn a_change_of_the_data_is_no_loss() {
    let (mut world, op) = World::holding();
    world.feed(fired(op, EventType::NODE_DATA_CHANGED));
    world.seen(OURS, 7);
    assert!(world.is_quiet());
}

#[test]
fn a_lost_reply_is_found_out() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(LOST));
    // The server that answers lags: the node is not there yet.
    world.answer(OpCode::EXISTS, Err(NO_NODE));
    world.answer(OpCode::CREATE2, Err(NODE_EXISTS));
    world.expect(&["unwatch"]);
    world.seen(OURS, 7);
    assert_eq!(world.lines, acquired(7));
}

#[test]
fn it_waits_for_the_node_of_another_session() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(NODE_EXISTS));
    let op = world.seen(SessionId(77), 3);
    world.expect(&["Waiting { behind: \"me\", ahead: 1 }"]);
    // A timer that it has not set.
    world.feed(Input::Timer);
    assert!(world.is_quiet());
    world.feed(fired(op, EventType::NODE_DELETED));
    world.created(7);
    assert_eq!(world.lines, acquired(7));
}

#[test]
fn the_node_is_created_again_in_the_next_session() {
    let (mut world, _) = World::holding();
    world.feed(Input::State(State::Suspended));
    assert!(world.is_quiet());
    world.feed(Input::State(State::Renewing));
    world.expect(&["Lost(Renewed)"]);
    assert!(world.is_quiet(), "a request would reach no session");
    world.feed(Input::State(State::ReadOnly { server: 1, session: SessionId(66) }));
    assert!(world.is_quiet());
    world.feed(connected(NEXT));
    // The node of the old session is still there on this server.
    world.answer(OpCode::CREATE2, Err(NODE_EXISTS));
    let op = world.seen(OURS, 7);
    world.expect(&["Waiting { behind: \"me\", ahead: 1 }"]);
    world.feed(fired(op, EventType::NODE_DELETED));
    world.created(9);
    world.seen(NEXT, 9);
    assert_eq!(world.lines, acquired(9));
}

#[test]
fn a_release_deletes_the_node_once() {
    let (mut world, _) = World::holding();
    world.feed(Command::Release);
    world.expect(&["unwatch"]);
    world.answer(OpCode::DELETE, Err(LOST));
    // The node of another session is not deleted.
    world.answer(OpCode::SYNC, reply(OpCode::SYNC, &()));
    world.seen(SessionId(77), 9);
    world.expect(&["Released"]);
    assert!(world.machine.is_done());
}

#[test]
fn a_release_deletes_a_node_that_a_lost_create_has_left() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.feed(Command::Release);
    world.answer(OpCode::CREATE2, Err(LOST));
    world.answer(OpCode::SYNC, reply(OpCode::SYNC, &()));
    world.seen(OURS, 7);
    world.answer(OpCode::DELETE, reply(OpCode::DELETE, &()));
    world.expect(&["Released"]);
}

#[test]
fn the_end_of_the_session_is_reported_once() {
    let (mut world, _) = World::holding();
    world.feed(Input::State(State::Ended(End::Closed)));
    world.expect(&["Lost(Ended(Closed))"]);
    assert!(world.machine.is_done());

    let mut world = World::new();
    world.feed(connected(OURS));
    let error = Error::Ended { end: End::Closed, outcome: Outcome::NotApplied };
    world.answer(OpCode::CREATE2, Err(error));
    world.feed(Input::State(State::Ended(End::Closed)));
    world.expect(&["Failed(Ended(Closed))"]);

    let (mut world, _) = World::holding();
    world.feed(Command::Release);
    world.feed(Input::State(State::Renewing));
    world.expect(&["unwatch", "Released"]);
    assert!(world.machine.is_done());
}

#[test]
fn a_permanent_refusal_ends_it() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(Error::Server(ErrorCode::NO_AUTH)));
    assert!(world.machine.is_done());
    assert_eq!(world.lines.len(), 1);
    assert!(world.lines[0].starts_with("Failed("), "{:?}", world.lines);
}

#[test]
fn the_node_of_an_earlier_creation_is_deleted_when_the_next_one_is_refused() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(LOST));
    // The server that answers lags: the node is not there yet.
    world.answer(OpCode::EXISTS, Err(NO_NODE));
    world.expect(&["unwatch"]);
    world.answer(OpCode::CREATE2, Err(Error::Server(ErrorCode::NO_AUTH)));
    world.expect(&["Failed(Request(Server(ErrorCode(NO_AUTH))))"]);
    world.answer(OpCode::SYNC, reply(OpCode::SYNC, &()));
    world.seen(OURS, 7);
    assert!(!world.machine.is_done());
    world.answer(OpCode::DELETE, reply(OpCode::DELETE, &()));
    assert!(world.machine.is_done() && world.is_quiet());
}

#[test]
fn a_node_that_was_there_before_and_may_not_be_read_is_an_error() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(Error::Server(ErrorCode::NODE_EXISTS)));
    world.answer(OpCode::EXISTS, Err(Error::Server(ErrorCode::NO_AUTH)));
    world.expect(&["unwatch", "Failed(Request(Server(ErrorCode(NO_AUTH))))"]);
}

#[test]
fn a_node_that_may_not_be_read_stays_and_is_deleted_by_a_release() {
    const NO_AUTH: Error = Error::Server(ErrorCode::NO_AUTH);
    let mut world = World::new();
    world.feed(connected(OURS));
    world.created(7);
    world.answer(OpCode::EXISTS, Err(NO_AUTH));
    let [enqueued, acquired] = acquired(7);
    world.expect(&[&enqueued, &acquired, "unwatch"]);
    world.feed(Input::State(State::Suspended));
    world.feed(connected(OURS));
    world.expect(&[]);
    world.feed(Command::Release);
    world.answer(OpCode::DELETE, reply(OpCode::DELETE, &()));
    assert!(world.machine.is_done());
    assert_eq!(world.lines.last().map(String::as_str), Some("Released"));
}

#[test]
fn a_refusal_for_now_is_repeated() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(Error::Server(ErrorCode::THROTTLED_OP)));
    world.expect(&["timer"]);
    world.feed(Input::Timer);
    world.answer(OpCode::EXISTS, Err(NO_NODE));
    world.created(7);
    world.seen(OURS, 7);
    assert_eq!(world.lines[1..], acquired(7));
}

#[test]
fn a_release_while_the_ancestors_are_missing_leaves_nothing_to_delete() {
    let mut world = World::new();
    world.feed(Command::Release);
    world.expect(&["Released"]);
    assert!(world.machine.is_done(), "it has not begun");

    let mut world = World::new();
    world.feed(connected(OURS));
    world.feed(Command::Release);
    world.answer(OpCode::CREATE2, Err(NO_NODE));
    world.expect(&["Released"]);

    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(NO_NODE));
    world.feed(Command::Release);
    world.feed(Command::Release);
    world.answer(OpCode::CREATE_CONTAINER, reply(OpCode::CREATE_CONTAINER, &()));
    world.expect(&["Released"]);
    assert!(world.machine.is_done() && world.is_quiet());
}

#[test]
fn a_release_that_is_not_confirmed_in_time_or_before_the_session_ends_says_so() {
    let (mut world, _) = World::holding();
    world.feed(Input::LeaseEnded);
    assert!(world.is_quiet(), "the end of the lease deletes no node");
    world.feed(Command::Release);
    world.feed(Input::LeaseEnded);
    world.expect(&["unwatch", &alloc::format!("{:?}", Event::NOT_CONFIRMED)]);
    world.answer(OpCode::DELETE, reply(OpCode::DELETE, &()));
    assert!(world.machine.is_done() && world.is_quiet());

    for end in [End::Expired, End::Closed] {
        let (mut world, _) = World::holding();
        world.feed(Command::Release);
        world.feed(Input::State(State::Ended(end)));
        world.expect(&["unwatch", &alloc::format!("{:?}", Event::gone_with(end))]);
    }
}

#[test]
fn ancestors_that_are_deleted_again_and_again_end_it() {
    let mut world = World::new();
    world.feed(connected(OURS));
    while !world.machine.is_done() {
        world.answer(OpCode::CREATE2, Err(NO_NODE));
        if !world.machine.is_done() {
            world.answer(OpCode::CREATE_CONTAINER, reply(OpCode::CREATE_CONTAINER, &()));
        }
    }
    assert_eq!(world.lines.len(), 1);
    assert!(world.lines[0].contains("NO_NODE"), "{:?}", world.lines);
}

#[test]
fn ancestors_are_created_once_more_by_an_old_server_and_may_be_refused() {
    let mut world = World::new();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(NO_NODE));
    world.answer(OpCode::CREATE_CONTAINER, Err(Error::Server(ErrorCode::UNIMPLEMENTED)));
    world.answer(OpCode::CREATE, Err(Error::Server(ErrorCode::NO_AUTH)));
    assert!(world.machine.is_done());
    assert!(world.lines[0].starts_with("Failed("), "{:?}", world.lines);
}

#[test]
fn a_node_is_looked_for_again_after_a_refusal_for_now() {
    let throttled = || Err(Error::Server(ErrorCode::THROTTLED_OP));
    let (mut world, op) = World::holding();
    world.feed(fired(op, EventType::NODE_DATA_CHANGED));
    world.answer(OpCode::EXISTS, throttled());
    world.expect(&["unwatch", "timer"]);
    world.feed(Input::Timer);
    world.seen(OURS, 7);
    assert!(world.is_quiet());
    // The same while it finds out whether there is a node to delete.
    world.feed(Command::Release);
    world.answer(OpCode::DELETE, Err(LOST));
    world.answer(OpCode::SYNC, reply(OpCode::SYNC, &()));
    world.answer(OpCode::EXISTS, throttled());
    world.expect(&["unwatch", "timer"]);
    world.feed(Input::Timer);
    world.answer(OpCode::SYNC, throttled());
    world.asked.clear();
    world.expect(&["timer"]);
    world.feed(Input::Timer);
    world.answer(OpCode::SYNC, reply(OpCode::SYNC, &()));
    world.answer(OpCode::EXISTS, Err(NO_NODE));
    world.expect(&["Released"]);
}

#[cfg(feature = "full")]
#[test]
fn it_has_no_mode_to_convert() {
    let (mut world, _) = World::holding();
    world.feed(Command::Convert(crate::attempt::LockMode::Shared));
    world.expect(&["NotConverted(NoReaders)"]);
    assert!(world.machine.outlives_session());
}

#[test]
fn the_presence_follows_the_events() {
    let acquired = |token| Event::Acquired { node: "me".into(), token: Zxid(token) };
    let failed = |end| Presence::Failed(LockError::Ended(end));
    let mut presence = Presence::default();
    for (event, after) in [
        (Event::Waiting { behind: "me".into(), ahead: 1 }, Presence::Missing),
        (acquired(7), Presence::Created(Zxid(7))),
        (Event::Suspended, Presence::Created(Zxid(7))),
        (Event::Lost(Loss::Renewed), Presence::Missing),
        (acquired(9), Presence::Created(Zxid(9))),
        (Event::Lost(Loss::Ended(End::Expired)), failed(End::Expired)),
        (Event::Failed(LockError::Ended(End::Closed)), failed(End::Closed)),
        (Event::Released, Presence::Closed),
    ] {
        presence = presence.after(&event);
        assert_eq!(presence, after, "{event:?}");
    }
}

#[test]
fn a_node_that_no_session_owns_is_refused() {
    for owner in [NOBODY, OF_CONTAINER] {
        let mut world = World::new();
        world.feed(connected(OURS));
        world.answer(OpCode::CREATE2, Err(NODE_EXISTS));
        world.seen(owner, 3);
        world.expect(&["unwatch", "Failed(UnknownNode { node: \"me\" })"]);
        assert!(world.machine.is_done());
    }
    // Somebody has put it in place of ours.
    let (mut world, op) = World::holding();
    world.feed(fired(op, EventType::NODE_DATA_CHANGED));
    world.seen(NOBODY, 9);
    world.expect(&["unwatch", "Lost(NodeDeleted)", "Failed(UnknownNode { node: \"me\" })"]);
    assert!(world.machine.is_done());
}

#[test]
fn a_missing_chroot_is_reported() {
    let mut world = World::new();
    world.machine.config.chroot_length = "/services".len();
    world.feed(connected(OURS));
    world.answer(OpCode::CREATE2, Err(NO_NODE));
    world.expect(&["Failed(NoChroot { chroot: \"/services\" })"]);
    assert!(world.machine.is_done());
}
