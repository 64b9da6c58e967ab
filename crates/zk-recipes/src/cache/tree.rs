//! The nodes that a cache has read.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Bound;

use bytes::Bytes;
use zk_session::proto::Stat;
use zk_session::sync::Arc;

/// The memory of an entry besides its path and data, in bytes, about.
const OVERHEAD: usize = 192;

/// A node of a cache: its data and its stat.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct CachedNode {
    /// The data, in an allocation of its own.
    pub data: Bytes,
    /// The stat at the time when the data was read.
    ///
    /// Changes of children and access control lists come without a read. So `cversion`, `pzxid`,
    /// `num_children` and `aversion` may be older than those of the server.
    pub stat: Stat,
}

impl CachedNode {
    /// Makes a node, for tests of code that receives one.
    pub const fn new(data: Bytes, stat: Stat) -> Self {
        Self { data, stat }
    }
}

/// A node, and what the machine knows of it.
#[derive(Clone, Debug)]
pub(super) struct TreeEntry {
    pub(super) node: CachedNode,
    /// The walk that read it last.
    pub(super) walk: u64,
    /// The requests that have set its one-shot watches, or zero.
    pub(super) data_watch: u64,
    pub(super) child_watch: u64,
}

/// The nodes of a cache, by the paths of the server.
#[derive(Clone, Debug, Default)]
pub struct CacheTree {
    entries: BTreeMap<Arc<str>, TreeEntry>,
    bytes: usize,
}

impl CacheTree {
    /// Returns a node.
    pub fn get(&self, path: &str) -> Option<&CachedNode> {
        self.entries.get(path).map(|entry| &entry.node)
    }

    /// Returns all nodes, sorted by path.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &CachedNode)> {
        self.entries.iter().map(|(path, entry)| (path, &entry.node))
    }

    /// Returns the names of the children of a node, sorted. The time is in proportion to their
    /// number, whatever is below them.
    pub fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        let below = below(path);
        let mut next = self.first_after(Bound::Excluded(&below));
        core::iter::from_fn(move || {
            while let Some(path) = next {
                let (name, is_deeper) = match path.strip_prefix(&*below)?.split_once('/') {
                    Some((name, _)) => (name, true),
                    None => (path.get(below.len()..)?, false),
                };
                if !is_deeper {
                    next = self.first_after(Bound::Excluded(path));
                    return Some(name);
                }
                next = self.first_after(Bound::Included(&[&*below, name, "0"].concat()));
            }
            None
        })
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns whether there is no node.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the memory of all nodes, in bytes, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    fn first_after(&self, bound: Bound<&str>) -> Option<&str> {
        let mut range = self.entries.range::<str, _>((bound, Bound::Unbounded));
        range.next().map(|(path, _)| &**path)
    }

    pub(super) fn entry(&mut self, path: &str) -> Option<&mut TreeEntry> {
        self.entries.get_mut(path)
    }

    /// Adds or replaces a node. Returns what was there.
    pub(super) fn insert(&mut self, path: Arc<str>, entry: TreeEntry) -> Option<TreeEntry> {
        self.bytes += size(&path, &entry);
        let before = self.entries.insert(path.clone(), entry);
        self.bytes -= before.as_ref().map_or(0, |before| size(&path, before));
        before
    }

    /// Removes a node and everything below it. Returns what was there, sorted by path.
    pub(super) fn remove(&mut self, path: &str) -> Vec<(Arc<str>, TreeEntry)> {
        let below = below(path);
        let (mut removed, mut next) = (Vec::new(), Some(String::from(path)));
        while let Some(path) = next {
            if let Some((path, entry)) = self.entries.remove_entry(&*path) {
                self.bytes -= size(&path, &entry);
                removed.push((path, entry));
            }
            let first = self.first_after(Bound::Excluded(&below));
            next = first.filter(|path| path.starts_with(&below)).map(String::from);
        }
        removed
    }

    /// Returns the paths of the nodes that this walk has not read.
    pub(super) fn not_read_by(&self, walk: u64) -> Vec<Arc<str>> {
        let unread = self.entries.iter().filter(|(_, entry)| entry.walk != walk);
        unread.map(|(path, _)| path.clone()).collect()
    }

    pub(super) fn entries_mut(&mut self) -> impl Iterator<Item = &mut TreeEntry> {
        self.entries.values_mut()
    }
}

fn size(path: &str, entry: &TreeEntry) -> usize {
    path.len() + entry.node.data.len() + OVERHEAD
}

/// Returns what the paths of all nodes below this one begin with.
fn below(path: &str) -> String {
    [path.trim_end_matches('/'), "/"].concat()
}
