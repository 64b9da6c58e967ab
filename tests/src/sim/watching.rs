//! What one client knows by its watches: a change is told, or that some may have been missed.

use alloc::collections::{BTreeMap, BTreeSet};

use zk_proto::Zxid;

use super::{Call, CallId};
use crate::server::Ensemble;

/// A version of a node: the transaction that wrote it, if there is a node.
pub(super) type Seen = Option<Zxid>;

/// A watch that stays.
#[derive(Debug)]
struct Staying {
    path: String,
    /// Whether it watches everything below, too.
    below: bool,
    /// What was seen since the last event or gap, by path.
    known: BTreeMap<String, Seen>,
}

impl Staying {
    fn covers(&self, path: &str) -> bool {
        let rest = path.strip_prefix(&self.path);
        rest.is_some_and(|rest| rest.is_empty() || self.below && rest.starts_with('/'))
    }
}

/// The watches of one client.
#[derive(Debug, Default)]
pub(super) struct Watching {
    /// What was to be seen when each watch was set that fires once.
    once: BTreeMap<CallId, (String, Seen)>,
    staying: BTreeMap<CallId, Staying>,
    /// Those that were dropped before they were set.
    unwanted: BTreeSet<CallId>,
}

impl Watching {
    pub(super) fn clear(&mut self) {
        self.once.clear();
        self.staying.clear();
    }

    /// A watch that stays is set.
    pub(super) fn stays(&mut self, id: CallId, path: &str, below: bool) {
        if !self.unwanted.remove(&id) {
            let staying = Staying { path: path.to_owned(), below, known: BTreeMap::new() };
            self.staying.insert(id, staying);
        }
    }

    /// A watch was dropped.
    pub(super) fn dropped(&mut self, id: CallId) {
        if self.staying.remove(&id).is_none() {
            self.unwanted.insert(id);
        }
    }

    /// An event was told. Whether there is such a watch.
    pub(super) fn fired(&mut self, id: CallId, path: &str) -> bool {
        match self.staying.get_mut(&id).filter(|staying| staying.covers(path)) {
            Some(staying) => {
                staying.known.remove(path);
                true
            }
            None => self.once.remove(&id).is_some_and(|(watched, _)| watched == path),
        }
    }

    /// It was told that events may have been missed. Whether there is such a watch.
    pub(super) fn has_gap(&mut self, id: CallId) -> bool {
        let staying = self.staying.get_mut(&id);
        staying.map(|staying| staying.known.clear()).is_some()
    }

    /// An answer shows a version of the node that `call` is about. What is wrong, if a watch should
    /// have told of it before.
    pub(super) fn saw(&mut self, id: CallId, call: &Call, seen: Seen) -> Result<(), String> {
        let path = call.path();
        let missed = self.once.values().find(|(watched, set)| watched == path && *set != seen);
        if let Some((_, set)) = missed {
            return Err(format!("{path} is of {seen:?}, watched since {set:?}, no event"));
        }
        if call.watches_once() {
            self.once.insert(id, (path.to_owned(), seen));
        }
        for staying in self.staying.values_mut().filter(|staying| staying.covers(path)) {
            if let Some(known) = staying.known.insert(path.to_owned(), seen)
                && known != seen
            {
                return Err(format!(
                    "{path} is of {seen:?}, seen at {known:?}, neither an event nor a gap"
                ));
            }
        }
        Ok(())
    }

    /// What is watched.
    pub(super) fn paths(&self) -> impl Iterator<Item = &str> {
        let once = self.once.values().map(|(path, _)| path.as_str());
        once.chain(self.staying.values().map(|staying| staying.path.as_str()))
    }

    /// Notes in `missed` what was never told.
    pub(super) fn conclude(&self, ensemble: &Ensemble, missed: &mut Vec<String>) {
        let known = self.staying.values().flat_map(|staying| &staying.known);
        let once = self.once.values().map(|(path, seen)| (path, seen));
        for (path, seen) in once.chain(known) {
            let there = ensemble.node(path).map(|node| node.stat().mzxid);
            if there != *seen {
                missed.push(format!("{path} is of {there:?}, but watched at {seen:?}"));
            }
        }
    }
}
