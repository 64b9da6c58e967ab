//! Every world of contenders within bounds.

mod double_barrier;
mod election;

use super::search;
use super::world::{Bounds, Numbers, Role, Sight, World};
use super::*;

const fn role(claim: Claim) -> Role {
    Role { claim, entry: Entry::Queue, wish: None, returns: None }
}

pub(super) const READER: Role = role(Claim::Shared);
pub(super) const WRITER: Role = role(Claim::Exclusive);
pub(super) const DOWNGRADER: Role = Role { wish: Some(Claim::Shared), ..WRITER };
pub(super) const UPGRADER: Role = Role { wish: Some(Claim::Exclusive), ..READER };
pub(super) const RETURNER: Role = Role { returns: Some(Claim::Exclusive), ..WRITER };
pub(super) const PROMOTED: Role = Role { returns: Some(Claim::Exclusive), ..READER };
pub(super) const REREADER: Role = Role { returns: Some(Claim::Shared), ..READER };
pub(super) const DEMOTED: Role = Role { returns: Some(Claim::Shared), ..DOWNGRADER };
pub(super) const TRIER: Role = Role { entry: Entry::OnlyIfFree, ..WRITER };
pub(super) const ASKER: Role = Role { entry: Entry::OnlyIfFirst, ..WRITER };

pub(super) const CALM: Bounds = Bounds {
    scheme: SCHEME,
    roles: &[WRITER, WRITER],
    numbers: Numbers::Rise,
    members: 1,
    faults: 0,
    forgeries: false,
    recreations: false,
    created_before: 0,
    impatient: 0,
    overtaking: false,
    flaw: None,
};
pub(super) const SHARED: Bounds = Bounds { scheme: READ_WRITE, ..CALM };

#[track_caller]
fn prove(bounds: Bounds, states: usize, sights: &[Sight]) {
    search::prove(World::new(bounds), states, sights);
}

#[test]
fn three_take_turns() {
    prove(
        Bounds { roles: &[WRITER; 3], ..CALM },
        59_551,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::Acquired(2),
            Sight::AcquiredWithoutAnotherRequest,
        ],
    );
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_and_one_who_gives_up() {
    prove(
        Bounds { faults: 1, impatient: 1, overtaking: true, ..CALM },
        175_545,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
            Sight::ReleasedBeforeAcquired,
        ],
    );
}

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn two_survive_one_fault_on_members_that_lag() {
    prove(
        Bounds { members: 2, faults: 1, ..CALM },
        149_919,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
        ],
    );
}

#[test]
fn one_survives_two_faults_on_members_that_lag() {
    prove(
        Bounds { roles: &[WRITER], members: 2, faults: 2, impatient: 1, overtaking: true, ..CALM },
        28_030,
        &[
            Sight::Acquired(0),
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::LostToExpiry,
            Sight::Vanished,
            Sight::ReleasedBeforeAcquired,
        ],
    );
}

const MOST: [Sight; 9] = [
    Sight::Acquired(0),
    Sight::Acquired(1),
    Sight::AcquiredWithoutAnotherRequest,
    Sight::Adopted,
    Sight::CreatedAgain,
    Sight::Resumed,
    Sight::LostToMeddling,
    Sight::LostToExpiry,
    Sight::Vanished,
];

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults() {
    prove(Bounds { faults: 2, overtaking: true, ..CALM }, 1_209_752, &MOST);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_two_faults_told_in_order() {
    prove(Bounds { faults: 2, ..CALM }, 483_038, &MOST);
}

#[test]
#[ignore = "many minutes; in a release build two"]
fn three_survive_one_fault() {
    prove(
        Bounds { roles: &[WRITER; 3], faults: 1, ..CALM },
        6_951_448,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::Acquired(2),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
        ],
    );
}

// ---- Those who return ------------------------------------------------------------------------------

/// Numbers are so high that a precedent counts for some transactions.
pub(super) const LATER: Bounds = Bounds { created_before: 1, recreations: true, ..CALM };

#[test]
fn one_who_returns_needs_no_list_unless_another_has_come() {
    prove(
        Bounds { roles: &[RETURNER, WRITER], ..LATER },
        2_155,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::AcquiredWithoutAList,
            Sight::Returned,
        ],
    );
}

#[test]
fn one_who_returns_alone_survives_two_faults_on_members_that_lag() {
    prove(
        Bounds { roles: &[RETURNER], members: 2, faults: 2, ..LATER },
        27_300,
        &[
            Sight::Acquired(0),
            Sight::AcquiredWithoutAList,
            Sight::Returned,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::LostToExpiry,
            Sight::Vanished,
        ],
    );
}

const RETURNED_WITH_FAULTS: [Sight; 10] = [
    Sight::Acquired(0),
    Sight::Acquired(1),
    Sight::AcquiredWithoutAnotherRequest,
    Sight::AcquiredWithoutAList,
    Sight::Returned,
    Sight::Adopted,
    Sight::CreatedAgain,
    Sight::Resumed,
    Sight::LostToMeddling,
    Sight::Vanished,
];

#[test]
#[ignore = "half a minute; in a release build a few seconds"]
fn one_who_returns_beside_another_survives_one_fault() {
    let bounds = Bounds { roles: &[RETURNER, WRITER], faults: 1, ..LATER };
    prove(bounds, 90_460, &RETURNED_WITH_FAULTS);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_who_return_survive_one_fault_or_a_new_directory() {
    let bounds = Bounds { roles: &[RETURNER, RETURNER], faults: 1, ..LATER };
    prove(bounds, 340_075, &RETURNED_WITH_FAULTS);
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn one_who_returns_survives_one_fault_and_one_who_gives_up() {
    let bounds = Bounds { faults: 1, impatient: 1, overtaking: true, created_before: 6, ..LATER };
    let sights = [&RETURNED_WITH_FAULTS[..], &[Sight::ReleasedBeforeAcquired]].concat();
    prove(Bounds { roles: &[RETURNER, WRITER], ..bounds }, 482_097, &sights);
}

#[test]
#[ignore = "a minute; in a release build some seconds"]
fn one_who_returns_survives_one_fault_on_members_that_lag() {
    let bounds = Bounds { faults: 1, members: 2, created_before: 6, ..LATER };
    prove(Bounds { roles: &[RETURNER, WRITER], ..bounds }, 550_203, &RETURNED_WITH_FAULTS);
}

/// As above, among readers and writers.
pub(super) const LATER_SHARED: Bounds = Bounds { scheme: READ_WRITE, ..LATER };

#[test]
fn one_who_has_read_and_returns_to_write_beside_a_reader() {
    prove(
        Bounds { roles: &[PROMOTED, READER], ..LATER_SHARED },
        3_939,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::Returned, Sight::HeldTogether],
    );
}

#[test]
fn one_who_has_read_and_returns_to_write_beside_one_who_becomes_a_reader() {
    prove(
        Bounds { roles: &[PROMOTED, DOWNGRADER], ..LATER_SHARED },
        21_796,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::Returned,
            Sight::HeldTogether,
            Sight::Downgraded,
            Sight::LeftWhileConverting,
        ],
    );
}

#[test]
fn one_who_has_become_a_reader_and_returns_to_read_beside_a_writer() {
    prove(
        Bounds { roles: &[DEMOTED, WRITER], ..LATER_SHARED },
        6_079,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAList,
            Sight::Returned,
            Sight::Downgraded,
            Sight::LeftWhileConverting,
        ],
    );
}

#[test]
fn one_who_returns_to_read_beside_one_who_becomes_a_writer() {
    prove(
        Bounds { roles: &[REREADER, UPGRADER], ..LATER_SHARED },
        62_793,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAList,
            Sight::Returned,
            Sight::HeldTogether,
            Sight::Upgraded,
            Sight::NotUpgraded,
            Sight::LeftWhileConverting,
        ],
    );
}

// ---- Those who do not wait, forged nodes, and the end of numbers ----------------------------------

#[test]
fn two_survive_a_fault_or_a_forged_node() {
    prove(
        Bounds { faults: 1, forgeries: true, ..CALM },
        78_703,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
        ],
    );
}

#[test]
fn one_survives_two_faults_and_forged_nodes() {
    prove(
        Bounds { roles: &[WRITER], faults: 2, forgeries: true, ..CALM },
        6_895,
        &[
            Sight::Acquired(0),
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::LostToExpiry,
            Sight::Vanished,
        ],
    );
}

#[test]
fn one_who_asks_once_beside_one_who_waits() {
    prove(
        Bounds { roles: &[ASKER, WRITER], faults: 1, ..CALM },
        26_939,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
            Sight::Busy,
            Sight::NoConnection,
        ],
    );
}

#[test]
fn two_who_ask_once() {
    prove(
        Bounds { roles: &[ASKER, ASKER], ..CALM },
        679,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::Busy],
    );
}

#[test]
fn one_who_does_not_wait_beside_one_who_does() {
    prove(
        Bounds { roles: &[TRIER, WRITER], faults: 1, ..CALM },
        28_068,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::AcquiredWithoutAnotherRequest,
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
            Sight::Busy,
            Sight::NoConnection,
        ],
    );
}

#[test]
fn where_numbers_have_ended_names_of_others_fail_closed() {
    prove(Bounds { numbers: Numbers::End, ..CALM }, 97, &[Sight::Exhausted]);
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn where_numbers_have_ended_two_of_ours_survive_a_fault() {
    prove(
        Bounds { scheme: PRIVATE, numbers: Numbers::End, faults: 1, ..CALM },
        63_343,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
        ],
    );
}

// ---- Readers and writers -------------------------------------------------------------------------

#[test]
fn a_reader_and_a_writer_take_turns() {
    prove(
        Bounds { roles: &[WRITER, READER], ..SHARED },
        791,
        &[Sight::Acquired(0), Sight::Acquired(1)],
    );
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn readers_hold_together_and_no_writer_with_them() {
    prove(
        Bounds { roles: &[READER, WRITER, READER], ..SHARED },
        110_573,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::Acquired(2), Sight::HeldTogether],
    );
}

#[test]
fn a_downgrade_keeps_a_writer_out() {
    prove(
        Bounds { roles: &[DOWNGRADER, WRITER], ..SHARED },
        4_741,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::Downgraded, Sight::LeftWhileConverting],
    );
}

#[test]
fn a_downgrade_lets_a_reader_in() {
    prove(
        Bounds { roles: &[DOWNGRADER, READER], ..SHARED },
        7_313,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::HeldTogether,
            Sight::Downgraded,
            Sight::LeftWhileConverting,
        ],
    );
}

const DOWNGRADED_WITH_FAULTS: [Sight; 9] = [
    Sight::Acquired(0),
    Sight::Adopted,
    Sight::CreatedAgain,
    Sight::Resumed,
    Sight::LostToMeddling,
    Sight::Vanished,
    Sight::Downgraded,
    Sight::FoundConverted,
    Sight::LeftWhileConverting,
];

#[test]
fn a_downgrade_survives_one_fault_on_members_that_lag() {
    let bounds = Bounds { roles: &[DOWNGRADER], members: 2, faults: 1, ..SHARED };
    prove(bounds, 7_463, &DOWNGRADED_WITH_FAULTS);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_writer_survives_one_fault() {
    let sights = [&DOWNGRADED_WITH_FAULTS[..], &[Sight::Acquired(1)]].concat();
    prove(Bounds { roles: &[DOWNGRADER, WRITER], faults: 1, ..SHARED }, 219_115, &sights);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn a_downgrade_beside_a_reader_survives_one_fault() {
    let sights = [&DOWNGRADED_WITH_FAULTS[..], &[Sight::Acquired(1), Sight::HeldTogether]].concat();
    prove(Bounds { roles: &[DOWNGRADER, READER], faults: 1, ..SHARED }, 316_082, &sights);
}

const UPGRADED: [Sight; 5] = [
    Sight::Acquired(0),
    Sight::Acquired(1),
    Sight::Upgraded,
    Sight::NotUpgraded,
    Sight::LeftWhileConverting,
];

#[test]
fn an_upgrade_beside_a_writer_works_or_does_not() {
    prove(Bounds { roles: &[UPGRADER, WRITER], ..SHARED }, 5_473, &UPGRADED);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn of_two_who_upgrade_nobody_waits_for_ever() {
    let sights = [&UPGRADED[..], &[Sight::HeldTogether]].concat();
    prove(Bounds { roles: &[UPGRADER, UPGRADER], ..SHARED }, 196_440, &sights);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn an_upgrade_beside_a_writer_survives_one_fault() {
    let more = [
        Sight::Adopted,
        Sight::CreatedAgain,
        Sight::Resumed,
        Sight::LostToMeddling,
        Sight::Vanished,
    ];
    let sights = [&UPGRADED[..], &more].concat();
    prove(Bounds { roles: &[UPGRADER, WRITER], faults: 1, ..SHARED }, 372_744, &sights);
}

#[test]
#[ignore = "a minute; in a release build ten seconds"]
fn a_downgrade_between_a_reader_and_a_writer_lets_in_one_and_not_the_other() {
    prove(
        Bounds { roles: &[DOWNGRADER, READER, WRITER], ..SHARED },
        547_373,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
            Sight::Acquired(2),
            Sight::HeldTogether,
            Sight::Downgraded,
            Sight::LeftWhileConverting,
        ],
    );
}

#[test]
#[ignore = "half a minute; in a release build some seconds"]
fn a_downgrade_survives_two_faults_on_members_that_lag() {
    let bounds = Bounds { roles: &[DOWNGRADER], members: 2, faults: 2, overtaking: true, ..SHARED };
    let sights = [&DOWNGRADED_WITH_FAULTS[..], &[Sight::LostToExpiry]].concat();
    prove(bounds, 225_876, &sights);
}
