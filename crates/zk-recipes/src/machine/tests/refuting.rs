//! Negative controls: worlds with a flaw go wrong, and the exploration finds it.

use super::exploring::{
    CALM, DOWNGRADER, LATER, LATER_SHARED, PROMOTED, READER, RETURNER, SHARED, WRITER,
};
use super::search;
use super::world::{Bounds, Flaw, Numbers, World};
use super::*;

#[track_caller]
fn refute(flaw: Flaw, bounds: Bounds, wrong: &str, steps: usize) {
    search::refute(World::new(Bounds { flaw: Some(flaw), ..bounds }), wrong, steps);
}

#[test]
fn without_a_sync_a_node_is_created_twice() {
    // The member that has the creation dies, and the other one has not heard of it (H2).
    let bounds = Bounds { roles: &[WRITER], members: 2, faults: 1, ..CALM };
    refute(Flaw::NoSync, bounds, "0 has two nodes", 11);
}

#[test]
fn behind_a_sync_that_was_lost_a_node_is_created_twice() {
    let bounds = Bounds { roles: &[WRITER], members: 2, faults: 2, ..CALM };
    refute(Flaw::LostSyncTrusted, bounds, "0 has two nodes", 14);
}

#[test]
fn without_a_sync_a_writer_does_not_know_that_it_is_a_reader() {
    let bounds = Bounds { roles: &[DOWNGRADER, READER], members: 2, faults: 1, ..SHARED };
    refute(Flaw::NoSyncForReader, bounds, "0 is done and leaves a node", 18);
}

#[test]
fn without_a_watch_on_our_own_node_the_shortcut_grants_too_much() {
    // Somebody deletes our node, and then the one before us goes.
    let bounds = Bounds { faults: 1, ..CALM };
    refute(Flaw::NoWatchOnOwnNode, bounds, "0 is granted the lock without its node", 17);
}

#[test]
fn the_shortcut_kept_after_a_reconnect_grants_too_much() {
    // Both nodes go while we are away; of the two events, ours comes second.
    let bounds = Bounds { faults: 2, ..CALM };
    refute(Flaw::ReconnectUnnoticed, bounds, "1 is granted the lock without its node", 21);
}

#[test]
fn the_shortcut_where_there_are_readers_grants_too_much() {
    // The writer before us has not gone: it is a reader now.
    let bounds = Bounds { roles: &[DOWNGRADER, WRITER], ..SHARED };
    refute(Flaw::ShortcutAmongReaders, bounds, "1 is granted the lock before its turn", 16);
}

#[test]
fn who_returns_whatever_its_number_grants_too_much() {
    let bounds = Bounds { roles: &[RETURNER, WRITER], ..LATER };
    refute(Flaw::PrecedentForAnyNumber, bounds, "0 is granted the lock before its turn", 11);
}

#[test]
fn who_returns_to_a_new_directory_grants_too_much() {
    // It begins at 0 again, somebody else gets that, and we get 1, as if nobody had come.
    let bounds = Bounds { roles: &[RETURNER, WRITER], created_before: 0, faults: 1, ..LATER };
    refute(Flaw::PrecedentForEver, bounds, "0 is granted the lock before its turn", 12);
}

#[test]
fn a_writer_who_returns_as_after_a_writer_does_not_see_readers() {
    let bounds = Bounds { roles: &[PROMOTED, READER], ..LATER_SHARED };
    refute(Flaw::PrecedentOfReader, bounds, "0 is granted the lock before its turn", 11);
}

#[test]
fn without_a_look_at_its_owner_somebody_elses_node_is_adopted() {
    let bounds = Bounds { roles: &[WRITER], faults: 2, forgeries: true, ..CALM };
    refute(Flaw::OwnerUnchecked, bounds, "0 is granted the lock without its node", 15);
}

#[test]
fn without_a_guid_in_the_name_a_node_is_created_twice() {
    let bounds = Bounds { roles: &[WRITER], faults: 1, ..CALM };
    refute(Flaw::NamesWithoutGuid, bounds, "0 has two nodes", 11);
}

#[test]
fn a_watch_on_a_node_that_is_gone_already_waits_for_ever() {
    refute(Flaw::ExistsForWatch, CALM, "1 waits for ever", 15);
}

#[test]
fn readers_that_look_at_higher_writers_wait_for_ever() {
    let bounds = Bounds { roles: &[READER, WRITER], ..SHARED };
    refute(Flaw::ReadersWatchHigherWriters, bounds, "0 waits for ever", 12);
}

#[test]
fn a_downgrade_to_the_end_of_the_queue_lets_a_writer_in() {
    let bounds = Bounds { roles: &[DOWNGRADER, WRITER], ..SHARED };
    refute(Flaw::DowngradeToTheEnd, bounds, "1 is granted the lock before its turn", 11);
}

#[test]
fn numbers_that_have_ended_grant_too_much() {
    let bounds = Bounds { scheme: PRIVATE, numbers: Numbers::End, ..CALM };
    refute(Flaw::EndOfNumbersUnnoticed, bounds, "1 is granted the lock before its turn", 6);
}

#[test]
fn where_all_watch_the_holder_too_many_are_woken() {
    let bounds = Bounds { roles: &[WRITER; 3], ..CALM };
    refute(Flaw::Herd, bounds, "too many wait for 0", 10);
}
