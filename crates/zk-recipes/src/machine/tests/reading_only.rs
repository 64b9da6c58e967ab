//! On a member that can only read, which may have missed everything for any time.

use super::*;

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
    let mut h = Harness::of(|contest| contest.trust = Trust::UntilLeaseEnds);
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
    h.feed(Input::LetGo);
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
