//! The queue of a lock: the order of the contenders, by the names of their nodes.

pub(crate) mod reader;

use alloc::vec::Vec;

use zk_session::proto::SequenceNumber;

pub(crate) use self::reader::{Observation, QueuePosition, QueueReader};
use super::name::{LockMode, Name, Scheme};

/// A contender in a list of the queue, with the node that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueuedNode<'a> {
    /// The name of its node.
    pub name: Name<'a>,
    /// The node that blocks it. `None` for a holder.
    pub waits_for: Option<&'a str>,
}

/// Returns the contenders among the children of a lock path, sorted by sequence number.
///
/// That is the order in which they hold the lock, unless the sequence numbers are exhausted.
/// Children that are no contenders of this scheme are left out.
pub fn queue_order<'a>(
    scheme: Scheme,
    children: impl Iterator<Item = &'a str>,
) -> Vec<QueuedNode<'a>> {
    let mut names: Vec<_> = children.filter_map(|child| scheme.parse(child)).collect();
    names.sort_unstable_by_key(|name| (name.sequence, name.child));
    // The last contender and the last exclusive one so far.
    let (mut last, mut exclusive) = (None, None);
    let entry = |name: Name<'a>| {
        let waits_for = match name.mode {
            LockMode::Exclusive => last,
            LockMode::Shared => exclusive,
        };
        last = Some(name.child);
        if name.mode == LockMode::Exclusive {
            exclusive = last;
        }
        QueuedNode { name, waits_for }
    };
    names.into_iter().map(entry).collect()
}

/// What to do about children of the lock path that are no contenders of this lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownNodePolicy {
    /// Refuses contenders of other [known](Scheme::recognize) kinds of locks, and ignores other
    /// nodes.
    ///
    /// Locks of different kinds do not see each other, so both could be held at once. Every attempt
    /// that lists such a contender fails with
    /// [`LockError::OtherLock`](crate::LockError::OtherLock). Each attempt that lists reports the
    /// first unknown node, once.
    #[default]
    RefuseOtherLocks,
    /// Ignores unknown nodes. Each attempt that lists reports the first one, once.
    ///
    /// For paths that locks of several kinds share on purpose, although they do not exclude each
    /// other.
    Ignore,
    /// Refuses every unknown node. The attempt fails with
    /// [`LockError::OtherLock`](crate::LockError::OtherLock) for a contender of a known kind of lock,
    /// with [`LockError::UnknownNode`](crate::LockError::UnknownNode) for any other node.
    Refuse,
    /// Counts unknown nodes as contenders, at the position where Curator would sort their names.
    ///
    /// For lock paths that are shared with Curator and contain unknown nodes.
    Count,
}

/// The highest sequence number that still shows which of two nodes was created first.
///
/// Once the counter has reached 2147483647, servers since 3.6 assign that number again and again,
/// or negative ones when requests overlap (ZOOKEEPER-3249). No order of such names is safe. The
/// distance to the end leaves room for requests in flight.
pub(crate) const LAST_SAFE_SEQUENCE: i32 = i32::MAX - (1 << 20);

/// Returns whether a sequence number shows the order of creation.
pub(crate) fn is_safe(number: SequenceNumber) -> bool {
    (0..=LAST_SAFE_SEQUENCE).contains(&number.0)
}

impl Name<'_> {
    /// Returns whether the sequence number shows the order of creation.
    pub(crate) fn has_safe_sequence(&self) -> bool {
        is_safe(self.sequence)
    }
}

/// Sorts names by their last ten characters, then as a whole.
///
/// Sequence numbers in the safe range have ten digits, so they can be compared as text. That allows
/// comparison with unknown names as Curator does it. No server assigns a number twice, but if two
/// names have the same one, all contenders still agree on the order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SortKey<'a> {
    suffix: &'a str,
    child: &'a str,
}

impl SortKey<'_> {
    /// Returns the beginning of the suffix, padded with zeros. It decides most comparisons.
    pub(crate) fn digits(&self) -> u128 {
        let mut digits = [0; 16];
        digits.iter_mut().zip(self.suffix.bytes()).for_each(|(to, byte)| *to = byte);
        u128::from_be_bytes(digits)
    }
}

/// Returns the last ten characters.
pub(crate) fn sequence_suffix(child: &str) -> &str {
    let number = child.split_at_checked(child.len().wrapping_sub(10));
    number.map_or(child, |(_, number)| number)
}

pub(crate) fn sort_key(child: &str) -> SortKey<'_> {
    SortKey { suffix: sequence_suffix(child), child }
}

#[cfg(test)]
mod tests;
