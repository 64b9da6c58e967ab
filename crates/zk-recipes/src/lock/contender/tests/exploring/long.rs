//! The largest worlds.

use super::*;

#[test]
#[ignore = "half a minute in a release build"]
fn two_survive_three_faults_on_three_servers() {
    let milestones = [&FAULTS[..], &[ONE, TWO, "takes over"]].concat();
    Scenario::of(&[WRITER; 2]).faults(3).on(3).proves(2_788_728, &milestones);
}

#[test]
#[ignore = "half a minute in a release build"]
fn three_survive_two_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(2).proves(2_318_061, &milestones);
}

#[test]
#[ignore = "five minutes in a release build"]
fn three_survive_two_faults_on_three_servers() {
    let milestones = [&FAULTS[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(2).on(3).proves(20_305_158, &milestones);
}

#[test]
#[ignore = "ten minutes in a release build"]
fn three_survive_three_faults() {
    let milestones = [&FAULTS[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(3).proves(31_162_822, &milestones);
}

#[test]
#[ignore = "two hours and 5 GB in a release build"]
fn three_survive_three_faults_on_three_servers() {
    let milestones = [&FAULTS[..], &[ONE, TWO, THREE, "takes over"]].concat();
    Scenario::of(&[WRITER; 3]).faults(3).on(3).proves(425_482_152, &milestones);
}
