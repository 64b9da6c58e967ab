//! Reads the queue for one contender, from a list of the children of its lock path.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::proto::{SequenceNumber, Zxid};

use super::{SortKey, UnknownNodePolicy, sort_key};
use crate::attempt::AttemptConfig;
use crate::attempt::name::fast::{FastParser, guid_tag_of};
use crate::attempt::name::{LockMode, Name, Scheme};
use crate::error::LockError;

/// Reads the queue for one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueReader {
    pub(crate) scheme: Scheme,
    pub(crate) unknown_nodes: UnknownNodePolicy,
    pub(crate) mode: LockMode,
    pub(crate) guid: Uuid,
}

impl QueueReader {
    pub(crate) const fn new(config: &AttemptConfig) -> Self {
        let AttemptConfig { scheme, unknown_nodes, mode, .. } = *config;
        Self { scheme, unknown_nodes, mode, guid: config.own_guid() }
    }

    /// Adds the children of a list, or of a piece of it, to what the contender that owns the node
    /// `own` has seen.
    ///
    /// A list may be long, so each name is read once. Most are read only as far as their sequence
    /// number, which shows that they do not block.
    pub(crate) fn observe<'a>(
        &self,
        own: &str,
        children: impl Iterator<Item = &'a str>,
        seen: &mut Observation,
    ) {
        let own_key = sort_key(own);
        let own_digits = own_key.digits();
        // Our nodes have the GUID of this one.
        let (fast_parser, guid_tag) = (self.fast_parser(&children), guid_tag_of(own.as_bytes()));
        let before = seen.nearest.take();
        let mut nearest = before.as_ref().map(Blocker::key);
        let digits_of = |nearest: Option<SortKey<'_>>| nearest.map_or(0, |key| key.digits());
        let mut nearest_digits = digits_of(nearest);
        for child in children {
            if let Some(fast) = fast_parser.parse(child)
                && fast.digits != own_digits
            {
                let is_ours = || Some(fast.guid_tag) == guid_tag && self.is_ours(child);
                if fast.digits < own_digits && self.is_blocked_by(fast.mode) && !is_ours() {
                    seen.ahead += 1;
                    if nearest_digits <= fast.digits {
                        nearest = nearest.max(Some(sort_key(child)));
                        nearest_digits = fast.digits;
                    }
                }
                continue;
            }
            let name = self.scheme.parse(child);
            if child == own {
                seen.is_there = true;
                let is_ordered = |own: Name<'_>| own.guid.is_some() && own.has_safe_sequence();
                seen.is_exhausted |= !name.is_some_and(is_ordered);
                continue;
            }
            match &name {
                Some(name) => seen.is_exhausted |= !name.has_safe_sequence(),
                None => {
                    seen.refusal = self.refusal(seen.refusal.take(), child);
                    seen.unknown_node.get_or_insert_with(|| child.to_string());
                }
            }
            if let Some(key) = self.blocker_key(child, name)
                && key < own_key
            {
                seen.ahead += 1;
                nearest = nearest.max(Some(key));
                nearest_digits = digits_of(nearest);
            }
        }
        seen.nearest = nearest.map(Blocker::new);
    }

    /// Returns why the attempt must fail because of `child`, which is no contender. `before` is the
    /// result for the children before it. A contender of another lock is reported in preference to
    /// a node of unknown purpose.
    fn refusal(&self, before: Option<LockError>, child: &str) -> Option<LockError> {
        let of_lock = || other_lock(child);
        match (self.unknown_nodes, &before) {
            (UnknownNodePolicy::Ignore | UnknownNodePolicy::Count, _)
            | (_, Some(LockError::OtherLock { .. })) => before,
            (UnknownNodePolicy::RefuseOtherLocks, _) => of_lock(),
            (UnknownNodePolicy::Refuse, _) => {
                let of_node = || Some(LockError::UnknownNode { node: child.to_string() });
                of_lock().or(before).or_else(of_node)
            }
        }
    }

    /// Returns why the attempt must fail because of these children, after `before`. See
    /// [`refusal`](Self::refusal).
    pub(crate) fn refuse<'a>(
        &self,
        before: Option<LockError>,
        children: impl Iterator<Item = &'a str>,
    ) -> Option<LockError> {
        let fast_parser = self.fast_parser(&children);
        let is_unknown =
            |child: &&str| fast_parser.parse(child).is_none() && self.scheme.parse(child).is_none();
        let unknown_nodes = children.filter(is_unknown);
        unknown_nodes.fold(before, |before, child| self.refusal(before, child))
    }

    /// Returns the position of a contender by the transactions that created the nodes, for queues
    /// whose sequence numbers are unusable.
    pub(crate) fn position_by_czxid<'a>(
        &self,
        own: Zxid,
        contenders: impl Iterator<Item = (Zxid, &'a str)>,
    ) -> QueuePosition {
        let blockers = contenders.filter(|(czxid, child)| {
            *czxid < own && self.scheme.parse(child).is_some_and(|name| self.blocks(name))
        });
        let mut ahead = 0;
        let nearest = blockers.inspect(|_| ahead += 1).max();
        QueuePosition::behind(ahead, nearest.map(|(_, child)| child))
    }

    /// Returns whether a new contender would have to wait.
    pub(crate) fn is_taken<'a>(&self, children: impl Iterator<Item = &'a str>) -> bool {
        let mut contenders = children.filter_map(|child| self.scheme.parse(child));
        contenders.any(|contender| self.is_blocked_by(contender.mode))
    }

    /// Adds a child to [`Observation::ours`], if it has our GUID and mode.
    pub(crate) fn find_ours(&self, child: &str, seen: &mut Observation) {
        let name = self.scheme.parse(child);
        let is_ours = |name: &Name<'_>| name.guid == Some(self.guid) && name.mode == self.mode;
        if let Some(name) = name.filter(is_ours) {
            // One node, unless somebody has forged more: a sort would be more code.
            let ours = (name.sequence, child.to_string());
            let place = seen.ours.partition_point(|other| *other < ours);
            seen.ours.insert(place, ours);
        }
    }

    /// Returns the sort key of a child, if the child would block us from a position before ours.
    fn blocker_key<'a>(&self, child: &'a str, name: Option<Name<'a>>) -> Option<SortKey<'a>> {
        match name {
            Some(name) => self.blocks(name).then(|| sort_key(child)),
            None if self.unknown_nodes == UnknownNodePolicy::Count
                && self.is_blocked_by(LockMode::Shared) =>
            {
                Some(SortKey { suffix: child, child })
            }
            None => None,
        }
    }

    fn fast_parser(&self, children: &dyn Iterator<Item = &str>) -> FastParser {
        FastParser::new(&self.scheme, children.size_hint().0)
    }

    fn is_ours(&self, child: &str) -> bool {
        self.scheme.parse(child).is_some_and(|name| name.guid == Some(self.guid))
    }

    const fn is_blocked_by(&self, other: LockMode) -> bool {
        matches!(self.mode, LockMode::Exclusive) || matches!(other, LockMode::Exclusive)
    }

    /// Returns whether a contender would block us from a position before ours. Another node with
    /// our GUID is our own too: an upgrade or downgrade has two for a moment.
    fn blocks(&self, name: Name<'_>) -> bool {
        name.guid != Some(self.guid) && self.is_blocked_by(name.mode)
    }
}

/// The position of one contender in a list of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum QueuePosition {
    /// The contender's own node is not in the list.
    Absent,
    /// The order is unknown: a sequence number is out of the safe range, or our own is unreadable.
    Exhausted,
    /// No contender before this one blocks it.
    First,
    /// At least one contender before this one blocks it.
    Behind {
        /// The node to watch: the nearest one of those that block this contender. To watch any
        /// other node, or the lock path, would wake many waiters although one can proceed (herd
        /// effect).
        predecessor: String,
        /// The number of contenders that block this one.
        ahead: usize,
    },
}

impl QueuePosition {
    pub(crate) fn behind(ahead: usize, nearest: Option<&str>) -> Self {
        match nearest {
            None => Self::First,
            Some(child) => Self::Behind { predecessor: child.to_string(), ahead },
        }
    }
}

/// What the names of a list show, as far as they were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    is_there: bool,
    /// Whether a sequence number does not show the order of creation.
    is_exhausted: bool,
    /// The number of contenders that block us, and the last of them.
    ahead: usize,
    nearest: Option<Blocker>,
    /// The nodes with our GUID and mode, lowest first.
    pub(crate) ours: Vec<(SequenceNumber, String)>,
    /// Whether a new contender would have to wait.
    pub(crate) is_taken: bool,
    /// Whether the node of a reader that upgrades is there.
    #[cfg(feature = "full")]
    pub(crate) has_reader: bool,
    /// The first child that is no contender.
    pub(crate) unknown_node: Option<String>,
    /// Why the attempt must fail, whatever the position is.
    pub(crate) refusal: Option<LockError>,
}

impl Observation {
    pub(crate) fn position(self) -> QueuePosition {
        match self.nearest {
            _ if !self.is_there => QueuePosition::Absent,
            _ if self.is_exhausted => QueuePosition::Exhausted,
            None => QueuePosition::First,
            Some(Blocker { child, .. }) => {
                QueuePosition::Behind { predecessor: child, ahead: self.ahead }
            }
        }
    }
}

/// A child that blocks us, and where the suffix of its [`SortKey`] begins.
#[derive(Clone, Debug)]
struct Blocker {
    child: String,
    suffix: usize,
}

impl Blocker {
    fn new(key: SortKey<'_>) -> Self {
        Self { child: key.child.to_string(), suffix: key.child.len() - key.suffix.len() }
    }

    fn key(&self) -> SortKey<'_> {
        let child = &*self.child;
        SortKey { suffix: child.get(self.suffix..).unwrap_or_default(), child }
    }
}

/// Returns why an attempt must fail because of `child`, if that is a contender of another lock.
pub(crate) fn other_lock(child: &str) -> Option<LockError> {
    let scheme = Scheme::recognize(child)?;
    Some(LockError::OtherLock { node: child.to_string(), scheme: scheme.into() })
}

#[cfg(test)]
mod tests;
