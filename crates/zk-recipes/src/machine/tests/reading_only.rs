//! On a member that can only read, which may have missed everything for any time.

use super::*;

/// A session that only the server knows that made it, while it had lost touch with its leader. The
/// ensemble gives the client another one.
const LOCAL: SessionId = SessionId(0x99);

/// Begins while the session is such a one; then there is a quorum.
fn begun_before_the_quorum<M: Machine>(
    config: AttemptConfig,
    make: impl FnOnce(AttemptConfig) -> M,
) -> Harness<M> {
    let mut h = Harness::driving(AttemptConfig { session: LOCAL, ..config }, make);
    h.feed(Input::Session(State::ReadOnly { server: 2, session: LOCAL }));
    h.disconnect();
    h.reconnect();
    h
}

/// The connection is lost, and the next one leads to such a member.
fn go_astray(h: &mut Harness) {
    h.disconnect();
    h.feed(Input::Session(READ_ONLY));
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
fn whoever_enters_there_enters_when_there_is_a_majority() {
    let mut h = Harness::creating();
    h.feed(Input::Session(READ_ONLY));
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
fn a_holder_is_suspended_until_the_majority_has_confirmed_it() {
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
fn the_lease_ends_there_as_anywhere() {
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
fn a_deletion_refused_there_is_repeated() {
    let mut h = Harness::held();
    go_astray(&mut h);
    h.feed(Input::Release);
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
fn an_attempt_that_began_there_downgrades_on_the_session_that_owns_its_node() {
    let writer = AttemptConfig { scheme: READ_WRITE, ..config() };
    let mut h = begun_before_the_quorum(writer, Contender::new);
    h.answer("sync", ok());
    h.answer("list", children(&[]));
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.feed(Input::Convert(LockMode::Shared));
    h.wanted();
    h.disconnect();
    h.reconnect();
    h.expect(&["sync", "stat own-R7", "Suspended"]);
    h.answer("sync", ok());
    h.answer("stat own-R7", stat(SESSION, 12));
    h.expect(&["Converted to own-R7 token 107", "watch own-R7"]);
}

#[test]
fn an_attempt_that_began_there_adopts_the_node_of_the_session_that_it_got() {
    let mut h = begun_before_the_quorum(config(), Contender::new);
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.wanted();
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["Enqueued own-7 token 107", "list"]);
}

#[test]
fn a_candidate_that_began_there_stands_again_with_the_session_that_it_got() {
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
