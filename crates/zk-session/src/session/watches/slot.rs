//! The requests that share one watch.

use crate::sync::Arc;
use alloc::vec::Vec;

use super::slab::{NOWHERE, Slab, WatchPlace};
use super::{Class, SessionWatchKind};
use crate::session::RequestId;
#[cfg(test)]
pub(super) use crate::session::tests::sharing::visits;

/// The watch of one class on one path.
///
/// Each operation takes constant time, however many requests share the path. So setting, dropping
/// and firing n watches takes time in proportion to n.
#[derive(Clone, Debug)]
pub(super) struct WatchSlot {
    pub(super) path: Arc<str>,
    pub(super) class: Class,
    /// The hash of the path.
    pub(super) hash: u32,
    /// The next slot whose hash is in the same chain.
    pub(super) next: WatchPlace,
    /// The ends of the list of callers, in the order of their requests.
    ///
    /// Replies come in that order, except refusals. So callers that wait for events come before
    /// those whose requests are pending.
    first: WatchPlace,
    last: WatchPlace,
    /// How many callers are not [`WatchStage::Dropped`].
    needed: u32,
    /// Whether the server has the watch.
    armed: bool,
    /// A removal was sent on this connection behind the requests up to this one.
    removed_up_to: u64,
}

/// A request that has set a watch, or is about to.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    number: u64,
    pub(super) slot: WatchPlace,
    previous: WatchPlace,
    next: WatchPlace,
    /// Who receives the events.
    receiver: u32,
    stage: WatchStage,
}

impl Caller {
    fn id(&self, place: WatchPlace) -> RequestId {
        RequestId { number: self.number, place, receiver: self.receiver }
    }
}

/// The progress of a request that sets a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchStage {
    /// The request is pending.
    Asked,
    /// The request is pending, and its watch was dropped while there was no connection. So no
    /// removal follows the request.
    Left,
    /// The request is pending on this connection, and its watch was dropped.
    Dropped,
    Waiting(SessionWatchKind),
}

impl WatchStage {
    fn is_pending(self) -> bool {
        !matches!(self, Self::Waiting(_))
    }
}

/// The callers of all slots. Those of one slot are a list.
#[derive(Clone, Debug)]
pub(super) struct Callers(Slab<Caller>);

impl Callers {
    pub(super) const fn new() -> Self {
        Self(Slab::new())
    }

    /// Returns the caller that has made a request.
    pub(super) fn of(&self, id: RequestId) -> Option<&Caller> {
        self.at(id.place).filter(|caller| caller.number == id.number)
    }

    /// Sets the receiver of the events of a watch. Returns the id that names it.
    pub(super) fn assign(&mut self, id: RequestId, receiver: u32) -> RequestId {
        if let Some(caller) = self.at_mut(id.place) {
            caller.receiver = receiver;
        }
        RequestId { receiver, ..id }
    }

    fn at(&self, place: WatchPlace) -> Option<&Caller> {
        visits::count();
        self.0.get(place)
    }

    fn at_mut(&mut self, place: WatchPlace) -> Option<&mut Caller> {
        visits::count();
        self.0.get_mut(place)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.len() == 0
    }
}

impl WatchSlot {
    pub(super) fn new(class: Class, path: Arc<str>, hash: u32) -> Self {
        Self {
            path,
            class,
            hash,
            next: NOWHERE,
            first: NOWHERE,
            last: NOWHERE,
            needed: 0,
            armed: false,
            removed_up_to: 0,
        }
    }

    /// Adds a pending request. `slot` is the place of this slot.
    pub(super) fn begin(
        &mut self,
        callers: &mut Callers,
        slot: WatchPlace,
        number: u64,
    ) -> RequestId {
        let (previous, next, receiver) = (self.last, NOWHERE, NOWHERE);
        let stage = WatchStage::Asked;
        let place = callers.0.insert(Caller { number, slot, previous, next, receiver, stage });
        match callers.at_mut(previous) {
            Some(previous) => previous.next = place,
            None => self.first = place,
        }
        self.last = place;
        self.needed += 1;
        RequestId::of_caller(number, place)
    }

    /// Removes a request that was lost, or whose watch is over.
    pub(super) fn remove(&mut self, callers: &mut Callers, place: WatchPlace) {
        let Some(Caller { previous, next, stage, .. }) = callers.0.remove(place) else { return };
        match callers.at_mut(previous) {
            Some(previous) => previous.next = next,
            None => self.first = next,
        }
        match callers.at_mut(next) {
            Some(next) => next.previous = previous,
            None => self.last = previous,
        }
        self.needed -= u32::from(stage != WatchStage::Dropped);
    }

    /// Returns whether no request needs the slot.
    pub(super) fn is_empty(&self) -> bool {
        self.first == NOWHERE
    }

    /// Records the reply to a request: the kind of watch that the server has set, if any.
    pub(super) fn finish(
        &mut self,
        callers: &mut Callers,
        place: WatchPlace,
        kind: Option<SessionWatchKind>,
    ) {
        let Some(caller) = callers.at_mut(place) else { return };
        let is_removed = caller.stage == WatchStage::Dropped && caller.number <= self.removed_up_to;
        self.armed |= kind.is_some() && !is_removed;
        match kind {
            Some(kind) if caller.stage == WatchStage::Asked => {
                caller.stage = WatchStage::Waiting(kind);
            }
            _ => self.remove(callers, place),
        }
    }

    /// Drops the watch of a request. A pending request keeps its entry: the server may yet set the
    /// watch, which then has to be removed.
    pub(super) fn leave(&mut self, callers: &mut Callers, place: WatchPlace, is_connected: bool) {
        let Some(caller) = callers.at_mut(place) else { return };
        match caller.stage {
            WatchStage::Waiting(_) => self.remove(callers, place),
            WatchStage::Asked if is_connected => {
                caller.stage = WatchStage::Dropped;
                self.needed -= 1;
            }
            WatchStage::Asked => caller.stage = WatchStage::Left,
            WatchStage::Left | WatchStage::Dropped => {}
        }
    }

    /// Returns whether to remove the watch from the server now.
    pub(super) fn take_removal(&mut self, callers: &Callers) -> bool {
        if self.needed > 0 {
            return false;
        }
        let mut is_due = core::mem::take(&mut self.armed);
        if let Some(last) = callers.at(self.last) {
            is_due |= last.number > self.removed_up_to;
            self.removed_up_to = last.number;
        }
        is_due
    }

    /// Records that the server has the watch, whatever becomes of the pending requests.
    pub(super) fn stays(&mut self) {
        self.armed = true;
    }

    /// Records that the watch has fired. Takes the requests that waited, and keeps the pending
    /// ones.
    pub(super) fn fire(&mut self, callers: &mut Callers, fired: &mut Vec<RequestId>) {
        self.armed = false;
        while let Some(caller) = callers.at(self.first)
            && !caller.stage.is_pending()
        {
            fired.push(caller.id(self.first));
            self.remove(callers, self.first);
        }
    }

    /// Adds the requests that wait for events.
    pub(super) fn add_waiting(&self, callers: &Callers, waiting: &mut Vec<RequestId>) {
        let mut place = self.first;
        while let Some(caller) = callers.at(place)
            && !caller.stage.is_pending()
        {
            waiting.push(caller.id(place));
            place = caller.next;
        }
    }

    /// Returns the kind of watch of the newest request that waits for events.
    pub(super) fn newest(&self, callers: &Callers) -> Option<SessionWatchKind> {
        let mut caller = callers.at(self.last)?;
        loop {
            match caller.stage {
                WatchStage::Waiting(kind) => return Some(kind),
                _ => caller = callers.at(caller.previous)?,
            }
        }
    }

    /// Records the loss of the connection. Requests that are still pending were not sent, and
    /// removals no longer follow them.
    pub(super) fn disconnected(&mut self, callers: &mut Callers) {
        self.armed = self.newest(callers).is_some();
        self.removed_up_to = 0;
        let mut place = self.last;
        while let Some(caller) = callers.at_mut(place)
            && caller.stage.is_pending()
        {
            if caller.stage == WatchStage::Dropped {
                caller.stage = WatchStage::Left;
                self.needed += 1;
            }
            place = caller.previous;
        }
    }
}

#[cfg(not(test))]
pub(super) mod visits {
    pub(in crate::session) fn count() {}
}
