//! A server's replica of the tree (`DataTree.java`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use core::time::Duration;

use bytes::Bytes;
use rustc_hash::FxHashMap;
use zk_proto::{Acl, ErrorCode, EventType, OpCode, SessionId, Stat, Zxid, path};

use super::acl::Grant;
use super::children::Children;
use super::log::{Change, Create};
use super::version::Version;

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    data: Option<Bytes>,
    acl: Arc<[Grant]>,
    /// The stat, without the fields that [`stat`](Self::stat) computes. Its `cversion` counts the
    /// children ever created.
    stat: Stat,
    children: Children,
    life: Life,
}

/// The lifetime of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Life {
    /// Until it is deleted.
    #[default]
    Persistent,
    /// Until the session ends.
    Ephemeral(SessionId),
    /// Until some time after its last child is deleted.
    Container,
    /// Until it has had no child and no change for this many milliseconds.
    Ttl(i64),
}

impl Node {
    /// Returns the data; `None` is null.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Returns the access control list.
    pub fn acl(&self) -> &[Grant] {
        &self.acl
    }

    pub(super) fn shared_acl(&self) -> Arc<[Grant]> {
        self.acl.clone()
    }

    /// Returns the stat that clients receive.
    pub fn stat(&self) -> Stat {
        let num_children = length(self.children.len());
        Stat {
            // Creations and deletions; only creations are counted here.
            cversion: self.stat.cversion.wrapping_mul(2).wrapping_sub(num_children),
            data_length: length(self.data.as_ref().map_or(0, Bytes::len)),
            num_children,
            ..self.stat
        }
    }

    /// Returns the names of the children, in the order of a real server: that of their hashes.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &str> {
        self.children.iter()
    }

    /// Returns the number of children ever created, which is the next sequence number.
    pub fn next_sequence(&self) -> i32 {
        self.stat.cversion
    }

    /// Returns whether the server deletes it after its last child.
    pub fn is_container(&self) -> bool {
        self.life == Life::Container
    }

    pub(super) fn is_ephemeral(&self) -> bool {
        matches!(self.life, Life::Ephemeral(_))
    }

    /// Returns whether the server should delete it now (`ContainerManager.getCandidates`).
    fn is_spent(&self, now: Duration, max_never_used: Option<Duration>) -> bool {
        let changed = Duration::from_millis(u64::try_from(self.stat.mtime).unwrap_or(0));
        let idle = now.saturating_sub(changed);
        self.children.len() == 0
            && match self.life {
                Life::Container if self.stat.cversion > 0 => true,
                Life::Container => max_never_used.is_some_and(|longest| idle > longest),
                Life::Ttl(ttl) => idle.as_millis() > u128::from(ttl.unsigned_abs()),
                Life::Persistent | Life::Ephemeral(_) => false,
            }
    }
}

/// Converts a length that was carried in a frame, and so fits.
fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// A change of a node, for watches.
#[derive(Clone, Copy, Debug)]
pub(super) struct Event<'a> {
    pub(super) kind: EventType,
    pub(super) path: &'a str,
    /// The list of the node, which may withhold the event from a watcher.
    pub(super) acl: &'a Arc<[Grant]>,
}

/// The result of a change.
#[derive(Clone, Debug)]
pub(super) enum Applied<'a> {
    Created { opcode: OpCode, path: &'a str, stat: Stat },
    Deleted,
    DataSet(Stat),
    AclSet(Stat),
    Checked,
    Refused(ErrorCode),
}

/// The tree.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Unordered, since comparing paths with common prefixes is slow.
    nodes: FxHashMap<Arc<str>, Node>,
    ephemerals: BTreeMap<SessionId, BTreeSet<Arc<str>>>,
    /// Nodes that the server can delete: containers, and nodes with a time to live.
    perishable: BTreeSet<Arc<str>>,
    version: Version,
}

impl Tree {
    /// Returns the nodes of a new server of an ensemble with these members, if it is not standalone.
    pub(super) fn new(version: Version, members: Bytes) -> Self {
        let node = |children: &[&str], acl, aversion| Node {
            data: Some(Bytes::new()),
            acl: [Grant::new(acl)].into(),
            stat: Stat { aversion, ..Stat::default() },
            children: children.iter().copied().collect(),
            life: Life::Persistent,
        };
        let mut nodes = vec![
            ("/", node(&["zookeeper"], Acl::OPEN, 0)),
            ("/zookeeper", node(&["quota"], Acl::OPEN, 0)),
            ("/zookeeper/quota", node(&[], Acl::OPEN, 0)),
        ];
        if version.has_config() {
            nodes[1].1.children.insert("config");
            // The server itself sets its ACL, with version -1 for "any", which it then stores.
            let mut config = node(&[], Acl::READ, -1);
            if !members.is_empty() {
                config.stat.version = -1;
                config.data = Some(members);
            }
            nodes.push(("/zookeeper/config", config));
        }
        Self {
            nodes: nodes.into_iter().map(|(path, node)| (path.into(), node)).collect(),
            ephemerals: BTreeMap::new(),
            perishable: BTreeSet::new(),
            version,
        }
    }

    /// Returns the node at `path`. The empty path is also the root, as on a real server.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    /// Returns all nodes with their paths, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        let mut nodes: Vec<_> = self.nodes.iter().map(|(path, node)| (&**path, node)).collect();
        nodes.sort_unstable_by_key(|(path, _)| *path);
        nodes.into_iter()
    }

    /// Returns the number of nodes.
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns the number of nodes below `path`.
    pub fn descendants(&self, path: &str) -> usize {
        match path {
            "/" => self.len() - 1,
            // The root counts as below the empty path.
            "" => self.len(),
            _ => {
                let prefix = format!("{path}/");
                self.nodes.keys().filter(|path| path.starts_with(&prefix)).count()
            }
        }
    }

    /// Returns all sessions that have ephemeral nodes.
    pub(super) fn owners(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.ephemerals.keys().copied()
    }

    /// Returns the ephemeral nodes of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.ephemerals.get(&session).into_iter().flatten().map(|path| &**path)
    }

    /// Returns whether there are nodes that the server can delete.
    pub(super) fn has_perishable(&self) -> bool {
        !self.perishable.is_empty()
    }

    /// Returns the nodes that the server should delete now.
    pub(super) fn spent(&self, now: Duration, max_never_used: Option<Duration>) -> Vec<Arc<str>> {
        let spent = |path: &&Arc<str>| {
            self.get(path).is_some_and(|node| node.is_spent(now, max_never_used))
        };
        self.perishable.iter().filter(spent).cloned().collect()
    }

    /// Applies a change, and calls `notify` with its events in order.
    pub(super) fn apply<'c>(
        &mut self,
        change: &'c Change,
        zxid: Zxid,
        time: i64,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Applied<'c> {
        match change {
            Change::Create(create) => self.create(create, zxid, time, notify),
            Change::Delete { path } => {
                self.delete(path, zxid, notify);
                Applied::Deleted
            }
            Change::SetData { path, data } => match self.nodes.get_mut(&**path) {
                Some(node) => {
                    node.data.clone_from(data);
                    node.stat.version = node.stat.version.wrapping_add(1);
                    node.stat.mzxid = zxid;
                    node.stat.mtime = time;
                    notify(Event { kind: EventType::NODE_DATA_CHANGED, path, acl: &node.acl });
                    Applied::DataSet(node.stat())
                }
                None => Applied::Refused(ErrorCode::NO_NODE),
            },
            Change::SetAcl { path, acl } => match self.nodes.get_mut(&**path) {
                Some(node) => {
                    node.acl = acl.clone();
                    node.stat.aversion = node.stat.aversion.wrapping_add(1);
                    Applied::AclSet(node.stat())
                }
                None => Applied::Refused(ErrorCode::NO_NODE),
            },
            Change::SetCounter { path, counter } => {
                if let Some(node) = self.nodes.get_mut(&**path) {
                    node.stat.cversion = *counter;
                }
                Applied::Checked
            }
            Change::Check => Applied::Checked,
        }
    }

    /// Deletes the ephemeral nodes of a session.
    pub(super) fn end_session(
        &mut self,
        session: SessionId,
        zxid: Zxid,
        notify: &mut dyn FnMut(Event<'_>),
    ) {
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.delete(&path, zxid, notify);
        }
    }

    fn create<'c>(
        &mut self,
        create: &'c Create,
        zxid: Zxid,
        time: i64,
        notify: &mut dyn FnMut(Event<'_>),
    ) -> Applied<'c> {
        let path = &create.path;
        let mut node = Node {
            data: create.data.clone(),
            acl: create.acl.clone(),
            stat: Stat {
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: time,
                mtime: time,
                ..Stat::default()
            },
            children: Children::new(),
            life: create.life,
        };
        match create.life {
            Life::Ephemeral(owner) => {
                node.stat.ephemeral_owner = owner;
                self.ephemerals.entry(owner).or_default().insert(path.clone());
            }
            Life::Container | Life::Ttl(_) => {
                self.perishable.insert(path.clone());
            }
            Life::Persistent => {}
        }
        let stat = node.stat();
        self.nodes.insert(path.clone(), node);
        notify(Event { kind: EventType::NODE_CREATED, path, acl: &create.acl });
        let counter_stops = self.version.counter_stops();
        self.change_parent(path, notify, |parent, name| {
            parent.children.insert(name);
            // The counter stops at its maximum, and the stat with it (`DataTree.createNode`).
            if create.parent_cversion > parent.stat.cversion || !counter_stops {
                parent.stat.cversion = create.parent_cversion;
                parent.stat.pzxid = zxid;
            }
        });
        Applied::Created { opcode: create.opcode, path, stat }
    }

    fn delete(&mut self, path: &str, zxid: Zxid, notify: &mut dyn FnMut(Event<'_>)) {
        let Some(node) = self.nodes.remove(path) else { return };
        if let Some(owned) = self.ephemerals.get_mut(&node.stat.ephemeral_owner) {
            owned.remove(path);
            if owned.is_empty() {
                self.ephemerals.remove(&node.stat.ephemeral_owner);
            }
        }
        self.perishable.remove(path);
        notify(Event { kind: EventType::NODE_DELETED, path, acl: &node.acl });
        self.change_parent(path, notify, |parent, name| {
            parent.children.remove(name);
            parent.stat.pzxid = zxid;
        });
    }

    fn change_parent(
        &mut self,
        path: &str,
        notify: &mut dyn FnMut(Event<'_>),
        change: impl FnOnce(&mut Node, &str),
    ) {
        if let Some(parent) = path::parent(path)
            && let Some(node) = self.nodes.get_mut(parent)
            && let Some((_, name)) = path.rsplit_once('/')
        {
            change(node, name);
            let kind = EventType::NODE_CHILDREN_CHANGED;
            notify(Event { kind, path: parent, acl: &node.acl });
        }
    }
}
