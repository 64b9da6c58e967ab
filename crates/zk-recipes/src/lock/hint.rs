//! The hint of the previous contender, with which the next one can skip the list.

use zk_session::proto::{SequenceNumber, Zxid};

use crate::attempt::description::Sight;
use crate::attempt::phase::Node;
use crate::attempt::queue::{is_safe, sequence_suffix};
use crate::attempt::{AttemptConfig, LockMode, Turn, UnknownNodePolicy};

/// How many contenders in a row must have found the lock free before the list is skipped.
///
/// If another contender has come after all, the list is requested too late, which costs a round
/// trip. With any pattern of contention, that is at most one round trip in so many acquisitions.
const ENOUGH: u32 = 8;

/// A hint that a contender held the lock and releases it, or has released it. The next contender
/// for the same lock may use it, if both have the same [cell](AttemptConfig::hint_cell).
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

    /// Returns the hint of a contender with this node. `None` if its name has no sequence number.
    fn new(node: &Node, config: &AttemptConfig) -> Option<Self> {
        let AttemptConfig { mode, unknown_nodes, .. } = *config;
        // A negative number of eleven characters seems positive here, and the next one lower.
        let number = SequenceNumber::parse(sequence_suffix(node.name()))?;
        let (czxid, followed, is_deleted) = (node.czxid, 0, false);
        Some(Self { unknown_nodes, mode, number, czxid, followed, is_deleted })
    }

    /// Returns this hint as that of a contender which had the hint `before`.
    fn after(self, before: Option<Self>) -> Self {
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
/// [share](AttemptConfig::hint_cell) it, so it has interior mutability.
pub trait HintCell: core::fmt::Debug + Send + Sync {
    /// Returns the last hint.
    fn get(&self) -> Option<FastPathHint>;

    /// Replaces the last hint.
    fn set(&self, hint: Option<FastPathHint>);
}

/// The part of a contender that uses the hint of the previous one, and leaves its own.
///
/// If the lock was free several times in a row, the contender skips the list. If another contender
/// has come since, it requests the list after all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hint {
    /// That of the previous contender until our node is created, and then our own.
    hint: Option<FastPathHint>,
    /// Whether the next contender may rely on our node: we have acquired the lock.
    is_valid: bool,
}

impl Hint {
    /// Takes the hint of the previous contender, before our node is created.
    pub(crate) fn take(&mut self, config: &AttemptConfig, turn: &mut Turn<'_>) {
        self.hint = see(config, turn);
    }

    /// Returns whether the previous contender expects that the lock is free.
    pub(crate) fn expects_nobody(&self) -> bool {
        self.hint.is_some_and(|hint| hint.followed >= ENOUGH)
    }

    /// Replaces the hint of the previous contender by ours: our node is created.
    pub(crate) fn created(&mut self, node: &Node, config: &AttemptConfig, turn: &mut Turn<'_>) {
        let mut before = self.hint.take();
        // That contender may be gone since.
        if let Some(FastPathHint { is_deleted: false, czxid, .. }) = before {
            before = see(config, turn).filter(|later| later.czxid == czxid);
        }
        self.hint = FastPathHint::new(node, config).map(|own| own.after(before));
    }

    /// Returns whether our own node is the next after that of a contender that is gone, so that the
    /// lock is free.
    pub(crate) fn is_next(&self) -> bool {
        self.hint.is_some_and(|own| own.followed > 0)
    }

    /// Forgets the hint of the previous contender.
    pub(crate) const fn forget(&mut self) {
        self.hint = None;
    }

    /// Lets the next contender rely on our node, or not.
    pub(crate) const fn set_valid(&mut self, is_valid: bool) {
        self.is_valid = is_valid;
    }

    /// Leaves our hint to the next contender, or clears the one that is there.
    #[inline(never)]
    pub(crate) fn leave(&self, is_deleted: bool, config: &AttemptConfig, turn: &mut Turn<'_>) {
        let hint = self.hint.filter(|_| self.is_valid);
        let hint = hint.map(|hint| FastPathHint { is_deleted, ..hint });
        turn.note(|fields| {
            fields.bytes(b"hint");
            hint.iter().flat_map(FastPathHint::numbers).for_each(|it| fields.number(it));
        });
        if let Some(cell) = &config.hint_cell {
            cell.set(hint);
        }
    }
}

/// Returns the hint in the cell.
#[inline(never)]
fn see(config: &AttemptConfig, turn: &mut Turn<'_>) -> Option<FastPathHint> {
    let hint = config.hint_cell.as_ref().and_then(|cell| cell.get());
    turn.see(Sight::Hint, hint, FastPathHint::numbers, FastPathHint::of_numbers)
}

#[cfg(test)]
mod tests;
