//! The sorted queue of a mutex, for attempts that share one list of it.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::name::fast::{FastParser, guid_tag_of};
use super::name::{LockMode, Scheme};
use super::queue::{QueuePosition, QueueReader, sort_key};

/// The names of a list, sorted once. Each attempt finds its place without reading all of them.
#[derive(Debug)]
pub(crate) struct SortedQueue {
    scheme: Scheme,
    names: Vec<String>,
    /// The digits of each sequence number, and the place of the name, sorted.
    order: Vec<(u128, usize)>,
    /// The same with the tags of their GUIDs.
    tags: Vec<(u128, usize)>,
}

impl SortedQueue {
    /// Sorts a list. `None` if it has anything but exclusive contenders with safe sequence numbers.
    pub(crate) fn new<'a>(
        scheme: Scheme,
        children: impl Iterator<Item = &'a str> + Clone,
    ) -> Option<Self> {
        let parser = FastParser::new(&scheme, children.size_hint().0);
        let (mut names, mut order, mut tags) = (Vec::new(), Vec::new(), Vec::new());
        for (place, child) in children.enumerate() {
            let fast = parser.parse(child).filter(|fast| fast.mode == LockMode::Exclusive)?;
            names.push(child.to_string());
            order.push((fast.digits, place));
            tags.push((fast.guid_tag.into(), place));
        }
        // Both of one type, so programs have one sort.
        for keys in [&mut order, &mut tags] {
            keys.sort_unstable();
        }
        let is_twice = |pair: &[(u128, usize)]| matches!(pair, [(a, _), (b, _)] if a == b);
        (!order.windows(2).any(is_twice)).then_some(Self { scheme, names, order, tags })
    }

    /// Returns the position of the node `own`, as [`QueueReader::observe`] finds it. `None` if only
    /// that can.
    pub(crate) fn position(&self, reader: &QueueReader, own: &str) -> Option<QueuePosition> {
        let digits = sort_key(own).digits();
        let place = self.order.binary_search_by_key(&digits, |(digits, _)| *digits).ok()?;
        // Another node may have our GUID.
        let tag = u128::from(guid_tag_of(own.as_bytes())?);
        let first = self.tags.partition_point(|(other, _)| *other < tag);
        let is_ours_only = self.tags.get(first + 1).is_none_or(|(next, _)| *next != tag);
        if self.name(place) != Some(own) || !is_ours_only || reader.scheme != self.scheme {
            return None;
        }
        let before = place.checked_sub(1).and_then(|before| self.name(before));
        Some(QueuePosition::behind(place, before))
    }

    /// Returns the name that is so far behind the first one.
    fn name(&self, ahead: usize) -> Option<&str> {
        let (_, place) = self.order.get(ahead)?;
        self.names.get(*place).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;

    use uuid::Uuid;
    use zk_session::proto::SessionId;

    use super::*;
    use crate::attempt::UnknownNodePolicy;
    use crate::attempt::queue::Observation;

    const SCHEME: Scheme = Scheme::CURATOR_MUTEX;

    fn name(guid: u128, number: u32) -> String {
        let guid = Uuid::from_u128(guid << 96);
        format!("{}{number:010}", SCHEME.prefix(LockMode::Exclusive, guid, SessionId(1)))
    }

    fn reader(guid: u128) -> QueueReader {
        let (mode, guid) = (LockMode::Exclusive, Uuid::from_u128(guid << 96));
        QueueReader { scheme: SCHEME, unknown_nodes: UnknownNodePolicy::default(), mode, guid }
    }

    fn sorted(names: &[String]) -> Option<SortedQueue> {
        SortedQueue::new(SCHEME, names.iter().map(String::as_str))
    }

    /// GUIDs and numbers in different orders.
    fn names() -> Vec<String> {
        (0..100).map(|n| name(n.into(), n * 37 % 100)).collect()
    }

    #[test]
    fn every_attempt_finds_the_place_that_it_would_find_alone() {
        let names = names();
        let queue = sorted(&names).expect("exclusive contenders only");
        for (guid, own) in (0..).zip(&names) {
            let mut seen = Observation::default();
            reader(guid).observe(own, names.iter().map(String::as_str), &mut seen);
            assert_eq!(queue.position(&reader(guid), own), Some(seen.position()), "{own}");
        }
    }

    #[test]
    fn what_is_not_plain_is_left_to_each_attempt() {
        let mut names = names();
        let queue = sorted(&names).expect("exclusive contenders only");
        assert_eq!(queue.position(&reader(200), &name(200, 200)), None, "absent");
        assert_eq!(queue.position(&reader(200), &name(200, 7)), None, "another has the number");
        let other = QueueReader { scheme: Scheme::GO_ZK, ..reader(3) };
        assert_eq!(queue.position(&other, &names[3]), None, "another scheme");

        names.push(name(3, 200));
        let queue = sorted(&names).expect("exclusive contenders only");
        assert_eq!(queue.position(&reader(3), &names[3]), None, "two nodes of one attempt");
        assert!(queue.position(&reader(4), &names[4]).is_some());
        for odd in [name(300, 5), "lease_holder".into(), name(300, 2_147_483_647)] {
            names.push(odd);
            assert!(sorted(&names).is_none(), "{names:?}");
            names.pop();
        }
        assert!(sorted(&names[..3]).is_none(), "it is not worth it");
    }
}
