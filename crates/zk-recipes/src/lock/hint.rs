//! The hint of the previous contender, with which the next one can skip the list.

use zk_session::proto::SequenceNumber;

use super::hint_cell::FastPathHint;
use crate::attempt::phase::Node;
use crate::attempt::queue::sequence_suffix;
use crate::attempt::turn::Sight;
use crate::attempt::{AttemptConfig, Turn};

/// How many contenders in a row must have found the lock free before the list is skipped.
///
/// If another contender has come after all, the list is requested too late, which costs a round
/// trip. With any pattern of contention, that is at most one round trip in so many acquisitions.
const ENOUGH: u32 = 8;

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
        self.hint = own(node, config).map(|own| own.after(before));
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
            if let Some(hint) = hint {
                hint.numbers().into_iter().for_each(|it| fields.number(it));
            }
        });
        if let Some(cell) = &config.hint_cell {
            cell.set(hint);
        }
    }
}

/// Returns the hint of a contender with this node. `None` if its name has no sequence number.
fn own(node: &Node, config: &AttemptConfig) -> Option<FastPathHint> {
    let AttemptConfig { mode, unknown_nodes, .. } = *config;
    // A negative number of eleven characters seems positive here, and the next one lower.
    let number = SequenceNumber::parse(sequence_suffix(&node.name))?;
    let (czxid, followed, is_deleted) = (node.czxid, 0, false);
    Some(FastPathHint { unknown_nodes, mode, number, czxid, followed, is_deleted })
}

/// Returns the hint in the cell.
#[inline(never)]
fn see(config: &AttemptConfig, turn: &mut Turn<'_>) -> Option<FastPathHint> {
    let hint = config.hint_cell.as_ref().and_then(|cell| cell.get());
    turn.see(Sight::Hint, hint, FastPathHint::numbers, FastPathHint::of_numbers)
}
