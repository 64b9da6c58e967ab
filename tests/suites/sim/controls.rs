//! Clients with an injected bug. The simulator must find every one.

use zk_testkit::sim::{Bug, Scale, Targets, outages, reconnections, run};

/// Asserts that some run finds the bug by a violation that contains `symptom`.
fn assert_found(bug: Bug, symptom: &str) {
    assert_found_from(0, Targets::Locks, bug, symptom);
}

/// Begins with the seed `first`, for a bug that few runs find.
fn assert_found_from(first: u64, targets: Targets, bug: Bug, symptom: &str) {
    let scale = Scale { targets, ..Scale::small() };
    let mut others = Vec::new();
    for seed in first..first + 300 {
        let report = run(seed, &scale, Some(bug), false);
        if report.violations.iter().any(|violation| violation.contains(symptom)) {
            println!("{bug:?}: found by seed {seed}: {:?}", report.violations);
            return;
        }
        others.extend(report.violations);
    }
    panic!("{bug:?}: no run reports {symptom:?}, only {others:?}");
}

#[test]
fn a_lost_request_that_is_sent_again_is_found() {
    assert_found(Bug::ResendsLostRequests, "is NotApplied, but 1 times there");
}

#[test]
fn a_stale_read_is_found() {
    assert_found(Bug::ForgetsLastZxid, "was seen before");
}

#[test]
fn a_disconnect_taken_for_a_watch_event_is_found() {
    assert_found_from(15, Targets::Locks, Bug::TakesDisconnectForEvent, ": held by ");
}

#[test]
fn a_history_shows_a_second_holder() {
    assert_found(Bug::IgnoresContenders, "its history is not linearizable");
}

#[test]
fn a_herd_effect_is_found() {
    assert_found(Bug::WatchesParent, "its deletion woke");
}

#[test]
fn a_dropped_event_is_found() {
    assert_found(Bug::DropsEvents, "no event");
}

#[test]
fn a_dropped_event_of_a_persistent_watch_is_found() {
    assert_found(Bug::DropsEvents, "neither an event nor a gap");
}

#[test]
fn a_hidden_gap_is_found() {
    assert_found(Bug::HidesGaps, "neither an event nor a gap");
}

#[test]
fn an_ignored_deadline_is_found() {
    assert_found(Bug::IgnoresDeadlines, "was not answered by its deadline");
}

#[test]
fn a_deadline_reported_as_not_applied_is_found() {
    assert_found(Bug::TakesDeadlineForNotApplied, "is NotApplied, but 1 times there");
}

#[test]
fn an_unwanted_read_only_server_is_found() {
    assert_found(Bug::AlwaysAcceptsReadOnly, "by a read-only server without having asked");
}

#[test]
fn a_client_that_sleeps_through_outages_is_found() {
    let runs = (0..20).map(|seed| outages(seed, Some(Bug::SleepsThroughOutages)).violations);
    let found =
        runs.filter(|found| found.iter().any(|what| what.contains("shorter than the lease")));
    let found = found.count();
    println!("SleepsThroughOutages: found by {found} seeds of 20");
    assert!(found >= 5, "found by {found} seeds of 20");
}

#[test]
fn a_waiter_that_does_not_queue_again_is_found() {
    assert_found_from(40, Targets::Locks, Bug::ForgetsWaiters, "1 attempts unanswered");
}

#[test]
fn a_client_that_gives_up_slow_connections_is_found() {
    // A round trip takes 0.5 s, a little more or less.
    assert!(reconnections(3, Some(Bug::GivesUpSlowConnections)) > 0);
}

#[test]
fn an_ignored_refusal_is_found() {
    assert_found(Bug::IgnoresRefusals, "1 attempts unanswered");
}

#[test]
fn an_ignored_deletion_of_an_own_node_is_found() {
    assert_found(Bug::IgnoresOwnDeletion, "although its node is gone");
}

#[test]
fn an_ignored_contender_of_another_implementation_is_found() {
    assert_found(Bug::IgnoresForeigners, "acquired the lock before _c_");
}

#[test]
fn a_list_of_contenders_without_its_end_is_found() {
    // It waits for a node that is not the one ahead of its own.
    assert_found_from(10, Targets::Locks, Bug::ReadsShortLists, "and another attempt");
}

#[test]
fn a_queue_in_the_order_of_the_list_is_found() {
    assert_found(Bug::ForgetsToSort, "acquired the lock before _c_");
}

#[test]
fn a_slow_clock_is_found() {
    assert_found_from(
        25,
        Targets::Locks,
        Bug::RunsSlow,
        "its session expires before its lease ends",
    );
}

#[test]
fn a_skipped_authentication_exchange_is_found() {
    assert_found(Bug::SkipsAuthentication, "served without an authentication exchange");
}

#[test]
fn a_lock_held_beyond_the_lease_is_found() {
    assert_found_from(25, Targets::Locks, Bug::IgnoresLeases, "after the end of its lease");
}

#[test]
fn a_timer_that_is_set_late_is_found() {
    assert_found(Bug::WakesLate, "sleeps until");
}

#[test]
fn a_loss_without_a_cause_is_found() {
    assert_found(Bug::TakesDisconnectForLeaseEnd, "Lost(LeaseEnded) without a cause");
    assert_found(Bug::TakesDisconnectForDeletion, "Lost(NodeDeleted) without a cause");
    assert_found_from(
        15,
        Targets::Locks,
        Bug::TakesDisconnectForDeletion,
        "Failed(NodeVanished) without a cause",
    );
}

#[test]
fn a_lock_that_never_renews_its_watch_is_found() {
    assert_found(Bug::NeverRenewsWatches, "1 attempts unanswered");
}

/// Asserts that some run of the other recipes finds the bug.
fn assert_found_in_recipes(bug: Bug, symptom: &str) {
    assert_found_from(0, Targets::Recipes, bug, symptom);
}

#[test]
fn a_deadlock_of_several_locks_is_found() {
    assert_found_in_recipes(Bug::AcquiresInAnyOrder, "attempts unanswered");
}

#[test]
fn several_locks_of_which_one_is_held_are_found() {
    assert_found_in_recipes(Bug::HoldsOneForAll, "together, but not each");
}

#[test]
fn an_upgrade_in_spite_of_other_readers_is_found() {
    assert_found_in_recipes(Bug::IgnoresOthersInside, "/locks/shared: held by ");
    assert_found_in_recipes(
        Bug::IgnoresOthersInside,
        "/locks/shared: its history is not linearizable at",
    );
}

#[test]
fn an_upgrade_that_is_refused_in_vain_is_found() {
    assert_found_in_recipes(Bug::SeesAnotherInside, "NotConverted(NotAlone) without a cause");
}

#[test]
fn an_upgrade_that_fails_in_vain_is_found() {
    assert_found_in_recipes(
        Bug::OverlooksOwnWriter,
        "NotConverted(Lock(NodeVanished)) without a cause",
    );
    assert_found_in_recipes(
        Bug::TakesUpgradesForLost,
        "NotConverted(Lock(Request(ConnectionLost))) without a cause",
    );
}

#[test]
fn a_conversion_without_an_answer_is_found() {
    assert_found_in_recipes(Bug::LosesRefusals, "attempts unanswered");
}

#[test]
fn a_double_barrier_entered_or_left_too_early_is_found() {
    assert_found_in_recipes(Bug::CountsTwice, "entered before all were there");
    assert_found_in_recipes(Bug::IgnoresOthersInside, "has left before ");
}

#[test]
fn a_closed_barrier_that_is_passed_is_found() {
    assert_found_in_recipes(Bug::IgnoresBarriers, "while it was closed");
}

#[test]
fn a_textbook_lock_of_another_that_is_taken_is_found() {
    assert_found_in_recipes(Bug::TakesLocksOfOthers, "acquired the node of another");
}

#[test]
fn a_late_write_of_an_earlier_holder_is_found() {
    assert_found_in_recipes(Bug::WritesUnfenced, "/fenced: its history is not linearizable");
}

/// Asserts that some run of tasks that take turns finds the bug.
fn assert_found_in_tasks(bug: Bug, symptom: &str) {
    assert_found_from(0, Targets::Tasks, bug, symptom);
}

#[test]
fn two_tasks_that_hold_one_node_are_found() {
    assert_found_in_tasks(Bug::HoldsWithoutTurn, ": held by tasks that want [Mutex, Mutex]");
}

#[test]
fn a_lost_lock_that_is_passed_on_is_found() {
    assert_found_in_tasks(Bug::PassesOnLostLocks, "passed on, although it is not held");
}

#[test]
fn a_node_that_is_passed_on_and_deleted_is_found() {
    assert_found_in_tasks(Bug::ReleasesWhatIsPassedOn, "its node is released during its turn");
}

#[test]
fn a_task_that_is_not_woken_is_found() {
    assert_found_in_tasks(Bug::ForgetsLocalWaiters, "tasks wait");
}

#[test]
fn a_lock_that_is_kept_from_others_is_found() {
    assert_found_in_tasks(Bug::KeepsFromOthers, "passed on for longer than");
}

#[test]
fn a_list_that_was_submitted_before_the_creation_is_found() {
    assert_found_from(
        0,
        Targets::Crowd,
        Bug::SharesEarlyLists,
        "Failed(NodeVanished) without a cause",
    );
}

#[test]
fn guids_that_two_sessions_share_are_found() {
    assert_found(Bug::SharesGuids, ": held by ");
}

#[test]
fn the_end_of_a_hold_that_is_reported_late_is_found() {
    assert_found(Bug::ReportsReleasesLate, "whose deletion is submitted");
}
