//! Waiting in the queue.

use super::*;

#[test]
fn three_take_turns() {
    Scenario::of(&[WRITER; 3]).proves(4_706, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
fn two_read_their_lists_in_pieces() {
    Scenario::of(&[WRITER; 2]).in_pieces().proves(344, &[ONE, TWO, "takes over"]);
}

#[test]
fn one_survives_a_fault_between_pieces() {
    let milestones = [&FAULT[..], &[ONE]].concat();
    Scenario::of(&[WRITER]).in_pieces().faults(1).lagging().proves(519, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_and_one_release() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over", "gives up"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).with_early_release().proves(60_298, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_on_servers_that_lag() {
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(1).lagging().proves(36_389, &milestones);
}

#[test]
fn one_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "gives up"]].concat();
    Scenario::of(&[WRITER]).faults(2).lagging().with_early_release().proves(5_433, &milestones);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).proves(298_568, &milestones);
}

#[test]
#[ignore = "half an hour; in a release build five minutes"]
fn three_survive_one_fault() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).proves(875_309, &milestones);
}

#[test]
fn three_take_turns_on_three_servers() {
    Scenario::of(&[WRITER; 3]).on(3).proves(10_884, &[ONE, TWO, THREE, "takes over"]);
}

#[test]
#[ignore = "some minutes; in a release build half a minute"]
fn three_survive_one_fault_on_two_servers() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).on(2).proves(1_197_076, &milestones);
}

#[test]
#[ignore = "some minutes; in a release build half a minute"]
fn three_survive_one_fault_on_three_servers() {
    let milestones = [&FAULT[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(1).on(3).proves(4_285_994, &milestones);
}

#[test]
#[ignore = "some minutes; in a release build half a minute"]
fn two_survive_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(2).on(2).proves(983_157, &milestones);
}

#[test]
#[ignore = "some minutes; in a release build half a minute"]
fn two_survive_three_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(3).proves(3_392_066, &milestones);
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn one_survives_three_faults_on_three_servers() {
    let milestones = [&FAULTS[..], &[ONE]].concat();
    Scenario::of(&[WRITER]).faults(3).on(3).proves(25_211, &milestones);
}
