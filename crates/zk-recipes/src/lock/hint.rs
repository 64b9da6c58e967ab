//! The hint of the previous contender, with which the next one can skip the list.

use zk_session::dispatch::Input;
use zk_session::proto::recording::Description;
use zk_session::proto::{SequenceNumber, Zxid};
use zk_session::session::State;

use crate::attempt::description::Sight;
use crate::attempt::{AttemptConfig, Command, Machine, Restart, Turn};
use crate::attempt::{LockMode, UnknownNodePolicy};
use crate::lock::Contender;

/// How many contenders in a row must have found the lock free before the list is skipped.
///
/// If another contender has come after all, the list is requested too late, which costs a round
/// trip. With any pattern of contention, that is at most one round trip in so many acquisitions.
const ENOUGH: u32 = 8;

/// A hint that a contender held the lock and releases it, or has released it. The next contender
/// for the same lock [may use it](HintingContender).
///
/// No contender was ahead of that one when it held the lock, and each newcomer takes a sequence
/// number. So if the next contender gets the very next number, none is ahead of it either. The lock
/// is free, and the list can be skipped.
///
/// This is valid while the lock path is the same. If it was deleted and created again, the numbers
/// begin at 0. To reach number n again takes n creations, each a transaction of its own. If fewer
/// transactions have passed, the lock path is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastPathHint {
    /// Contenders with another policy consider other nodes.
    pub(crate) unknown_nodes: UnknownNodePolicy,
    /// Other readers may still be ahead of a reader.
    pub(crate) mode: LockMode,
    pub(crate) number: SequenceNumber,
    /// The transaction that created its node.
    pub(crate) czxid: Zxid,
    /// How many contenders in a row, this one included, took the number right after the previous
    /// one.
    ///
    /// Under contention, it is better to request the list in the same round trip as the creation.
    pub(crate) followed: u32,
    /// Whether its node is known to be deleted. Until then the next contender may expect nobody,
    /// but not rely on it.
    pub(crate) is_deleted: bool,
}

impl FastPathHint {
    /// Returns the hint as numbers, for recordings.
    pub(crate) fn numbers(&self) -> [u64; 6] {
        [
            self.unknown_nodes as u64,
            self.mode as u64,
            self.number.0.cast_unsigned().into(),
            self.czxid.0.cast_unsigned(),
            self.followed.into(),
            self.is_deleted.into(),
        ]
    }

    /// Returns the hint with these [`numbers`](Self::numbers).
    pub(crate) fn of_numbers(numbers: [u64; 6]) -> Option<Self> {
        let [unknown_nodes, mode, number, czxid, followed, is_deleted] = numbers;
        Some(Self {
            unknown_nodes: *UnknownNodePolicy::ALL.get(usize::try_from(unknown_nodes).ok()?)?,
            mode: *LockMode::ALL.get(usize::try_from(mode).ok()?)?,
            number: SequenceNumber(u32::try_from(number).ok()?.cast_signed()),
            czxid: Zxid(czxid.cast_signed()),
            followed: u32::try_from(followed).ok()?,
            is_deleted: is_deleted != 0,
        })
    }

    /// Returns whether the lock is expected to be free.
    pub(crate) const fn expects_nobody(&self) -> bool {
        self.followed >= ENOUGH
    }

    /// Returns the later hint, if it is by the same contender.
    pub(crate) fn completed_by(self, later: Self) -> Self {
        if self.czxid == later.czxid { later } else { self }
    }

    /// Returns whether no contender can be ahead of a node with this number, created by this
    /// transaction.
    pub(crate) const fn is_followed_by(
        &self,
        mode: LockMode,
        number: SequenceNumber,
        czxid: Zxid,
    ) -> bool {
        let is_content =
            matches!((self.mode, mode), (LockMode::Exclusive, _) | (_, LockMode::Shared));
        let between = czxid.0.saturating_sub(self.czxid.0).saturating_sub(1);
        let is_next = number.0 > 0 && number.0 - 1 == self.number.0;
        self.is_deleted && is_content && is_next && 0 <= between && between <= self.number.0 as i64
    }
}

/// Where the contenders of one lock leave the hint for the next.
///
/// Keep one cell for each lock path, ensemble and scheme. The contenders share it, so it has
/// interior mutability.
pub trait HintCell: core::fmt::Debug {
    /// Returns the last hint.
    fn get(&self) -> Option<FastPathHint>;

    /// Replaces the last hint.
    fn set(&self, hint: Option<FastPathHint>);
}

/// A [`Contender`] that uses the hint of the previous one, and leaves its own. Drive it as a
/// [`Contender`].
///
/// If the lock was free several times in a row, it skips the list. If another contender has come
/// since, it requests the list after all.
///
/// A contender that is released while it holds the lock leaves its hint at once, so that the next
/// one can begin, and completes the hint when its node is gone. Any other end clears the hint.
#[derive(Clone, Debug)]
pub struct HintingContender<C> {
    pub(crate) contender: Contender,
    cell: C,
}

impl<C: HintCell> HintingContender<C> {
    /// Creates an attempt, as [`Contender::new`].
    #[inline]
    pub fn new(config: AttemptConfig, cell: C) -> Self {
        let config = AttemptConfig { hint: cell.get(), ..config };
        Self { contender: Contender::new(config), cell }
    }
}

impl<C: HintCell> HintingContender<C> {
    fn act(&mut self, act: impl FnOnce(&mut Contender, &mut Turn<'_>), turn: &mut Turn<'_>) {
        let before = self.contender.hint();
        act(&mut self.contender, turn);
        let hint = self.contender.hint();
        if hint != before || self.contender.is_done() {
            turn.note(|fields| {
                fields.bytes(b"hint");
                hint.iter().flat_map(FastPathHint::numbers).for_each(|it| fields.number(it));
            });
            self.cell.set(hint);
        }
    }
}

impl<C: HintCell + Clone> Restart for HintingContender<C> {
    fn restart(&self, state: Option<State>) -> Self {
        Self { contender: self.contender.restart(state), cell: self.cell.clone() }
    }
}

impl<C: HintCell> Machine for HintingContender<C> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        if let Input::Reply { .. } = input
            && self.contender.wants_hint()
            && let Some(hint) = turn.see(
                Sight::Hint,
                self.cell.get(),
                FastPathHint::numbers,
                FastPathHint::of_numbers,
            )
        {
            // The contender before this one may be gone since this one began.
            self.contender.complete_hint(hint);
        }
        self.act(|contender, turn| contender.handle(input, turn), turn);
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        self.act(|contender, turn| contender.command(command, turn), turn);
    }

    fn is_done(&self) -> bool {
        self.contender.is_done()
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.contender.describe_as("hinting", description);
    }
}

#[cfg(test)]
mod tests {
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
        assert_eq!(before.completed_by(BEFORE), BEFORE);
        let other = FastPathHint { czxid: Zxid(99), ..BEFORE };
        assert_eq!(before.completed_by(other), before, "of another contender");
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
}
