//! Read-only servers, whose data may be arbitrarily old.

use crate::tests::*;

/// Begins on a server without a quorum, which has assigned a session of its own. Then there is a
/// quorum, and the reply to the creation is lost.
fn begun_before_the_quorum<M: Machine + Clone>(
    config: AttemptConfig,
    make: impl FnOnce(AttemptConfig) -> M,
) -> Harness<M> {
    let local = State::ReadOnly { server: 2, session: SessionId(0x99) };
    let mut h = Harness::driving(AttemptConfig { session: SessionId::NONE, ..config }, make);
    h.feed(Input::State(local));
    assert!(h.wanted().is_empty(), "it begins when it knows its session");
    h.reconnect();
    h.disconnect();
    h.reconnect();
    h
}

/// The connection is lost, and the next one leads to a read-only server.
fn go_astray(h: &mut Harness) {
    h.disconnect();
    h.feed(Input::State(READ_ONLY));
}

#[test]
fn a_waiter_is_granted_nothing() {
    let mut h = Harness::deciding();
    h.answer("list", children(&["a-5", "own-7"]));
    h.answer("watch own-7", ok());
    h.answer("watch a-5", ok());
    h.wanted();
    go_astray(&mut h);
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
    for _ in 0..3 {
        h.answer("list", children(&["own-7"]));
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["list"]);
    }
    h.disconnect();
    h.expect(&["list"]);
    h.reconnect();
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn an_attempt_enters_when_there_is_a_quorum() {
    let mut h = Harness::creating();
    h.feed(Input::State(READ_ONLY));
    h.answer("create", refused(ErrorCode::NOT_READ_ONLY));
    h.answer("list", children(&[]));
    h.expect(&["timer"]);
    h.disconnect();
    h.reconnect();
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
    h.answer("sync", ok());
    h.answer("list", children(&[]));
    h.expect(&["create", "list"]);
}

#[test]
fn a_holder_is_suspended_until_a_quorum_confirms_it() {
    let mut h = Harness::held();
    go_astray(&mut h);
    h.expect(&["Suspended"]);
    h.disconnect();
    h.reconnect();
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn the_lease_ends_on_a_read_only_server() {
    let mut h = Harness::of(|config| config.disconnect_policy = DisconnectPolicy::UntilLeaseEnds);
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.wanted();
    go_astray(&mut h);
    h.expect(&["Suspended"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Lost(LeaseEnded)", "delete own-7"]);
}

#[test]
fn a_deletion_refused_by_a_read_only_server_is_repeated() {
    let mut h = Harness::held();
    go_astray(&mut h);
    h.feed(Command::Release);
    h.expect(&["Suspended", "delete own-7"]);
    h.answer("delete own-7", refused(ErrorCode::NOT_READ_ONLY));
    h.expect(&["timer"]);
    h.disconnect();
    h.reconnect();
    h.feed(Input::Timer);
    h.expect(&["delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn an_attempt_begun_there_downgrades_in_the_session_that_owns_its_node() {
    let writer = AttemptConfig { scheme: READ_WRITE, ..config() };
    let mut h = begun_before_the_quorum(writer, Contender::new);
    h.answer("sync", ok());
    h.answer("list", children(&[]));
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.feed(Command::Convert(LockMode::Shared));
    h.wanted();
    h.disconnect();
    h.reconnect();
    h.expect(&["sync", "stat own-R7", "Suspended", "watch own-W7"]);
    h.answer("sync", ok());
    h.answer("stat own-R7", stat(SESSION, 12));
    h.expect(&["unwatch own-W7", "Converted to own-R7 token 107", "watch own-R7"]);
}

#[test]
fn an_attempt_begun_there_adopts_the_node_of_its_new_session() {
    let mut h = begun_before_the_quorum(config(), Contender::new);
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.wanted();
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "list"]);
}

#[test]
fn a_candidate_begun_there_queues_again_with_its_new_session() {
    let mut h = begun_before_the_quorum(config(), ElectionMachine::new);
    h.answer("sync", ok());
    h.answer("list", children(&[]));
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.feed(Input::Timer);
    h.deleted("watch own-7");
    h.feed(Input::Timer);
    h.disconnect();
    h.reconnect();
    h.answer("sync", ok());
    h.answer("list", children(&["2-9"]));
    h.wanted();
    h.answer("stat 2-9", stat(SESSION, 9));
    h.expect(&["Enqueued 2-9 token 109", "list"]);
}
