//! From the first request to the lock.

use super::*;

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
fn the_second_in_line_is_woken_by_the_first_and_asks_nothing_more() {
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
    // It was the middle of the queue that went (H11).
    h.answer("list", children(&["a-5", "own-7"]));
    h.expect(&["Waiting behind a-5, 1 ahead", "watch own-7", "watch a-5"]);
}

#[test]
fn whatever_is_not_the_end_of_the_predecessor_only_sets_the_watch_again() {
    for mut h in [Harness::second(), Harness::third()] {
        let watch = h.asked.last().expect("a watch").line.clone();
        h.fire(&watch, EventType::NODE_CHILDREN_CHANGED);
        h.expect(&[&*watch]);
    }
}

#[test]
fn the_watch_on_our_own_node_that_fires_first_ends_it() {
    let mut h = Harness::second();
    h.deleted("watch own-7");
    h.expect_last(&["Failed: NodeVanished", "unwatch a-5"]);
}

#[test]
fn nothing_is_concluded_from_an_event_while_our_own_watch_is_unconfirmed() {
    let mut h = Harness::second_unconfirmed();
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
    // Our own watch was answered after all; by then the list decides.
    h.answer("watch own-7", ok());
    h.expect(&[]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn nothing_is_concluded_from_an_event_when_our_own_watch_was_refused() {
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
fn nothing_is_concluded_from_an_event_when_our_own_watch_was_used_up() {
    let mut h = Harness::second();
    h.fire("watch own-7", EventType::NODE_CHILDREN_CHANGED);
    h.deleted("watch a-5");
    h.expect(&["unwatch a-5", "list"]);
}

#[test]
fn our_own_node_missing_when_it_is_to_be_watched_ends_it() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", refused(ErrorCode::NO_NODE));
    h.expect_last(&["unwatch own-7", "Failed: NodeVanished", "unwatch a-5"]);
}

#[test]
fn after_a_reconnect_an_event_proves_nothing() {
    // Events that were missed do not come in the order of transactions.
    type Flap = fn(&mut Harness);
    let flaps: [Flap; 3] = [
        |h| {
            h.disconnect();
            h.reconnect();
        },
        // Only the second half was noticed, or so far only the first.
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
    // Our own watch lives on, and both belong to one connection again.
    h.expect(&["Waiting behind a-5, 1 ahead", "watch a-5"]);
    h.answer("watch a-5", ok());
    h.deleted("watch a-5");
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn a_predecessor_that_is_gone_before_it_is_watched_means_another_list() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", ok());
    h.answer("watch a-5", refused(ErrorCode::NO_NODE));
    h.expect(&["unwatch a-5", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107"]);
}

#[test]
fn a_predecessor_that_cannot_be_read_is_reported_and_the_place_given_up() {
    let mut h = Harness::second_unconfirmed();
    h.answer("watch own-7", ok());
    h.answer("watch a-5", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: unreadable a-5", "unwatch own-7", "unwatch a-5", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_request_refused_for_good_gives_the_place_up() {
    let mut h = Harness::deciding();
    h.answer("list", refused(ErrorCode::NO_AUTH));
    h.expect(&["Failed: ErrorCode(NO_AUTH)", "delete own-7"]);

    let mut h = Harness::second_unconfirmed();
    h.answer("watch a-5", refused(ErrorCode::BAD_ARGUMENTS));
    h.expect(&["Failed: ErrorCode(BAD_ARGUMENTS)", "unwatch own-7", "unwatch a-5", "delete own-7"]);
    h.answer("delete own-7", ok());
    h.expect_last(&[]);
}

#[test]
fn a_request_refused_for_now_keeps_the_place() {
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
        h.feed(Input::Release);
        h.expect(&["unwatch own-7", "delete own-7"]);
        h.feed(Input::Timer);
        h.expect(&[]);
    }
}

#[test]
fn a_creation_refused_for_good_leaves_nothing_to_clean() {
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
fn whoever_limits_the_time_is_told_when_it_is_over() {
    for error in [Error::NoConnection, Error::DeadlinePassed { outcome: Outcome::NotApplied }] {
        let mut h = Harness::creating();
        h.answer("create", Err(error.clone()));
        h.expect_last(&[&*format!("Failed: {error:?}")]);
    }
}

#[test]
fn a_list_without_our_node_ends_it() {
    let mut h = Harness::deciding();
    h.answer("list", children(&["a-5"]));
    h.expect_last(&["Failed: NodeVanished"]);

    let mut h = Harness::deciding();
    h.answer("list", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: NodeVanished"]);
}

#[test]
fn a_list_that_cannot_be_read_gives_the_place_up() {
    let mut h = Harness::deciding();
    h.answer("list", ok());
    h.expect(&["Failed: malformed", "delete own-7"]);
}

#[test]
fn a_list_that_was_lost_is_asked_for_again() {
    let mut h = Harness::deciding();
    h.disconnect();
    h.expect(&["list"]);
    h.reconnect();
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_list_that_could_not_even_be_sent_is_asked_for_again() {
    // It is told of at once, before the creation is answered.
    let mut h = Harness::creating();
    h.answer("list", Err(QUEUE_FULL));
    h.expect(&[]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107", "list"]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn numbers_used_up_fail_and_leave_nothing() {
    for other in ["a-2147483647", "a--2147483648"] {
        let mut h = Harness::deciding();
        h.answer("list", children(&["own-7", other]));
        h.expect(&["Failed: SequenceExhausted", "delete own-7"]);
        h.answer("delete own-7", ok());
        h.expect_last(&[]);
    }
}

#[test]
fn our_own_number_that_cannot_be_read_fails_and_leaves_nothing() {
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
fn the_lock_may_stand_in_the_root() {
    let mut h = Harness::in_directory("/");
    h.expect(&["create", "list"]);
    h.created(7);
    h.answer("list", children(&["zookeeper", "a-5", "own-7"]));
    h.wanted();
    h.feed(Input::Release);
    h.expect(&["unwatch own-7", "unwatch a-5", "delete own-7"]);

    // Which no server can be without.
    let mut h = Harness::in_directory("/");
    h.expect(&["create", "list"]);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect_last(&["Failed: ErrorCode(NO_NODE)"]);
}

// ---- Directories -------------------------------------------------------------------------------

#[test]
fn missing_directories_are_made_top_down_in_one_go() {
    let mut h = Harness::in_directory("/a/b/c");
    h.expect(&["create", "list"]);
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /a", "container /a/b", "container /a/b/c"]);
    // The list that went along with the creation says nothing.
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
fn a_late_list_of_the_first_attempt_decides_nothing() {
    let mut h = Harness::creating();
    h.answer("create", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
    h.answer("container /locks", ok());
    h.answer("container /locks/printer", ok());
    h.expect(&["create", "list"]);
    h.created(7);
    h.expect(&["Enqueued own-7 token 107"]);
    // The oldest list, from before the lock path was there.
    h.answer("list", children(&["own-7"]));
    h.expect(&[]);
    h.answer("list", children(&["own-7"]));
    h.expect(&["Acquired own-7 token 107", "timer"]);
}

#[test]
fn a_directory_that_may_not_be_made_matters_only_if_it_is_missing() {
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
fn a_directory_that_goes_again_is_made_a_bounded_number_of_times() {
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
fn a_directory_whose_parent_goes_again_is_made_a_bounded_number_of_times() {
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
fn directories_lost_with_the_connection_are_made_again() {
    let mut h = Harness::making_parents();
    h.disconnect();
    h.expect(&["container /locks", "container /locks/printer"]);
    h.reconnect();
    h.answer("container /locks", refused(ErrorCode::NODE_EXISTS));
    h.answer("container /locks/printer", refused(ErrorCode::NODE_EXISTS));
    h.expect(&["create", "list"]);
}

#[test]
fn only_the_first_of_two_directories_lost_means_both_again() {
    // The second was not sent before the connection was lost, but on the next one.
    let mut h = Harness::making_parents();
    h.answer("container /locks", lost());
    h.feed(Input::Session(State::Suspended));
    h.reconnect();
    h.answer("container /locks/printer", refused(ErrorCode::NO_NODE));
    h.expect(&["container /locks", "container /locks/printer"]);
}

#[test]
fn a_server_without_containers_gets_plain_directories() {
    let mut h = Harness::making_parents();
    h.answer("container /locks", refused(ErrorCode::UNIMPLEMENTED));
    h.expect(&["parent /locks", "parent /locks/printer"]);
    h.answer("container /locks/printer", refused(ErrorCode::UNIMPLEMENTED));
    h.expect(&[]);
    h.answer("parent /locks", ok());
    h.answer("parent /locks/printer", ok());
    h.expect(&["create", "list"]);
}

/// The second in line, when the end of its predecessor is heard and more has arrived.
fn taking_over() -> Harness {
    let mut h = Harness::second();
    h.has_more = true;
    h.deleted("watch a-5");
    h.expect(&[]);
    h
}

#[test]
fn a_hand_over_is_told_when_all_that_has_arrived_is_known() {
    let mut h = taking_over();
    h.feed(Input::Timer);
    h.expect(&[]);
    h.feed(Input::Settled);
    h.expect(&["Acquired own-7 token 107"]);
    h.feed(Input::Settled);
    h.expect(&[]);
}

#[test]
fn whoever_deletes_two_neighbours_at_once_gives_the_second_no_lock() {
    let mut h = taking_over();
    h.deleted("watch own-7");
    h.expect(&["Failed: NodeVanished"]);
    h.feed(Input::Settled);
    h.expect_last(&[]);
}

#[test]
fn what_else_arrives_with_a_hand_over_counts_first() {
    let mut h = taking_over();
    h.feed(Input::Release);
    h.expect(&["unwatch own-7", "delete own-7"]);

    let mut h = taking_over();
    h.feed(Input::Session(State::Suspended));
    h.expect(&["list"]);
    h.feed(Input::Settled);
    h.expect(&[]);

    let mut h = taking_over();
    h.expire();
    h.expect_last(&["Failed: Ended(Expired)"]);
}
