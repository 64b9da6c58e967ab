//! Attempts that do not wait, forged nodes, and exhausted sequence numbers.

use super::*;

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_survive_a_fault_or_a_forged_node() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO, "takes over"]].concat();
    scenario.faults(1).proves(23_315, &milestones);
}

#[test]
fn one_survives_two_faults_and_forged_nodes() {
    let scenario = Scenario { forgeries: true, ..Scenario::of(&[WRITER]) };
    scenario.faults(2).proves(5_561, &[&FAULTS[..], &[ONE]].concat());
}

#[test]
fn only_if_first_beside_a_waiter() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[FIRST_ONLY, WRITER]).faults(1).proves(9_862, &milestones);
}

#[test]
fn two_that_try_only_if_first() {
    Scenario::of(&[FIRST_ONLY, FIRST_ONLY]).proves(198, &[ONE, TWO, "is busy"]);
}

#[test]
fn only_if_free_beside_a_waiter() {
    let more = [ONE, TWO, "takes over", "is busy", "has no connection"];
    let milestones = [&FAULT[..], &more].concat();
    Scenario::of(&[FREE_ONLY, WRITER]).faults(1).proves(10_423, &milestones);
}

#[test]
fn exhausted_numbers_fail_closed_in_shared_schemes() {
    let scenario = Scenario::of(&[WRITER; 2]).numbers(Numbers::End);
    scenario.proves(35, &["finds numbers exhausted"]);
}

#[test]
fn exhausted_numbers_of_a_private_scheme_survive_a_fault() {
    let scenario = Scenario { scheme: PRIVATE, ..Scenario::of(&[WRITER; 2]) };
    let milestones = [&FAULT[..], &[ONE, TWO]].concat();
    scenario.numbers(Numbers::End).faults(1).proves(7_824, &milestones);
}
