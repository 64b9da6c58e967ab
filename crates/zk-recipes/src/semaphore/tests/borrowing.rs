//! From the first request to the permits, and their release.

use alloc::format;
use alloc::string::ToString;

use zk_session::proto::{ErrorCode, EventType};
use zk_session::session::State;

use super::super::super::tests::{BEFORE, CONNECTED, READ_ONLY, data, lost, ok, refused};
use super::harness::{Harness, children, created, maximum};
use crate::attempt::{AttemptConfig, DisconnectPolicy, LockMode, Machine, Scheme, WaitPolicy};
use crate::semaphore::PermitRequest;
use crate::tests::{Command, Input};

#[test]
fn free_permits_cost_two_round_trips_and_their_release_one() {
    let mut h = Harness::new().held();
    h.answer("delete locks/own-7", ok());
    h.feed(Command::Release);
    h.expect(&["delete leases/own-3", "delete leases/own-4"]);
    h.answer("delete leases/own-3", ok());
    h.expect(&[]);
    h.answer("delete leases/own-4", ok());
    h.expect_last(&["Released"]);
}

#[test]
fn a_waiter_counts_again_when_permit_nodes_change() {
    let mut h = Harness::new().waiting();
    h.leases_change();
    h.expect(&["watch leases"]);
    h.full("watch leases");
    // That it waits is reported once.
    h.expect(&[]);
    h.leases_change();
    h.expect(&["watch leases"]);
    h.answer("watch leases", children(&["leases/b-2", "leases/own-3", "leases/own-4"]));
    h.expect(&[
        "unwatch leases",
        "unwatch max",
        "Permits leases/own-3 leases/own-4",
        "Acquired leases/own-3 token 100",
        "delete locks/own-7",
    ]);
}

#[test]
fn a_renewed_watch_reports_changed_permit_nodes_or_a_changed_maximum() {
    let mut h = Harness::new().waiting();
    h.full_again();
    h.expect(&[]);
    h.renewed("watch max", maximum(3));
    h.expect(&[]);
    h.renewed("watch leases", children(&["leases/b-2", "leases/own-3", "leases/own-4"]));
    assert_eq!(h.wanted()[3], "Acquired leases/own-3 token 100");

    let mut h = Harness::new().waiting();
    h.renewed("watch max", maximum(4));
    assert_eq!(h.wanted()[3], "Acquired leases/own-3 token 100");
}

#[test]
fn permit_nodes_behind_ours_do_not_block() {
    let mut h = Harness::new().counting();
    let permit_nodes = ["leases/a-1", "leases/own-3", "leases/own-4", "leases/b-5"];
    h.answer("watch leases", children(&permit_nodes));
    assert!(h.wanted().iter().any(|line| line.starts_with("Acquired")));
}

#[test]
fn the_maximum_is_raised_while_we_wait() {
    let mut h = Harness::new().waiting();
    h.maximum_changes();
    h.expect(&["watch max"]);
    h.answer("watch max", maximum(4));
    assert_eq!(h.wanted()[3], "Acquired leases/own-3 token 100");
}

#[test]
fn permits_are_not_granted_by_a_maximum_that_has_changed() {
    let mut h = Harness::new().waiting();
    h.maximum_changes();
    h.expect(&["watch max"]);
    h.leases_change();
    h.expect(&["watch leases"]);
    h.answer("watch leases", children(&["leases/b-2", "leases/own-3", "leases/own-4"]));
    h.expect(&[]);
    h.answer("watch max", maximum(2));
    h.expect(&[]);
    h.leases_change();
    h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
    assert_eq!(h.wanted()[4], "Acquired leases/own-3 token 100");
}

#[test]
fn an_unrelated_timer_repeats_nothing() {
    let mut h = Harness::new().creating();
    // The mutex is held long enough for its node to be watched.
    h.feed(Input::Timer);
    h.expect(&["watch locks/own-7"]);
    h.answer("create 2 leases", created(&[3, 4]));
    h.expect(&["timer", "timer"]);
    h.answer("watch max", maximum(3));
    h.full("watch leases");
    h.feed(Input::Timer);
    h.expect(&["Waiting behind leases", "watch leases/own-3", "watch leases/own-4"]);
}

#[test]
fn permits_are_resumed_after_a_permit_node_was_deleted_during_a_disconnect() {
    let mut h = Harness::new().waiting();
    h.feed(Input::Timer);
    h.expect(&["watch leases/own-3", "watch leases/own-4", "watch locks/own-7"]);
    h.answer("watch leases/own-3", ok());
    h.answer("watch leases/own-4", ok());
    h.answer("watch locks/own-7", ok());
    h.disconnect();
    h.reconnect();
    h.expect(&["stat leases/own-3", "stat leases/own-4", "stat locks/own-7"]);
    h.answer("stat leases/own-3", refused(ErrorCode::NO_NODE));
    h.expect(&[
        "unwatch leases/own-3",
        "delete leases/own-4",
        "create 2 leases",
        "watch leases",
        "unwatch leases",
    ]);
    h.answer("create 2 leases", created(&[5, 6]));
    h.fire_if_set("watch leases/own-4", EventType::NODE_DELETED);
    h.answer("delete leases/own-4", ok());
    h.answer("watch leases", children(&["leases/own-5", "leases/own-6"]));
    // The node is a new one, and nothing is suspended.
    h.expect(&[
        "timer",
        "timer",
        "unwatch leases",
        "unwatch max",
        "Permits leases/own-5 leases/own-6",
        "Acquired leases/own-5 token 100",
        "delete locks/own-7",
    ]);
}

#[test]
fn permits_are_not_granted_while_a_permit_node_is_unverified() {
    let mut h = Harness::new().waiting();
    h.disconnect();
    h.leases_change();
    h.expect(&["watch leases"]);
    h.reconnect();
    h.expect(&["watch leases/own-3", "watch leases/own-4", "watch locks/own-7"]);
    h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
    h.expect(&[]);
    h.answer("watch leases/own-3", ok());
    h.expect(&[]);
    h.answer("watch leases/own-4", ok());
    assert_eq!(h.wanted()[3], "Acquired leases/own-3 token 100");
}

#[test]
fn all_permits_are_suspended_and_resumed_together() {
    let mut h = Harness::new().held();
    h.disconnect();
    h.expect(&["delete locks/own-7", "Suspended"]);
    h.reconnect();
    h.expect(&["watch leases/own-3", "watch leases/own-4"]);
    h.answer("watch leases/own-3", ok());
    h.expect(&[]);
    h.answer("watch leases/own-4", ok());
    h.expect(&["Resumed"]);
}

#[test]
fn permits_follow_the_disconnect_policy() {
    let until = |disconnect_policy: DisconnectPolicy| {
        Harness::of(|request| request.config.disconnect_policy = disconnect_policy).held()
    };
    let mut h = until(DisconnectPolicy::WhileConnected);
    h.disconnect();
    assert_eq!(h.wanted()[1], "Lost(Disconnected)");
    let mut h = until(DisconnectPolicy::UntilLeaseEnds);
    h.disconnect();
    h.expect(&["delete locks/own-7", "Suspended"]);
    h.feed(Input::LeaseEnded);
    assert_eq!(h.wanted()[0], "Lost(LeaseEnded)");
    // A waiter has nothing to lose yet.
    let mut h =
        Harness::of(|request| request.config.disconnect_policy = DisconnectPolicy::WhileConnected)
            .waiting();
    h.disconnect();
    h.expect(&[]);
}

#[test]
fn the_loss_of_one_permit_node_loses_all_permits() {
    let mut h = Harness::new().held();
    h.answer("delete locks/own-7", ok());
    h.feed(Input::Timer);
    h.expect(&["watch leases/own-3", "watch leases/own-4"]);
    h.answer("watch leases/own-4", ok());
    h.fire_if_set("watch leases/own-4", EventType::NODE_DELETED);
    h.expect(&["Lost(NodeDeleted)", "delete leases/own-3"]);
    h.answer("delete leases/own-3", ok());
    h.expect_last(&["unwatch leases/own-3"]);
}

#[test]
fn a_request_to_release_is_reported_once() {
    let mut h = Harness::of(|request| request.config.revocable = true).queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h.answer("create 2 leases", created(&[3, 4]));
    h.answer("watch max", maximum(3));
    h.wanted();
    h.answer("watch leases/own-3", data(AttemptConfig::REVOKE));
    h.answer("watch leases/own-4", data(AttemptConfig::REVOKE));
    h.expect(&[]);
    h.answer("watch leases", children(&["leases/own-3", "leases/own-4"]));
    let revoked = h.wanted().into_iter().filter(|line| line == "Revoked").count();
    assert_eq!(revoked, 1);
}

fn trying() -> Harness {
    let mut h = Harness::of(|request| request.config.wait_policy = WaitPolicy::OnlyIfFree);
    h.expect(&[]);
    h.feed(Input::Timer);
    h.expect(&[]);
    h.feed(Input::State(CONNECTED));
    h
}

#[test]
fn a_try_creates_nothing_if_there_are_too_few_permits() {
    let mut h = trying();
    h.expect(&["watch leases", "watch max"]);
    h.answer("watch leases", children(&["leases/a-1", "leases/b-2"]));
    h.answer("watch max", maximum(3));
    h.expect_last(&["Failed: Busy", "unwatch leases", "unwatch max"]);
    let mut h = trying();
    h.wanted();
    h.answer("watch leases", children(&["leases/a-1"]));
    h.answer("watch max", maximum(3));
    h.expect(&["unwatch leases", "unwatch max", "list locks"]);
    assert!(!h.machine.is_done());
}

#[test]
fn a_try_creates_the_semaphore_unless_it_must_exist() {
    let trying = |maximum| {
        let mut h = Harness::of(|request| {
            (request.config.wait_policy, request.maximum) = (WaitPolicy::OnlyIfFree, maximum);
        });
        h.feed(Input::State(CONNECTED));
        h.expect(&["watch leases", "watch max"]);
        h
    };
    let missing = || refused(ErrorCode::NO_NODE);
    let mut h = trying(Some(3));
    h.answer("watch max", missing());
    h.expect(&["unwatch max", "unwatch leases", "list locks"]);
    let mut h = trying(None);
    h.answer("watch max", missing());
    h.expect_last(&["unwatch max", "Refused: NoMaximum", "unwatch leases"]);
    // There is no permit node yet.
    let mut h = trying(Some(3));
    h.answer("watch leases", missing());
    h.expect(&["unwatch leases"]);
    h.answer("watch max", maximum(3));
    h.expect(&["unwatch max", "list locks"]);
    let mut h = trying(Some(3));
    h.answer("watch leases", refused(ErrorCode::NO_AUTH));
    h.expect_last(&["unwatch leases", "Failed: ErrorCode(NO_AUTH)", "unwatch max"]);
}

#[test]
fn permit_nodes_whose_parent_is_deleted_are_created_again() {
    let mut h = Harness::new().waiting();
    h.leases_change();
    h.answer("watch leases", refused(ErrorCode::NO_NODE));
    let lines = h.wanted();
    assert!(lines.contains(&"create 2 leases".to_string()), "{lines:?}");
}

#[test]
fn the_queue_is_a_mutex_whatever_the_configuration() {
    let config = |request: &mut PermitRequest| {
        request.config.scheme = Scheme::CURATOR_READ_WRITE;
        request.config.mode = LockMode::Shared;
        request.config.hint_cell = crate::tests::Hints::beginning_with(Some(BEFORE));
    };
    Harness::of(config).creating();
}

#[test]
fn one_permit_is_granted_without_a_list_of_permits() {
    let mut h = Harness::of(|request| request.permits = 1).queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h.answer("create 1 leases", created(&[3]));
    h.answer("watch max", maximum(3));
    h.wanted();
    h.answer("watch leases", children(&["leases/own-3"]));
    let acquired = "Acquired leases/own-3 token 100";
    h.expect(&["unwatch leases", "unwatch max", acquired, "delete locks/own-7"]);
}

#[test]
fn only_many_permits_are_asked_for_first() {
    for (permits, asks) in [(100, false), (101, true)] {
        let mut h = Harness::of(|request| {
            (request.permits, request.maximum) = (permits, Some(200));
        })
        .queueing();
        h.answer("list locks", children(&["locks/own-7"]));
        let creates = h.wanted().contains(&format!("create {permits} leases"));
        assert_eq!(creates, !asks, "{permits}");
    }
}

fn asking() -> Harness {
    let mut h = Harness::of(|request| request.config.wait_policy = WaitPolicy::OnlyIfFirst);
    h.expect(&[]);
    h.feed(Input::State(CONNECTED));
    h
}

#[test]
fn only_if_first_acquires_free_permits_and_fails_otherwise() {
    let counting = |taken: &[&str]| {
        let mut h = asking().queueing();
        h.answer("list locks", children(&["locks/own-7"]));
        h.answer("create 2 leases", created(&[3, 4]));
        h.answer("watch max", maximum(3));
        h.wanted();
        let ours = ["leases/own-3", "leases/own-4"];
        h.answer("watch leases", children(&[taken, &ours].concat()));
        h.wanted()
    };
    let free = counting(&["leases/a-1"]);
    assert!(free.contains(&"Acquired leases/own-3 token 100".to_string()), "{free:?}");
    let busy = counting(&["leases/a-1", "leases/b-2"]);
    assert!(busy.contains(&"Failed: TimedOut".to_string()), "{busy:?}");
    for gone in ["delete leases/own-3", "delete leases/own-4", "delete locks/own-7"] {
        assert!(busy.contains(&gone.to_string()), "{busy:?}");
    }

    let mut h = asking().queueing();
    h.wanted();
    h.answer("list locks", children(&["locks/a-6", "locks/own-7"]));
    h.expect(&["delete locks/own-7", "Failed: TimedOut"]);
}

#[test]
fn only_if_first_and_only_if_free_begin_with_a_connection() {
    for wait_policy in [WaitPolicy::OnlyIfFirst, WaitPolicy::OnlyIfFree] {
        for state in [State::Connecting, State::Suspended, READ_ONLY] {
            let mut h = Harness::of(|request| request.config.wait_policy = wait_policy);
            h.feed(Input::State(state));
            h.expect_last(&["Failed: NoConnection"]);
        }
        let mut h = Harness::of(|request| request.config.wait_policy = wait_policy);
        h.feed(Command::Release);
        h.expect_last(&["Released"]);
    }
}

#[test]
fn only_if_free_fails_with_the_connection_and_leaves_nothing() {
    let mut h = trying();
    h.wanted();
    h.reconnect();
    h.expect(&[]);
    h.disconnect();
    h.expect_last(&["Failed: NoConnection", "unwatch leases", "unwatch max"]);

    let looked = || {
        let mut h = trying();
        h.answer("watch leases", children(&["leases/a-1"]));
        h.answer("watch max", maximum(3));
        h.wanted();
        h.answer("list locks", children(&[]));
        h
    };
    let mut h = looked();
    h.wanted();
    h.answer("enter", lost());
    h.expect(&["Failed: NoConnection", "sync locks", "list locks"]);

    let mut h = looked().queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h.answer("create 2 leases", created(&[3, 4]));
    h.wanted();
    h.disconnect();
    assert_eq!(h.wanted()[0], "Failed: NoConnection");
    h.reconnect();
    for gone in ["delete leases/own-3", "delete leases/own-4", "delete locks/own-7"] {
        h.answer(gone, ok());
    }
    h.expect_last(&[]);
}

#[test]
fn only_if_first_fails_with_the_connection() {
    let mut h = asking().queueing();
    h.answer("list locks", children(&["locks/own-7"]));
    h.wanted();
    h.disconnect();
    assert_eq!(h.wanted()[0], "Failed: NoConnection");
}
