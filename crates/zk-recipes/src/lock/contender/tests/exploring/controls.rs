//! Negative controls: worlds with a bug, which must violate a guarantee.

use super::*;

#[test]
fn without_a_sync_a_node_is_created_twice() {
    // The server that executed the creation dies, and the other one has not applied it yet (H2).
    let scenario = Scenario::of(&[WRITER]).faults(1).lagging();
    scenario.refutes(Bug::NoSync, "0 has two nodes", 11);
}

#[test]
fn a_lost_sync_that_is_trusted_creates_a_node_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(2).lagging();
    scenario.refutes(Bug::LostSyncTrusted, "0 has two nodes", 14);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn without_a_sync_a_downgraded_writer_is_not_found() {
    let scenario = Scenario::shared(&[DOWNGRADER, READER]).faults(1).lagging();
    scenario.refutes(Bug::NoSyncForReader, "0 is done and leaves a node", 19);
}

#[test]
fn without_a_watch_on_our_own_node_the_takeover_is_unsafe() {
    // Another client deletes our node, then the one before us is deleted.
    let scenario = Scenario::of(&[WRITER; 2]).faults(1);
    scenario.refutes(Bug::NoWatchOnOwnNode, "1 is granted the lock without its node", 19);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_takeover_after_a_reconnect_is_unsafe() {
    // Both nodes are deleted during a disconnect. Of the two events, ours arrives second.
    let scenario = Scenario::of(&[WRITER; 2]).faults(2);
    scenario.refutes(Bug::ReconnectUnnoticed, "1 is granted the lock without its node", 22);
}

#[test]
fn a_takeover_among_readers_is_unsafe() {
    // The writer before us has not released the lock: it is a reader now.
    let injected_bug = Some(InjectedBug::ShortcutAmongReaders);
    let scenario = Scenario { injected_bug, ..Scenario::shared(&[DOWNGRADER, WRITER]) };
    search::refute(scenario.world(), "1 is granted the lock before its turn", 15);
}

#[test]
fn a_hint_used_for_any_number_is_unsafe() {
    let injected_bug = Some(InjectedBug::HintForAnyNumber);
    let scenario = Scenario { injected_bug, ..Scenario::later(&[RETURNER, WRITER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 13);
}

#[test]
fn a_hint_used_in_a_new_lock_path_is_unsafe() {
    // The numbers begin again at 0. Another client gets 0, and we get 1, which seems to continue.
    let injected_bug = Some(InjectedBug::HintForEver);
    let scenario =
        Scenario { injected_bug, created_before: 0, ..Scenario::later(&[RETURNER, WRITER]) }
            .faults(1);
    search::refute(scenario.world(), "0 is granted the lock before its turn", 14);
}

#[test]
fn a_hint_used_before_its_node_is_deleted_is_unsafe() {
    let injected_bug = Some(InjectedBug::HintBeforeDeletion);
    let scenario = Scenario { injected_bug, ..Scenario::later(&[WRITER, SUCCESSOR]) };
    search::refute(scenario.world(), "1 is granted the lock before its turn", 9);
}

#[test]
fn a_hint_of_a_reader_used_by_a_writer_is_unsafe() {
    let scenario =
        Scenario { forgets_readers: true, ..Scenario::later_shared(&[PROMOTED, READER]) };
    search::refute(scenario.world(), "0 is granted the lock before its turn", 11);
}

#[test]
fn without_an_owner_check_a_foreign_node_is_adopted() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) }.faults(2);
    scenario.refutes(Bug::OwnerUnchecked, "0 is granted the lock without its node", 15);
}

#[test]
fn without_a_guid_in_the_name_a_node_is_created_twice() {
    let scenario = Scenario::of(&[WRITER]).faults(1);
    scenario.refutes(Bug::NamesWithoutGuid, "0 has two nodes", 11);
}

#[test]
fn a_watch_on_a_deleted_node_waits_for_ever() {
    Scenario::of(&[WRITER; 2]).refutes(Bug::ExistsForWatch, "1 waits for ever", 15);
}

#[test]
fn readers_that_wait_for_higher_writers_deadlock() {
    let scenario = Scenario::shared(&[READER, WRITER]);
    scenario.refutes(Bug::ReadersWatchHigherWriters, "0 waits for ever", 12);
}

#[test]
fn a_downgrade_to_the_end_of_the_queue_lets_a_writer_in() {
    let scenario = Scenario::shared(&[DOWNGRADER, WRITER]);
    scenario.refutes(Bug::DowngradeToTheEnd, "1 is granted the lock before its turn", 11);
}

#[test]
fn exhausted_numbers_are_unsafe() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let world = scenario.numbers(Numbers::EndUnnoticed).world();
    search::refute(world, "1 is granted the lock before its turn", 6);
}

#[test]
fn a_name_dropped_where_a_list_is_cut_is_unsafe() {
    let scenario = Scenario::of(&[WRITER; 2]).in_pieces();
    scenario.refutes(Bug::SplitNameDropped, "1 is granted the lock before its turn", 8);
}

#[test]
fn pieces_of_a_lost_list_must_not_be_kept() {
    // The connection breaks between two pieces. The next list begins with a count again.
    let scenario = Scenario::of(&[WRITER]).in_pieces().faults(1);
    let garbled = r#""_c_00000000-\0\0\0\u{1}\0\0\07_c_00000000-0000-0000-0000-00000000""#;
    let wrong = format!("0 reports UnknownNode({garbled}) out of turn");
    scenario.refutes(Bug::LostPiecesKept, &wrong, 13);
}

#[test]
fn a_herd_wakes_too_many() {
    Scenario::of(&[WRITER; 3]).refutes(Bug::Herd, "too many wait for one node", 10);
}
