//! Tests of the order of leaving.

use uuid::Uuid;
use zk_session::proto::SessionId;

use super::super::LockMode;
use super::*;

#[test]
fn the_first_participant_stays_until_it_is_alone() {
    let sorted = |names: &[&str]| {
        let mut all: Vec<_> = names.iter().map(|name| rank(name)).collect();
        all.sort_unstable();
        all
    };
    let ours = |number: i32| {
        let prefix = Participant::SCHEME.prefix(
            LockMode::Shared,
            // The name with the lowest GUID is the last to come.
            Uuid::from_u128(9 - number as u128),
            SessionId::NONE,
        );
        alloc::format!("{prefix}{number:010}")
    };
    let [one, two, three] = [1, 2, 3].map(ours);
    let next = |own: &str, is_in, others: &[&str]| match next(&rank(own), is_in, &sorted(others)) {
        LeaveAction::WaitFor((_, name)) => name.clone(),
        action => alloc::format!("{action:?}"),
    };
    assert_eq!(next(&one, true, &[&two, &three]), three);
    assert_eq!(next(&two, true, &[&one, &three]), "GetOut");
    assert_eq!(next(&two, false, &[&one, &three]), one);
    // Participants of other programs have no number. They come first, so that we never both stay.
    assert_eq!(next(&one, true, &[&two, "0d9c", "zz"]), "GetOut");
    assert_eq!(next(&one, false, &[&two, "zz"]), "zz");
    for is_in in [true, false] {
        assert_eq!(next(&one, is_in, &[]), "Finish");
    }
}
