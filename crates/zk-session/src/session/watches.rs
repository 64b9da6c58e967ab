//! Which watches the server holds for this connection, and who waits for them.
//!
//! A server keeps at most one watch of each class per path and connection, however many callers
//! asked for it. So the callers on one path share it: it fires for all of them, and it is removed
//! when the last of them has lost interest.
//!
//! Servers from 3.6 to 3.8 keep a persistent watch in the tables of the one-shot ones, where the
//! last request for a path and connection wins (ZOOKEEPER-4466). So a one-shot watch set on a node
//! with a persistent one makes that one fire once and no more; and as such servers do not tell
//! them apart when they remove them, a one-shot watch beside a persistent one is left to fire.

mod slot;

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use zk_proto::{AddWatchMode, ErrorCode, EventType, Request, WatcherType, path};

use self::slot::Slot;
use super::RequestId;

/// The longest `SetWatches` request of several watches, in bytes: well below what most servers
/// accept.
const BATCH: usize = 128 * 1024;
/// What such a request takes besides its paths: a header, a zxid, the counts of five lists.
const REPLAY: usize = 8 + 8 + 5 * 4;
/// Bytes that a path takes besides its own: its length.
const PREFIX: usize = 4;

/// What a watch waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A change of the data, or the end, of a node that exists.
    Data,
    /// The creation of a node that does not exist.
    Exist,
    /// A change of the list of children, or the end, of a node that exists.
    Child,
    /// Everything that happens to a node, again and again.
    Persistent,
    /// Everything but changes of lists of children, of a node and all below, again and again.
    Recursive,
}

/// The tables that a server keeps.
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

/// The watch that a request asks for, should it succeed.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    id: RequestId,
    class: Class,
    /// Whether it is set on a node that does not exist, too.
    absent_too: bool,
    path: Arc<str>,
}

impl Registration {
    /// The watch that `request` asks for, if it does.
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

    /// How long a request is that sets this watch again, and no other.
    pub(super) fn replay_length(&self) -> usize {
        REPLAY + PREFIX + self.path.len()
    }

    /// The watch that the server has set, by how it answered (PROTOCOL: `ZooKeeper.java`,
    /// `*WatchRegistration`). Only `exists` sets one on a node that does not exist, and `addWatch`
    /// does not look whether it does.
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

/// A watch that nobody waits for any more and that the server has, or is about to set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) path: Arc<str>,
    pub(super) watcher_type: WatcherType,
}

/// Whose watches an event fires.
#[derive(Debug, Default)]
pub(super) struct Fired {
    /// Those that are over now.
    pub(super) once: Vec<RequestId>,
    /// Those that stay.
    pub(super) persistent: Vec<RequestId>,
    /// The path of the event, if it is at hand.
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
    /// Whether only servers from 3.6 on can read it.
    pub(super) fn has_persistent(&self) -> bool {
        !self.persistent.is_empty() || !self.recursive.is_empty()
    }
}

type Table = BTreeMap<Arc<str>, Slot>;

#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    /// One for each class.
    tables: [Table; 4],
    /// Where each caller's watch is, from its request until it is over or dropped.
    interest: BTreeMap<RequestId, (Class, Arc<str>)>,
}

impl Watches {
    fn table(&mut self, class: Class) -> &mut Table {
        &mut self.tables[class as usize]
    }

    /// A request that asks for a watch is under way.
    pub(super) fn begin(&mut self, registration: &Registration) {
        let Registration { id, class, path, .. } = registration;
        self.interest.insert(*id, (*class, path.clone()));
        let slot = self.table(*class).entry(path.clone()).or_insert_with(Slot::new);
        slot.begin(*id);
    }

    /// Such a request was answered.
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

    /// Such a request was lost with its connection, or will never be sent.
    pub(super) fn abandon(&mut self, registration: &Registration) -> Option<Removal> {
        self.interest.remove(&registration.id);
        self.change(registration.class, &registration.path, |slot| slot.abandon(registration.id))
    }

    /// A caller has lost interest. Without a connection, a request under way may never be sent.
    pub(super) fn remove(&mut self, id: RequestId, is_connected: bool) -> Option<Removal> {
        let (class, path) = self.interest.remove(&id)?;
        self.change(class, &path, |slot| slot.leave(id, is_connected))
    }

    /// Changes a slot. Forgets it if nobody needs it then, and says whether the server must forget
    /// it too. A removal sent now comes behind every request that sets the watch on this
    /// connection, so there is no need to wait for their answers.
    fn change(
        &mut self,
        class: Class,
        path: &Arc<str>,
        change: impl FnOnce(&mut Slot),
    ) -> Option<Removal> {
        let slot = self.table(class).get_mut(path)?;
        change(slot);
        let is_due = slot.take_removal();
        if slot.is_empty() {
            self.table(class).remove(path);
        }
        let left_to_fire =
            !class.is_persistent() && Class::PERSISTENT.iter().any(|other| self.has(*other, path));
        (!left_to_fire && is_due)
            .then(|| Removal { path: path.clone(), watcher_type: class.watcher_type() })
    }

    fn has(&self, class: Class, path: &str) -> bool {
        self.tables[class as usize].contains_key(path)
    }

    /// Whether any watch is on a path, or about to be.
    pub(super) fn is_watched(&self, path: &str) -> bool {
        self.tables.iter().any(|table| table.contains_key(path))
    }

    /// An event arrived: yields whose watches it fires, and forgets those that fire once.
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
        let mut tell = |class: Class, path: &str| {
            let slot = self.tables[class as usize].get(path);
            fired.persistent.extend(slot.into_iter().flat_map(Slot::waiting));
        };
        tell(Class::Persistent, path);
        // A server tells of a list of children because of some other watch (ZOOKEEPER-4475).
        let recursive = &self.tables[Class::Recursive as usize];
        if event != EventType::NODE_CHILDREN_CHANGED && !recursive.is_empty() {
            let mut node = Some(path);
            while let Some(path) = node {
                tell(Class::Recursive, path);
                node = path::parent(path);
            }
        }
        fired
    }

    /// All persistent watches that are set.
    pub(super) fn persistent(&self) -> Vec<RequestId> {
        let tables = Class::PERSISTENT.iter().map(|class| &self.tables[*class as usize]);
        tables.flat_map(Table::values).flat_map(Slot::waiting).collect()
    }

    /// A server does not know persistent watches: yields those that are over by that. Those being
    /// asked for are not: they have answers of their own.
    pub(super) fn drop_persistent(&mut self) -> Vec<RequestId> {
        let dropped = self.persistent();
        for id in &dropped {
            self.remove(*id, true);
        }
        dropped
    }

    /// The connection is gone, and with it what the server knew. Requests in flight must have
    /// been abandoned before.
    pub(super) fn disconnected(&mut self) {
        for table in &mut self.tables {
            table.retain(|_, slot| {
                slot.disconnected();
                !slot.is_empty()
            });
        }
    }

    /// All watches that somebody waits for, in batches that fit a request of `max_request` bytes.
    /// Persistent ones come last, so that few batches need a server that knows them.
    pub(super) fn replay(&self, max_request: usize) -> Vec<Batch<'_>> {
        let room = max_request.min(BATCH).saturating_sub(REPLAY);
        let mut batches = Vec::new();
        let (mut batch, mut size) = (Batch::default(), 0);
        for (path, slot) in self.tables.iter().flatten() {
            // Callers on one path may differ in what they saw; the newest of them saw best.
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
