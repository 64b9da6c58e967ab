//! Every world of borrowers within bounds, and some with a flaw.

use super::super::super::tests::search;
use super::world::{Bounds, Flaw, Sight, World};

const CALM: Bounds = Bounds {
    wants: &[1, 1],
    maximum: 1,
    keeper: false,
    trier: false,
    fresh: false,
    faults: 0,
    refusals: 0,
    impatient: 0,
    changes: &[],
    flaw: None,
};

const ROOMY: Bounds = Bounds { maximum: 2, ..CALM };

const SURVIVED: [Sight; 7] = [
    Sight::Acquired(0),
    Sight::Adopted,
    Sight::CreatedAgain,
    Sight::Resumed,
    Sight::LostToMeddling,
    Sight::Vanished,
    Sight::ReleasedBeforeAcquired,
];

const SURVIVED_BY_TWO: [Sight; 8] = [
    Sight::Acquired(0),
    Sight::Acquired(1),
    Sight::Adopted,
    Sight::CreatedAgain,
    Sight::Resumed,
    Sight::LostToMeddling,
    Sight::Vanished,
    Sight::ReleasedBeforeAcquired,
];

#[track_caller]
fn prove(bounds: Bounds, states: usize, sights: &[Sight]) {
    search::prove(World::new(bounds), states, sights);
}

#[track_caller]
fn refute(flaw: Flaw, bounds: Bounds, wrong: &str, steps: usize) {
    search::refute(World::new(Bounds { flaw: Some(flaw), ..bounds }), wrong, steps);
}

#[test]
fn two_take_turns() {
    prove(
        Bounds { impatient: 1, ..CALM },
        1_829,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::ReleasedBeforeAcquired],
    );
}

#[test]
fn two_have_a_permit_each() {
    prove(Bounds { maximum: 2, ..CALM }, 427, &[Sight::Acquired(0), Sight::Acquired(1)]);
}

#[test]
fn two_that_want_all_take_turns() {
    let bounds = Bounds { wants: &[2, 2], maximum: 2, ..CALM };
    prove(bounds, 685, &[Sight::Acquired(0), Sight::Acquired(1)]);
}

#[test]
fn who_tries_never_waits() {
    prove(
        Bounds { trier: true, impatient: 1, ..CALM },
        1_272,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::ReleasedBeforeAcquired, Sight::Busy],
    );
}

#[test]
fn one_who_tries_leaves_nothing_when_it_loses_its_connection() {
    prove(
        Bounds { wants: &[1], trier: true, faults: 1, ..CALM },
        421,
        &[
            Sight::Acquired(0),
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::Resumed,
            Sight::LostToMeddling,
            Sight::Vanished,
            Sight::NoConnection,
        ],
    );
}

#[test]
#[ignore = "some seconds; in a release build one"]
fn who_tries_beside_another_leaves_nothing_when_it_loses_its_connection() {
    prove(
        Bounds { trier: true, faults: 1, ..CALM },
        46_652,
        &[
            Sight::Acquired(0),
            Sight::Acquired(1),
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
fn who_waits_hears_of_other_maxima() {
    prove(
        Bounds { keeper: true, changes: &[Some(2), Some(1)], ..CALM },
        13_615,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::OtherMaximum],
    );
}

#[test]
fn who_waits_for_more_than_there_will_be_fails() {
    let bounds = Bounds { wants: &[1, 2], maximum: 2, keeper: true, ..CALM };
    prove(
        Bounds { changes: &[Some(1)], ..bounds },
        4_212,
        &[Sight::Acquired(0), Sight::Acquired(1), Sight::TooMany, Sight::OtherMaximum],
    );
}

#[test]
fn one_survives_a_fault() {
    prove(Bounds { wants: &[2], faults: 1, impatient: 1, ..ROOMY }, 1_848, &SURVIVED);
}

#[test]
fn one_survives_a_refusal() {
    prove(
        Bounds { wants: &[2], refusals: 1, fresh: true, impatient: 1, ..ROOMY },
        1_488,
        &[
            Sight::Acquired(0),
            Sight::Adopted,
            Sight::CreatedAgain,
            Sight::ReleasedBeforeAcquired,
            Sight::Refused,
        ],
    );
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_survives_two_faults() {
    prove(
        Bounds { wants: &[2], faults: 2, impatient: 1, ..ROOMY },
        29_708,
        &[&SURVIVED[..], &[Sight::LostToExpiry]].concat(),
    );
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_survives_a_refusal_and_a_fault() {
    let bounds = Bounds { wants: &[2], faults: 1, refusals: 1, ..ROOMY };
    prove(
        Bounds { fresh: true, impatient: 1, ..bounds },
        46_311,
        &[&SURVIVED[..], &[Sight::Refused]].concat(),
    );
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn two_survive_a_fault() {
    prove(Bounds { faults: 1, impatient: 1, ..CALM }, 349_075, &SURVIVED_BY_TWO);
}

#[test]
#[ignore = "a minute; in a release build a few seconds"]
fn one_that_keeps_a_permit_is_in_nobodys_way() {
    let bounds = Bounds { wants: &[1, 1, 1], maximum: 2, keeper: true, ..CALM };
    prove(bounds, 29_671, &[Sight::Acquired(0), Sight::Acquired(1), Sight::Acquired(2)]);
}

// ---- Negative controls -------------------------------------------------------------------------

#[test]
fn counting_before_creating_grants_too_much() {
    // Somebody deletes the place of the first, so that there are two who count (H43).
    let wrong = "1 is granted permits that there are not";
    refute(Flaw::CountedBeforeCreated, Bounds { faults: 1, ..CALM }, wrong, 7);
}

#[test]
fn watching_one_lease_misses_the_end_of_others() {
    // The lease that is watched stays, another one goes (H42).
    let bounds = Bounds { wants: &[1, 1, 1], maximum: 2, keeper: true, ..CALM };
    refute(Flaw::OneLeaseWatched, bounds, "2 waits for ever", 17);
}

#[test]
fn permits_one_at_a_time_keep_two_waiting_for_ever() {
    // Each has one of two and wants the other (H44).
    let bounds = Bounds { wants: &[2, 2], ..ROOMY };
    refute(Flaw::OneAtATime, bounds, "0 waits for ever", 19);
}

#[test]
fn a_maximum_that_is_not_watched_keeps_waiters_waiting() {
    // It is raised, and nobody hears it (H45).
    let bounds = Bounds { keeper: true, changes: &[Some(2)], ..CALM };
    refute(Flaw::MaximumUnwatched, bounds, "1 waits for ever", 12);
}
