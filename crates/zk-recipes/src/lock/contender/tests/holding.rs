//! A held lock, and how its loss is noticed.

use crate::tests::*;

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
fn a_missing_node_is_a_loss() {
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.answer("watch own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_watch_that_fired_is_set_again() {
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
        h.feed(Input::State(State::Suspended));
        h.expect(&[]);
        h.reconnect();
        // The session sets the watch again by itself.
        h.expect(&["stat own-7"]);
        h.answer("stat own-7", ok());
        h.expect(&["Resumed"]);
    }
}

#[test]
fn a_lock_lost_meanwhile_is_not_resumed() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.answer("stat own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Lost(NodeDeleted)"]);
}

#[test]
fn a_connection_lost_during_verification_leaves_it_suspended() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.disconnect();
    h.expect(&[]);
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.answer("stat own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn a_connection_lost_during_verification_leaves_the_watch() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.disconnect();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_reply_from_before_the_disconnect_resumes_nothing() {
    // Requested and answered before the disconnect, but delivered only now.
    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.feed(Input::State(State::Suspended));
    h.expect(&["Suspended"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);

    let mut h = Harness::held();
    h.feed(Input::Timer);
    h.expect(&["watch own-7"]);
    h.feed(Input::State(State::Suspended));
    h.reconnect();
    h.expect(&["Suspended", "watch own-7", "unwatch own-7"]);
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.answer("watch own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn an_unseen_disconnect_is_verified_without_an_event() {
    let mut h = Harness::held_and_watched();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.answer("stat own-7", ok());
    h.expect(&[]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_refused_verification_is_repeated() {
    for result in
        [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP), refused(ErrorCode::SYSTEM_ERROR)]
    {
        let mut h = Harness::suspended();
        h.reconnect();
        h.expect(&["stat own-7"]);
        h.answer("stat own-7", result);
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["stat own-7"]);
        h.answer("stat own-7", ok());
        h.expect(&["Resumed"]);
        h.feed(Input::Timer);
        h.expect(&[]);
    }
}

/// The watch that the session has set again still reports it.
#[test]
fn a_deletion_after_a_refused_verification_is_noticed() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.answer("stat own-7", Err(QUEUE_FULL));
    h.expect(&["stat own-7", "timer"]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn an_unreadable_node_exists() {
    let mut h = Harness::suspended();
    h.reconnect();
    h.expect(&["stat own-7"]);
    h.answer("stat own-7", refused(ErrorCode::NO_AUTH));
    h.expect(&["Resumed"]);
    // It may be readable again by then.
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_renewal_that_an_access_control_list_refuses_leaves_the_watch() {
    let mut h = Harness::held_and_watched();
    h.renewed("watch own-7", refused(ErrorCode::NO_AUTH));
    h.expect(&[]);
    h.deleted("watch own-7");
    h.expect_last(&["Lost(NodeDeleted)"]);
}

#[test]
fn a_lock_acquired_without_a_connection_is_suspended_at_once() {
    let mut h = Harness::deciding();
    // The list was answered before the disconnect, and delivered after it.
    h.feed(Input::State(State::Suspended));
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "Suspended"]);
    // Without a connection, a request would be useless.
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
        h.feed(Input::State(State::Ended(end)));
        h.expect_last(&[&*format!("Lost(Ended({end:?}))")]);
    }
}
