//! A cache of a simulated client, and a mirror of what it reports.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use zk_proto::Zxid;
use zk_proto::recording::Description;
use zk_recipes::machine::{CacheConfig, CacheEvent, CacheMachine, CacheState, CachedNode};
use zk_session::State;
use zk_session::dispatch::{Attached, Input, Port};

use super::super::Bug;

/// A cache of a client, and a mirror of what it has reported.
#[derive(Clone, Debug)]
pub struct SimCache(Arc<Mutex<Content>>);

#[derive(Debug)]
struct Content {
    machine: CacheMachine,
    is_recursive: bool,
    bug: Option<Bug>,
    mirror: BTreeMap<String, CachedNode>,
    /// Whether the tree is being read, so that changes may be missing.
    is_covered: bool,
    counts: BTreeMap<&'static str, u64>,
    violations: Vec<String>,
}

impl SimCache {
    pub(super) fn new(config: CacheConfig, bug: Option<Bug>) -> Self {
        Self(Arc::new(Mutex::new(Content {
            is_recursive: config.is_recursive,
            machine: CacheMachine::new(config),
            bug,
            mirror: BTreeMap::new(),
            is_covered: true,
            counts: BTreeMap::new(),
            violations: Vec::new(),
        })))
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the state of the cache.
    pub fn state(&self) -> CacheState {
        self.content().machine.state().clone()
    }

    /// Returns whether it contains what is below its root.
    pub fn is_recursive(&self) -> bool {
        self.content().is_recursive
    }

    /// Returns its nodes.
    pub fn nodes(&self) -> BTreeMap<String, CachedNode> {
        let content = self.content();
        let nodes = content.machine.tree().iter();
        nodes.map(|(path, node)| (path.to_string(), node.clone())).collect()
    }

    /// Returns the nodes by what it has reported alone.
    pub fn mirror(&self) -> BTreeMap<String, CachedNode> {
        self.content().mirror.clone()
    }

    /// Returns how often each event was reported.
    pub fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.content().counts.clone()
    }

    /// Returns the reports that contradict each other.
    pub fn violations(&self) -> Vec<String> {
        self.content().violations.clone()
    }
}

impl Attached for SimCache {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        let content = &mut *self.content();
        let is_hidden = match &input {
            Input::State(State::Suspended) => true,
            Input::State(State::Connected { .. }) => !content.counts.is_empty(),
            _ => false,
        };
        if content.bug == Some(Bug::HidesGaps) && is_hidden {
            return;
        }
        let mut events = Vec::new();
        content.machine.drive(input, port, |event, _| events.push(event));
        events.into_iter().for_each(|event| content.note(event));
    }

    fn is_done(&self) -> bool {
        self.content().machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.content().machine.describe(description);
    }
}

impl Content {
    /// Checks an event against those before it.
    fn note(&mut self, event: CacheEvent) {
        let name = match &event {
            CacheEvent::Added(..) => "cache: added",
            CacheEvent::Changed(..) => "cache: changed",
            CacheEvent::Removed(..) => "cache: removed",
            CacheEvent::Reset => "cache: reset",
            CacheEvent::Ready => "cache: ready",
            _ => "cache: ended",
        };
        *self.counts.entry(name).or_default() += 1;
        let versions = |node: &CachedNode| (node.stat.czxid, node.stat.mzxid);
        let shown = format!("{event:?}");
        let mut expect = |is_right: bool, what: &str| {
            if !is_right {
                self.violations.push(format!("{what}: {shown}"));
            }
        };
        match event {
            CacheEvent::Added(path, node) => {
                expect(!self.mirror.contains_key(&*path), "a known node was added");
                self.mirror.insert(path.to_string(), node);
            }
            CacheEvent::Changed(path, node) => {
                let before = self.mirror.get(&*path).map_or((Zxid(-1), Zxid(-1)), versions);
                expect(before.0 == node.stat.czxid, "another node was changed");
                expect(self.is_covered || before < versions(&node), "a node went back");
                self.mirror.insert(path.to_string(), node);
            }
            CacheEvent::Removed(path, node) => {
                let before = self.mirror.remove(&*path);
                // A read may have found nothing new but counts of children.
                let is_known = before.is_some_and(|before| versions(&before) == versions(&node));
                expect(is_known, "not what was known");
            }
            CacheEvent::Reset => {
                expect(!self.is_covered, "a reset of a reset");
                self.is_covered = true;
            }
            CacheEvent::Ready => {
                expect(self.is_covered, "ready again");
                self.is_covered = false;
            }
            _ => self.mirror.clear(),
        }
    }
}
