//! What the contender before has left to know: that nobody was in its way.

use zk_session::proto::{SequenceNumber, Zxid};

use super::{LockMode, Scheme, UnknownNodePolicy};

/// How many in a row must have found nobody before one does without the list. If somebody has come
/// after all it is asked for too late, which costs a round trip: with any pattern of turns, no more
/// than one in so many.
const ENOUGH: u32 = 8;

/// That a contender held the lock, and has released it. The next one of the same lock
/// [may rely on it](super::AttemptConfig::hint).
///
/// Nobody was in the way of that contender when it held the lock, and whoever comes takes a number.
/// So whoever gets the very next one finds nobody in its way either, if it is content with as much:
/// the lock is free, and needs no list.
///
/// That is so as long as the lock path is the same. If it was removed and made anew, the numbers
/// begin again; but to come to the next number again takes as many creations in it as the number
/// says, each a transaction of its own. Where fewer have passed, it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPathHint {
    /// Whoever has another scheme, or another policy, looks at others.
    pub(super) scheme: Scheme,
    pub(super) unknown_nodes: UnknownNodePolicy,
    /// Behind a reader there may be other readers still.
    pub(super) mode: LockMode,
    pub(super) number: SequenceNumber,
    /// The transaction that created its node.
    pub(super) czxid: Zxid,
    /// How many in a row, it included, had the number right after that of the one before. Who
    /// contends with others for a lock had better ask for the list in the same round trip.
    pub(super) followed: u32,
}

impl FastPathHint {
    /// Whether nobody is to be expected.
    pub(super) const fn expects_nobody(&self) -> bool {
        self.followed >= ENOUGH
    }

    /// Whether nobody can be in our way, if our node has this number and was created by this
    /// transaction.
    pub(super) const fn is_followed_by(
        &self,
        mode: LockMode,
        number: SequenceNumber,
        czxid: Zxid,
    ) -> bool {
        let is_content =
            matches!((self.mode, mode), (LockMode::Exclusive, _) | (_, LockMode::Shared));
        let between = czxid.0.saturating_sub(self.czxid.0).saturating_sub(1);
        let is_next = number.0 > 0 && number.0 - 1 == self.number.0;
        is_content && is_next && 0 <= between && between <= self.number.0 as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: FastPathHint = FastPathHint {
        scheme: Scheme::CURATOR_READ_WRITE,
        unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
        mode: LockMode::Exclusive,
        number: SequenceNumber(6),
        czxid: Zxid(100),
        followed: 0,
    };

    fn follows(before: FastPathHint, number: i32, czxid: i64) -> bool {
        before.is_followed_by(LockMode::Exclusive, SequenceNumber(number), Zxid(czxid))
    }

    #[test]
    fn only_the_next_number_follows_while_the_directory_must_be_the_same() {
        assert!(follows(BEFORE, 7, 102), "the deletion lies between");
        // To come from 0 to 7 in a new directory takes seven creations before ours.
        assert!(follows(BEFORE, 7, 107) && !follows(BEFORE, 7, 108));
        for number in [i32::MIN, -7, 0, 5, 6, 8, i32::MAX] {
            assert!(!follows(BEFORE, number, 102), "{number}");
        }
        // A transaction of another epoch, or one that makes no sense.
        for czxid in [1 << 32, i64::MAX, 100, 99, 0, i64::MIN] {
            assert!(!follows(BEFORE, 7, czxid), "{czxid}");
        }
    }

    #[test]
    fn numbers_that_have_ended_are_followed_by_none() {
        for (number, next) in [(i32::MAX, i32::MIN), (-5, -4), (-1, 0)] {
            let before = FastPathHint { number: SequenceNumber(number), ..BEFORE };
            assert!(!follows(before, next, 102), "{number}");
        }
    }

    #[test]
    fn a_reader_leaves_nothing_to_a_writer() {
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
}
