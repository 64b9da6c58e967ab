//! Contenders that return with a hint.

use super::*;

#[test]
fn a_returning_contender_needs_no_list_unless_another_has_come() {
    let milestones = [ONE, TWO, "takes over", "needs no list", "returns"];
    Scenario::later(&[RETURNER, WRITER]).proves(1_104, &milestones);
}

#[test]
fn a_returning_contender_survives_two_faults_on_servers_that_lag() {
    let milestones = [&FAULTS[..], &[ONE, "needs no list", "returns"]].concat();
    Scenario::later(&[RETURNER]).faults(2).lagging().proves(4_047, &milestones);
}

/// Two attempts of one session send the deletion first. Those of two sessions are served in any order.
#[test]
fn a_contender_begins_beside_one_that_leaves() {
    let milestones = [ONE, TWO, "begins beside one that leaves", "needs no list", "takes over"];
    Scenario::later(&[WRITER, SUCCESSOR]).proves(102, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_returning_contender_beside_another_survives_one_fault() {
    Scenario::later(&[RETURNER, WRITER]).faults(1).proves(28_542, &returned());
}

fn returned() -> Vec<&'static str> {
    [&FAULT[..], &[ONE, TWO, "takes over", "needs no list", "returns"]].concat()
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn two_returning_contenders_survive_one_fault_or_a_new_lock_path() {
    Scenario::later(&[RETURNER, RETURNER]).faults(1).proves(52_563, &returned());
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_returning_contender_survives_one_fault_and_one_release() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario
        .faults(1)
        .with_early_release()
        .proves(87_791, &[&returned()[..], &["gives up"]].concat());
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_returning_contender_survives_one_fault_on_servers_that_lag() {
    let scenario = Scenario { created_before: 6, ..Scenario::later(&[RETURNER, WRITER]) };
    scenario.faults(1).lagging().proves(66_247, &returned());
}

#[test]
fn a_reader_returns_as_a_writer_beside_a_reader() {
    Scenario::later_shared(&[PROMOTED, READER])
        .proves(1_795, &[ONE, TWO, "returns", "hold together"]);
}

#[test]
fn a_reader_returns_as_a_writer_beside_a_downgrade() {
    let more = ["returns", "hold together", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    Scenario::later_shared(&[PROMOTED, DOWNGRADER]).proves(5_400, &milestones);
}

#[test]
fn a_downgraded_reader_returns_beside_a_writer() {
    let more = ["needs no list", "returns", "is downgraded", "leaves while converting"];
    let milestones = [&more[..], &[ONE, TWO]].concat();
    Scenario::later_shared(&[DEMOTED, WRITER]).proves(1_938, &milestones);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn a_returning_reader_beside_an_upgrade() {
    let milestones = [&UPGRADED[..], &["needs no list", "returns", "hold together"]].concat();
    Scenario::later_shared(&[REREADER, UPGRADER]).proves(24_899, &milestones);
}
