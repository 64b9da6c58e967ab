//! The watches that the connections of one member have set (`WatchManager.java`).

use alloc::collections::{BTreeMap, BTreeSet};

use zk_proto::{ErrorCode, EventType, WatcherType};

use super::ConnId;
use super::tree::Event;

/// Whom an event is to be sent to.
pub(super) type Listeners = BTreeSet<ConnId>;

/// Two tables, as on a real server: `exists` and `getData` watch in one, `getChildren` in the
/// other. All watches are one-shot; one that stays would be an entry here with another mode.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    pub(super) data: Table,
    pub(super) child: Table,
}

impl Watches {
    /// Takes out the watches that `event` fires.
    pub(super) fn fire(&mut self, event: &Event) -> Listeners {
        match event.kind {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => self.data.take(&event.path),
            // Once per connection, even if it watches both the data and the children.
            EventType::NODE_DELETED => {
                let mut listeners = self.data.take(&event.path);
                listeners.append(&mut self.child.take(&event.path));
                listeners
            }
            EventType::NODE_CHILDREN_CHANGED => self.child.take(&event.path),
            _ => Listeners::new(),
        }
    }

    /// Removes the watches of a connection on a path, as servers up to 3.8 tell their types.
    pub(super) fn remove(
        &mut self,
        conn: ConnId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Result<(), ErrorCode> {
        let removed = match watcher_type {
            WatcherType::CHILDREN => self.child.remove(path, conn),
            WatcherType::DATA => self.data.remove(path, conn),
            WatcherType::ANY => self.child.remove(path, conn) | self.data.remove(path, conn),
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        match removed {
            true => Ok(()),
            false => Err(ErrorCode::NO_WATCHER),
        }
    }

    /// Removes all watches of a connection.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.data.forget(conn);
        self.child.forget(conn);
    }

    /// How many watches there are.
    pub(super) fn len(&self) -> usize {
        self.data.len() + self.child.len()
    }
}

/// Which connections watch which paths.
#[derive(Clone, Debug, Default)]
pub(super) struct Table {
    listeners: BTreeMap<String, Listeners>,
    /// The same the other way round, so that a connection is forgotten without a search.
    paths: BTreeMap<ConnId, BTreeSet<String>>,
}

impl Table {
    pub(super) fn add(&mut self, path: &str, conn: ConnId) {
        self.listeners.entry(path.to_string()).or_default().insert(conn);
        self.paths.entry(conn).or_default().insert(path.to_string());
    }

    fn take(&mut self, path: &str) -> Listeners {
        let listeners = self.listeners.remove(path).unwrap_or_default();
        for conn in &listeners {
            self.unlink(path, *conn);
        }
        listeners
    }

    fn remove(&mut self, path: &str, conn: ConnId) -> bool {
        let Some(listeners) = self.listeners.get_mut(path) else { return false };
        let removed = listeners.remove(&conn);
        if listeners.is_empty() {
            self.listeners.remove(path);
        }
        self.unlink(path, conn);
        removed
    }

    fn unlink(&mut self, path: &str, conn: ConnId) {
        if let Some(paths) = self.paths.get_mut(&conn) {
            paths.remove(path);
            if paths.is_empty() {
                self.paths.remove(&conn);
            }
        }
    }

    fn forget(&mut self, conn: ConnId) {
        for path in self.paths.remove(&conn).unwrap_or_default() {
            if let Some(listeners) = self.listeners.get_mut(&path) {
                listeners.remove(&conn);
                if listeners.is_empty() {
                    self.listeners.remove(&path);
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.listeners.values().map(BTreeSet::len).sum()
    }
}
