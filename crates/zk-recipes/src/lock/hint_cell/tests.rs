use super::*;

const BEFORE: FastPathHint = FastPathHint {
    unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
    mode: LockMode::Exclusive,
    number: SequenceNumber(6),
    czxid: Zxid(100),
    followed: 0,
    is_deleted: true,
};

fn follows(before: FastPathHint, number: i32, czxid: i64) -> bool {
    before.is_followed_by(LockMode::Exclusive, SequenceNumber(number), Zxid(czxid))
}

#[test]
fn a_hint_holds_for_the_next_number_while_the_lock_path_is_the_same() {
    assert!(follows(BEFORE, 7, 102), "the deletion lies between");
    // To get from 0 to 7 below a new lock path takes seven creations before ours.
    assert!(follows(BEFORE, 7, 107) && !follows(BEFORE, 7, 108));
    for number in [i32::MIN, -7, 0, 5, 6, 8, i32::MAX] {
        assert!(!follows(BEFORE, number, 102), "{number}");
    }
    // A transaction of another epoch, and zxids that make no sense.
    for czxid in [1 << 32, i64::MAX, 100, 99, 0, i64::MIN] {
        assert!(!follows(BEFORE, 7, czxid), "{czxid}");
    }
}

#[test]
fn a_hint_holds_only_once_the_node_is_deleted() {
    let before = FastPathHint { is_deleted: false, ..BEFORE };
    assert!(!before.is_followed_by(LockMode::Exclusive, SequenceNumber(7), Zxid(102)));
}

#[test]
fn exhausted_numbers_invalidate_a_hint() {
    for (number, next) in [(i32::MAX, i32::MIN), (-5, -4), (-1, 0)] {
        let before = FastPathHint { number: SequenceNumber(number), ..BEFORE };
        assert!(!follows(before, next, 102), "{number}");
    }
}

#[test]
fn a_hint_of_a_reader_is_invalid_for_a_writer() {
    use LockMode::{Exclusive, Shared};
    for (before, mode, follows) in [
        (Exclusive, Exclusive, true),
        (Exclusive, Shared, true),
        (Shared, Shared, true),
        (Shared, Exclusive, false),
    ] {
        let before = FastPathHint { mode: before, ..BEFORE };
        assert_eq!(before.is_followed_by(mode, SequenceNumber(7), Zxid(102)), follows);
    }
}
