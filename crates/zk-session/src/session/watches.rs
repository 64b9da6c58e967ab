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

mod slot;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::collections::btree_map::Entry;
use alloc::sync::Arc;
use alloc::vec::Vec;

use zk_proto::{AddWatchMode, ErrorCode, EventType, Request, WatcherType, path};

use self::slot::Slot;
use super::RequestId;

/// The longest `SetWatches` request with several watches, in bytes: far below what most servers
/// accept.
const BATCH: usize = 128 * 1024;
/// The bytes of such a request besides its paths: a header, a zxid and the counts of five lists.
const REPLAY: usize = 8 + 8 + 5 * 4;
/// The bytes of a path's length prefix.
const PREFIX: usize = 4;

/// The kind of event that a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
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
    const PERSISTENT: [Self; 2] = [Self::Persistent, Self::Recursive];

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
pub(super) struct Registration {
    id: RequestId,
    class: Class,
    /// Whether the request sets it also on a missing node.
    absent_too: bool,
    path: Arc<str>,
}

impl Registration {
    /// Returns the watch that `request` sets, if it sets one.
    pub(super) fn of(request: &Request<'_>, id: RequestId) -> Option<Self> {
        let (watch, class, path) = match request {
            Request::Exists(body) => (body.watch, Class::Node, body.path),
            Request::GetData(body) => (body.watch, Class::Node, body.path),
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                (body.watch, Class::Child, body.path)
            }
            Request::AddWatch(body) => match body.mode {
                AddWatchMode::PERSISTENT => (true, Class::Persistent, body.path),
                AddWatchMode::PERSISTENT_RECURSIVE => (true, Class::Recursive, body.path),
                _ => return None,
            },
            _ => return None,
        };
        let absent_too = matches!(request, Request::Exists(_));
        watch.then(|| Self { id, class, absent_too, path: path.into() })
    }

    pub(super) fn id(&self) -> RequestId {
        self.id
    }

    /// Returns the length of a request that sets only this watch again, in bytes.
    pub(super) fn replay_length(&self) -> usize {
        REPLAY + PREFIX + self.path.len()
    }

    /// Returns the watch that the server has set, by its reply (`docs/protocol.md`, *Watches*).
    ///
    /// Only `exists` sets a watch on a missing node. `addWatch` does not check whether the node
    /// exists.
    fn kind(&self, answer: ErrorCode) -> Option<Kind> {
        match (self.class, answer) {
            (Class::Node, ErrorCode::OK) => Some(Kind::Data),
            (Class::Node, ErrorCode::NO_NODE) if self.absent_too => Some(Kind::Exist),
            (Class::Child, ErrorCode::OK) => Some(Kind::Child),
            (Class::Persistent, ErrorCode::OK) => Some(Kind::Persistent),
            (Class::Recursive, ErrorCode::OK) => Some(Kind::Recursive),
            _ => None,
        }
    }
}

/// A watch that no request needs any more, and that the server has or is about to set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) path: Arc<str>,
    pub(super) watcher_type: WatcherType,
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

/// Watches for one `SetWatches` or `SetWatches2` request.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) data: Vec<&'a str>,
    pub(super) exist: Vec<&'a str>,
    pub(super) child: Vec<&'a str>,
    pub(super) persistent: Vec<&'a str>,
    pub(super) recursive: Vec<&'a str>,
}

impl Batch<'_> {
    /// Returns whether only servers since 3.6 can decode the batch.
    pub(super) fn has_persistent(&self) -> bool {
        !self.persistent.is_empty() || !self.recursive.is_empty()
    }
}

/// Boxed, since a tree keeps room for more than it holds.
type Table = BTreeMap<Arc<str>, Box<Slot>>;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    /// One for each class.
    tables: [Table; 4],
    /// The table and path of each request's watch, from its submission until the watch fires or is
    /// dropped.
    interest: BTreeMap<RequestId, (Class, Arc<str>)>,
}

impl Watches {
    fn table(&mut self, class: Class) -> &mut Table {
        &mut self.tables[class as usize]
    }

    /// Records that a request that sets a watch was submitted.
    pub(super) fn begin(&mut self, registration: &Registration) {
        let Registration { id, class, path, .. } = registration;
        self.interest.insert(*id, (*class, path.clone()));
        let slot = self.table(*class).entry(path.clone()).or_insert_with(|| Box::new(Slot::new()));
        slot.begin(*id);
    }

    /// Records the reply to a request that sets a watch. Returns a removal to send, if any.
    pub(super) fn finish(
        &mut self,
        registration: &Registration,
        answer: ErrorCode,
    ) -> Option<Removal> {
        let Registration { id, class, path, .. } = registration;
        let kind = registration.kind(answer);
        if kind.is_none() {
            self.interest.remove(id);
        }
        let is_wanted = self.interest.contains_key(id);
        self.change(*class, path, |slot| slot.finish(*id, kind, is_wanted))
    }

    /// Records that a request that sets a watch was lost with its connection, or will never be
    /// sent.
    pub(super) fn abandon(&mut self, registration: &Registration) -> Option<Removal> {
        self.interest.remove(&registration.id);
        self.change(registration.class, &registration.path, |slot| slot.abandon(registration.id))
    }

    /// Drops the watch of a request. Without a connection, a pending request may never be sent.
    pub(super) fn remove(&mut self, id: RequestId, is_connected: bool) -> Option<Removal> {
        let (class, path) = self.interest.remove(&id)?;
        self.change(class, &path, |slot| slot.leave(id, is_connected))
    }

    /// Changes a slot, and drops it if no request needs it any more. Returns a removal for the
    /// server, if it needs one.
    ///
    /// A removal sent now comes behind every request that sets the watch on this connection, so
    /// there is no need to wait for their replies.
    fn change(
        &mut self,
        class: Class,
        path: &Arc<str>,
        change: impl FnOnce(&mut Slot),
    ) -> Option<Removal> {
        let Entry::Occupied(mut slot) = self.table(class).entry(path.clone()) else {
            return None;
        };
        change(slot.get_mut());
        let is_due = slot.get_mut().take_removal();
        if slot.get().is_empty() {
            slot.remove();
        }
        let left_to_fire =
            !class.is_persistent() && Class::PERSISTENT.iter().any(|other| self.has(*other, path));
        (!left_to_fire && is_due)
            .then(|| Removal { path: path.clone(), watcher_type: class.watcher_type() })
    }

    fn has(&self, class: Class, path: &str) -> bool {
        self.tables[class as usize].contains_key(path)
    }

    /// Returns whether any watch is set on a path, or is about to be.
    pub(super) fn is_watched(&self, path: &str) -> bool {
        self.tables.iter().any(|table| table.contains_key(path))
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
            let table = self.table(*class);
            let Some((path, mut slot)) = table.remove_entry(path) else {
                continue;
            };
            let waiting = slot.fire();
            if fired.once.is_empty() {
                fired.once = waiting;
            } else {
                fired.once.extend(waiting);
            }
            fired.path = Some(path.clone());
            if !slot.is_empty() {
                table.insert(path, slot);
            }
        }
        for id in &fired.once {
            self.interest.remove(id);
        }
        let mut add = |class: Class, path: &str| {
            let slot = self.tables[class as usize].get(path);
            fired.persistent.extend(slot.into_iter().flat_map(|slot| slot.waiting()));
        };
        add(Class::Persistent, path);
        // A server sends this event because of some other watch (ZOOKEEPER-4475).
        let recursive = &self.tables[Class::Recursive as usize];
        if event != EventType::NODE_CHILDREN_CHANGED && !recursive.is_empty() {
            let mut node = Some(path);
            while let Some(path) = node {
                add(Class::Recursive, path);
                node = path::parent(path);
            }
        }
        fired
    }

    /// Returns the requests of all persistent watches that are set.
    pub(super) fn persistent(&self) -> Vec<RequestId> {
        let tables = Class::PERSISTENT.iter().map(|class| &self.tables[*class as usize]);
        tables.flat_map(Table::values).flat_map(|slot| slot.waiting()).collect()
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

    /// Records the loss of the connection, and of the server's watches with it. Requests in flight
    /// must have been abandoned before.
    pub(super) fn disconnected(&mut self) {
        for table in &mut self.tables {
            table.retain(|_, slot| {
                slot.disconnected();
                !slot.is_empty()
            });
        }
    }

    /// Returns all watches that requests wait for, in batches that fit a request of `max_request`
    /// bytes. Persistent ones come last, so that as few batches as possible need a server that
    /// knows them.
    pub(super) fn replay(&self, max_request: usize) -> Vec<Batch<'_>> {
        let room = max_request.min(BATCH).saturating_sub(REPLAY);
        let mut batches = Vec::new();
        let (mut batch, mut size) = (Batch::default(), 0);
        for (path, slot) in self.tables.iter().flatten() {
            // Requests for one path may have seen different states; the newest one is right.
            let Some(kind) = slot.newest() else {
                continue;
            };
            let length = path.len() + PREFIX;
            if size > 0 && size + length > room {
                batches.push(core::mem::take(&mut batch));
                size = 0;
            }
            size += length;
            let list = match kind {
                Kind::Data => &mut batch.data,
                Kind::Exist => &mut batch.exist,
                Kind::Child => &mut batch.child,
                Kind::Persistent => &mut batch.persistent,
                Kind::Recursive => &mut batch.recursive,
            };
            list.push(path);
        }
        if size > 0 {
            batches.push(batch);
        }
        batches
    }
}

#[cfg(test)]
impl Watches {
    pub(super) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty) && self.interest.is_empty()
    }
}
