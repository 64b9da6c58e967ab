//! The queue of one lock.

use std::collections::BTreeMap;

use zk_proto::{SequenceNumber, Zxid};

#[derive(Debug)]
pub(super) struct LockNode {
    pub(super) created: Zxid,
    pub(super) path: String,
    was_first: bool,
    /// Whether its contender has written while it was first.
    has_written: bool,
}

impl LockNode {
    pub(super) fn new(created: Zxid, path: &str) -> Self {
        Self { created, path: path.to_owned(), was_first: false, has_written: false }
    }
}

/// The lock nodes in the order of their sequence numbers.
#[derive(Debug, Default)]
pub(super) struct Queue(BTreeMap<(SequenceNumber, Zxid), LockNode>);

impl Queue {
    pub(super) fn first(&self) -> Option<&LockNode> {
        self.0.values().next()
    }

    /// Returns whether the lock node of this token exists.
    pub(super) fn has(&self, token: Zxid) -> bool {
        self.0.values().any(|node| node.created == token)
    }

    /// Adds a lock node. Returns the path of the first one if the new one is before it.
    pub(super) fn enqueue(&mut self, sequence: SequenceNumber, node: LockNode) -> Option<String> {
        let key = (sequence, node.created);
        let first = self.0.first_key_value().filter(|(first, _)| key < **first);
        let overtaken = first.map(|(_, first)| first.path.clone());
        self.0.insert(key, node);
        overtaken
    }

    pub(super) fn remove(&mut self, path: &str) {
        self.0.retain(|_, node| node.path != path);
    }

    /// Returns whether the first lock node has become first since the last call.
    pub(super) fn mark_first(&mut self) -> bool {
        self.mark(|node| &mut node.was_first)
    }

    /// Returns whether this is the first write of the first lock node.
    pub(super) fn mark_turn(&mut self) -> bool {
        self.mark(|node| &mut node.has_written)
    }

    fn mark(&mut self, mark: impl FnOnce(&mut LockNode) -> &mut bool) -> bool {
        let first = self.0.values_mut().next();
        first.is_some_and(|first| !core::mem::replace(mark(first), true))
    }
}
