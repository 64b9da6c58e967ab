//! Requests to release the lock.

use super::requeuing::proves as proves_requeuing;
use super::sharing::DOWNGRADED;
use super::*;

const ASKED: &str = "is asked to release";
const READING_KEEPER: Role = Role { keeps: true, ..READER };
const DOWNGRADING_KEEPER: Role = Role { keeps: true, ..DOWNGRADER };
const UPGRADING_KEEPER: Role = Role { keeps: true, ..UPGRADER };

#[test]
fn a_holder_releases_the_lock_when_it_is_asked_to() {
    Scenario::of(&[KEEPER, WRITER]).proves(1_399, &[ONE, TWO, "takes over", ASKED]);
}

#[test]
fn two_that_keep_the_lock_take_turns_when_they_are_asked_to() {
    let scenario = Scenario::of(&[KEEPER, KEEPER]).with_early_release();
    scenario.proves(8_561, &[ONE, TWO, "takes over", "gives up", ASKED]);
}

#[test]
fn a_reader_that_is_asked_to_release_lets_a_writer_in() {
    Scenario::shared(&[READING_KEEPER, WRITER]).proves(915, &[ONE, TWO, ASKED]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_readers_that_are_asked_to_release_let_a_writer_in() {
    let milestones = [ONE, TWO, THREE, "hold together", ASKED];
    Scenario::shared(&[READING_KEEPER, READING_KEEPER, WRITER]).proves(103_767, &milestones);
}

#[test]
fn a_holder_that_has_downgraded_is_asked_once() {
    Scenario::shared(&[DOWNGRADING_KEEPER, WRITER])
        .proves(6_199, &[&DOWNGRADED[..], &[ASKED]].concat());
}

#[test]
fn a_holder_that_upgrades_is_asked_once() {
    let milestones = [&UPGRADED[..], &[ASKED]].concat();
    Scenario::shared(&[UPGRADING_KEEPER, WRITER]).proves(10_423, &milestones);
}

#[test]
fn a_request_to_release_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up", ASKED]].concat();
    Scenario::of(&[KEEPER]).faults(2).lagging().with_early_release().proves(4_114, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_request_to_release_beside_a_waiter_survives_a_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", ASKED]].concat();
    Scenario::of(&[KEEPER, WRITER]).faults(1).proves(32_223, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_request_to_a_reader_that_upgrades_survives_a_fault() {
    let milestones = [&UPGRADED[..], &FAULT, &[ASKED]].concat();
    Scenario::shared(&[UPGRADING_KEEPER, WRITER]).faults(1).proves(402_081, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_request_to_a_writer_that_downgrades_survives_a_fault() {
    let milestones = [&DOWNGRADED[..], &FAULT, &["finds itself converted", ASKED]].concat();
    Scenario::shared(&[DOWNGRADING_KEEPER, WRITER]).faults(1).proves(184_630, &milestones);
}

#[test]
fn a_holder_that_queues_again_is_asked_in_its_next_session() {
    let milestones = [&requeuing::AGAIN[..7], &[ASKED]].concat();
    proves_requeuing(Scenario::of(&[KEEPER]).renewing(2), 764, &milestones);
}

#[test]
fn a_holder_that_does_not_watch_its_data_keeps_the_lock() {
    Scenario::of(&[KEEPER, WRITER]).refutes(Bug::DataUnwatched, "0 waits for ever", 16);
}

#[test]
fn a_reader_that_does_not_watch_its_data_keeps_the_lock() {
    let scenario = Scenario::shared(&[READING_KEEPER, WRITER]);
    scenario.refutes(Bug::DataUnwatched, "0 waits for ever", 14);
}
