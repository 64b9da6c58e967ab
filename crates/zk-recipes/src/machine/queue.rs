//! What a list of a lock path says: who is in the queue, and who blocks whom.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use uuid::Uuid;
use zk_session::proto::Zxid;

use super::name::{Glancer, LockMode, Name, Scheme};
use crate::error::LockError;

/// Numbers this close to the end of the range, or beyond it, do not tell who came first.
///
/// From 2147483647 on, servers since 3.6 hand out the same number again and again, or negative
/// ones when requests overlap (ZOOKEEPER-3249); no order of such names is safe. The distance
/// leaves room for requests under way.
pub(super) const LAST_SAFE: i32 = i32::MAX - (1 << 20);

impl Name<'_> {
    /// Whether its number tells if it came before others.
    pub(super) fn tells_order(&self) -> bool {
        (0..=LAST_SAFE).contains(&self.sequence.0)
    }
}

/// What to do about children of the lock's path that are no contenders of this lock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownNodePolicy {
    /// A contender of another [known](Scheme::recognize) kind of lock is refused: neither lock
    /// would see the other, and both could be held at once. Every attempt that sees one fails with
    /// [`LockError::OtherLock`]. Any other node is passed over, and reported once by every attempt
    /// that lists.
    #[default]
    RefuseOtherLocks,
    /// All are passed over, and reported once by every attempt that lists. For paths that locks of
    /// several kinds share on purpose, although they do not exclude each other.
    Ignore,
    /// No attempt enters a queue with any in it: [`LockError::OtherLock`], or
    /// [`LockError::UnknownNode`] for a node that is no contender of any known kind.
    Refuse,
    /// They stand in the queue wherever their name sorts, as Curator has it. For parents that
    /// are shared with it and have unknown nodes in them.
    Count,
}

/// How one contender looks at the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct QueueReader {
    pub(super) scheme: Scheme,
    pub(super) unknown_nodes: UnknownNodePolicy,
    pub(super) mode: LockMode,
    pub(super) guid: Uuid,
}

/// The queue, as seen by one contender in one list.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum QueuePosition {
    /// Our node is not there.
    Absent,
    /// The numbers of the lock path are used up, or ours is none that we can read, so they do not
    /// tell who is first.
    Exhausted,
    /// Nobody is before us who could block us.
    First,
    /// Somebody is.
    Behind {
        /// The one immediately before us, of those who block us: the only one worth watching. To
        /// watch any other, or the lock path, would wake many when only one can go on: the herd
        /// effect.
        predecessor: String,
        /// How many block us.
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

/// What one list has to say.
#[derive(Debug)]
pub(super) struct Observation<'a> {
    pub(super) position: QueuePosition,
    /// A child that is no contender.
    pub(super) unknown_node: Option<&'a str>,
    /// Why the attempt must not go on.
    pub(super) refusal: Option<LockError>,
}

impl QueueReader {
    /// What `children` mean for the contender that owns `own`. A list may be long, so every name
    /// is read once, and most of them only as far as their number says that they do not matter.
    pub(super) fn see<'a>(
        &self,
        own: &str,
        children: impl Iterator<Item = &'a str>,
    ) -> Observation<'a> {
        let (mut is_there, mut in_order, mut unknown_node) = (false, true, None);
        let mut refusal = None;
        let own_name = self.scheme.parse(own).filter(|own| own.guid.is_some() && own.tells_order());
        let own_place = own_name.map(|own| by_number(own.child));
        let (glancer, mark) = (self.glancer(&children), self.scheme.mark(self.guid));
        // How many block us, and the last of them.
        let (mut ahead, mut nearest) = (0, None);
        for child in children {
            if let Some(glance) = glancer.glance(child)
                && let Some(own) = &own_place
                && glance.number != own.head
            {
                let is_ours = || Some(glance.mark) == mark && self.is_ours(child);
                if glance.number < own.head && self.is_blocked_by(glance.mode) && !is_ours() {
                    ahead += 1;
                    if nearest.is_none_or(|nearest: Place<'_>| nearest.head <= glance.number) {
                        nearest = nearest.max(Some(by_number(child)));
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
                Some(name) => in_order &= name.tells_order(),
                None => {
                    refusal = self.refusal(refusal.take(), child);
                    unknown_node = unknown_node.or(Some(child));
                }
            }
            if let Some(own) = own_place
                && let Some(place) = self.place_of(child, name)
                && place < own
            {
                ahead += 1;
                nearest = nearest.max(Some(place));
            }
        }
        let position = if !is_there {
            QueuePosition::Absent
        } else if !in_order || own_place.is_none() {
            QueuePosition::Exhausted
        } else {
            QueuePosition::behind(ahead, nearest.map(|nearest| nearest.child))
        };
        Observation { position, unknown_node, refusal }
    }

    /// Why the attempt must not go on, given a child that is no contender, and what others have
    /// amounted to. Another lock is named rather than a node that may mean nothing.
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

    /// As [`refusal`](Self::refusal), for a whole list.
    pub(super) fn refuse<'a>(
        &self,
        children: impl Iterator<Item = &'a str>,
    ) -> Result<(), LockError> {
        let glancer = self.glancer(&children);
        let is_unknown =
            |child: &&str| glancer.glance(child).is_none() && self.scheme.parse(child).is_none();
        let unknown_nodes = children.filter(is_unknown);
        unknown_nodes.fold(None, |before, child| self.refusal(before, child)).map_or(Ok(()), Err)
    }

    /// As [`see`](Self::see), where numbers tell nothing: the contenders come with the
    /// transactions that created them.
    pub(super) fn see_ranked<'a>(
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

    /// Whether somebody who came now would have to wait.
    pub(super) fn is_taken<'a>(&self, children: impl Iterator<Item = &'a str>) -> bool {
        let mut contenders = children.filter_map(|child| self.scheme.parse(child));
        contenders.any(|contender| self.is_blocked_by(contender.mode))
    }

    /// The nodes that carry our guid and mode, lowest first.
    pub(super) fn ours<'a>(&self, children: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
        let (glancer, mark) = (self.glancer(&children), self.scheme.mark(self.guid));
        let may_be_ours =
            |child: &&str| glancer.glance(child).is_none_or(|glance| Some(glance.mark) == mark);
        let names = children.filter(may_be_ours).filter_map(|child| self.scheme.parse(child));
        let is_ours = |name: &Name<'_>| name.guid == Some(self.guid) && name.mode == self.mode;
        let mut ours: Vec<_> = names.filter(is_ours).collect();
        ours.sort_unstable_by_key(|name| (name.sequence, name.child));
        ours.into_iter().map(|name| name.child).collect()
    }

    /// Where a child stands that is waited for if that is before us.
    fn place_of<'a>(&self, child: &'a str, name: Option<Name<'a>>) -> Option<Place<'a>> {
        match name {
            Some(name) => self.blocks(name).then(|| by_number(child)),
            None if self.unknown_nodes == UnknownNodePolicy::Count
                && self.is_blocked_by(LockMode::Shared) =>
            {
                Some(Place::new(child, child))
            }
            None => None,
        }
    }

    fn glancer<'a>(&self, children: &impl Iterator<Item = &'a str>) -> Glancer {
        Glancer::new(&self.scheme, children.size_hint().0)
    }

    fn is_ours(&self, child: &str) -> bool {
        self.scheme.parse(child).is_some_and(|name| name.guid == Some(self.guid))
    }

    const fn is_blocked_by(&self, other: LockMode) -> bool {
        matches!(self.mode, LockMode::Exclusive) || matches!(other, LockMode::Exclusive)
    }

    /// Whether a contender blocks us if it is before us. What else carries our guid is us: before
    /// or after a downgrade, or an upgrade.
    fn blocks(&self, name: Name<'_>) -> bool {
        name.guid != Some(self.guid) && self.is_blocked_by(name.mode)
    }
}

/// Numbers in the safe range are compared as text, since they all have ten digits; then a foreign
/// name can be compared with them as Curator does it. Of two with one number, which no server
/// gives twice, all must agree on one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place<'a> {
    /// The beginning of the number, padded with zeros: it decides most comparisons.
    head: u128,
    number: &'a str,
    child: &'a str,
}

impl<'a> Place<'a> {
    fn new(number: &'a str, child: &'a str) -> Self {
        let mut head = [0; 16];
        head.iter_mut().zip(number.bytes()).for_each(|(to, byte)| *to = byte);
        Self { head: u128::from_be_bytes(head), number, child }
    }
}

fn number_of(child: &str) -> &str {
    let number = child.split_at_checked(child.len().wrapping_sub(10));
    number.map_or(child, |(_, number)| number)
}

fn by_number(child: &str) -> Place<'_> {
    Place::new(number_of(child), child)
}

/// A contender, and what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedNode<'a> {
    /// Its node.
    pub name: Name<'a>,
    /// The node that blocks it, if there is one.
    pub waits_for: Option<&'a str>,
}

/// The queue among the children of a lock path, in the order of arrival, as numbers tell
/// it.
pub fn standing<'a>(
    scheme: Scheme,
    children: impl Iterator<Item = &'a str>,
) -> Vec<QueuedNode<'a>> {
    let mut names: Vec<_> = children.filter_map(|child| scheme.parse(child)).collect();
    names.sort_unstable_by_key(|name| (name.sequence, name.child));
    // The last contender and the last exclusive one, of those before.
    let (mut last, mut exclusive) = (None, None);
    let standing = |name: Name<'a>| {
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
    names.into_iter().map(standing).collect()
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec;

    use zk_session::proto::SessionId;

    use super::super::name::LAST_SAFE_HEAD;
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

    /// What the contender of a mutex that owns `own` sees.
    fn position(own: &str, children: &[&str]) -> QueuePosition {
        let guid = Scheme::CURATOR_MUTEX.parse(own).and_then(|name| name.guid);
        let guid = guid.unwrap_or(Uuid::from_u128(1)).as_u128();
        queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, guid)
            .see(own, children.iter().copied())
            .position
    }

    fn behind(predecessor: &str, ahead: usize) -> QueuePosition {
        QueuePosition::Behind { predecessor: predecessor.to_string(), ahead }
    }

    #[test]
    fn only_lower_contenders_block_and_only_the_highest_of_them_is_watched() {
        // Guids in the opposite order of numbers: names must not be compared as text.
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
    fn readers_look_only_at_lower_writers() {
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
                .see(&names[n], names.iter().map(String::as_str))
                .position;
            let expected =
                blocked.map_or(QueuePosition::First, |(by, ahead)| behind(&names[by], ahead));
            assert_eq!(position, expected, "number {n}");
        }
    }

    #[test]
    fn one_waits_for_both_halves_of_somebody_elses_downgrade_and_not_for_its_own() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let writer = node(SCHEME, LockMode::Exclusive, 2, 5);
        let reader = node(SCHEME, LockMode::Shared, 2, 5);
        let next = node(SCHEME, LockMode::Exclusive, 1, 6);
        for there in [vec![&writer, &reader], vec![&writer], vec![&reader]] {
            let children = there.iter().map(|node| node.as_str()).chain([&*next]);
            let position =
                queue_reader(SCHEME, LockMode::Exclusive, 1).see(&next, children.clone()).position;
            assert!(
                matches!(position, QueuePosition::Behind { ahead, .. } if ahead == there.len()),
                "{position:?}"
            );
            if there.contains(&&reader) {
                assert_eq!(
                    queue_reader(SCHEME, LockMode::Shared, 2).see(&reader, children).position,
                    QueuePosition::First
                );
            }
        }
    }

    #[test]
    fn who_waits_for_whom_can_be_told_from_names() {
        const SCHEME: Scheme = Scheme::CURATOR_READ_WRITE;
        let queue = "RRWRRWWRWRR".bytes().zip(0..);
        let mode = |role| if role == b'W' { LockMode::Exclusive } else { LockMode::Shared };
        let names: Vec<_> =
            queue.map(|(role, n)| node(SCHEME, mode(role), 20 - n as u128, n)).collect();
        let children = names.iter().rev().map(String::as_str).chain(["junk"]);
        let standing = standing(SCHEME, children);
        assert!(standing.iter().map(|place| place.name.child).eq(&names));
        let place_of = |child| names.iter().position(|name| name == child);
        let waits_for: Vec<_> =
            standing.iter().map(|place| place.waits_for.and_then(place_of)).collect();
        let expected = [-1, -1, 1, 2, 2, 4, 5, 6, 7, 8, 8].map(|n| usize::try_from(n).ok());
        assert_eq!(waits_for, expected);
    }

    #[test]
    fn numbers_at_the_end_of_the_range_decide_nothing() {
        for other in [i32::MAX, LAST_SAFE + 1, -1, i32::MIN] {
            let (own, other) = (name(1, 5), name(2, other));
            assert_eq!(position(&own, &[&own, &other]), QueuePosition::Exhausted, "{other}");
        }
        let (own, other) = (name(1, 5), name(2, LAST_SAFE));
        assert_eq!(position(&own, &[&own, &other]), QueuePosition::First);
    }

    #[test]
    fn ranks_decide_where_numbers_do_not() {
        let (one, two, own) = (name(2, -7), name(3, i32::MAX), name(1, i32::MIN));
        let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
        let ranked = [(Zxid(9), &*one), (Zxid(5), &*two), (Zxid(7), &*own)];
        assert_eq!(queue_reader.see_ranked(Zxid(7), ranked.into_iter()), behind(&two, 1));
        assert_eq!(
            queue_reader.see_ranked(Zxid(7), [ranked[0], ranked[2]].into_iter()),
            QueuePosition::First
        );
    }

    #[test]
    fn of_two_with_one_number_only_one_is_first() {
        // No server does that; somebody may have chosen the name of a node.
        let (one, two) = (name(1, 5), name(2, 5));
        let children = [&*two, &*one];
        assert_eq!(position(&one, &children), QueuePosition::First);
        assert_eq!(position(&two, &children), behind(&one, 1));
    }

    /// What [`QueueReader::see`] must say, by reading every name to its end.
    fn plainly(queue_reader: &QueueReader, own: &str, children: &[&str]) -> QueuePosition {
        let own_name =
            queue_reader.scheme.parse(own).filter(|own| own.guid.is_some() && own.tells_order());
        let others = children.iter().filter(|child| **child != own);
        let names: Vec<_> =
            others.map(|child| (*child, queue_reader.scheme.parse(child))).collect();
        let place = |child: &str| {
            let number = child.split_at_checked(child.len().wrapping_sub(10));
            (number.map_or(child, |(_, number)| number).to_string(), child.to_string())
        };
        let is_exhausted =
            |(_, name): &(_, Option<Name<'_>>)| name.is_some_and(|it| !it.tells_order());
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
    fn what_is_told_at_a_glance_is_what_reading_to_the_end_tells() {
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
        let numbers = [0, 1, 2, 3, 4, 5, 6, 7, 9, 10, LAST_SAFE - 1, LAST_SAFE];
        let bad_numbers = [LAST_SAFE + 1, i32::MAX, -1, i32::MIN];
        let odd = ['0', '3', '9', 'g', 'A', 'F', 'w', '-', '_', '/', ':', '@', '`', '\u{0}', 'ü'];
        let (mut read, mut glanced) = (0, 0);
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
            let glancer = Glancer::new(&scheme, usize::MAX);
            for child in &children {
                let name = scheme.parse(child);
                read += usize::from(name.is_some());
                if let Some(glance) = glancer.glance(child) {
                    glanced += 1;
                    let name = name.unwrap_or_else(|| panic!("{child} by {scheme:?}"));
                    assert_eq!(glance.mode, name.mode, "{child}");
                    assert_eq!(glance.number, by_number(child).head, "{child}");
                    assert_eq!(Some(glance.mark), name.guid.and_then(|guid| scheme.mark(guid)));
                    assert_eq!(name.tells_order(), glance.number <= LAST_SAFE_HEAD, "{child}");
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
                    let Observation { position, unknown_node: stranger, .. } =
                        queue_reader.see(&own, list.iter().copied());
                    assert_eq!(
                        position,
                        plainly(&queue_reader, &own, list),
                        "{own} in {list:?} by {queue_reader:?}"
                    );
                    let mut others = list.iter().filter(|child| **child != own);
                    let expected = others.find(|child| scheme.parse(child).is_none());
                    assert_eq!(stranger, expected.copied());
                }
            }
        }
        assert_eq!(LAST_SAFE_HEAD, by_number(&format!("{LAST_SAFE:010}")).head);
        assert!(glanced > read / 2, "{glanced} of {read} at a glance");
    }

    #[test]
    fn our_own_number_must_be_readable() {
        let own = name(1, 5).replace("0000000005", "3000000000");
        assert_eq!(position(&own, &[&own, &name(2, 5)]), QueuePosition::Exhausted);
        assert_eq!(position(&own, &[&name(2, 5)]), QueuePosition::Absent);
    }

    #[test]
    fn an_unknown_child_counts_where_curator_would_sort_it() {
        let own = name(1, 5);
        let see = |unknown_nodes, child: &'static str| {
            let children = [child, &*own];
            let queue_reader = QueueReader {
                unknown_nodes,
                ..queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1)
            };
            let observation = queue_reader.see(&own, children.into_iter());
            assert_eq!(observation.unknown_node, Some(child));
            observation.position
        };
        assert_eq!(see(UnknownNodePolicy::Count, "0000000004"), behind("0000000004", 1));
        assert_eq!(see(UnknownNodePolicy::Count, "-early"), behind("-early", 1));
        assert_eq!(see(UnknownNodePolicy::Count, "lease_holder"), QueuePosition::First);
        assert_eq!(see(UnknownNodePolicy::Ignore, "0000000004"), QueuePosition::First);
    }

    #[test]
    fn a_lock_is_taken_by_whoever_would_block_a_newcomer() {
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
    fn nodes_are_found_by_guid_and_claim() {
        let (low, high, other) = (name(1, 3), name(1, 8), name(2, 4));
        let queue_reader = queue_reader(Scheme::CURATOR_MUTEX, LockMode::Exclusive, 1);
        assert_eq!(
            queue_reader.ours([&*high, &*other, &*low, "junk"].into_iter()),
            [&*low, &*high]
        );
        let children = [(LockMode::Shared, 1), (LockMode::Exclusive, 2)]
            .map(|(mode, n)| node(Scheme::CURATOR_READ_WRITE, mode, 1, n));
        let queue_reader = QueueReader { scheme: Scheme::CURATOR_READ_WRITE, ..queue_reader };
        assert_eq!(queue_reader.ours(children.iter().map(String::as_str)), [&*children[1]]);
    }
}
