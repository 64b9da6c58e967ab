//! The requests that share one watch.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Kind;
use crate::session::RequestId;
#[cfg(test)]
use crate::session::tests::sharing::visits;

/// The watch of one class on one path.
///
/// Each operation takes constant or logarithmic time, however many requests share the path. So
/// setting, dropping and firing n watches takes time in proportion to n.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// In the order of the requests.
    ///
    /// Replies come in that order, except refusals. So callers that wait for events come before
    /// those whose requests are pending. Neither end is [`Stage::Gone`].
    callers: VecDeque<Caller>,
    /// How many callers are [`Stage::Dropped`].
    dropped: usize,
    /// How many callers are [`Stage::Gone`]: at most half.
    gone: usize,
    /// A removal was sent on this connection behind the requests up to this one.
    removed_up_to: RequestId,
    /// Whether the server has the watch.
    armed: bool,
}

/// A request that has set a watch, or is about to.
#[derive(Clone, Debug)]
struct Caller {
    id: RequestId,
    stage: Stage,
}

/// The progress of a request that sets a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request is pending.
    Asked,
    /// The request is pending on this connection, and its watch was dropped.
    Dropped,
    Waiting(Kind),
    /// The request is answered and its watch was dropped. The entry is free.
    Gone,
}

impl Caller {
    fn id(&self) -> RequestId {
        visits::count();
        self.id
    }

    fn stage(&self) -> Stage {
        visits::count();
        self.stage
    }

    fn is_pending(&self) -> bool {
        matches!(self.stage(), Stage::Asked | Stage::Dropped)
    }
}

impl Slot {
    /// Makes a slot with room for one request: usually it is the only one.
    pub(super) fn new() -> Self {
        Self {
            callers: VecDeque::with_capacity(1),
            dropped: 0,
            gone: 0,
            removed_up_to: RequestId(0),
            armed: false,
        }
    }

    fn caller(&mut self, id: RequestId) -> Option<&mut Caller> {
        let index = self.callers.binary_search_by_key(&id, Caller::id).ok()?;
        self.callers.get_mut(index)
    }

    /// Adds a pending request.
    pub(super) fn begin(&mut self, id: RequestId) {
        self.callers.push_back(Caller { id, stage: Stage::Asked });
    }

    /// Removes a request that was lost.
    pub(super) fn abandon(&mut self, id: RequestId) {
        self.set_stage(id, Stage::Gone);
    }

    /// Returns whether no request needs the slot.
    pub(super) fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    fn set_stage(&mut self, id: RequestId, stage: Stage) {
        let Some(caller) = self.caller(id) else {
            return;
        };
        let before = core::mem::replace(&mut caller.stage, stage);
        self.dropped += usize::from(stage == Stage::Dropped);
        self.dropped -= usize::from(before == Stage::Dropped);
        self.gone += usize::from(stage == Stage::Gone);
        self.gone -= usize::from(before == Stage::Gone);
        self.compact();
    }

    /// Frees entries. Each entry is visited only a few times before it is freed.
    fn compact(&mut self) {
        while self.callers.front().is_some_and(|caller| caller.stage() == Stage::Gone) {
            self.callers.pop_front();
            self.gone -= 1;
        }
        while self.callers.back().is_some_and(|caller| caller.stage() == Stage::Gone) {
            self.callers.pop_back();
            self.gone -= 1;
        }
        if self.gone > self.callers.len() / 2 {
            self.callers.retain(|caller| caller.stage() != Stage::Gone);
            self.gone = 0;
        }
    }

    /// Records the reply to a request: the kind of watch that the server has set, if any.
    pub(super) fn finish(&mut self, id: RequestId, kind: Option<Kind>, is_wanted: bool) {
        let Some(caller) = self.caller(id) else {
            return;
        };
        let stage = caller.stage();
        let is_removed = stage == Stage::Dropped && id <= self.removed_up_to;
        self.armed |= kind.is_some() && !is_removed;
        self.set_stage(id, kind.filter(|_| is_wanted).map_or(Stage::Gone, Stage::Waiting));
    }

    /// Drops the watch of a request. A pending request keeps its entry: the server may yet set the
    /// watch, which then has to be removed.
    pub(super) fn leave(&mut self, id: RequestId, is_connected: bool) {
        match self.caller(id).map(|caller| caller.is_pending()) {
            Some(false) => self.set_stage(id, Stage::Gone),
            Some(true) if is_connected => self.set_stage(id, Stage::Dropped),
            _ => {}
        }
    }

    /// Returns whether to remove the watch from the server now.
    pub(super) fn take_removal(&mut self) -> bool {
        if self.callers.len() > self.dropped + self.gone {
            return false;
        }
        let mut is_due = core::mem::take(&mut self.armed);
        if let Some(last) = self.callers.back() {
            is_due |= last.id > self.removed_up_to;
            self.removed_up_to = last.id;
        }
        is_due
    }

    /// Records that the watch has fired. Returns the requests that waited, and keeps the pending
    /// ones.
    pub(super) fn fire(&mut self) -> Vec<RequestId> {
        self.armed = false;
        let first_pending = self.callers.iter().position(Caller::is_pending);
        let waiting = match first_pending {
            None => core::mem::take(&mut self.callers),
            Some(index) => self.callers.drain(..index).collect(),
        };
        let taken = waiting.len();
        // This works in place if the whole queue was taken.
        let fired: Vec<_> = Vec::from(waiting)
            .into_iter()
            .filter(|caller| caller.stage() != Stage::Gone)
            .map(|caller| caller.id)
            .collect();
        self.gone -= taken - fired.len();
        self.compact();
        fired
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        let waiting = self.callers.iter().take_while(|caller| !caller.is_pending());
        waiting.filter(|caller| caller.stage() != Stage::Gone).map(|caller| caller.id)
    }

    /// Returns the kind of watch of the newest request that waits for events.
    pub(super) fn newest(&self) -> Option<Kind> {
        self.callers.iter().rev().find_map(|caller| match caller.stage() {
            Stage::Waiting(kind) => Some(kind),
            _ => None,
        })
    }

    /// Records the loss of the connection. Requests that are still pending were not sent, and
    /// removals no longer follow them.
    pub(super) fn disconnected(&mut self) {
        for caller in &mut self.callers {
            if caller.stage() == Stage::Dropped {
                caller.stage = Stage::Asked;
            }
        }
        self.dropped = 0;
        self.removed_up_to = RequestId(0);
        self.armed = self.newest().is_some();
    }
}

#[cfg(not(test))]
mod visits {
    pub(super) fn count() {}
}
