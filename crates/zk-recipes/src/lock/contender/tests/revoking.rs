//! Requests of other clients to release the lock.

use crate::tests::*;

const WATCH: &str = "watch data own-7";

fn enqueued() -> Harness {
    let mut h = Harness::of(|config| config.revocable = true);
    h.created(7);
    h.expect(&["create", "list", "Enqueued own-7 token 107"]);
    h
}

fn held() -> Harness {
    let mut h = enqueued();
    h.answer("list", children(&["own-7"]));
    // At once, without a delay.
    h.expect(&["Acquired own-7 token 107", WATCH]);
    h
}

#[test]
fn the_holder_is_notified_once() {
    let mut h = held();
    h.answer(WATCH, data(b"who"));
    h.expect(&[]);
    h.fire(WATCH, EventType::NODE_DATA_CHANGED);
    h.expect(&[WATCH]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
    // Again after a reconnect.
    h.fire(WATCH, EventType::NODE_DATA_CHANGED);
    h.expect(&[WATCH]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&[]);
    h.disconnect();
    h.reconnect();
    h.expect(&["Suspended", "stat own-7"]);
    h.fire(WATCH, EventType::NODE_DATA_CHANGED);
    h.expect(&[WATCH]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&["Resumed"]);
}

#[test]
fn other_data_is_no_revocation_and_sets_the_watch_again() {
    let mut h = held();
    h.answer(WATCH, data(b"who"));
    for _ in 0..3 {
        h.fire(WATCH, EventType::NODE_DATA_CHANGED);
        h.expect(&[WATCH]);
        h.answer(WATCH, data(b"revoke?"));
        h.expect(&[]);
    }
    h.deleted(WATCH);
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn data_that_is_too_long_is_no_revocation_and_the_node_is_still_watched() {
    let mut h = held();
    let error = Error::ReplyTooLarge { length: 2000, limit: 1024, outcome: Outcome::Applied };
    h.answer(WATCH, Err(error.clone()));
    h.expect(&["unwatch data own-7", "watch own-7"]);
    // The first error was about the data, so this one is a fault of the server.
    h.answer("watch own-7", Err(error));
    h.expect(&["unwatch own-7", "timer"]);
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", ok());
    h.disconnect();
    h.reconnect();
    h.expect(&["Suspended", "stat own-7"]);
    h.answer("stat own-7", ok());
    h.expect(&["Resumed"]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_revocation_before_the_acquisition_is_reported_then() {
    let mut h = held();
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
}

#[test]
fn a_revocation_while_waiting_is_reported_at_the_acquisition() {
    // Second in line, so our own node is watched.
    let mut h = enqueued();
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["Waiting behind a-5, 1 ahead", WATCH, "watch a-5"]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.answer("watch a-5", ok());
    h.expect(&[]);
    h.deleted("watch a-5");
    h.expect(&["Acquired own-7 token 107", "Revoked"]);

    let mut h = enqueued();
    h.answer("list", children(&["a-5", "own-7"]));
    h.answer(WATCH, data(b"who"));
    h.answer("watch a-5", ok());
    h.wanted();
    // The event uses up the watch, so there is no takeover.
    h.fire(WATCH, EventType::NODE_DATA_CHANGED);
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", WATCH]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
}

#[test]
fn a_revocation_without_a_connection_is_reported_after_the_reconnect() {
    let mut h = held();
    h.answer(WATCH, data(b"who"));
    h.disconnect();
    h.reconnect();
    h.expect(&["Suspended", "stat own-7"]);
    // The session has set the watch again, and the server reports what was missed.
    h.fire(WATCH, EventType::NODE_DATA_CHANGED);
    h.expect(&[WATCH]);
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.expect(&["Resumed", "Revoked"]);
}

#[test]
fn a_contender_that_is_not_revocable_reads_no_data() {
    let mut h = Harness::held_and_watched();
    h.fire("watch own-7", EventType::NODE_DATA_CHANGED);
    h.expect(&["watch own-7"]);
}

#[test]
fn a_release_on_revocation_leaves_nothing() {
    let mut h = held();
    h.answer(WATCH, data(AttemptConfig::REVOKE));
    h.feed(Command::Release);
    h.expect(&["Revoked", "delete own-7"]);
    h.deleted(WATCH);
    h.answer("delete own-7", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_downgraded_reader_stays_revocable() {
    let mut h = Harness::of(|config| {
        (config.scheme, config.mode) = (READ_WRITE, LockMode::Exclusive);
        config.revocable = true;
    });
    h.created_as("create W", "own-W7", czxid(7));
    h.answer("list", children(&["own-W7"]));
    h.answer("watch data own-W7", data(b"who"));
    h.feed(Command::Convert(LockMode::Shared));
    h.answer("replace own-W7 by own-R7", replaced(None));
    let lines = h.wanted();
    assert_eq!(lines[lines.len() - 2..], ["Converted to own-R7 token 107", "watch data own-R7"]);
    h.answer("watch data own-R7", data(AttemptConfig::REVOKE));
    h.expect(&["Revoked"]);
}
