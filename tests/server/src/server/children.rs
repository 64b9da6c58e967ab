//! The children of a node, in the order in which a real server lists them.

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};

/// The names of children, in the order of a Java `HashSet` (`DataNode.children`).
///
/// So a client that forgets to sort a list fails here as it would with a real server. A real server
/// that has read a snapshot may have another order, since the set has grown otherwise. Nor does this
/// model the trees that Java makes of more than eight names in one bucket.
#[derive(Clone, Debug)]
pub(super) struct Children {
    /// By bucket, and within it by insertion.
    names: BTreeMap<(u32, u64), String>,
    /// The number of buckets, a power of two.
    buckets: u32,
    inserted: u64,
}

impl Children {
    pub(super) const fn new() -> Self {
        Self { names: BTreeMap::new(), buckets: 8, inserted: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = &str> {
        self.names.values().map(String::as_str)
    }

    pub(super) fn insert(&mut self, name: &str) {
        if self.place(name).is_none() {
            self.inserted += 1;
            self.names.insert((self.bucket(name), self.inserted), name.to_string());
            self.grow();
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if let Some(place) = self.place(name) {
            self.names.remove(&place);
        }
    }

    fn place(&self, name: &str) -> Option<(u32, u64)> {
        let bucket = self.bucket(name);
        let mut names = self.names.range((bucket, 0)..=(bucket, u64::MAX));
        names.find(|(_, other)| *other == name).map(|(place, _)| *place)
    }

    fn bucket(&self, name: &str) -> u32 {
        let hash = hash_code(name);
        (hash ^ hash >> 16) & (self.buckets - 1)
    }

    /// Doubles the buckets if more than three quarters are used. They never become fewer.
    fn grow(&mut self) {
        if self.len() > self.buckets as usize / 4 * 3 && self.buckets < 1 << 30 {
            self.buckets *= 2;
            let names = core::mem::take(&mut self.names).into_iter();
            self.names =
                names.map(|((_, order), name)| ((self.bucket(&name), order), name)).collect();
        }
    }
}

impl<'a> FromIterator<&'a str> for Children {
    fn from_iter<I: IntoIterator<Item = &'a str>>(names: I) -> Self {
        let mut children = Self::new();
        names.into_iter().for_each(|name| children.insert(name));
        children
    }
}

/// Returns what `String.hashCode` returns in Java.
fn hash_code(text: &str) -> u32 {
    text.encode_utf16().fold(0, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()))
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::vec::Vec;

    use super::*;

    #[test]
    fn hash_codes_are_those_of_java() {
        // As `"...".hashCode()` returns them.
        for (text, hash) in [("", 0), ("a", 97), ("zookeeper", 1_600_681_804), ("ü", 252)] {
            assert_eq!(hash_code(text), hash, "{text}");
        }
    }

    /// The order that Java 17 prints for the same calls of `new HashSet<>(8)`.
    #[test]
    fn the_order_is_that_of_java() {
        let name = |number| format!("_c_{}-lock-{number:010}", number * 7_919 % 1_000);
        let names: Vec<_> = (0..30).map(name).collect();
        let mut children: Children = names.iter().map(String::as_str).collect();
        (0..30).step_by(3).for_each(|number| children.remove(&name(number)));
        ["Aa", "BB", "zookeeper", "Aa"].iter().for_each(|name| children.insert(name));
        let java = [14, 4, 22, 10, 20, 19, 29, 8, 28, 13, 26, 2, 11, 17, 7, 23, 5, 16, 25, 1];
        let mut expected: Vec<_> = java.map(name).to_vec();
        expected.insert(1, "Aa".into());
        expected.insert(2, "BB".into());
        expected.insert(12, "zookeeper".into());
        assert_eq!(children.iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn names_are_in_no_order_that_a_client_may_rely_on() {
        let names: Vec<_> = (0..100).map(|number| format!("lock-{number:010}")).collect();
        let mut children: Children = names.iter().map(String::as_str).collect();
        assert_eq!((children.len(), children.buckets), (100, 256));
        let listed: Vec<_> = children.iter().map(ToString::to_string).collect();
        assert!(!listed.is_sorted(), "{listed:?}");
        assert_ne!(listed, names);
        let mut sorted = listed;
        sorted.sort();
        assert_eq!(sorted, names);
        for name in &names {
            children.insert(name);
            children.remove(name);
            children.remove(name);
        }
        assert_eq!((children.len(), children.iter().next()), (0, None));
    }
}
