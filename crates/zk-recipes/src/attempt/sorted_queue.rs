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
mod tests;
