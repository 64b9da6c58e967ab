//! The growth of tables with an entry for each lock or watch.

use alloc::vec::Vec;

/// Returns how much room to add to a full table: a quarter, since doubling wastes more memory.
pub(crate) const fn room_for_growth(len: usize) -> usize {
    len / 4 + 1
}

/// Makes room for `more` values.
pub(crate) fn reserve<T>(values: &mut Vec<T>, more: usize) {
    if values.capacity() - values.len() < more {
        values.reserve_exact(more + room_for_growth(values.len()));
    }
}
