//! The queue of one lock.

use std::collections::BTreeMap;

use zk_proto::{SequenceNumber, Zxid};

#[derive(Debug)]
pub(super) struct LockNode {
    pub(super) created: Zxid,
    pub(super) path: String,
}

impl LockNode {
    pub(super) fn new(created: Zxid, path: &str) -> Self {
        Self { created, path: path.to_owned() }
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
}
