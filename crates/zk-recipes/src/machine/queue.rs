//! The queue of a lock, read from a list of the children of its lock path.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::proto::SequenceNumber;
#[cfg(feature = "private-names")]
use zk_session::proto::Zxid;

use super::AttemptConfig;
use super::name::{FastParser, LockMode, Name, Scheme};
use crate::error::LockError;

/// The highest sequence number that still shows which of two nodes was created first.
///
/// Once the counter has reached 2147483647, servers since 3.6 assign that number again and again,
/// or negative ones when requests overlap (ZOOKEEPER-3249). No order of such names is safe. The
/// distance to the end leaves room for requests in flight.
pub(super) const LAST_SAFE_SEQUENCE: i32 = i32::MAX - (1 << 20);

/// Returns whether a sequence number shows the order of creation.
pub(super) fn is_safe(number: SequenceNumber) -> bool {
    (0..=LAST_SAFE_SEQUENCE).contains(&number.0)
}

impl Name<'_> {
    /// Returns whether the sequence number shows the order of creation.
    pub(super) fn has_safe_sequence(&self) -> bool {
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
pub(super) struct QueueReader {
    pub(super) scheme: Scheme,
    pub(super) unknown_nodes: UnknownNodePolicy,
    pub(super) mode: LockMode,
    pub(super) guid: Uuid,
}

/// The position of one contender in a list of the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueuePosition {
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
    fn behind(ahead: usize, nearest: Option<&str>) -> Self {
        match nearest {
            None => Self::First,
            Some(child) => Self::Behind { predecessor: child.to_string(), ahead },
        }
    }
}

/// The result of reading one list.
#[derive(Debug)]
pub(super) struct Observation<'a> {
    pub(super) position: QueuePosition,
    /// The first child that is no contender.
    pub(super) unknown_node: Option<&'a str>,
    /// Why the attempt must fail, whatever the position is.
    pub(super) refusal: Option<LockError>,
}

impl QueueReader {
    pub(super) const fn new(config: &AttemptConfig) -> Self {
        let AttemptConfig { scheme, unknown_nodes, mode, guid, .. } = *config;
        Self { scheme, unknown_nodes, mode, guid }
    }

    /// Returns the position of the contender that owns the node `own`.
    ///
    /// A list may be long, so each name is read once. Most are read only as far as their sequence
    /// number, which shows that they do not block.
    pub(super) fn observe<'a>(
        &self,
        own: &str,
        children: impl Iterator<Item = &'a str>,
    ) -> Observation<'a> {
        let (mut is_there, mut in_order, mut unknown_node) = (false, true, None);
        let mut refusal = None;
        let own_name =
            self.scheme.parse(own).filter(|own| own.guid.is_some() && own.has_safe_sequence());
        let own_key = own_name.map(|own| sort_key(own.child));
        let (fast_parser, guid_tag) =
            (self.fast_parser(&children), self.scheme.guid_tag(self.guid));
        // How many contenders block us, and the last of them.
        let (mut ahead, mut nearest) = (0, None);
        for child in children {
            if let Some(fast) = fast_parser.parse(child)
                && let Some(own) = &own_key
                && fast.digits != own.digits
            {
                let is_ours = || Some(fast.guid_tag) == guid_tag && self.is_ours(child);
                if fast.digits < own.digits && self.is_blocked_by(fast.mode) && !is_ours() {
                    ahead += 1;
                    if nearest.is_none_or(|nearest: SortKey<'_>| nearest.digits <= fast.digits) {
                        nearest = nearest.max(Some(sort_key(child)));
                    }
                }
                continue;
            }
            if child == own {
                is_there = true;
                continue;
            }
            let name = self.scheme.parse(child);
            match &name {
                Some(name) => in_order &= name.has_safe_sequence(),
                None => {
                    refusal = self.refusal(refusal.take(), child);
                    unknown_node = unknown_node.or(Some(child));
                }
            }
            if let Some(own) = own_key
                && let Some(key) = self.blocker_key(child, name)
                && key < own
            {
                ahead += 1;
                nearest = nearest.max(Some(key));
            }
        }
        let position = if !is_there {
            QueuePosition::Absent
        } else if !in_order || own_key.is_none() {
            QueuePosition::Exhausted
        } else {
            QueuePosition::behind(ahead, nearest.map(|nearest| nearest.child))
        };
        Observation { position, unknown_node, refusal }
    }

    /// Returns why the attempt must fail because of `child`, which is no contender. `before` is the
    /// result for the children before it. A contender of another lock is reported in preference to
    /// a node of unknown purpose.
    fn refusal(&self, before: Option<LockError>, child: &str) -> Option<LockError> {
        let of_lock = || {
            let scheme = Scheme::recognize(child)?;
            Some(LockError::OtherLock { node: child.to_string(), scheme: scheme.into() })
        };
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

    /// Fails if any of the children makes the attempt [fail](Self::refusal).
    pub(super) fn refuse<'a>(
        &self,
        children: impl Iterator<Item = &'a str>,
    ) -> Result<(), LockError> {
        let fast_parser = self.fast_parser(&children);
        let is_unknown =
            |child: &&str| fast_parser.parse(child).is_none() && self.scheme.parse(child).is_none();
        let unknown_nodes = children.filter(is_unknown);
        unknown_nodes.fold(None, |before, child| self.refusal(before, child)).map_or(Ok(()), Err)
    }

    /// Returns the position of a contender by the transactions that created the nodes, for queues
    /// whose sequence numbers are unusable.
    #[cfg(feature = "private-names")]
    pub(super) fn position_by_czxid<'a>(
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
    pub(super) fn is_taken<'a>(&self, children: impl Iterator<Item = &'a str>) -> bool {
        let mut contenders = children.filter_map(|child| self.scheme.parse(child));
        contenders.any(|contender| self.is_blocked_by(contender.mode))
    }

    /// Returns the nodes with our GUID and mode, lowest first.
    pub(super) fn ours<'a>(&self, children: &mut dyn Iterator<Item = &'a str>) -> Vec<&'a str> {
        let (fast_parser, guid_tag) = (self.fast_parser(children), self.scheme.guid_tag(self.guid));
        let may_be_ours = |child: &&str| {
            fast_parser.parse(child).is_none_or(|fast| Some(fast.guid_tag) == guid_tag)
        };
        let names = children.filter(may_be_ours).filter_map(|child| self.scheme.parse(child));
        let is_ours = |name: &Name<'_>| name.guid == Some(self.guid) && name.mode == self.mode;
        // One node, unless somebody has forged more: a sort would be more code than it saves time.
        let mut ours: Vec<Name<'_>> = Vec::new();
        for name in names.filter(is_ours) {
            let key = |name: &Name<'a>| (name.sequence, name.child);
            let place = ours.partition_point(|other| key(other) < key(&name));
            ours.insert(place, name);
        }
        ours.into_iter().map(|name| name.child).collect()
    }

    /// Returns the sort key of a child, if the child would block us from a position before ours.
    fn blocker_key<'a>(&self, child: &'a str, name: Option<Name<'a>>) -> Option<SortKey<'a>> {
        match name {
            Some(name) => self.blocks(name).then(|| sort_key(child)),
            None if self.unknown_nodes == UnknownNodePolicy::Count
                && self.is_blocked_by(LockMode::Shared) =>
            {
                Some(SortKey::new(child, child))
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
struct SortKey<'a> {
    /// The beginning of the suffix, padded with zeros. It decides most comparisons.
    digits: u128,
    suffix: &'a str,
    child: &'a str,
}

impl<'a> SortKey<'a> {
    fn new(suffix: &'a str, child: &'a str) -> Self {
        let mut digits = [0; 16];
        digits.iter_mut().zip(suffix.bytes()).for_each(|(to, byte)| *to = byte);
        Self { digits: u128::from_be_bytes(digits), suffix, child }
    }
}

fn sequence_suffix(child: &str) -> &str {
    let number = child.split_at_checked(child.len().wrapping_sub(10));
    number.map_or(child, |(_, number)| number)
}

fn sort_key(child: &str) -> SortKey<'_> {
    SortKey::new(sequence_suffix(child), child)
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

    /// The position of a mutex's contender that owns `own`.
    fn position(own: &str, children: &[&str]) -> QueuePosition {
        let guid = Scheme::CURATOR_MUTEX.parse(own).and_then(|name| name.guid);
        let guid = guid.unwrap_or(Uuid::from_u128(1)).as_u128();
        queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid)
            .observe(own, children.iter().copied())
            .position
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
            let position = queue_reader(SCHEME, mode(role), 20 - n as u128)
                .observe(&names[n], names.iter().map(String::as_str))
                .position;
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
            let position = queue_reader(SCHEME, LockMode::Exclusive, 1)
                .observe(&next, children.clone())
                .position;
            assert!(
                matches!(position, QueuePosition::Behind { ahead, .. } if ahead == there.len()),
                "{position:?}"
            );
            if there.contains(&&reader) {
                assert_eq!(
                    queue_reader(SCHEME, LockMode::Shared, 2).observe(&reader, children).position,
                    QueuePosition::First
                );
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
        let mut seed = 7_u64;
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
        for _ in 0..20_000 {
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
                    assert_eq!(fast.digits, sort_key(child).digits, "{child}");
                    assert_eq!(
                        Some(fast.guid_tag),
                        name.guid.and_then(|guid| scheme.guid_tag(guid))
                    );
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
                    let Observation { position, unknown_node, .. } =
                        queue_reader.observe(&own, list.iter().copied());
                    assert_eq!(
                        position,
                        position_by_full_parse(&queue_reader, &own, list),
                        "{own} in {list:?} by {queue_reader:?}"
                    );
                    let mut others = list.iter().filter(|child| **child != own);
                    let expected = others.find(|child| scheme.parse(child).is_none());
                    assert_eq!(unknown_node, expected.copied());
                }
            }
        }
        assert_eq!(LAST_SAFE_KEY, sort_key(&format!("{LAST_SAFE_SEQUENCE:010}")).digits);
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
            let observation = queue_reader.observe(&own, children.into_iter());
            assert_eq!(observation.unknown_node, Some(child));
            observation.position
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
        assert_eq!(
            queue_reader.ours(&mut [&*high, &*other, &*low, "junk"].into_iter()),
            [&*low, &*high]
        );
        let children = [(LockMode::Shared, 1), (LockMode::Exclusive, 2)]
            .map(|(mode, n)| node(Scheme::CURATOR_READ_WRITE, mode, 1, n));
        let queue_reader = QueueReader { scheme: Scheme::CURATOR_READ_WRITE, ..queue_reader };
        assert_eq!(queue_reader.ours(&mut children.iter().map(String::as_str)), [&*children[1]]);
    }
}
