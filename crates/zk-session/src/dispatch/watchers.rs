//! The watches of callers: who receives their events.

use alloc::sync::Arc;

use super::attached::Input;
use super::effects::Wakers;
use crate::session::event::{RequestId, State};
use crate::session::watches::slab::Slab;

/// What waits for the events of a caller's watch.
pub trait Watcher: Send + Sync {
    /// Handles an input about the watch, or the state that ends it.
    fn handle(self: Arc<Self>, input: Input, wakers: &mut Wakers);

    /// Returns whether the watch passes to a new session, as persistent ones do.
    fn outlives_session(&self) -> bool;
}

struct WatcherEntry {
    /// The number of the request.
    number: u64,
    watcher: Arc<dyn Watcher>,
}

/// The watches of a session's callers, by their [receivers](RequestId::receiver).
pub(crate) struct Watchers(Slab<WatcherEntry>);

impl Watchers {
    pub(super) const fn new() -> Self {
        Self(Slab::new())
    }

    /// Delivers an input about a caller's watch, with the tag 0, and forgets the watch if it is over.
    pub(super) fn deliver(
        &mut self,
        request: RequestId,
        is_over: bool,
        input: &dyn Fn(u64) -> Input,
        wakers: &mut Wakers,
    ) {
        let watcher = match is_over {
            true => self.remove(request),
            false => self.get(request).map(|entry| entry.watcher.clone()),
        };
        if let Some(watcher) = watcher {
            watcher.handle(input(0), wakers);
        }
    }

    /// Adds the watch that a request sets. Returns its receiver.
    pub(crate) fn insert(&mut self, request: RequestId, watcher: Arc<dyn Watcher>) -> u32 {
        self.0.insert(WatcherEntry { number: request.number, watcher }) | RequestId::CALLERS
    }

    /// Forgets a watch. Returns what waits for it, unless the watch is over.
    pub(crate) fn remove(&mut self, request: RequestId) -> Option<Arc<dyn Watcher>> {
        self.get(request)?;
        self.0.remove(request.receiver & !RequestId::CALLERS).map(|entry| entry.watcher)
    }

    fn get(&self, request: RequestId) -> Option<&WatcherEntry> {
        let entry = self.0.get(request.receiver & !RequestId::CALLERS);
        entry.filter(|entry| entry.number == request.number)
    }

    /// Ends the watches that end with a state of the session: all, or the one-shot ones.
    pub(super) fn end(&mut self, state: State, wakers: &mut Wakers) {
        for place in self.0.places() {
            let entry = self.0.get(place);
            let outlives = |entry: &WatcherEntry| entry.watcher.outlives_session();
            if entry.is_some_and(|entry| state != State::Renewing || !outlives(entry))
                && let Some(ended) = self.0.remove(place)
            {
                ended.watcher.handle(Input::State(state), wakers);
            }
        }
    }
}
