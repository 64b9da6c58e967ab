//! From reader to writer.

use super::*;

fn held() -> Harness {
    let mut h = Harness::reader_or_writer(LockMode::Shared);
    h.created_as("create R", "own-R7", czxid(7));
    h.answer("list", children(&["own-R7"]));
    h.feed(Input::Timer);
    h.answer("watch own-R7", ok());
    h.wanted();
    h
}

fn upgrading() -> Harness {
    let mut h = held();
    h.feed(Input::Convert(LockMode::Exclusive));
    h.expect(&["create W", "list"]);
    h
}

fn created() -> Harness {
    let mut h = upgrading();
    h.created_as("create W", "own-W9", czxid(9));
    h.expect(&[]);
    h
}

/// The creation was lost; the connection is back.
fn finding() -> Harness {
    let mut h = upgrading();
    h.disconnect();
    h.expect(&["sync", "list", "Suspended"]);
    h.reconnect();
    h.expect(&["watch own-R7", "unwatch own-R7"]);
    h.answer("watch own-R7", ok());
    h.expect(&["Resumed"]);
    h
}

#[test]
fn the_only_one_becomes_a_writer() {
    let mut h = created();
    // Whoever came later waits.
    h.answer("list", children(&["own-R7", "own-W9", "a-R10"]));
    h.expect(&["unwatch own-R7", "delete own-R7", "Converted to own-W9 token 109", "timer"]);
    h.answer("delete own-R7", ok());
    h.feed(Input::Timer);
    h.expect(&["watch own-W9"]);
    h.answer("watch own-W9", ok());
    h.feed(Input::Release);
    h.expect(&["unwatch own-W9", "delete own-W9"]);
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn whoever_is_not_alone_stays_a_reader() {
    for others in [&["a-R6"][..], &["a-R8"], &["a-W8"], &["a-R8", "a-W10"]] {
        let mut h = created();
        h.answer("list", children(&[&["own-R7", "own-W9"], others].concat()));
        h.expect(&["delete own-W9", "NotConverted: NotAlone"]);
        h.answer("delete own-W9", ok());
        // Not done: it is held.
        h.expect(&[]);
        h.deleted("watch own-R7");
        h.expect_last(&["Lost(NodeDeleted)"]);
    }
}

#[test]
fn of_two_that_try_neither_waits_for_the_other() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "a-R8", "own-W9", "a-W10"]));
    h.expect(&["delete own-W9", "NotConverted: NotAlone"]);
}

#[test]
fn a_writer_is_one_already() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.answer("delete own-R7", ok());
    h.wanted();
    h.feed(Input::Convert(LockMode::Exclusive));
    h.expect(&["Converted to own-W9 token 109"]);
}

#[test]
fn there_and_back_again() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.answer("delete own-R7", ok());
    h.wanted();
    h.feed(Input::Convert(LockMode::Shared));
    h.expect(&["replace own-W9 by own-R9"]);
    h.answer("replace own-W9 by own-R9", replaced(None));
    h.expect(&["Converted to own-R9 token 109", "timer"]);
    h.feed(Input::Convert(LockMode::Exclusive));
    h.expect(&["create W", "list"]);
}

#[test]
fn a_reader_that_is_gone_has_nothing_to_upgrade() {
    // Somebody else may have had the lock in between.
    let mut h = created();
    h.answer("list", children(&["own-W9"]));
    h.expect(&["delete own-W9", "Lost(NodeDeleted)", "unwatch own-R7"]);
    h.answer("delete own-W9", ok());
    h.expect_last(&[]);
}

#[test]
fn a_reader_whose_end_is_told_first_takes_the_writer_along() {
    let mut h = upgrading();
    h.deleted("watch own-R7");
    h.expect(&["Lost(NodeDeleted)"]);
    assert!(!h.machine.is_done());
    h.created_as("create W", "own-W9", czxid(9));
    h.answer("list", children(&["own-W9"]));
    h.expect(&["delete own-W9"]);
    h.answer("delete own-W9", ok());
    h.expect_last(&[]);
}

#[test]
fn a_creation_that_was_lost_is_looked_for_and_removed() {
    let mut h = finding();
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7", "own-W9", "a-W10"]));
    h.expect(&["delete own-W9", "NotConverted: ConnectionLost"]);
    h.answer("delete own-W9", ok());

    let mut h = finding();
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7"]));
    h.expect(&["NotConverted: ConnectionLost"]);
}

#[test]
fn a_list_that_was_lost_removes_the_writer() {
    let mut h = created();
    h.disconnect();
    h.expect(&["delete own-W9", "NotConverted: ConnectionLost", "Suspended"]);
    h.reconnect();
    h.answer("watch own-R7", ok());
    h.answer("delete own-W9", ok());
    h.expect(&["watch own-R7", "unwatch own-R7", "Resumed"]);
}

#[test]
fn what_is_found_is_believed_only_behind_a_sync() {
    let mut h = finding();
    h.answer("sync", lost());
    h.expect(&["sync", "list"]);
    h.answer("list", children(&["own-R7"]));
    h.expect(&[]);

    let mut h = finding();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "list"]);
}

#[test]
fn a_refusal_leaves_the_reader() {
    let mut h = upgrading();
    h.answer("create W", refused(ErrorCode::QUOTA_EXCEEDED));
    h.expect(&["NotConverted: ErrorCode(QUOTA_EXCEEDED)"]);
    h.answer("list", children(&["own-R7"]));
    h.expect(&[]);

    let mut h = created();
    h.answer("list", refused(ErrorCode::THROTTLED_OP));
    h.expect(&["delete own-W9", "NotConverted: ErrorCode(THROTTLED_OP)"]);
}

#[test]
fn a_list_that_could_not_even_be_sent_has_the_writer_looked_for() {
    let mut h = upgrading();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&["sync", "list"]);
    h.created_as("create W", "own-W9", czxid(9));
    h.expect(&[]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.expect(&["delete own-W9", "NotConverted: QueueFull { limit: 1 }"]);
}

#[test]
fn numbers_used_up_leave_the_reader() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "own-W9", "a-W2147483647"]));
    h.expect(&["delete own-W9", "NotConverted: SequenceExhausted"]);
}

#[test]
fn a_writer_that_somebody_deletes_leaves_the_reader() {
    let mut h = created();
    h.answer("list", children(&["own-R7"]));
    h.expect(&["delete own-W9", "NotConverted: NodeVanished"]);
}

#[test]
fn letting_go_in_between_deletes_both() {
    let mut h = created();
    h.feed(Input::Release);
    h.expect(&["unwatch own-R7", "delete own-R7"]);
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.expect(&["delete own-W9"]);
    h.answer("delete own-R7", ok());
    h.expect(&[]);
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);

    let mut h = finding();
    h.feed(Input::Release);
    h.expect(&["unwatch own-R7", "delete own-R7"]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.expect(&["delete own-W9"]);
    h.answer("delete own-R7", ok());
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn letting_go_before_a_creation_that_is_refused_leaves_nothing() {
    let mut h = upgrading();
    h.feed(Input::Release);
    h.answer("delete own-R7", ok());
    h.expect(&["unwatch own-R7", "delete own-R7"]);
    h.answer("create W", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Released"]);
}

#[test]
fn the_end_of_the_session_in_between_loses_the_lock() {
    for mut h in [upgrading(), created(), finding()] {
        h.expire();
        h.expect_last(&["Lost(Ended(Expired))"]);
    }
}
