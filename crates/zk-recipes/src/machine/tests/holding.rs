//! The lock while it is held: noticing that it is lost.

use super::*;

#[test]
fn a_lock_held_for_long_watches_its_node() {
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.feed(Input::Timer);
    h.expect(&[]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_node_that_is_gone_when_it_is_to_be_watched_is_lost() {
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_watch_that_is_used_up_is_set_again() {
    let mut h = Harness::held_and_watched();
    h.fire("watch own-7", EventType::NODE_CHILDREN_CHANGED);
    h.expect(&["watch own-7"]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_watch_that_was_refused_is_tried_again_later() {
    for result in
        [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP), refused(ErrorCode::SYSTEM_ERROR)]
    {
        let mut h = Harness::held();
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
        h.answer("watch own-7", result);
        h.expect(&["unwatch own-7", "timer"]);
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
    }
}

#[test]
fn suspension_and_resumption_alternate() {
    let mut h = Harness::held_and_watched();
    for _ in 0..3 {
        h.disconnect();
        h.expect(&["Suspended"]);
        h.feed(Input::Session(State::Suspended));
        h.expect(&[]);
        h.reconnect();
        // The new watch first, so that the server, which knows only one, keeps it.
        h.expect(&["watch own-7", "unwatch own-7"]);
        h.answer("watch own-7", ok());
        h.expect(&["Resumed"]);
    }
}

#[test]
fn a_lock_that_was_lost_meanwhile_is_not_resumed() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["watch own-7", "unwatch own-7"]);
    h.answer("watch own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_connection_lost_during_verification_leaves_it_suspended() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["watch own-7", "unwatch own-7"]);
    h.disconnect();
    assert!(!h.wanted().contains(&"Suspended".to_string()));
    h.reconnect();
    assert_eq!(h.wanted()[0], "watch own-7");
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn an_answer_from_before_the_loss_resumes_nothing() {
    // Asked for before the connection was lost, and answered before, but told only now.
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.feed(Input::Session(State::Suspended));
    h.expect(&["Suspended"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);

    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.feed(Input::Session(State::Suspended));
    h.reconnect();
    h.expect(&["Suspended", "watch own-7", "unwatch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_loss_of_which_only_the_end_was_seen_is_verified_in_silence() {
    let mut h = Harness::held_and_watched();
    h.reconnect();
    h.expect(&["watch own-7", "unwatch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_verification_that_was_refused_proves_nothing_and_is_repeated() {
    for result in
        [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP), refused(ErrorCode::SYSTEM_ERROR)]
    {
        let mut h = Harness::suspended();
        h.reconnect();
        h.expect(&["watch own-7", "unwatch own-7"]);
        h.answer("watch own-7", result);
        h.expect(&["unwatch own-7", "timer"]);
        h.feed(Input::Timer);
        h.expect(&["watch own-7"]);
        h.answer("watch own-7", ok());
        h.expect(&["Resumed"]);
    }
}

#[test]
fn a_node_that_may_not_be_read_is_there() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["watch own-7", "unwatch own-7"]);
    h.answer("watch own-7", refused(ErrorCode::NO_AUTH));
    h.expect(&["unwatch own-7", "Resumed"]);
}

#[test]
fn a_lock_acquired_without_a_connection_is_suspended_at_once() {
    let mut h = Harness::deciding();
    // The list was answered before the connection was lost, and told after.
    h.feed(Input::Session(State::Suspended));
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "Suspended"]);
    // Without a connection there is no point in asking.
    h.feed(Input::Timer);
    h.expect(&[]);
    h.reconnect();
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn the_end_of_the_session_loses_the_lock() {
    for (mut h, end) in [(Harness::held(), End::Closed), (Harness::suspended(), End::Expired)] {
        h.feed(Input::Session(State::Ended(end)));
        h.expect_last(&[&*format!("Lost(Ended({end:?}))")]);
    }
}
