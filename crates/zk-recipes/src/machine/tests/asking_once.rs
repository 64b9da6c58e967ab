//! A lock that is queued for, and neither others nor a connection are waited for.

use super::*;

fn asking() -> Harness {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
    h.expect(&[]);
    h.feed(Input::Session(CONNECTED));
    h.expect(&["create", "list"]);
    h
}

#[test]
fn a_lock_that_is_free_is_acquired() {
    for there in [&["own-7"][..], &["own-7", "b-8"]] {
        let mut h = asking();
        h.created(7);
        h.answer("list", children(there));
        h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
    }
}

#[test]
fn of_two_that_ask_at_once_the_first_gets_the_lock() {
    let there = || children(&["a-6", "own-7"]);
    let mut second = asking();
    second.created(7);
    second.answer("list", there());
    second.expect(&["Enqueued own-7 token 107", "Failed: TimedOut", "delete own-7"]);
    second.answer("delete own-7", ok());
    second.expect_last(&[]);
    // The first sees the node of the second, which does not matter to it.
    let mut first = asking();
    first.created(7);
    first.answer("list", children(&["own-7", "a-8"]));
    first.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn without_a_connection_nothing_is_requested() {
    for state in [State::Connecting, State::Suspended, READ_ONLY] {
        let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
        h.feed(Input::Session(state));
        h.expect_last(&["Failed: NoConnection"]);
    }
}

#[test]
fn the_loss_of_the_connection_ends_it_and_the_node_goes_when_there_is_one() {
    let mut h = asking();
    h.disconnect();
    h.expect(&["Failed: NoConnection", "sync", "list"]);
    h.reconnect();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["stat own-7", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    let mut h = asking();
    h.disconnect();
    h.reconnect();
    h.wanted();
    h.answer("sync", ok());
    h.answer("list", children(&["a-6"]));
    h.expect_last(&[]);

    let mut h = asking();
    h.created(7);
    h.wanted();
    h.disconnect();
    h.expect(&["Failed: NoConnection", "delete own-7"]);
    h.reconnect();
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_connection_that_is_back_before_anybody_looked_was_lost_all_the_same() {
    let mut h = asking();
    h.answer("create", lost());
    h.expect(&["Failed: NoConnection", "sync", "list"]);
}

#[test]
fn a_member_that_can_only_read_is_not_believed() {
    let mut h = asking();
    h.feed(Input::Session(READ_ONLY));
    h.expect(&["Failed: NoConnection"]);
    h.created(7);
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}

#[test]
fn a_lock_without_a_directory_gets_one() {
    let mut h = asking();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);
    h.created(0);
    h.answer("list", children(&["own-0"]));
    h.expect(&["Enqueued own-0 token 100", "Acquired own-0 token 100", "timer"]);
}

#[test]
fn once_held_it_is_a_lock_as_any_other() {
    let mut h = asking();
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.wanted();
    h.disconnect();
    h.expect(&["Suspended"]);
    h.reconnect();
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn whoever_lets_go_before_it_has_begun_leaves_nothing() {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
    h.feed(Input::Release);
    h.expect_last(&["Released"]);
}

#[test]
fn the_end_of_the_session_is_told() {
    let mut h = asking();
    h.expire();
    h.expect_last(&["Failed: Ended(Expired)"]);
    let mut h = asking();
    h.disconnect();
    h.wanted();
    h.expire();
    h.expect_last(&[]);
}
