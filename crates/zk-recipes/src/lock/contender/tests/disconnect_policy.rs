//! How long a lock counts as held without a connection.

use crate::tests::*;

fn held_with(disconnect_policy: DisconnectPolicy) -> Harness {
    let mut h = Harness::of(|config| config.disconnect_policy = disconnect_policy);
    h.created(7);
    h.answer("list", children(&["own-7"]));
    h.feed(Input::Timer);
    h.answer("watch own-7", ok());
    h.wanted();
    h
}

#[test]
fn the_lock_is_held_until_a_server_reports() {
    let mut h = held_with(DisconnectPolicy::UntilServerReports);
    h.disconnect();
    h.expect(&["Suspended"]);
    h.feed(Input::LeaseEnded);
    h.expect(&[]);
    h.reconnect();
    h.answer("stat own-7", ok());
    h.expect(&["stat own-7", "Resumed"]);
}

#[test]
fn the_lock_is_lost_when_the_lease_ends() {
    let mut h = held_with(DisconnectPolicy::UntilLeaseEnds);
    h.disconnect();
    h.expect(&["Suspended"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Lost(LeaseEnded)", "delete own-7"]);
    // The session still exists. The lock stays lost, and the node is deleted.
    h.reconnect();
    h.expect(&[]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn the_lock_is_kept_when_the_connection_is_back_before_the_lease_ends() {
    let mut h = held_with(DisconnectPolicy::UntilLeaseEnds);
    h.disconnect();
    h.reconnect();
    h.expect(&["Suspended", "stat own-7"]);
    h.answer("stat own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn the_lock_is_lost_when_the_lease_ends_on_a_live_connection() {
    for disconnect_policy in [DisconnectPolicy::UntilLeaseEnds, DisconnectPolicy::WhileConnected] {
        let mut h = held_with(disconnect_policy);
        h.feed(Input::LeaseEnded);
        h.expect(&["Lost(LeaseEnded)", "delete own-7"]);
    }
}

#[test]
fn a_lock_held_until_a_server_reports_is_verified_when_the_lease_ends() {
    let mut h = held_with(DisconnectPolicy::UntilServerReports);
    h.feed(Input::LeaseEnded);
    h.expect(&["Suspended", "stat own-7"]);
    h.feed(Input::LeaseEnded);
    h.expect(&[]);
    // These replies to renewals of the watch may be older.
    for older in [ok(), refused(ErrorCode::NO_AUTH)] {
        h.renewed("watch own-7", older);
        h.expect(&[]);
    }
    h.answer("stat own-7", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn the_lock_is_lost_when_the_lease_ends_during_verification() {
    let mut h = held_with(DisconnectPolicy::UntilLeaseEnds);
    h.disconnect();
    h.reconnect();
    h.expect(&["Suspended", "stat own-7"]);
    h.feed(Input::LeaseEnded);
    h.expect(&["Lost(LeaseEnded)", "delete own-7"]);
    h.answer("stat own-7", ok());
    h.expect(&[]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn the_lock_is_lost_with_the_connection() {
    let mut h = held_with(DisconnectPolicy::WhileConnected);
    h.disconnect();
    h.expect(&["Lost(Disconnected)", "delete own-7"]);
    h.reconnect();
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_lock_acquired_without_a_connection_is_lost_at_once() {
    let mut h = Harness::of(|config| config.disconnect_policy = DisconnectPolicy::WhileConnected);
    h.created(7);
    h.feed(Input::State(State::Suspended));
    h.answer("list", children(&["own-7"]));
    let reported = ["Enqueued own-7 token 107", "Acquired own-7 token 107", "Lost(Disconnected)"];
    h.expect(&[&["create", "list"][..], &reported, &["delete own-7"]].concat());
}

#[test]
fn a_lock_acquired_after_its_lease_has_ended_is_lost_at_once() {
    let mut h = Harness::of(|config| config.disconnect_policy = DisconnectPolicy::UntilLeaseEnds);
    h.created(7);
    h.feed(Input::State(State::Suspended));
    h.feed(Input::LeaseEnded);
    h.answer("list", children(&["own-7"]));
    let reported = ["Enqueued own-7 token 107", "Acquired own-7 token 107", "Lost(LeaseEnded)"];
    h.expect(&[&["create", "list"][..], &reported, &["delete own-7"]].concat());
}

#[test]
fn a_waiter_waits_on_with_every_policy() {
    for disconnect_policy in [
        DisconnectPolicy::UntilServerReports,
        DisconnectPolicy::UntilLeaseEnds,
        DisconnectPolicy::WhileConnected,
    ] {
        let mut h = Harness::of(|config| config.disconnect_policy = disconnect_policy);
        h.created(7);
        h.answer("list", children(&["a-5", "b-6", "own-7"]));
        h.answer("watch b-6", ok());
        h.wanted();
        h.disconnect();
        h.feed(Input::LeaseEnded);
        h.reconnect();
        h.expect(&[]);
        h.deleted("watch b-6");
        h.expect(&["unwatch b-6", "list"]);
        h.answer("list", children(&["own-7"]));
        assert_eq!(h.wanted()[0], "Acquired own-7 token 107", "{disconnect_policy:?}");
    }
}

/// Events may still arrive when requests reach no server. So the predecessor's deletion does not
/// show that our own node still exists.
#[test]
fn a_waiter_whose_lease_has_ended_lists_again_before_it_holds() {
    for is_taking_over in [false, true] {
        let mut h = Harness::second();
        h.has_more = true;
        if is_taking_over {
            h.deleted("watch a-5");
            h.feed(Input::LeaseEnded);
        } else {
            h.feed(Input::LeaseEnded);
            h.deleted("watch a-5");
        }
        h.feed(Input::Settled);
        assert!(h.wanted().contains(&"list".to_string()), "taking over: {is_taking_over}");
        h.answer("list", refused(ErrorCode::SESSION_EXPIRED));
        h.expire();
        h.expect_last(&["timer", "Failed: Ended(Expired)"]);
    }
}
