//! [`WaitPolicy::OnlyIfFree`]: lists first, and waits neither for others nor for a connection.

use crate::tests::*;

fn trying() -> Harness {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
    h.expect(&[]);
    h.feed(Input::State(CONNECTED));
    h.expect(&["list"]);
    h
}

fn trying_as(mode: LockMode) -> Harness {
    let mut h = Harness::of(|config| {
        (config.scheme, config.mode) = (READ_WRITE, mode);
        config.wait_policy = WaitPolicy::OnlyIfFree;
    });
    h.feed(Input::State(CONNECTED));
    h.expect(&["list"]);
    h
}

#[test]
fn a_held_lock_is_not_queued_for() {
    for there in [&["a-5"][..], &["a-5", "b-6"], &["junk", "a-5"]] {
        let mut h = trying();
        h.answer("list", children(there));
        h.expect_last(&["Failed: Busy"]);
    }
}

#[test]
fn a_lock_that_is_free_is_acquired() {
    for there in [children(&[]), children(&["junk"]), refused(ErrorCode::NO_NODE)] {
        let mut h = trying();
        h.answer("list", there);
        h.expect(&["create", "list"]);
        h.created(7);
        h.answer("list", children(&["own-7", "b-8"]));
        h.expect(&["Enqueued own-7 token 107", "Acquired own-7 token 107", "timer"]);
    }
}

#[test]
fn a_missing_lock_path_is_created() {
    let mut h = trying();
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["create", "list"]);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);
}

#[test]
fn a_contender_that_comes_in_between_wins() {
    let mut h = trying();
    h.answer("list", children(&[]));
    h.expect(&["create", "list"]);
    h.created(7);
    h.answer("list", children(&["a-6", "own-7"]));
    h.expect(&["Enqueued own-7 token 107", "Failed: Busy", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn without_a_connection_nothing_is_sent() {
    for state in [State::Connecting, State::Suspended, READ_ONLY] {
        let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
        h.feed(Input::State(state));
        h.expect_last(&["Failed: NoConnection"]);
    }
}

#[test]
fn the_loss_of_the_connection_fails_the_list() {
    let mut h = trying();
    h.disconnect();
    h.expect_last(&["Failed: NoConnection"]);

    let mut h = trying();
    h.feed(Input::State(READ_ONLY));
    h.expect_last(&["Failed: NoConnection"]);
}

#[test]
fn a_connection_that_came_back_unseen_still_counts_as_lost() {
    let mut h = trying();
    h.reconnect();
    h.expect(&[]);
    h.answer("list", lost());
    h.expect_last(&["Failed: NoConnection"]);
}

#[test]
fn a_list_refused_for_now_is_repeated_later() {
    for refusal in [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP)] {
        let mut h = trying();
        h.answer("list", refusal);
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["list"]);
        h.answer("list", children(&["a-5"]));
        h.expect_last(&["Failed: Busy"]);
    }
}

#[test]
fn a_list_that_is_forbidden_or_malformed_fails() {
    let mut h = trying();
    h.answer("list", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["Failed: ErrorCode(NO_AUTH)"]);

    let mut h = trying();
    h.answer("list", ok());
    h.expect_last(&["Failed: malformed"]);
}

#[test]
fn the_loss_of_the_connection_fails_the_creation_and_deletes_its_node() {
    let creating = || {
        let mut h = trying();
        h.answer("list", children(&[]));
        h.expect(&["create", "list"]);
        h
    };
    let mut h = creating();
    h.disconnect();
    h.expect(&["Failed: NoConnection", "sync", "list"]);
    h.reconnect();
    h.answer("sync", ok());
    h.answer("list", children(&["own-7"]));
    h.answer("stat own-7", stat(SESSION, 7));
    h.expect(&["stat own-7", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);

    let mut h = creating();
    h.disconnect();
    h.reconnect();
    h.wanted();
    h.answer("sync", ok());
    h.answer("list", children(&["a-6"]));
    h.expect_last(&[]);

    let mut h = creating();
    h.created(7);
    h.wanted();
    h.disconnect();
    h.expect(&["Failed: NoConnection", "delete own-7"]);
    h.reconnect();
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_release_before_the_beginning_leaves_nothing() {
    let mut h = Harness::of(|config| config.wait_policy = WaitPolicy::OnlyIfFree);
    h.feed(Command::Release);
    h.expect_last(&["Released"]);
}

#[test]
fn a_release_during_the_list_leaves_nothing() {
    let mut h = trying();
    h.feed(Command::Release);
    h.expect_last(&["Released"]);
}

#[test]
fn the_end_of_the_session_during_the_list_is_reported() {
    let mut h = trying();
    h.expire();
    h.expect_last(&["Failed: Ended(Expired)"]);
}

#[test]
fn a_reader_that_tries_ignores_readers_but_no_writer() {
    let mut h = trying_as(LockMode::Shared);
    h.answer("list", children(&["a-R5", "b-R6"]));
    h.expect(&["create R", "list"]);

    // It would overtake the waiting writer.
    let mut h = trying_as(LockMode::Shared);
    h.answer("list", children(&["a-R5", "b-W6"]));
    h.expect_last(&["Failed: Busy"]);
}

#[test]
fn a_writer_that_tries_ignores_no_contender() {
    for there in ["a-R5", "a-W5"] {
        let mut h = trying_as(LockMode::Exclusive);
        h.answer("list", children(&[there]));
        h.expect_last(&["Failed: Busy"]);
    }
}
