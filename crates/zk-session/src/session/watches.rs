//! The watches of a session: which ones the server has for this connection, and which requests
//! share them.
//!
//! A server keeps at most one watch of each class per path and connection, however many requests
//! set it. So the requests for one path share it: it fires for all of them. It is removed when no
//! request needs it any more.
//!
//! Servers from 3.6 to 3.8 keep persistent watches in the tables of the one-shot ones. The last
//! request for a path and connection wins there (ZOOKEEPER-4466), which has two consequences:
//!
//! * A one-shot watch on a node with a persistent one makes that one fire once and no more.
//! * A removal does not distinguish the two. So a one-shot watch beside a persistent one is not
//!   removed, but left to fire.

pub(crate) mod slab;
mod slot;
mod table;

use alloc::vec::Vec;

use zk_proto::{AddWatchMode, ErrorCode, EventType, OpCode, Request, WatcherType};

use self::slab::WatchPlace;
use self::slot::{Callers, WatchSlot};
use self::table::Table;
use super::RequestId;

use crate::sync::Arc;

/// The longest `SetWatches` request with several watches, in bytes.
///
/// Only whole requests keep the session alive at the server, and only whole replies show that it
/// serves. So also a slow link has to carry a batch in a part of the session timeout.
const BATCH: usize = super::deadlines::PROGRESS;
/// The bytes of such a request besides its paths: a header, a zxid and the counts of five lists.
const REPLAY: usize = 8 + 8 + 5 * 4;
/// The bytes of a path's length prefix.
const PREFIX: usize = 4;

/// The kind of event that a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SessionWatchKind {
    /// A change of the data or the deletion of an existing node.
    Data,
    /// The creation of a missing node.
    Exist,
    /// A change of the children or the deletion of an existing node.
    Child,
    /// All events of a node, repeatedly.
    Persistent,
    /// All events of a node and its descendants except changes of children, repeatedly.
    Recursive,
}

/// The tables of a server.
///
/// Persistent watches are set again last, so that as few batches as possible need a server that
/// knows them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Data and exist watches.
    Node,
    Child,
    Persistent,
    Recursive,
}

impl Class {
    const ONCE: [Self; 2] = [Self::Node, Self::Child];
    const PERSISTENT: &[Self] = match super::PERSISTENT_WATCHES {
        true => &[Self::Persistent, Self::Recursive],
        false => &[],
    };
    const ALL: &[Self] = match super::PERSISTENT_WATCHES {
        true => &[Self::Node, Self::Child, Self::Persistent, Self::Recursive],
        false => &Self::ONCE,
    };

    fn is_persistent(self) -> bool {
        Self::PERSISTENT.contains(&self)
    }

    fn watcher_type(self) -> WatcherType {
        match self {
            Self::Node => WatcherType::DATA,
            Self::Child => WatcherType::CHILDREN,
            Self::Persistent => WatcherType::PERSISTENT,
            Self::Recursive => WatcherType::PERSISTENT_RECURSIVE,
        }
    }
}

/// The watch that a request sets if it succeeds.
#[derive(Clone, Debug)]
pub(super) struct WatchRequest<'a> {
    class: Class,
    path: &'a str,
}

impl<'a> WatchRequest<'a> {
    /// Returns the watch that `request` sets, if it sets one.
    pub(super) fn of(request: &Request<'a>) -> Option<Self> {
        let (watch, class, path) = match request {
            Request::Exists(body) => (body.watch, Class::Node, body.path),
            Request::GetData(body) => (body.watch, Class::Node, body.path),
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                (body.watch, Class::Child, body.path)
            }
            Request::AddWatch(body) if super::PERSISTENT_WATCHES => match body.mode {
                AddWatchMode::PERSISTENT => (true, Class::Persistent, body.path),
                AddWatchMode::PERSISTENT_RECURSIVE => (true, Class::Recursive, body.path),
                _ => return None,
            },
            _ => return None,
        };
        watch.then_some(Self { class, path })
    }

    /// Returns the length of a request that sets only this watch again, in bytes.
    pub(super) fn replay_length(&self) -> usize {
        REPLAY + PREFIX + self.path.len()
    }
}

/// Returns the watch that the server has set, by its reply (`docs/protocol.md`, *Watches*).
///
/// Only `exists` sets a watch on a missing node. `addWatch` does not check whether the node exists.
fn kind(class: Class, opcode: OpCode, answer: ErrorCode) -> Option<SessionWatchKind> {
    match (class, answer) {
        (Class::Node, ErrorCode::OK) => Some(SessionWatchKind::Data),
        (Class::Node, ErrorCode::NO_NODE) if opcode == OpCode::EXISTS => {
            Some(SessionWatchKind::Exist)
        }
        (Class::Child, ErrorCode::OK) => Some(SessionWatchKind::Child),
        (Class::Persistent, ErrorCode::OK) => Some(SessionWatchKind::Persistent),
        (Class::Recursive, ErrorCode::OK) => Some(SessionWatchKind::Recursive),
        _ => None,
    }
}

/// A watch that no request needs any more, and that the server has or is about to set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) path: Arc<str>,
    pub(super) watcher_type: WatcherType,
}

/// The path of a persistent watch that is being removed.
#[cfg(feature = "full")]
pub(super) type PersistentPath = Arc<str>;
/// It has no values: no watch is persistent, so the compiler drops the code for it.
#[cfg(not(feature = "full"))]
#[derive(Clone, Debug)]
pub(super) enum PersistentPath {}

#[cfg(not(feature = "full"))]
impl core::ops::Deref for PersistentPath {
    type Target = str;

    fn deref(&self) -> &str {
        match *self {}
    }
}

impl Removal {
    /// Returns the path, if the watch is persistent.
    pub(super) fn persistent(&self) -> Option<PersistentPath> {
        #[cfg(feature = "full")]
        if let WatcherType::PERSISTENT | WatcherType::PERSISTENT_RECURSIVE = self.watcher_type {
            return Some(self.path.clone());
        }
        None
    }
}

/// The requests whose watches an event fires.
#[derive(Debug, Default)]
pub(super) struct Fired {
    /// Requests with one-shot watches, which are no longer set.
    pub(super) once: Vec<RequestId>,
    /// Requests with persistent watches, which stay.
    pub(super) persistent: Vec<RequestId>,
    /// The path of the event, if a one-shot watch shares it.
    pub(super) path: Option<Arc<str>>,
}

/// The paths of watches that are set again by one request, by [`SessionWatchKind`].
pub(super) type Batch<'a> = [Vec<&'a str>; 5];

impl<T> super::Session<T> {
    /// Sets the receiver of the events of a watch. Returns the id that names it.
    pub(crate) fn assign_watch(&mut self, id: RequestId, receiver: u32) -> RequestId {
        self.watches.callers.assign(id, receiver)
    }
}

/// The memory for watches that were dropped or have fired is reused, and freed when none is left.
#[derive(Clone, Debug)]
pub(super) struct SessionWatches {
    table: Table,
    callers: Callers,
}

impl SessionWatches {
    /// Makes an empty table. `seed` is secret.
    pub(super) const fn new(seed: u64) -> Self {
        Self { table: Table::new(seed), callers: Callers::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    /// Forgets all watches.
    pub(super) fn clear(&mut self) {
        self.table.clear();
        self.callers = Callers::new();
    }

    /// Records that a request that sets a watch was submitted, as the `number`th. Returns its id.
    pub(super) fn begin(&mut self, number: u64, request: &WatchRequest<'_>) -> RequestId {
        let WatchRequest { class, path } = *request;
        let place = self.table.find_or_insert(class, path);
        let slot = self.table.get_mut(place);
        let id = slot.map(|slot| slot.begin(&mut self.callers, place, number));
        id.unwrap_or(RequestId::without_watch(number))
    }

    /// Records the reply to a request that sets a watch. Returns a removal to send, if any.
    pub(super) fn finish(
        &mut self,
        id: RequestId,
        opcode: OpCode,
        answer: ErrorCode,
    ) -> Option<Removal> {
        self.change(id, |slot, callers, caller| {
            slot.finish(callers, caller, kind(slot.class, opcode, answer));
        })
    }

    /// Records that a request that sets a watch was lost with its connection, or will never be
    /// sent.
    pub(super) fn abandon(&mut self, id: RequestId) -> Option<Removal> {
        self.change(id, WatchSlot::remove)
    }

    /// Drops the watch of a request. Without a connection, a pending request may never be sent.
    pub(super) fn remove(&mut self, id: RequestId, is_connected: bool) -> Option<Removal> {
        self.change(id, |slot, callers, caller| slot.leave(callers, caller, is_connected))
    }

    /// Changes the slot of a request, and drops it if no request needs it any more. Returns a
    /// removal for the server, if it needs one.
    ///
    /// A removal sent now comes behind every request that sets the watch on this connection, so
    /// there is no need to wait for their replies.
    fn change(
        &mut self,
        id: RequestId,
        change: impl FnOnce(&mut WatchSlot, &mut Callers, WatchPlace),
    ) -> Option<Removal> {
        let place = self.callers.of(id)?.slot;
        let slot = self.table.get_mut(place)?;
        change(slot, &mut self.callers, id.place);
        let class = slot.class;
        let removal = slot
            .take_removal(&self.callers)
            .then(|| Removal { path: slot.path.clone(), watcher_type: class.watcher_type() });
        if slot.is_empty() {
            self.table.remove(place);
        }
        let left_to_fire = |path: &str| {
            let is_set = |other: &Class| self.table.find(*other, path).is_some();
            !class.is_persistent() && Class::PERSISTENT.iter().any(is_set)
        };
        removal.filter(|removal| !left_to_fire(&removal.path))
    }

    /// Returns whether any watch is set on a path, or is about to be.
    pub(super) fn is_watched(&self, path: &str) -> bool {
        Class::ALL.iter().any(|class| self.table.find(*class, path).is_some())
    }

    /// Records that the server keeps a persistent watch of a path that has others. The last of the
    /// persistent ones removes it, even if its own request fails.
    pub(super) fn stays(&mut self, path: &str) {
        for class in Class::PERSISTENT {
            let place = self.table.find(*class, path);
            if let Some(slot) = place.and_then(|place| self.table.get_mut(place)) {
                slot.stays();
            }
        }
    }

    /// Returns the requests whose watches an event fires, and drops the one-shot ones.
    pub(super) fn fire(&mut self, event: EventType, path: &str) -> Fired {
        let classes: &[Class] = match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => &[Class::Node],
            EventType::NODE_CHILDREN_CHANGED => &[Class::Child],
            EventType::NODE_DELETED => &[Class::Node, Class::Child],
            _ => return Fired::default(),
        };
        let mut fired = Fired::default();
        for class in classes {
            let Some(place) = self.table.find(*class, path) else { continue };
            let Some(slot) = self.table.get_mut(place) else { continue };
            slot.fire(&mut self.callers, &mut fired.once);
            fired.path = Some(slot.path.clone());
            if slot.is_empty() {
                self.table.remove(place);
            }
        }
        if !super::PERSISTENT_WATCHES {
            return fired;
        }
        let mut found = |slot: &WatchSlot| slot.add_waiting(&self.callers, &mut fired.persistent);
        if let Some(place) = self.table.find(Class::Persistent, path)
            && let Some(slot) = self.table.get(place)
        {
            found(slot);
        }
        // A server sends this event because of some other watch (ZOOKEEPER-4475).
        if event != EventType::NODE_CHILDREN_CHANGED && self.table.count(Class::Recursive) > 0 {
            self.table.lineage(Class::Recursive, path, &mut found);
        }
        fired
    }

    /// Returns the requests of all persistent watches that are set.
    pub(super) fn persistent(&self) -> Vec<RequestId> {
        self.waiting(Class::PERSISTENT)
    }

    /// Returns the requests of all watches of some classes that are set.
    fn waiting(&self, classes: &[Class]) -> Vec<RequestId> {
        let mut waiting = Vec::new();
        for class in classes {
            for slot in self.table.of_class(*class) {
                slot.add_waiting(&self.callers, &mut waiting);
            }
        }
        waiting
    }

    /// Drops the persistent watches that are set, for a server that does not know them. Returns
    /// their requests. Pending requests are not affected: they have replies of their own.
    pub(super) fn drop_persistent(&mut self) -> Vec<RequestId> {
        let dropped = self.persistent();
        for id in &dropped {
            self.remove(*id, true);
        }
        dropped
    }

    /// Drops the one-shot watches, after the session has expired.
    pub(super) fn keep_persistent(&mut self) {
        for id in self.waiting(&Class::ONCE) {
            self.remove(id, false);
        }
    }

    /// Records the loss of the connection, and of the server's watches with it. Requests in flight
    /// must have been abandoned before.
    pub(super) fn disconnected(&mut self) {
        for slot in self.table.values_mut() {
            slot.disconnected(&mut self.callers);
        }
    }

    /// Passes to `send` all watches that requests wait for, in batches that fit a request of
    /// `max_request` bytes. Persistent ones come last, so that as few batches as possible need a
    /// server that knows them.
    pub(super) fn replay<'a>(&'a self, max_request: usize, send: &mut dyn FnMut(&Batch<'a>)) {
        let room = max_request.min(BATCH).saturating_sub(REPLAY);
        let (mut batch, mut size) = (Batch::default(), 0);
        for class in Class::ALL {
            for slot in self.table.of_class(*class) {
                // Requests for one path may have seen different states; the newest one is right.
                let Some(kind) = slot.newest(&self.callers) else { continue };
                let path = &*slot.path;
                let length = path.len() + PREFIX;
                if size > 0 && size + length > room {
                    send(&core::mem::take(&mut batch));
                    size = 0;
                }
                size += length;
                batch[kind as usize].push(path);
            }
        }
        if size > 0 {
            send(&batch);
        }
    }
}

#[cfg(test)]
impl SessionWatches {
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.callers.is_empty()
    }
}
