//! Which one-shot watches the server holds for this connection, and who waits for them.
//!
//! A server keeps at most one watch of each class per path and connection, however many callers
//! asked for it. So the callers on one path share it: it fires for all of them, and it is removed
//! when the last of them has lost interest.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

use zk_proto::{ErrorCode, EventType, OpCode, Request, WatcherType};

use super::RequestId;

/// Paths of one `SetWatches` request, in bytes: well below what most servers accept as a frame.
const BATCH: usize = 128 * 1024;
/// What such a request takes besides its paths: a header, a zxid, the counts of three lists.
const REPLAY: usize = 8 + 8 + 3 * 4;
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
}

/// The tables that a server keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    /// Data and exist watches.
    Node,
    Child,
}

/// The watch that a request asks for, should it succeed.
#[derive(Clone, Debug)]
pub(super) struct Registration {
    id: RequestId,
    opcode: OpCode,
    path: Arc<str>,
}

impl Registration {
    /// The watch that `request` asks for, if it does.
    pub(super) fn of(request: &Request<'_>, id: RequestId) -> Option<Self> {
        let (watch, path) = match request {
            Request::Exists(body) => (body.watch, body.path),
            Request::GetData(body) => (body.watch, body.path),
            Request::GetChildren(body) | Request::GetChildren2(body) => (body.watch, body.path),
            _ => return None,
        };
        watch.then(|| Self { id, opcode: request.opcode(), path: path.into() })
    }

    /// How long a request is that sets this watch again, and no other.
    pub(super) fn replay_length(&self) -> usize {
        REPLAY + PREFIX + self.path.len()
    }

    fn class(&self) -> Class {
        match self.opcode {
            OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2 => Class::Child,
            _ => Class::Node,
        }
    }

    /// The watch that the server has set, by how it answered (PROTOCOL: `ZooKeeper.java`,
    /// `*WatchRegistration`). Only `exists` sets one on a node that does not exist.
    fn kind(&self, answer: ErrorCode) -> Option<Kind> {
        match (self.class(), answer) {
            (Class::Node, ErrorCode::OK) => Some(Kind::Data),
            (Class::Child, ErrorCode::OK) => Some(Kind::Child),
            (Class::Node, ErrorCode::NO_NODE) if self.opcode == OpCode::EXISTS => Some(Kind::Exist),
            _ => None,
        }
    }
}

/// The watch of one class on one path.
#[derive(Debug, Default)]
struct Slot {
    waiting: Vec<(RequestId, Kind)>,
    /// Requests under way that ask for it.
    pending: Vec<RequestId>,
    /// Whether the server has it.
    armed: bool,
}

impl Slot {
    /// Whether the request was under way, and wanted.
    fn take_pending(&mut self, id: RequestId) -> bool {
        let place = self.pending.iter().position(|pending| *pending == id);
        place.map(|place| self.pending.swap_remove(place)).is_some()
    }
}

/// A watch that nobody waits for any more and that the server has, or is about to set.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) path: Arc<str>,
    pub(super) watcher_type: WatcherType,
    /// A request is still under way that sets it, on this connection or the next.
    pub(super) to_be_set: bool,
}

/// Watches for one `SetWatches` request.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    pub(super) data: Vec<&'a str>,
    pub(super) exist: Vec<&'a str>,
    pub(super) child: Vec<&'a str>,
}

#[derive(Debug, Default)]
pub(super) struct Watches {
    node: BTreeMap<Arc<str>, Slot>,
    child: BTreeMap<Arc<str>, Slot>,
    /// Where each caller's watch is, from its request until it fires or is dropped.
    interest: BTreeMap<RequestId, (Class, Arc<str>)>,
}

impl Watches {
    fn table(&mut self, class: Class) -> &mut BTreeMap<Arc<str>, Slot> {
        match class {
            Class::Node => &mut self.node,
            Class::Child => &mut self.child,
        }
    }

    /// A request that asks for a watch is under way.
    pub(super) fn begin(&mut self, registration: &Registration) {
        let class = registration.class();
        self.interest.insert(registration.id, (class, registration.path.clone()));
        self.table(class)
            .entry(registration.path.clone())
            .or_default()
            .pending
            .push(registration.id);
    }

    /// Such a request was answered.
    pub(super) fn finish(
        &mut self,
        registration: &Registration,
        answer: ErrorCode,
    ) -> Option<Removal> {
        let (class, kind) = (registration.class(), registration.kind(answer));
        if kind.is_none() {
            self.interest.remove(&registration.id);
        }
        let slot = self.table(class).get_mut(&registration.path)?;
        let wanted = slot.take_pending(registration.id);
        if let Some(kind) = kind {
            slot.armed = true;
            if wanted {
                slot.waiting.push((registration.id, kind));
            }
        }
        self.settle(class, &registration.path, false)
    }

    /// Such a request was lost with its connection, or will never be sent.
    pub(super) fn abandon(&mut self, registration: &Registration) {
        self.interest.remove(&registration.id);
        if let Some(slot) = self.table(registration.class()).get_mut(&registration.path) {
            slot.take_pending(registration.id);
        }
    }

    /// A caller has lost interest.
    pub(super) fn remove(&mut self, id: RequestId) -> Option<Removal> {
        let (class, path) = self.interest.remove(&id)?;
        let slot = self.table(class).get_mut(&path)?;
        slot.waiting.retain(|(waiting, _)| *waiting != id);
        let to_be_set = slot.take_pending(id);
        self.settle(class, &path, to_be_set)
    }

    /// Forgets a slot that nobody needs, and says whether the server must forget it too. A removal
    /// sent now comes behind every request that sets the watch, so there is no need to wait for
    /// their answers.
    fn settle(&mut self, class: Class, path: &Arc<str>, to_be_set: bool) -> Option<Removal> {
        let slot = self.table(class).get(path)?;
        if !slot.waiting.is_empty() || !slot.pending.is_empty() {
            return None;
        }
        let armed = slot.armed;
        self.table(class).remove(path);
        let watcher_type = match class {
            Class::Node => WatcherType::DATA,
            Class::Child => WatcherType::CHILDREN,
        };
        (armed || to_be_set).then(|| Removal { path: path.clone(), watcher_type, to_be_set })
    }

    /// An event arrived: yields whose watches it fires, and forgets those.
    pub(super) fn fire(&mut self, event: EventType, path: &str) -> Vec<RequestId> {
        let classes: &[Class] = match event {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => &[Class::Node],
            EventType::NODE_CHILDREN_CHANGED => &[Class::Child],
            EventType::NODE_DELETED => &[Class::Node, Class::Child],
            _ => &[],
        };
        let mut fired = Vec::new();
        for class in classes {
            let table = self.table(*class);
            let Some(slot) = table.get_mut(path) else {
                continue;
            };
            slot.armed = false;
            fired.extend(slot.waiting.drain(..).map(|(id, _)| id));
            if slot.pending.is_empty() {
                table.remove(path);
            }
        }
        for id in &fired {
            self.interest.remove(id);
        }
        fired
    }

    /// The connection is gone, and with it what the server knew. Requests in flight must have
    /// been abandoned before.
    pub(super) fn disconnected(&mut self) {
        for table in [&mut self.node, &mut self.child] {
            table.retain(|_, slot| {
                slot.armed = !slot.waiting.is_empty();
                slot.armed || !slot.pending.is_empty()
            });
        }
    }

    /// All watches that somebody waits for, in batches that fit a request of `max_request` bytes.
    pub(super) fn replay(&self, max_request: usize) -> Vec<Batch<'_>> {
        let room = max_request.saturating_sub(REPLAY).min(BATCH);
        let mut batches = Vec::new();
        let (mut batch, mut size) = (Batch::default(), 0);
        for (path, slot) in self.node.iter().chain(&self.child) {
            // Callers on one path may differ in what they saw; the newest of them saw best.
            let Some((_, kind)) = slot.waiting.last() else {
                continue;
            };
            let length = path.len() + PREFIX;
            if size > 0 && size + length > room {
                batches.push(core::mem::take(&mut batch));
                size = 0;
            }
            size += length;
            match kind {
                Kind::Data => batch.data.push(path),
                Kind::Exist => batch.exist.push(path),
                Kind::Child => batch.child.push(path),
            }
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
        self.node.is_empty() && self.child.is_empty() && self.interest.is_empty()
    }
}
