//! Who waits for the same watch.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::Kind;
use crate::session::RequestId;
#[cfg(test)]
use crate::session::tests::sharing::visits;

/// The watch of one class on one path.
///
/// Every operation costs the same, or the logarithm, however many callers share the path: setting,
/// dropping and firing n watches takes time in proportion to n.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// In the order of their requests. As answers come in that order, but for refusals, those who
    /// wait stand before those whose requests are under way. There is no [`Stage::Gone`] at either
    /// end.
    callers: VecDeque<Caller>,
    /// How many of them are [`Stage::Dropped`].
    dropped: usize,
    /// How many of them are [`Stage::Gone`]: at most half.
    gone: usize,
    /// A removal follows the requests up to this one, on this connection.
    removed_up_to: RequestId,
    /// Whether the server has it.
    armed: bool,
}

/// One who wants a watch, or has asked for it and does not want it any more.
#[derive(Clone, Debug)]
struct Caller {
    id: RequestId,
    stage: Stage,
}

/// How far one has come who wants a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The request is under way.
    Asked,
    /// It is under way on this connection, and its watch is not wanted any more.
    Dropped,
    Waiting(Kind),
    /// Neither is the request under way, nor the watch wanted: the place is free.
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

    fn is_under_way(&self) -> bool {
        matches!(self.stage(), Stage::Asked | Stage::Dropped)
    }
}

impl Slot {
    /// With room for one, who is mostly the only one.
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
        let place = self.callers.binary_search_by_key(&id, Caller::id).ok()?;
        self.callers.get_mut(place)
    }

    /// Adds a caller whose request is under way.
    pub(super) fn begin(&mut self, id: RequestId) {
        self.callers.push_back(Caller { id, stage: Stage::Asked });
    }

    /// Forgets a caller whose request was lost.
    pub(super) fn abandon(&mut self, id: RequestId) {
        self.set_stage(id, Stage::Gone);
    }

    /// Whether nobody needs it any more.
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

    /// Frees places, each of which is looked at but a few times until then.
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

    /// The request of a caller was answered: the server has set a watch, or none.
    pub(super) fn finish(&mut self, id: RequestId, kind: Option<Kind>, is_wanted: bool) {
        let Some(caller) = self.caller(id) else {
            return;
        };
        let stage = caller.stage();
        let is_removed = stage == Stage::Dropped && id <= self.removed_up_to;
        self.armed |= kind.is_some() && !is_removed;
        self.set_stage(id, kind.filter(|_| is_wanted).map_or(Stage::Gone, Stage::Waiting));
    }

    /// A caller has lost interest. While the request is under way its place is kept, for the
    /// server may yet set the watch, which then has to be removed.
    pub(super) fn leave(&mut self, id: RequestId, is_connected: bool) {
        match self.caller(id).map(|caller| caller.is_under_way()) {
            Some(false) => self.set_stage(id, Stage::Gone),
            Some(true) if is_connected => self.set_stage(id, Stage::Dropped),
            _ => {}
        }
    }

    /// Whether the server has to be told now that nobody wants the watch.
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

    /// The watch has fired: yields those who waited, and keeps those who ask for it anew.
    pub(super) fn fire(&mut self) -> Vec<RequestId> {
        self.armed = false;
        let under_way = self.callers.iter().position(Caller::is_under_way);
        let waiting = match under_way {
            None => core::mem::take(&mut self.callers),
            Some(place) => self.callers.drain(..place).collect(),
        };
        let yielded = waiting.len();
        // In place, when it was taken as a whole.
        let fired: Vec<_> = Vec::from(waiting)
            .into_iter()
            .filter(|caller| caller.stage() != Stage::Gone)
            .map(|caller| caller.id)
            .collect();
        self.gone -= yielded - fired.len();
        self.compact();
        fired
    }

    pub(super) fn waiting(&self) -> impl Iterator<Item = RequestId> {
        let waiting = self.callers.iter().take_while(|caller| !caller.is_under_way());
        waiting.filter(|caller| caller.stage() != Stage::Gone).map(|caller| caller.id)
    }

    /// What the newest of those who wait waits for.
    pub(super) fn newest(&self) -> Option<Kind> {
        self.callers.iter().rev().find_map(|caller| match caller.stage() {
            Stage::Waiting(kind) => Some(kind),
            _ => None,
        })
    }

    /// The connection is gone. What is still under way was not sent, and no removal follows it
    /// any more.
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
