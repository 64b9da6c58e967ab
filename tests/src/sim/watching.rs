//! Checks the watches of one client: each change is reported by an event or covered by a gap.

use alloc::collections::{BTreeMap, BTreeSet};

use zk_proto::Zxid;

use super::{Call, CallId};
use crate::server::Ensemble;

/// A version of a node: its `mzxid`, or `None` if the node does not exist.
pub(super) type Seen = Option<Zxid>;

/// A persistent watch.
#[derive(Debug)]
struct Persistent {
    path: String,
    /// Whether it is recursive.
    below: bool,
    /// The versions read since the last event or gap, by path.
    known: BTreeMap<String, Seen>,
}

impl Persistent {
    fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.path);
        rest.is_some_and(|rest| rest.is_empty() || self.below && rest.starts_with('/'))
    }
}

/// The watches of one client.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// The version at which each one-shot watch was set.
    once: BTreeMap<CallId, (String, Seen)>,
    persistent: BTreeMap<CallId, Persistent>,
    /// Watches removed before they were set.
    unwanted: BTreeSet<CallId>,
}

impl Watching {
    pub(super) fn clear(&mut self) {
        self.once.clear();
        self.persistent.clear();
    }

    /// Records that the session was renewed: only persistent watches stay.
    pub(super) fn renewed(&mut self) {
        self.once.clear();
    }

    /// Records that a persistent watch is set.
    pub(super) fn set_persistent(&mut self, id: CallId, path: &str, below: bool) {
        if !self.unwanted.remove(&id) {
            let persistent = Persistent { path: path.to_owned(), below, known: BTreeMap::new() };
            self.persistent.insert(id, persistent);
        }
    }

    /// Records that a persistent watch was removed.
    pub(super) fn dropped(&mut self, id: CallId) {
        if self.persistent.remove(&id).is_none() {
            self.unwanted.insert(id);
        }
    }

    /// Records a watch event. Returns whether there is such a watch.
    pub(super) fn fired(&mut self, id: CallId, path: &str) -> bool {
        match self.persistent.get_mut(&id).filter(|persistent| persistent.covers(path)) {
            Some(persistent) => {
                persistent.known.remove(path);
                true
            }
            None => self.once.remove(&id).is_some_and(|(watched, _)| watched == path),
        }
    }

    /// Records a gap. Returns whether there is such a watch.
    pub(super) fn has_gap(&mut self, id: CallId) -> bool {
        let persistent = self.persistent.get_mut(&id);
        persistent.map(|persistent| persistent.known.clear()).is_some()
    }

    /// Records the version of a node that the reply to `call` shows.
    ///
    /// # Errors
    ///
    /// A description of the violation, if a watch event should have come before.
    pub(super) fn saw(&mut self, id: CallId, call: &Call, seen: Seen) -> Result<(), String> {
        let path = call.path();
        let missed = self.once.values().find(|(watched, set)| watched == path && *set != seen);
        if let Some((_, set)) = missed {
            return Err(format!("{path} is of {seen:?}, watched since {set:?}, no event"));
        }
        if call.watches_once() {
            self.once.insert(id, (path.to_owned(), seen));
        }
        for persistent in self.persistent.values_mut().filter(|persistent| persistent.covers(path))
        {
            if let Some(known) = persistent.known.insert(path.to_owned(), seen)
                && known != seen
            {
                return Err(format!(
                    "{path} is of {seen:?}, seen at {known:?}, neither an event nor a gap"
                ));
            }
        }
        Ok(())
    }

    /// Returns the watched paths.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let once = self.once.values().map(|(path, _)| path.as_str());
        once.chain(self.persistent.values().map(|persistent| persistent.path.as_str()))
    }

    /// Adds every change without a watch event to `missed`.
    pub(super) fn conclude(&self, ensemble: &Ensemble, missed: &mut Vec<String>) {
        let known = self.persistent.values().flat_map(|persistent| &persistent.known);
        let once = self.once.values().map(|(path, seen)| (path, seen));
        for (path, seen) in once.chain(known) {
            let there = ensemble.node(path).map(|node| node.stat().mzxid);
            if there != *seen {
                missed.push(format!("{path} is of {there:?}, but watched at {seen:?}"));
            }
        }
    }
}
