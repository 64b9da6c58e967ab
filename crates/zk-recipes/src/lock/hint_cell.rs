//! The hints that the contenders of a lock leave for each other.

use zk_session::proto::{SequenceNumber, Zxid};

use crate::attempt::queue::is_safe;
use crate::attempt::{LockMode, UnknownNodePolicy};

/// A hint that a contender held the lock and releases it, or has released it. The next contender
/// for the same lock may use it, if both have the same
/// [cell](crate::machine::AttemptConfig::hint_cell).
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

    /// Returns this hint as that of a contender which had the hint `before`.
    pub(super) fn after(self, before: Option<Self>) -> Self {
        // An unknown node that counts may stand anywhere, however late it was created.
        let is_next = |before: &Self| {
            is_safe(self.number)
                && before.unknown_nodes == self.unknown_nodes
                && self.unknown_nodes != UnknownNodePolicy::Count
                && before.is_followed_by(self.mode, self.number, self.czxid)
        };
        let followed = before.filter(is_next).map_or(0, |before| before.followed.saturating_add(1));
        Self { followed, ..self }
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
        // Huge unless the other transaction is a later one.
        let between = czxid.0.wrapping_sub(self.czxid.0).cast_unsigned().wrapping_sub(1);
        let is_next = number.0 > 0 && number.0 - 1 == self.number.0;
        self.is_deleted && is_content && is_next && between <= self.number.0.cast_unsigned() as u64
    }
}

/// Where the contenders of one lock leave the hint for the next.
///
/// Keep one cell for each lock path, ensemble and scheme. The contenders
/// [share](crate::machine::AttemptConfig::hint_cell) it, so it has interior mutability.
pub trait HintCell: core::fmt::Debug + Send + Sync {
    /// Returns the last hint.
    fn get(&self) -> Option<FastPathHint>;

    /// Replaces the last hint.
    fn set(&self, hint: Option<FastPathHint>);
}

#[cfg(test)]
mod tests;
