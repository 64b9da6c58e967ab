//! Waiting in the queue.

use super::*;

#[test]
fn three_take_turns() {
    Scenario::of(&[WRITER; 3]).proves(2_480, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
fn two_read_their_lists_in_pieces() {
    Scenario::of(&[WRITER; 2]).in_pieces().proves(286, &[ONE, TWO, "takes over"]);
}

#[test]
fn one_survives_a_fault_between_pieces() {
    let milestones = [&FAULT[..], &[ONE]].concat();
    Scenario::of(&[WRITER]).in_pieces().faults(1).lagging().proves(241, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_survive_one_fault_and_one_release() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", "gives up"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).with_early_release().proves(22_225, &milestones);
}

#[test]
fn two_survive_one_fault_on_servers_that_lag() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).lagging().proves(13_658, &milestones);
}

#[test]
fn one_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up"]].concat();
    Scenario::of(&[WRITER]).faults(2).lagging().with_early_release().proves(1_973, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).proves(72_896, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn three_survive_one_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).proves(110_300, &milestones);
}

#[test]
fn three_take_turns_on_three_servers() {
    Scenario::of(&[WRITER; 3]).on(3).proves(6_940, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn three_survive_one_fault_on_two_servers() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).on(2).proves(225_417, &milestones);
}

#[test]
#[ignore = "two minutes; in a release build ten seconds"]
fn three_survive_one_fault_on_three_servers() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).on(3).proves(573_356, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn two_survive_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).on(2).proves(201_502, &milestones);
}

#[test]
#[ignore = "two minutes; in a release build ten seconds"]
fn two_survive_three_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(3).proves(532_382, &milestones);
}

#[test]
fn one_survives_three_faults_on_three_servers() {
    let milestones = [&FAULTS[..], &[ONE]].concat();
    Scenario::of(&[WRITER]).faults(3).on(3).proves(5_421, &milestones);
}
