//! Readers and writers, downgrades and upgrades.

use super::*;

#[test]
fn a_reader_and_a_writer_take_turns() {
    Scenario::shared(&[WRITER, READER]).proves(367, &[ONE, TWO]);
}

#[test]
fn readers_share_the_lock_and_exclude_writers() {
    let milestones = [ONE, TWO, THREE, "hold together"];
    Scenario::shared(&[READER, WRITER, READER]).proves(10_415, &milestones);
}

pub(super) const DOWNGRADED: [&str; 4] = [ONE, TWO, "is downgraded", "leaves while converting"];

#[test]
fn a_downgrade_keeps_a_writer_out() {
    Scenario::shared(&[DOWNGRADER, WRITER]).proves(1_477, &DOWNGRADED);
}

#[test]
fn a_downgrade_lets_a_reader_in() {
    let milestones = [&DOWNGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).proves(2_137, &milestones);
}

/// The milestones with one reader, and with several.
fn downgraded_with(faults: &[&'static str]) -> [Vec<&'static str>; 2] {
    let alone = [faults, &[ONE, "is downgraded", "leaves while converting"]].concat();
    let alone = [&alone[..], &["finds itself converted"]].concat();
    [alone.clone(), [&alone[..], &[TWO]].concat()]
}

#[test]
fn a_downgrade_survives_one_fault_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER]).faults(1).lagging().proves(1_316, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_downgrade_beside_a_writer_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    Scenario::shared(&[DOWNGRADER, WRITER]).faults(1).proves(44_028, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_downgrade_beside_a_reader_survives_one_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    let milestones = [&milestones[..], &["hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER]).faults(1).proves(64_686, &milestones);
}

#[test]
fn an_upgrade_beside_a_writer_succeeds_or_fails() {
    Scenario::shared(&[UPGRADER, WRITER]).proves(1_793, &UPGRADED);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_upgrades_do_not_deadlock() {
    let milestones = [&UPGRADED[..], &["hold together"]].concat();
    Scenario::shared(&[UPGRADER, UPGRADER]).proves(33_027, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn an_upgrade_beside_a_writer_survives_one_fault() {
    let milestones = [&UPGRADED[..], &FAULT].concat();
    Scenario::shared(&[UPGRADER, WRITER]).faults(1).proves(67_270, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_downgrade_lets_in_readers_and_no_writers() {
    let milestones = [&DOWNGRADED[..], &[THREE, "hold together"]].concat();
    Scenario::shared(&[DOWNGRADER, READER, WRITER]).proves(57_569, &milestones);
}

#[test]
fn a_downgrade_survives_two_faults_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULTS);
    Scenario::shared(&[DOWNGRADER]).faults(2).lagging().proves(13_810, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_downgrade_survives_a_refusal_and_two_faults_on_servers_that_lag() {
    let [milestones, _] = downgraded_with(&FAULTS);
    let milestones = [&milestones[..], &["is not downgraded"]].concat();
    Scenario::shared(&[DOWNGRADER]).refusals(1).faults(2).lagging().proves(32_446, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_downgrade_beside_a_writer_survives_a_refusal_and_a_fault() {
    let [_, milestones] = downgraded_with(&FAULT);
    let milestones = [&milestones[..], &["is not downgraded"]].concat();
    Scenario::shared(&[DOWNGRADER, WRITER]).refusals(1).faults(1).proves(73_707, &milestones);
}
