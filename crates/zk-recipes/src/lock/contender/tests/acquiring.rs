//! From the first request to the lock.

use crate::tests::*;

#[test]
fn a_free_lock_costs_one_round_trip() {
    let mut h = Harness::new();
    h.expect(&["create", "list"]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
    assert!(!h.machine.is_done());
}

#[test]
fn the_second_in_line_takes_over_without_a_request() {
    let mut h = Harness::second();
    h.deleted("watch a-5");
    // No timer: the node is watched already.
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn the_third_in_line_lists_again_when_woken() {
    let mut h = Harness::third();
    h.deleted("watch b-6");
    h.expect(&["unwatch b-6", "list"]);
    // A node in the middle of the queue was deleted (H11).
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["Waiting behind a-5, 1 ahead", "watch own-7", "watch a-5"]);
}

#[test]
fn a_changed_predecessor_only_sets_the_watch_again() {
    for mut h in [Harness::second(), Harness::third()] {
        let watch = h.asked.last().expect("a watch").line.clone();
        h.fire(&watch, EventType::NODE_CHILDREN_CHANGED);
        h.expect(&[&*watch]);
    }
}

#[test]
fn our_own_deletion_reported_first_fails_the_attempt() {
    let mut h = Harness::second();
    h.deleted("watch own-7");
    h.expect_last(&["Failed: NodeVanished", "unwatch a-5"]);
}

#[test]
fn no_takeover_while_our_own_watch_is_unconfirmed() {
    let mut h = Harness::second_unconfirmed();
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
    // Our own watch was confirmed after all, but the list decides now.
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn no_takeover_if_our_own_watch_was_refused() {
    for code in [ErrorCode::NO_AUTH, ErrorCode::THROTTLED_OP] {
        let mut h = Harness::second_unconfirmed();
        h.answer("watch own-7", refused(code));
        h.expect(&["unwatch own-7"]);
        h.answer("watch a-5", ok());
        h.deleted("watch a-5");
        h.expect(&["unwatch a-5", "list"]);
    }
}

#[test]
fn no_takeover_if_our_own_watch_has_fired() {
    let mut h = Harness::second();
    h.fire("watch own-7", EventType::NODE_CHILDREN_CHANGED);
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
}

#[test]
fn a_missing_own_node_fails_the_attempt() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Failed: NodeVanished", "unwatch a-5"]);
}

#[test]
fn no_takeover_after_a_reconnect() {
    // Missed events do not arrive in the order of transactions.
    type Flap = fn(&mut Harness);
    let flaps: [Flap; 3] = [
        |h| {
            h.disconnect();
            h.reconnect();
        },
        // Only the reconnect was noticed, or so far only the disconnect.
        |h| h.reconnect(),
        |h| h.disconnect(),
    ];
    for flap in flaps {
        let mut h = Harness::second();
        flap(&mut h);
        h.expect(&[]);
        h.deleted("watch a-5");
        h.expect(&["unwatch a-5", "list"]);
        h.answer("list", children(&["own-7"]));
        assert_eq!(h.wanted()[0], "Acquired own-7 token 107");
    }
}

#[test]
fn a_watch_that_was_lost_with_its_connection_is_replaced() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", ok());
    h.disconnect();
    h.expect(&["unwatch a-5", "list"]);
    h.reconnect();
    h.answer("list", children(&["a-5", "own-7"]));
    // Our own watch still exists, and both belong to one connection again.
    h.expect(&["Waiting behind a-5, 1 ahead", "watch a-5"]);
    h.answer("watch a-5", ok());
    h.deleted("watch a-5");
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn a_predecessor_deleted_before_it_is_watched_means_another_list() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", ok());
    h.answer("watch a-5", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch a-5", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn an_unreadable_predecessor_fails_the_attempt() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", ok());
    h.answer("watch a-5", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: unreadable a-5", "unwatch a-5", "delete own-7"]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_permanent_refusal_deletes_our_node() {
    let mut h = Harness::deciding();
    h.answer("list", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: ErrorCode(NO_AUTH)", "delete own-7"]);

    let mut h = Harness::second_unconfirmed();
    h.answer("watch a-5", refused(ErrorCode::BAD_ARGUMENTS));
    h.expect(&["Failed: ErrorCode(BAD_ARGUMENTS)", "unwatch a-5", "delete own-7"]);
    h.deleted("watch own-7");
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_request_refused_for_now_keeps_our_node() {
    for refusal in
        [Err(QUEUE_FULL), refused(ErrorCode::THROTTLED_OP), refused(ErrorCode::SYSTEM_ERROR)]
    {
        let mut h = Harness::deciding();
        h.answer("list", refusal.clone());
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["list"]);
        h.answer("list", children(&["a-5", "own-7"]));
        h.expect(&["Waiting behind a-5, 1 ahead", "watch own-7", "watch a-5"]);
        h.answer("watch a-5", refusal.clone());
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["unwatch a-5", "list"]);
        h.answer("list", refusal);
        h.expect(&["timer"]);
        h.feed(Command::Release);
        h.expect(&["delete own-7"]);
        h.feed(Input::Timer);
        h.expect(&[]);
    }
}

#[test]
fn a_permanently_refused_creation_leaves_nothing_to_delete() {
    for code in [
        ErrorCode::NO_AUTH,
        ErrorCode::INVALID_ACL,
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS,
        ErrorCode::QUOTA_EXCEEDED,
    ] {
        let mut h = Harness::creating();
        h.answer("create", refused(code));
        h.expect_last(&[&*format!("Failed: {code:?}")]);
    }
}

#[test]
fn a_creation_refused_for_now_is_repeated() {
    for refusal in [refused(ErrorCode::THROTTLED_OP), Err(QUEUE_FULL)] {
        let mut h = Harness::creating();
        h.answer("create", refusal);
        h.answer("list", children(&[]));
        h.expect(&["timer"]);
        h.feed(Input::Timer);
        h.expect(&["sync", "list"]);
        h.answer("sync", ok());
        h.answer("list", children(&[]));
        h.expect(&["create", "list"]);
        h.created(7);
        h.expect(&["Enqueued own-7 token 107"]);
    }
}

#[test]
fn a_passed_deadline_fails_the_creation() {
    for error in [Error::NoConnection, Error::DeadlinePassed { outcome: Outcome::NotApplied }] {
        let mut h = Harness::creating();
        h.answer("create", Err(error.clone()));
        h.expect_last(&[&*format!("Failed: {error:?}")]);
    }
}

#[test]
fn a_list_without_our_node_fails_the_attempt() {
    let mut h = Harness::deciding();
    h.answer("list", children(&["a-5"]));
    h.expect_last(&["Failed: NodeVanished"]);

    let mut h = Harness::deciding();
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: NodeVanished"]);
}

#[test]
fn a_malformed_list_deletes_our_node() {
    let mut h = Harness::deciding();
    h.answer("list", ok());
    h.expect(&["Failed: malformed", "delete own-7"]);
}

#[test]
fn a_lost_list_is_repeated() {
    let mut h = Harness::deciding();
    h.disconnect();
    h.expect(&["list"]);
    h.reconnect();
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_list_that_was_never_sent_is_repeated() {
    // It is reported at once, before the reply to the creation.
    let mut h = Harness::creating();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&[]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn exhausted_sequence_numbers_fail_and_leave_nothing() {
    for other in ["a-2147483647", "a--2147483648"] {
        let mut h = Harness::deciding();
        h.answer("list", children(&["own-7", other]));
        h.expect(&["Failed: SequenceExhausted", "delete own-7"]);
        h.answer("delete own-7", ok());
        h.expect_last(&[]);
    }
}

#[test]
fn an_unreadable_own_number_fails_and_leaves_nothing() {
    let mut h = Harness::creating();
    let odd = format!("{}3000000000", prefix(OWN));
    let path = format!("/locks/printer/{odd}");
    h.answer(
        "create",
        reply(OpCode::CREATE2, &Create2Response { path: &path, stat: Stat::default() }),
    );
    h.wanted();
    h.answer("list", children(&["a-5", &odd]));
    h.expect(&["Failed: SequenceExhausted", &*format!("delete {odd}")]);
}

#[test]
fn the_lock_path_may_be_the_root() {
    let mut h = Harness::with_lock_path("/");
    h.expect(&["create", "list"]);
    h.created(7);
    h.answer("list", children(&["zookeeper", "a-5", "own-7"]));
    h.wanted();
    h.feed(Command::Release);
    h.expect(&["unwatch a-5", "delete own-7"]);

    // Every server has the root.
    let mut h = Harness::with_lock_path("/");
    h.expect(&["create", "list"]);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: ErrorCode(NO_NODE)"]);
}

// ---- Parents -----------------------------------------------------------------------------------

#[test]
fn missing_parents_are_created_top_down_in_one_round_trip() {
    let mut h = Harness::with_lock_path("/a/b/c");
    h.expect(&["create", "list"]);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /a", "container /a/b", "container /a/b/c"]);
    // The list sent with the creation has no effect.
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.answer("container /a", refused(ErrorCode::NODE_EXISTS));
    h.answer("container /a/b", ok());
    h.expect(&[]);
    h.answer("container /a/b/c", ok());
    h.expect(&["create", "list"]);
    h.created(0);
    h.answer("list", children(&["own-0"]));
    h.expect(&["Enqueued own-0 token 100", "Acquired own-0 token 100", "timer"]);
}

#[test]
fn a_late_list_of_the_first_creation_decides_nothing() {
    let mut h = Harness::creating();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
    // The oldest list, from before the lock path existed.
    h.answer("list", children(&["own-7"]));
    h.expect(&[]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_refused_parent_matters_only_if_it_is_missing() {
    let mut h = Harness::making_parents();
    h.answer("container /locks", refused(ErrorCode::NO_AUTH));
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);

    let mut h = Harness::making_parents();
    h.answer("container /locks", refused(ErrorCode::NO_AUTH));
    h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: ErrorCode(NO_AUTH)"]);
}

#[test]
fn a_lock_path_deleted_again_is_created_a_bounded_number_of_times() {
    let mut h = Harness::creating();
    for _ in 0..5 {
        h.answer("create", refused(ErrorCode::NO_NODE));
        h.answer("list", refused(ErrorCode::NO_NODE));
        h.expect(&["container /locks", "container /locks/printer"]);
        h.answer("container /locks", ok());
        h.answer("container /locks/printer", ok());
        h.expect(&["create", "list"]);
    }
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: ErrorCode(NO_NODE)"]);
}

#[test]
fn a_parent_deleted_again_is_created_a_bounded_number_of_times() {
    let mut h = Harness::making_parents();
    for _ in 1..5 {
        h.answer("container /locks", ok());
        h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
        h.expect(&["container /locks", "container /locks/printer"]);
    }
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: ErrorCode(NO_NODE)"]);
}

#[test]
fn parents_lost_with_the_connection_are_created_again() {
    let mut h = Harness::making_parents();
    h.disconnect();
    h.expect(&["container /locks", "container /locks/printer"]);
    h.reconnect();
    h.answer("container /locks", refused(ErrorCode::NODE_EXISTS));
    h.answer("container /locks/printer", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["create", "list"]);
}

#[test]
fn the_loss_of_one_parent_repeats_all() {
    // The second request was not sent before the disconnect, but after the reconnect.
    let mut h = Harness::making_parents();
    h.answer("container /locks", lost());
    h.feed(Input::State(State::Suspended));
    h.reconnect();
    h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
}

#[test]
fn a_server_without_containers_gets_persistent_parents() {
    let mut h = Harness::making_parents();
    h.answer("container /locks", refused(ErrorCode::UNIMPLEMENTED));
    h.expect(&["parent /locks", "parent /locks/printer"]);
    h.answer("container /locks/printer", refused(ErrorCode::UNIMPLEMENTED));
    h.expect(&[]);
    h.answer("parent /locks", ok());
    h.answer("parent /locks/printer", ok());
    h.expect(&["create", "list"]);
}

/// The second in line, when the deletion of its predecessor arrives with further inputs.
fn taking_over() -> Harness {
    let mut h = Harness::second();
    h.has_more = true;
    h.deleted("watch a-5");
    h.expect(&[]);
    h
}

#[test]
fn a_takeover_is_reported_after_all_pending_inputs() {
    let mut h = taking_over();
    h.feed(Input::Timer);
    h.expect(&[]);
    h.feed(Input::Settled);
    h.expect(&["Acquired own-7 token 107"]);
    h.feed(Input::Settled);
    h.expect(&[]);
}

#[test]
fn a_deletion_of_two_neighbours_grants_the_second_no_lock() {
    let mut h = taking_over();
    h.deleted("watch own-7");
    h.expect(&["Failed: NodeVanished"]);
    h.feed(Input::Settled);
    h.expect_last(&[]);
}

#[test]
fn inputs_that_arrive_with_a_takeover_count_first() {
    let mut h = taking_over();
    h.feed(Command::Release);
    h.expect(&["delete own-7"]);

    let mut h = taking_over();
    h.feed(Input::State(State::Suspended));
    h.expect(&["list"]);
    h.feed(Input::Settled);
    h.expect(&[]);

    let mut h = taking_over();
    h.expire();
    h.expect_last(&["Failed: Ended(Expired)"]);
}
