//! The queue of a lock, read from a list of the children of its lock path.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::proto::{SequenceNumber, Zxid};

use super::AttemptConfig;
use super::name::{FastParser, LockMode, Name, Scheme, guid_tag_of};
use crate::error::LockError;

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

/// What to do about children of the lock path that are no contenders of this lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum UnknownNodePolicy {
    /// Refuses contenders of other [known](Scheme::recognize) kinds of locks, and ignores other
    /// nodes.
    ///
    /// Locks of different kinds do not see each other, so both could be held at once. Every attempt
    /// that lists such a contender fails with [`LockError::OtherLock`]. Each attempt that lists
    /// reports the first unknown node, once.
    #[default]
    RefuseOtherLocks,
    /// Ignores unknown nodes. Each attempt that lists reports the first one, once.
    ///
    /// For paths that locks of several kinds share on purpose, although they do not exclude each
    /// other.
    Ignore,
    /// Refuses every unknown node. The attempt fails with [`LockError::OtherLock`] for a contender
    /// of a known kind of lock, with [`LockError::UnknownNode`] for any other node.
    Refuse,
    /// Counts unknown nodes as contenders, at the position where Curator would sort their names.
    ///
    /// For lock paths that are shared with Curator and contain unknown nodes.
    Count,
}

/// Reads the queue for one contender.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueueReader {
    pub(crate) scheme: Scheme,
    pub(crate) unknown_nodes: UnknownNodePolicy,
    pub(crate) mode: LockMode,
    pub(crate) guid: Uuid,
}

/// Returns why an attempt must fail because of `child`, if that is a contender of another lock.
pub(crate) fn other_lock(child: &str) -> Option<LockError> {
    let scheme = Scheme::recognize(child)?;
    Some(LockError::OtherLock { node: child.to_string(), scheme: scheme.into() })
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

/// Returns the last ten characters.
pub(crate) fn sequence_suffix(child: &str) -> &str {
    let number = child.split_at_checked(child.len().wrapping_sub(10));
    number.map_or(child, |(_, number)| number)
}

pub(crate) fn sort_key(child: &str) -> SortKey<'_> {
    SortKey { suffix: sequence_suffix(child), child }
}

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

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use zk_session::proto::SessionId;

    use super::super::name::LAST_SAFE_KEY;
    use super::*;

    fn queue_reader(scheme: Scheme, mode: LockMode, guid: u128) -> QueueReader {
        QueueReader {
            scheme,
            unknown_nodes: UnknownNodePolicy::default(),
            mode,
            guid: Uuid::from_u128(guid),
        }
    }

    fn node(scheme: Scheme, mode: LockMode, guid: u128, sequence: i32) -> String {
        let prefix = scheme.prefix(mode, Uuid::from_u128(guid), SessionId(1));
        format!("{prefix}{sequence:010}")
    }

    fn name(guid: u128, sequence: i32) -> String {
        node(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid, sequence)
    }

    fn observe<'a>(
        queue_reader: &QueueReader,
        own: &str,
        children: impl Iterator<Item = &'a str>,
    ) -> Observation {
        let mut seen = Observation::default();
        queue_reader.observe(own, children, &mut seen);
        seen
    }

    /// The position of a mutex's contender that owns `own`.
    fn position(own: &str, children: &[&str]) -> QueuePosition {
        let guid = Scheme::CURATOR_MUTEX.parse(own).and_then(|name| name.guid);
        let guid = guid.unwrap_or(Uuid::from_u128(1)).as_u128();
        let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid);
        observe(&queue_reader, own, children.iter().copied()).position()
    }

    fn behind(predecessor: &str, ahead: usize) -> QueuePosition {
        QueuePosition::Behind { predecessor: predecessor.to_string(), ahead }
    }

    #[test]
    fn lower_contenders_block_and_only_the_nearest_is_watched() {
        // GUIDs in reverse order: names must not be compared as text.
        let names: Vec<_> = (0..4).map(|n| name(9 - n as u128, n)).collect();
        let children =
            [&*names[3], "junk", &*names[1], "_c_junk-lock-0000000000", &*names[0], &*names[2]];
        assert_eq!(position(&names[0], &children), QueuePosition::First);
        for n in 1..4 {
            assert_eq!(position(&names[n], &children), behind(&names[n - 1], n));
        }
        assert_eq!(position(&name(7, 7), &children), QueuePosition::Absent);
    }

    #[test]
    fn readers_wait_only_for_lower_writers() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let queue = "WRRWRW";
        let mode = |role| if role == 'W' { LockMode::Exclusive } else { LockMode::Shared };
        let names: Vec<_> = (0..)
            .zip(queue.chars())
            .map(|(n, role)| node(SCHEME, mode(role), 20 - n as u128, n))
            .collect();
        let expected = [None, Some((0, 1)), Some((0, 1)), Some((2, 3)), Some((3, 2)), Some((4, 5))];
        for (n, (role, blocked)) in queue.chars().zip(expected).enumerate() {
            let queue_reader = queue_reader(SCHEME, mode(role), 20 - n as u128);
            let position =
                observe(&queue_reader, &names[n], names.iter().map(String::as_str)).position();
            let expected =
                blocked.map_or(QueuePosition::First, |(by, ahead)| behind(&names[by], ahead));
            assert_eq!(position, expected, "number {n}");
        }
    }

    #[test]
    fn both_nodes_of_a_downgrade_block_others_but_not_their_owner() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let writer = node(SCHEME, LockMode::Exclusive, 2, 5);
        let reader = node(SCHEME, LockMode::Shared, 2, 5);
        let next = node(SCHEME, LockMode::Exclusive, 1, 6);
        for there in [vec![&writer, &reader], vec![&writer], vec![&reader]] {
            let children = there.iter().map(|node| node.as_str()).chain([&*next]);
            let writes = queue_reader(SCHEME, LockMode::Exclusive, 1);
            let position = observe(&writes, &next, children.clone()).position();
            assert!(
                matches!(position, QueuePosition::Behind { ahead, .. } if ahead == there.len()),
                "{position:?}"
            );
            if there.contains(&&reader) {
                let reads = queue_reader(SCHEME, LockMode::Shared, 2);
                let position = observe(&reads, &reader, children).position();
                assert_eq!(position, QueuePosition::First);
            }
        }
    }

    #[test]
    fn the_queue_order_shows_which_node_each_contender_waits_for() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let queue = "RRWRRWWRWRR".bytes().zip(0..);
        let mode = |role| if role == b'W' { LockMode::Exclusive } else { LockMode::Shared };
        let names: Vec<_> =
            queue.map(|(role, n)| node(SCHEME, mode(role), 20 - n as u128, n)).collect();
        let children = names.iter().rev().map(String::as_str).chain(["junk"]);
        let queued = queue_order(SCHEME, children);
        assert!(queued.iter().map(|place| place.name.child).eq(&names));
        let index_of = |child| names.iter().position(|name| name == child);
        let waits_for: Vec<_> =
            queued.iter().map(|place| place.waits_for.and_then(index_of)).collect();
        let expected = [-1, -1, 1, 2, 2, 4, 5, 6, 7, 8, 8].map(|n| usize::try_from(n).ok());
        assert_eq!(waits_for, expected);
    }

    #[test]
    fn sequence_numbers_out_of_the_safe_range_decide_nothing() {
        for other in [i32::MAX, LAST_SAFE_SEQUENCE + 1, -1, i32::MIN] {
            let (own, other) = (name(1, 5), name(2, other));
            assert_eq!(position(&own, &[&own, &other]), QueuePosition::Exhausted, "{other}");
        }
        let (own, other) = (name(1, 5), name(2, LAST_SAFE_SEQUENCE));
        assert_eq!(position(&own, &[&own, &other]), QueuePosition::First);
    }

    #[test]
    fn czxids_decide_if_sequence_numbers_are_unusable() {
        let (one, two, own) = (name(2, -7), name(3, i32::MAX), name(1, i32::MIN));
        let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
        let ranked = [(Zxid(9), &*one), (Zxid(5), &*two), (Zxid(7), &*own)];
        assert_eq!(queue_reader.position_by_czxid(Zxid(7), ranked.into_iter()), behind(&two, 1));
        assert_eq!(
            queue_reader.position_by_czxid(Zxid(7), [ranked[0], ranked[2]].into_iter()),
            QueuePosition::First
        );
    }

    #[test]
    fn of_two_with_the_same_number_only_one_is_first() {
        // No server does that, but a client may choose the name of a node.
        let (one, two) = (name(1, 5), name(2, 5));
        let children = [&*two, &*one];
        assert_eq!(position(&one, &children), QueuePosition::First);
        assert_eq!(position(&two, &children), behind(&one, 1));
    }

    /// The expected result of [`QueueReader::observe`], computed by parsing every name in full.
    fn position_by_full_parse(
        queue_reader: &QueueReader,
        own: &str,
        children: &[&str],
    ) -> QueuePosition {
        let own_name = queue_reader
            .scheme
            .parse(own)
            .filter(|own| own.guid.is_some() && own.has_safe_sequence());
        let others = children.iter().filter(|child| **child != own);
        let names: Vec<_> =
            others.map(|child| (*child, queue_reader.scheme.parse(child))).collect();
        let place = |child: &str| {
            let number = child.split_at_checked(child.len().wrapping_sub(10));
            (number.map_or(child, |(_, number)| number).to_string(), child.to_string())
        };
        let is_exhausted =
            |(_, name): &(_, Option<Name<'_>>)| name.is_some_and(|it| !it.has_safe_sequence());
        if !children.contains(&own) {
            return QueuePosition::Absent;
        }
        if own_name.is_none() || names.iter().any(is_exhausted) {
            return QueuePosition::Exhausted;
        }
        let mut before: Vec<_> = names
            .iter()
            .filter_map(|(child, name)| match name {
                Some(name) if name.guid == Some(queue_reader.guid) => None,
                Some(name) => Some((place(child), name.mode)),
                None if queue_reader.unknown_nodes == UnknownNodePolicy::Count => {
                    Some(((child.to_string(), child.to_string()), LockMode::Shared))
                }
                None => None,
            })
            .filter(|(at, mode)| *at < place(own) && queue_reader.is_blocked_by(*mode))
            .collect();
        before.sort();
        match before.last() {
            None => QueuePosition::First,
            Some(((_, child), _)) => behind(child, before.len()),
        }
    }

    #[test]
    fn the_fast_parser_agrees_with_the_full_parser() {
        compare_parsers(4_000, 7);
    }

    /// The first test takes so little time that `.ci/mutants` uses it.
    #[test]
    #[ignore = "some seconds; in a release build one"]
    fn the_fast_parser_agrees_with_the_full_parser_in_many_lists() {
        compare_parsers(20_000, 8);
    }

    fn compare_parsers(lists: usize, mut seed: u64) {
        let mut draw = move |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        let schemes = [
            Scheme::CURATOR_MUTEX,
            Scheme::CURATOR_READ_WRITE,
            Scheme::GO_ZK,
            Scheme::KAZOO_READ_WRITE,
            Scheme::ZOOKEEPER_RECIPE,
            Scheme::private("mine-", Some("ours-")),
            Scheme::private("1", Some("12")),
        ];
        let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, LAST_SAFE_SEQUENCE - 1, LAST_SAFE_SEQUENCE];
        let bad_numbers = [LAST_SAFE_SEQUENCE + 1, i32::MAX, -1, i32::MIN];
        let odd = ['0', '3', '9', 'g', 'A', 'F', 'w', '-', '_', '/', ':', '@', '`', '\u{0}', 'ü'];
        let (mut read, mut parsed) = (0, 0);
        for _ in 0..lists {
            let scheme = schemes[draw(schemes.len())];
            let modes = [LockMode::Shared, LockMode::Exclusive];
            let is_spoilt = draw(4) == 0;
            let count = 1 + draw(24);
            let mut children = Vec::new();
            for _ in 0..count {
                let writer = if draw(8) == 0 { schemes[draw(schemes.len())] } else { scheme };
                let guid = 1_u128 << (96 + 8 * draw(4)) | draw(2) as u128;
                let number = match draw(40) {
                    0 => bad_numbers[draw(bad_numbers.len())],
                    _ => numbers[draw(numbers.len())],
                };
                let mut child = node(writer, modes[draw(2)], guid, number);
                if is_spoilt {
                    let at = draw(child.len());
                    child.replace_range(at..=at, odd[draw(odd.len())].encode_utf8(&mut [0; 4]));
                }
                if draw(16) == 0 {
                    child = child.to_uppercase().replace("_C_", "_c_").replace("LOCK", "lock");
                }
                children.push(child);
            }
            children.sort();
            children.dedup();
            let fast_parser = FastParser::new(&scheme, usize::MAX);
            for child in &children {
                let name = scheme.parse(child);
                read += usize::from(name.is_some());
                if let Some(fast) = fast_parser.parse(child) {
                    parsed += 1;
                    let name = name.unwrap_or_else(|| panic!("{child} by {scheme:?}"));
                    assert_eq!(fast.mode, name.mode, "{child}");
                    assert_eq!(fast.digits, sort_key(child).digits(), "{child}");
                    let prefix = |guid| scheme.prefix(name.mode, guid, SessionId(0));
                    let tag = name.guid.and_then(|guid| guid_tag_of(prefix(guid).as_bytes()));
                    assert_eq!(Some(fast.guid_tag), tag);
                    assert_eq!(name.has_safe_sequence(), fast.digits <= LAST_SAFE_KEY, "{child}");
                }
            }
            let own = children[draw(children.len())].clone();
            let guid = scheme.parse(&own).and_then(|name| name.guid).unwrap_or_default();
            let list: Vec<_> = children.iter().map(String::as_str).collect();
            let list = if draw(16) == 0 { &list[1..] } else { &list[..] };
            for unknown_nodes in [
                UnknownNodePolicy::Ignore,
                UnknownNodePolicy::RefuseOtherLocks,
                UnknownNodePolicy::Count,
            ] {
                for mode in modes {
                    let queue_reader = QueueReader { scheme, unknown_nodes, mode, guid };
                    let whole = observe(&queue_reader, &own, list.iter().copied());
                    let mut others = list.iter().filter(|child| **child != own);
                    let expected = others.find(|child| scheme.parse(child).is_none());
                    assert_eq!(whole.unknown_node.as_deref(), expected.copied());
                    let mut in_pieces = Observation::default();
                    for piece in list.chunks(1 + draw(4)) {
                        queue_reader.observe(&own, piece.iter().copied(), &mut in_pieces);
                    }
                    assert_eq!(in_pieces.unknown_node, whole.unknown_node);
                    assert_eq!(in_pieces.refusal, whole.refusal);
                    let position = whole.position();
                    for expected in
                        [position_by_full_parse(&queue_reader, &own, list), in_pieces.position()]
                    {
                        assert_eq!(position, expected, "{own} in {list:?} by {queue_reader:?}");
                    }
                }
            }
        }
        assert_eq!(LAST_SAFE_KEY, sort_key(&format!("{LAST_SAFE_SEQUENCE:010}")).digits());
        assert!(parsed > read / 2, "{parsed} of {read} by the fast parser");
    }

    #[test]
    fn an_unreadable_own_number_leaves_the_order_unknown() {
        let own = name(1, 5).replace("0000000005", "3000000000");
        assert_eq!(position(&own, &[&own, &name(2, 5)]), QueuePosition::Exhausted);
        assert_eq!(position(&own, &[&name(2, 5)]), QueuePosition::Absent);
    }

    #[test]
    fn an_unknown_child_counts_where_curator_sorts_it() {
        let own = name(1, 5);
        let see = |unknown_nodes, child: &'static str| {
            let children = [child, &*own];
            let queue_reader = QueueReader {
                unknown_nodes,
                ..queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1)
            };
            let observation = observe(&queue_reader, &own, children.into_iter());
            assert_eq!(observation.unknown_node.as_deref(), Some(child));
            observation.position()
        };
        assert_eq!(see(UnknownNodePolicy::Count, "0000000004"), behind("0000000004", 1));
        assert_eq!(see(UnknownNodePolicy::Count, "-early"), behind("-early", 1));
        assert_eq!(see(UnknownNodePolicy::Count, "lease_holder"), QueuePosition::First);
        assert_eq!(see(UnknownNodePolicy::Ignore, "0000000004"), QueuePosition::First);
    }

    #[test]
    fn a_lock_is_taken_if_a_new_contender_would_wait() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let (reader, writer) =
            (node(SCHEME, LockMode::Shared, 2, 1), node(SCHEME, LockMode::Exclusive, 3, 2));
        let taken =
            |mode, child: &str| queue_reader(SCHEME, mode, 1).is_taken([child, "junk"].into_iter());
        assert!(taken(LockMode::Exclusive, &reader) && taken(LockMode::Exclusive, &writer));
        assert!(taken(LockMode::Shared, &writer) && !taken(LockMode::Shared, &reader));
        assert!(!taken(LockMode::Exclusive, "more junk"));
    }

    #[test]
    fn nodes_are_found_by_guid_and_mode() {
        let (low, high, other) = (name(1, 3), name(1, 8), name(2, 4));
        let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
        let ours = |queue_reader: QueueReader, children: &[&str]| -> Vec<String> {
            let mut seen = Observation::default();
            children.iter().for_each(|child| queue_reader.find_ours(child, &mut seen));
            seen.ours.into_iter().map(|(_, child)| child).collect()
        };
        assert_eq!(ours(queue_reader, &[&high, &other, &low, "junk"]), [&*low, &*high]);
        let children = [(LockMode::Shared, 1), (LockMode::Exclusive, 2)]
            .map(|(mode, n)| node(Scheme::CURATOR_READ_WRITE, mode, 1, n));
        let queue_reader = QueueReader { scheme: Scheme::CURATOR_READ_WRITE, ..queue_reader };
        assert_eq!(ours(queue_reader, &[&children[0], &children[1]]), [&*children[1]]);
    }
}
