//! The watches of the connections of one server (`WatchManager.java`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use zk_proto::{AddWatchMode, ErrorCode, EventType, WatcherType, path};

use super::ConnId;
use super::modes::{Mode, Modes};
use super::tree::Event;
use super::version::Version;

/// The receivers of an event.
pub(super) type Listeners = BTreeSet<ConnId>;

/// The watches, in two tables as on a real server: `exists` and `getData` watch in one,
/// `getChildren` in the other, and persistent watches are in both.
#[derive(Clone, Debug, Default)]
pub(super) struct Watches {
    data: Table,
    child: Table,
    version: Version,
}

impl Watches {
    pub(super) fn new(version: Version) -> Self {
        Self { version, ..Self::default() }
    }

    /// Sets a one-shot watch on the data and the existence of a node.
    pub(super) fn watch_data(&mut self, path: &str, conn: ConnId) {
        self.data.add(path, conn, Mode::Standard, self.version);
    }

    /// Sets a one-shot watch on the children of a node.
    pub(super) fn watch_children(&mut self, path: &str, conn: ConnId) {
        self.child.add(path, conn, Mode::Standard, self.version);
    }

    /// Sets a persistent watch.
    pub(super) fn add(
        &mut self,
        path: &str,
        conn: ConnId,
        mode: AddWatchMode,
    ) -> Result<(), ErrorCode> {
        let mode = match mode {
            AddWatchMode::PERSISTENT => Mode::Persistent,
            AddWatchMode::PERSISTENT_RECURSIVE => Mode::Recursive,
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        self.data.add(path, conn, mode, self.version);
        // A recursive watch reports nothing in this table, but older servers set it there, too.
        if mode != Mode::Recursive || !self.version.keeps_modes_apart() {
            self.child.add(path, conn, mode, self.version);
        }
        Ok(())
    }

    /// Returns the receivers of `event`, and removes the watches that it fires once.
    pub(super) fn fire(&mut self, event: &Event<'_>) -> Listeners {
        let Event { kind, path, .. } = *event;
        match kind {
            EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => self.data.fire(kind, path),
            // Once per connection, even if it watches both the data and the children.
            EventType::NODE_DELETED => {
                let mut listeners = self.data.fire(kind, path);
                listeners.append(&mut self.child.fire(kind, path));
                listeners
            }
            EventType::NODE_CHILDREN_CHANGED => self.child.fire(kind, path),
            _ => Listeners::new(),
        }
    }

    /// Returns whether a connection has a watch of a type on a path. Before 3.9, a watch of any
    /// connection counts.
    pub(super) fn check(
        &self,
        conn: ConnId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Result<(), ErrorCode> {
        let apart = self.version.keeps_modes_apart();
        let scope = Scope::new(watcher_type, self.version)?;
        // Older servers walk from the path to its ancestors, and never begin with an empty one.
        if path.is_empty() && !apart {
            return Err(ErrorCode::NO_WATCHER);
        }
        let conn = apart.then_some(conn);
        let found = (scope.data && self.data.contains(path, conn, scope.mode))
            || (scope.child && self.child.contains(path, conn, scope.mode));
        expect(found)
    }

    /// Removes the watches of a connection on a path.
    pub(super) fn remove(
        &mut self,
        conn: ConnId,
        path: &str,
        watcher_type: WatcherType,
    ) -> Result<(), ErrorCode> {
        let scope = Scope::new(watcher_type, self.version)?;
        let mut removed = scope.data && self.data.remove(path, conn, scope.mode);
        removed |= scope.child && self.child.remove(path, conn, scope.mode);
        expect(removed)
    }

    /// Removes all watches of a connection.
    pub(super) fn forget(&mut self, conn: ConnId) {
        self.data.forget(conn);
        self.child.forget(conn);
    }

    /// Returns the paths that a connection watches in any way; some occur twice.
    pub(super) fn paths_of(&self, conn: ConnId) -> impl Iterator<Item = &str> {
        let tables = [&self.data, &self.child].into_iter();
        tables.filter_map(move |table| table.paths.get(&conn)).flatten().map(|path| &**path)
    }

    /// Returns the number of watches.
    pub(super) fn len(&self) -> usize {
        self.data.len() + self.child.len()
    }
}

fn expect(found: bool) -> Result<(), ErrorCode> {
    match found {
        true => Ok(()),
        false => Err(ErrorCode::NO_WATCHER),
    }
}

/// The table and the mode to search for a type of watcher; `None` is any.
struct Scope {
    data: bool,
    child: bool,
    mode: Option<Mode>,
}

impl Scope {
    fn new(watcher_type: WatcherType, version: Version) -> Result<Self, ErrorCode> {
        let apart = version.keeps_modes_apart();
        let (data, child, mode) = match watcher_type {
            WatcherType::CHILDREN => (false, true, Mode::Standard),
            WatcherType::DATA => (true, false, Mode::Standard),
            WatcherType::ANY => return Ok(Self { data: true, child: true, mode: None }),
            WatcherType::PERSISTENT if apart => (true, true, Mode::Persistent),
            WatcherType::PERSISTENT_RECURSIVE if apart => (true, false, Mode::Recursive),
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        Ok(Self { data, child, mode: apart.then_some(mode) })
    }
}

/// The watches of one table, by path and by connection.
#[derive(Clone, Debug, Default)]
struct Table {
    watches: FxHashMap<Arc<str>, BTreeMap<ConnId, Modes>>,
    /// The paths of each connection, so that removing a connection needs no search.
    paths: FxHashMap<ConnId, FxHashSet<Arc<str>>>,
    /// The number of recursive watches. Without any, ancestors need no look.
    recursive: usize,
}

impl Table {
    fn add(&mut self, path: &str, conn: ConnId, mode: Mode, version: Version) {
        let path: Arc<str> = path.into();
        let watches = self.watches.entry(path.clone()).or_default();
        let modes = watches.entry(conn).or_default();
        self.recursive -= modes.recursive();
        match version.keeps_modes_apart() {
            true => modes.insert(mode),
            false => *modes = Modes::from(mode),
        }
        self.recursive += modes.recursive();
        self.paths.entry(conn).or_default().insert(path);
    }

    fn fire(&mut self, kind: EventType, path: &str) -> Listeners {
        let mut listeners = Listeners::new();
        if let Some(watches) = self.watches.get_mut(path) {
            let reporting = watches.iter().filter(|(_, modes)| modes.report(kind));
            listeners.extend(reporting.map(|(conn, _)| *conn));
            for conn in &listeners {
                self.remove(path, *conn, Some(Mode::Standard));
            }
        }
        if self.recursive > 0 && kind != EventType::NODE_CHILDREN_CHANGED {
            let mut above = path::parent(path);
            while let Some(path) = above {
                let watches = self.watches.get(path).into_iter().flatten();
                let recursive = watches.filter(|(_, modes)| modes.contains(Mode::Recursive));
                listeners.extend(recursive.map(|(conn, _)| *conn));
                above = path::parent(path);
            }
        }
        listeners
    }

    fn contains(&self, path: &str, conn: Option<ConnId>, mode: Option<Mode>) -> bool {
        self.watches.get(path).into_iter().flatten().any(|(watcher, modes)| {
            conn.is_none_or(|conn| conn == *watcher) && mode.is_none_or(|mode| modes.contains(mode))
        })
    }

    /// Removes a watch of one mode, or of all. Returns whether there was one.
    fn remove(&mut self, path: &str, conn: ConnId, mode: Option<Mode>) -> bool {
        let Some(watches) = self.watches.get_mut(path) else { return false };
        let Some(modes) = watches.get_mut(&conn) else { return false };
        let before = *modes;
        match mode {
            Some(mode) => modes.remove(mode),
            None => *modes = Modes::default(),
        }
        let removed = *modes != before;
        self.recursive -= before.recursive() - modes.recursive();
        if modes.is_empty() {
            watches.remove(&conn);
            if watches.is_empty() {
                self.watches.remove(path);
            }
            self.unlink(path, conn);
        }
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
            if let Some(watches) = self.watches.get_mut(&path) {
                let modes = watches.remove(&conn).unwrap_or_default();
                self.recursive -= modes.recursive();
                if watches.is_empty() {
                    self.watches.remove(&path);
                }
            }
        }
    }

    fn len(&self) -> usize {
        self.watches.values().flat_map(BTreeMap::values).map(|modes| modes.len()).sum()
    }
}
