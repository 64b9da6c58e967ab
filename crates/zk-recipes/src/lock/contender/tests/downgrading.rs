//! From writer to reader.

use crate::tests::*;

const REPLACE: &str = "replace own-W7 by own-R7";
const WATCH: &str = "watch own-R7";
const WATCH_WRITER: &str = "watch own-W7";
const WATCH_DATA: &str = "watch data own-W7";

fn held() -> Harness {
    let mut h = Harness::reader_or_writer(LockMode::Exclusive);
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7", "a-W8", "b-R9"]));
    h.feed(Input::Timer);
    h.answer(WATCH_WRITER, ok());
    h.wanted();
    h
}

fn downgrading() -> Harness {
    let mut h = held();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&[REPLACE]);
    h
}

/// The reply was lost, and the connection is back.
fn finding() -> Harness {
    let mut h = downgrading();
    h.disconnect();
    h.expect(&["sync", "stat own-R7", "Suspended"]);
    h.reconnect();
    h.expect(&["stat own-W7"]);
    h
}

fn downgraded() -> Harness {
    let mut h = downgrading();
    h.deleted(WATCH_WRITER);
    h.expect(&[]);
    h.answer(REPLACE, replaced(None));
    h.expect(&["Converted to own-R7 token 107", "timer"]);
    h
}

#[test]
fn the_node_is_replaced_and_the_token_stays() {
    let mut h = downgraded();
    h.feed(Input::Timer);
    h.expect(&[WATCH]);
    h.answer(WATCH, ok());
    h.feed(Command::Release);
    h.expect(&["delete own-R7"]);
    h.deleted("watch own-R7");
    h.answer("delete own-R7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_reader_is_one_already() {
    let mut h = downgraded();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["Converted to own-R7 token 107"]);
}

#[test]
fn the_reader_is_lost_like_any_other() {
    let mut h = downgraded();
    h.feed(Input::Timer);
    h.answer(WATCH, ok());
    h.wanted();
    h.deleted(WATCH);
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_mutex_has_no_readers() {
    let mut h = Harness::held();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["NotConverted: NoReaders"]);
}

/// Asks the holder of the node with this number for a downgrade.
fn downgrading_from(number: &str) -> Harness {
    let label = format!("own-W{number}");
    let mut h = Harness::reader_or_writer(LockMode::Exclusive);
    h.created_as("create W", &label, czxid(7));
    h.answer("list", children(&[&label]));
    h.wanted();
    h.feed(Command::Convert(LockMode::Shared));
    h
}

#[test]
fn numbers_near_the_end_of_the_range_are_not_inherited() {
    let mut h = downgrading_from("2145386495");
    h.expect(&["replace own-W2145386495 by own-R2145386495"]);
    for number in ["2145386496", "2146435071"] {
        let mut h = downgrading_from(number);
        h.expect(&["NotConverted: SequenceExhausted", "timer"]);
    }
}

#[test]
fn a_lost_reply_is_searched_for_and_found() {
    let mut h = finding();
    h.deleted(WATCH_WRITER);
    h.answer("sync", ok());
    h.answer("stat own-R7", stat(SESSION, 12));
    h.expect(&["Converted to own-R7 token 107", WATCH]);
    h.answer("stat own-W7", refused(ErrorCode::NO_NODE));
    h.expect(&[]);
    h.answer(WATCH, ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_request_that_was_lost_is_repeated() {
    let mut h = finding();
    h.answer("sync", ok());
    h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
    h.expect(&[REPLACE]);
    h.answer("stat own-W7", stat(SESSION, 7));
    h.expect(&["Resumed"]);
    h.deleted(WATCH_WRITER);
    h.answer(REPLACE, replaced(None));
    h.expect(&["Converted to own-R7 token 107", "timer"]);
}

#[test]
fn nodes_are_trusted_only_after_a_sync() {
    let mut h = finding();
    h.answer("sync", lost());
    h.expect(&["sync", "stat own-R7"]);
    // A reply to the earlier attempt.
    h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
    h.expect(&[]);

    // Neither the sync nor the stat was sent.
    let mut h = finding();
    h.answer("stat own-R7", Err(QUEUE_FULL));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "stat own-R7"]);
}

#[test]
fn an_unreadable_reader_exists() {
    let mut h = finding();
    h.answer("sync", ok());
    h.answer("stat own-R7", refused(ErrorCode::NO_AUTH));
    h.expect(&["unwatch own-W7", "Converted to own-R7 token 107", WATCH]);
}

#[test]
fn a_reader_with_our_name_and_another_owner_is_not_ours() {
    let mut h = finding();
    h.answer("sync", ok());
    h.answer("stat own-R7", stat(SessionId(9), 12));
    h.expect(&[REPLACE]);
    h.answer(REPLACE, replaced(Some(ErrorCode::NODE_EXISTS)));
    h.expect(&["NotConverted: ErrorCode(NODE_EXISTS)"]);
    h.answer("stat own-W7", stat(SESSION, 7));
    h.expect(&["Resumed"]);
}

#[test]
fn if_it_is_unknown_which_node_is_ours_neither_is_kept() {
    let mut h = finding();
    h.answer("sync", refused(ErrorCode::UNIMPLEMENTED));
    h.expect(&["Lost(NodeDeleted)", "delete own-R7", "delete own-W7"]);
    h.deleted(WATCH_WRITER);
    h.answer("delete own-R7", ok());
    h.answer("delete own-W7", refused(ErrorCode::NO_NODE));
    h.expect_last(&[]);
}

#[test]
fn an_unknown_outcome_is_searched_for_later() {
    let mut h = downgrading();
    h.answer(REPLACE, refused(ErrorCode::SYSTEM_ERROR));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.expect(&["sync", "stat own-R7"]);
    h.answer("sync", refused(ErrorCode::SYSTEM_ERROR));
    h.expect(&["timer"]);
    h.feed(Input::Timer);
    h.answer("sync", ok());
    h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
    h.expect(&["sync", "stat own-R7"]);
    // That was the first one. The second one counts.
    h.deleted(WATCH_WRITER);
    h.answer("stat own-R7", stat(SESSION, 12));
    h.expect(&["Converted to own-R7 token 107", "timer"]);
}

#[test]
fn a_malformed_reply_proves_nothing() {
    let error = |err| MultiResult::Error(ErrorResponse { err });
    let neither = [error(ErrorCode::OK), error(ErrorCode::RUNTIME_INCONSISTENCY)];
    for results in [&[][..], &neither] {
        let mut h = downgrading();
        h.answer(REPLACE, reply(OpCode::MULTI, &Multi::new(results)));
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "stat own-R7"]);
    }
}

#[test]
fn a_refusal_leaves_the_writer() {
    for (refusal, reported) in [
        (replaced(Some(ErrorCode::NO_AUTH)), "NotConverted: ErrorCode(NO_AUTH)"),
        (refused(ErrorCode::THROTTLED_OP), "NotConverted: ErrorCode(THROTTLED_OP)"),
        (Err(QUEUE_FULL), "NotConverted: QueueFull { limit: 1 }"),
    ] {
        let mut h = downgrading();
        h.answer(REPLACE, refusal);
        h.expect(&[reported]);
        h.feed(Command::Convert(LockMode::Shared));
        h.expect(&[REPLACE]);
    }
}

#[test]
fn after_a_refusal_the_writer_is_still_watched() {
    let mut h = downgrading();
    h.answer(REPLACE, replaced(Some(ErrorCode::NO_AUTH)));
    h.wanted();
    h.deleted(WATCH_WRITER);
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_deletion_before_the_refusal_is_a_loss() {
    let mut h = downgrading();
    h.deleted(WATCH_WRITER);
    h.expect(&[]);
    h.answer(REPLACE, Err(QUEUE_FULL));
    h.expect_last(&["Lost(NodeDeleted)"]);

    let mut h = finding();
    h.answer("sync", ok());
    h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
    h.expect(&[REPLACE]);
    h.answer("stat own-W7", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch own-W7"]);
    h.answer(REPLACE, refused(ErrorCode::THROTTLED_OP));
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn without_either_node_the_lock_is_lost() {
    // The reader's name may be that of another session's node, which stays.
    for reader in [refused(ErrorCode::NO_NODE), stat(SessionId(9), 12)] {
        let mut h = finding();
        h.deleted(WATCH_WRITER);
        h.answer("sync", ok());
        h.answer("stat own-R7", reader);
        h.expect_last(&["Lost(NodeDeleted)"]);
    }
}

/// The holder may resume on a server that has not applied the deletion yet.
#[test]
fn a_writer_that_is_gone_is_not_looked_for() {
    let mut h = downgrading();
    h.deleted(WATCH_WRITER);
    h.disconnect();
    h.expect(&["sync", "stat own-R7", "Suspended"]);
    h.answer("sync", refused(ErrorCode::THROTTLED_OP));
    h.answer("stat own-R7", refused(ErrorCode::THROTTLED_OP));
    h.expect(&["timer"]);
    h.reconnect();
    h.expect(&[]);
    h.feed(Input::Timer);
    h.expect(&["sync", "stat own-R7"]);
    h.answer("sync", ok());
    h.answer("stat own-R7", stat(SESSION, 12));
    h.expect(&["Converted to own-R7 token 107", WATCH]);
    h.answer(WATCH, ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_look_that_is_refused_meanwhile_is_repeated_afterwards() {
    let mut h = finding();
    h.answer("stat own-W7", Err(QUEUE_FULL));
    h.expect(&["timer"]);
    h.answer("sync", ok());
    h.answer("stat own-R7", refused(ErrorCode::NO_NODE));
    h.answer(REPLACE, replaced(Some(ErrorCode::NO_AUTH)));
    h.expect(&[REPLACE, "NotConverted: ErrorCode(NO_AUTH)", "stat own-W7"]);
    h.answer("stat own-W7", ok());
    h.expect(&["Resumed"]);
}

/// The holder has not learned yet whether its node is watched.
fn downgrading_early() -> Harness {
    let mut h = Harness::of(|config| {
        (config.scheme, config.mode) = (READ_WRITE, LockMode::Exclusive);
        config.revocable = true;
        config.disconnect_policy = DisconnectPolicy::UntilServerReports;
    });
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.feed(Command::Convert(LockMode::Shared));
    assert_eq!(h.wanted()[3..], ["Acquired own-W7 token 107", WATCH_DATA, REPLACE]);
    h
}

#[test]
fn a_reply_from_before_the_end_of_the_lease_resumes_nothing() {
    let mut h = downgrading_early();
    h.feed(Input::LeaseEnded);
    h.expect(&["Suspended", WATCH_DATA, "unwatch data own-W7"]);
    h.answer(WATCH_DATA, data(b"who"));
    h.expect(&[]);
    h.answer(WATCH_DATA, data(b"who"));
    h.expect(&["Resumed"]);
}

#[test]
fn a_request_to_release_is_received_meanwhile() {
    let mut h = downgrading_early();
    h.answer(WATCH_DATA, data(b"who"));
    h.fire(WATCH_DATA, EventType::NODE_DATA_CHANGED);
    h.expect(&[WATCH_DATA]);
    h.answer(WATCH_DATA, data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
}

#[test]
fn data_that_is_too_long_does_not_concern_the_reader() {
    let mut h = downgrading_early();
    let error = Error::ReplyTooLarge { length: 2000, limit: 1024, outcome: Outcome::Applied };
    h.answer(WATCH_DATA, Err(error));
    h.expect(&["unwatch data own-W7", WATCH_WRITER]);
    h.answer(REPLACE, replaced(None));
    h.expect(&["unwatch own-W7", "Converted to own-R7 token 107", "watch data own-R7"]);
}

#[test]
fn a_writer_that_is_gone_is_lost() {
    let mut h = downgrading();
    h.deleted(WATCH_WRITER);
    h.expect(&[]);
    h.answer(REPLACE, replaced(Some(ErrorCode::NO_NODE)));
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_late_event_of_the_writers_deletion_is_no_loss() {
    let mut h = downgrading();
    h.answer(REPLACE, replaced(None));
    h.expect(&["unwatch own-W7", "Converted to own-R7 token 107", "timer"]);
    h.deleted(WATCH_WRITER);
    h.expect(&[]);
}

#[test]
fn an_earlier_timer_does_no_harm() {
    let mut h = downgrading();
    h.feed(Input::Timer);
    h.expect(&[]);
    h.deleted(WATCH_WRITER);
    h.answer(REPLACE, replaced(None));
    h.expect(&["Converted to own-R7 token 107", "timer"]);
}

#[test]
fn a_release_in_between_deletes_both() {
    for (mut h, found) in [(downgrading(), false), (finding(), true)] {
        h.feed(Command::Release);
        h.expect(&["delete own-R7", "delete own-W7"]);
        // Earlier requests do not matter any more.
        if found {
            h.answer("sync", ok());
            h.answer("stat own-R7", stat(SESSION, 12));
        } else {
            h.answer(REPLACE, replaced(None));
        }
        h.expect(&[]);
        h.deleted(WATCH_WRITER);
        h.answer("delete own-R7", ok());
        h.answer("delete own-W7", refused(ErrorCode::NO_NODE));
        h.expect_last(&["Released"]);
    }
}

#[test]
fn a_release_in_between_without_a_connection_deletes_both() {
    let mut h = downgrading();
    h.feed(Command::Release);
    h.expect(&["delete own-R7", "delete own-W7"]);
    h.disconnect();
    h.expect(&["delete own-R7", "delete own-W7"]);
    h.reconnect();
    h.answer("delete own-R7", refused(ErrorCode::NO_NODE));
    h.deleted(WATCH_WRITER);
    h.answer("delete own-W7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_lock_lost_in_between_deletes_both() {
    let mut h = Harness::of(|config| {
        (config.scheme, config.mode) = (READ_WRITE, LockMode::Exclusive);
        config.disconnect_policy = DisconnectPolicy::UntilLeaseEnds;
    });
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.feed(Command::Convert(LockMode::Shared));
    h.wanted();
    h.disconnect();
    h.expect(&["sync", "stat own-R7", "Suspended"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Lost(LeaseEnded)", "delete own-R7", "delete own-W7"]);
}

#[test]
fn the_end_of_the_session_in_between_loses_the_lock() {
    for mut h in [downgrading(), finding()] {
        h.expire();
        h.expect_last(&["Lost(Ended(Expired))"]);
    }
}

#[test]
fn without_a_connection_it_waits_for_one() {
    let mut h = held();
    h.disconnect();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&["Suspended", REPLACE]);
    // The transaction is sent only now.
    h.reconnect();
    h.expect(&["stat own-W7"]);
    h.deleted(WATCH_WRITER);
    h.answer(REPLACE, replaced(None));
    h.expect(&["Converted to own-R7 token 107", WATCH]);
    h.answer(WATCH, ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_lock_that_is_not_held_is_not_converted() {
    let mut h = Harness::reader_or_writer(LockMode::Exclusive);
    h.wanted();
    h.feed(Command::Convert(LockMode::Shared));
    h.expect(&[]);
}
