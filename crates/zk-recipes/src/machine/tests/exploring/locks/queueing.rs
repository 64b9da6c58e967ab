//! Waiting in the queue.

use super::*;

#[test]
fn three_take_turns() {
    Scenario::of(&[WRITER; 3]).proves(57_166, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
fn two_read_their_lists_in_pieces() {
    Scenario::of(&[WRITER; 2]).in_pieces().proves(910, &[ONE, TWO, "takes over"]);
}

#[test]
fn one_survives_a_fault_between_pieces() {
    let milestones = [&FAULT[..], &[ONE]].concat();
    Scenario::of(&[WRITER]).in_pieces().faults(1).lagging().proves(1_045, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_and_one_release() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", "gives up"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).with_early_release().proves(119_338, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_on_servers_that_lag() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).lagging().proves(152_169, &milestones);
}

#[test]
fn one_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up"]].concat();
    Scenario::of(&[WRITER]).faults(2).lagging().with_early_release().proves(11_460, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).proves(604_125, &milestones);
}

#[test]
#[ignore = "half an hour; in a release build five minutes"]
fn three_survive_one_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).proves(7_201_354, &milestones);
}
