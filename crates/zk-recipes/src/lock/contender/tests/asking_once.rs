//! [`WaitPolicy::OnlyIfFirst`]: enters the queue without waiting for others or for a connection.

use crate::tests::*;

fn asking() -> Harness {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
    h.expect(&[]);
    h.feed(Input::State(CONNECTED));
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
fn of_two_attempts_at_once_the_first_acquires() {
    let there = || children(&["a-6", "own-7"]);
    let mut second = asking();
    second.created(7);
    second.answer("list", there());
    second.expect(&["Enqueued own-7 token 107", "Failed: TimedOut", "delete own-7"]);
    second.answer("delete own-7", ok());
    second.expect_last(&[]);
    // The first sees the second one's node, which does not block it.
    let mut first = asking();
    first.created(7);
    first.answer("list", children(&["own-7", "a-8"]));
    first.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
}

#[test]
fn without_a_connection_nothing_is_sent() {
    for state in [State::Connecting, State::Suspended, READ_ONLY] {
        let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
        h.feed(Input::State(state));
        h.expect_last(&["Failed: NoConnection"]);
    }
}

#[test]
fn the_loss_of_the_connection_fails_it_and_deletes_its_node() {
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
fn a_connection_that_came_back_unseen_still_counts_as_lost() {
    let mut h = asking();
    h.answer("create", lost());
    h.expect(&["Failed: NoConnection", "sync", "list"]);
}

#[test]
fn a_read_only_server_is_no_connection() {
    let mut h = asking();
    h.feed(Input::State(READ_ONLY));
    h.expect(&["Failed: NoConnection"]);
    h.created(7);
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}

#[test]
fn a_missing_lock_path_is_created() {
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
fn once_held_it_is_suspended_like_any_lock() {
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
fn a_release_before_the_beginning_leaves_nothing() {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFirst);
    h.feed(Command::Release);
    h.expect_last(&["Released"]);
}

#[test]
fn the_end_of_the_session_is_reported() {
    let mut h = asking();
    h.expire();
    h.expect_last(&["Failed: Ended(Expired)"]);
    let mut h = asking();
    h.disconnect();
    h.wanted();
    h.expire();
    h.expect_last(&[]);
}
