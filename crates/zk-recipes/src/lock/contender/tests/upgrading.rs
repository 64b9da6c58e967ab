//! From reader to writer.

use crate::tests::*;

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
    h.feed(Command::Convert(LockMode::Exclusive));
    h.expect(&["create W", "list"]);
    h
}

fn created() -> Harness {
    let mut h = upgrading();
    h.created_as("create W", "own-W9", czxid(9));
    h.expect(&[]);
    h
}

/// The creation was lost, and the connection is back.
fn finding() -> Harness {
    let mut h = upgrading();
    h.disconnect();
    h.expect(&["sync", "list", "Suspended"]);
    h.reconnect();
    h.expect(&["stat own-R7"]);
    h.answer("stat own-R7", ok());
    h.expect(&["Resumed"]);
    h
}

#[test]
fn the_only_reader_becomes_a_writer() {
    let mut h = created();
    // Later contenders wait.
    h.answer("list", children(&["own-R7", "own-W9", "a-R10"]));
    h.expect(&["unwatch own-R7", "Converted to own-W9 token 109", "delete own-R7", "timer"]);
    h.answer("delete own-R7", ok());
    h.feed(Input::Timer);
    h.expect(&["watch own-W9"]);
    h.answer("watch own-W9", ok());
    h.feed(Command::Release);
    h.expect(&["delete own-W9"]);
    h.deleted("watch own-W9");
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_reader_that_is_not_alone_stays_a_reader() {
    for others in [&["a-R6"][..], &["a-R8"], &["a-W8"], &["a-R8", "a-W10"]] {
        let mut h = created();
        h.answer("list", children(&[&["own-R7", "own-W9"], others].concat()));
        h.expect(&["delete own-W9", "NotConverted: NotAlone"]);
        h.answer("delete own-W9", ok());
        // The attempt is not over: the lock is held.
        h.expect(&[]);
        h.deleted("watch own-R7");
        h.expect_last(&["Lost(NodeDeleted)"]);
    }
}

#[test]
fn two_upgrades_do_not_deadlock() {
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
    h.feed(Command::Convert(LockMode::Exclusive));
    h.expect(&["Converted to own-W9 token 109"]);
}

#[test]
fn an_upgrade_can_follow_a_downgrade() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.answer("delete own-R7", ok());
    h.wanted();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["replace own-W9 by own-R9"]);
    h.answer("replace own-W9 by own-R9", replaced(None));
    h.expect(&["Converted to own-R9 token 109", "timer"]);
    h.feed(Command::Convert(LockMode::Exclusive));
    h.expect(&["create W", "list"]);
}

#[test]
fn a_deleted_reader_is_not_upgraded() {
    // Another contender may have held the lock in between.
    let mut h = created();
    h.answer("list", children(&["own-W9"]));
    h.expect(&["delete own-W9", "Lost(NodeDeleted)"]);
    h.deleted("watch own-R7");
    h.answer("delete own-W9", ok());
    h.expect_last(&[]);
}

#[test]
fn the_reported_end_of_the_reader_deletes_the_writer() {
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
fn a_lost_creation_is_searched_for_and_deleted() {
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

/// Another watch in its place would miss a deletion that the server reports before that one is set.
#[test]
fn a_search_that_ends_before_the_verification_leaves_the_watch() {
    let failed = || {
        let mut h = upgrading();
        h.disconnect();
        h.expect(&["sync", "list", "Suspended"]);
        h.reconnect();
        h.expect(&["stat own-R7"]);
        h.answer("sync", ok());
        h.answer("list", children(&["own-R7"]));
        h.expect(&["NotConverted: ConnectionLost"]);
        h
    };
    let mut h = failed();
    h.deleted("watch own-R7");
    h.expect_last(&["Lost(NodeDeleted)"]);

    let mut h = failed();
    h.answer("stat own-R7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_verification_refused_amid_an_upgrade_is_repeated_after_it() {
    let mut h = upgrading();
    h.disconnect();
    h.reconnect();
    h.answer("stat own-R7", Err(QUEUE_FULL));
    h.expect(&["sync", "list", "Suspended", "stat own-R7", "timer"]);
    // The search, whose requests are pending, needs no timer.
    h.feed(Input::Timer);
    h.expect(&[]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7"]));
    h.expect(&["NotConverted: ConnectionLost", "stat own-R7"]);
    h.answer("stat own-R7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_lost_list_deletes_the_writer() {
    let mut h = created();
    h.disconnect();
    h.expect(&["delete own-W9", "NotConverted: ConnectionLost", "Suspended"]);
    h.reconnect();
    h.answer("stat own-R7", ok());
    h.answer("delete own-W9", ok());
    h.expect(&["stat own-R7", "Resumed"]);
}

#[test]
fn nodes_are_trusted_only_after_a_sync() {
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
fn a_list_that_was_never_sent_starts_a_search_for_the_writer() {
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
fn exhausted_numbers_leave_the_reader() {
    let mut h = created();
    h.answer("list", children(&["own-R7", "own-W9", "a-W2147483647"]));
    h.expect(&["delete own-W9", "NotConverted: SequenceExhausted"]);
}

#[test]
fn a_writer_deleted_by_another_client_leaves_the_reader() {
    let mut h = created();
    h.answer("list", children(&["own-R7"]));
    h.expect(&["delete own-W9", "NotConverted: NodeVanished"]);
}

#[test]
fn a_release_in_between_deletes_both() {
    let mut h = created();
    h.feed(Command::Release);
    h.expect(&["delete own-R7"]);
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.expect(&["delete own-W9"]);
    h.deleted("watch own-R7");
    h.answer("delete own-R7", ok());
    h.expect(&[]);
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);

    let mut h = finding();
    h.feed(Command::Release);
    h.expect(&["delete own-R7"]);
    h.answer("sync", ok());
    h.answer("list", children(&["own-R7", "own-W9"]));
    h.expect(&["delete own-W9"]);
    h.deleted("watch own-R7");
    h.answer("delete own-R7", ok());
    h.answer("delete own-W9", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_release_before_a_refused_creation_leaves_nothing() {
    let mut h = upgrading();
    h.feed(Command::Release);
    h.deleted("watch own-R7");
    h.answer("delete own-R7", ok());
    h.expect(&["delete own-R7"]);
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

#[test]
fn only_a_held_lock_is_converted() {
    let mut h = Harness::second();
    h.wanted();
    h.feed(Command::Convert(LockMode::Exclusive));
    h.expect(&[]);
}

#[test]
fn a_release_amid_an_upgrade_deletes_both_nodes() {
    let mut h = created();
    h.feed(Command::Release);
    h.expect(&["delete own-R7"]);
    // The list was made after that.
    h.answer("list", children(&["own-W9"]));
    h.expect(&["delete own-W9"]);
    h.answer("delete own-R7", ok());
    h.answer("delete own-W9", ok());
    h.expect_last(&["unwatch own-R7", "Released"]);
}

#[test]
fn an_upgrade_that_is_refused_without_a_connection_asks_for_nothing() {
    let mut h = held();
    h.disconnect();
    h.expect(&["Suspended"]);
    h.feed(Command::Convert(LockMode::Exclusive));
    h.expect(&["create W", "list"]);
    h.answer("create W", Err(QUEUE_FULL));
    h.expect(&["NotConverted: QueueFull { limit: 1 }"]);
}
