//! The tree of nodes that one member keeps: its replica of the ensemble's state (`DataTree.java`).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;

use bytes::Bytes;
use zk_proto::{ErrorCode, EventType, OpCode, SessionId, Stat, Zxid, path};

use super::acl::Grant;
use super::log::{Change, Create};

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    data: Option<Bytes>,
    acl: Arc<[Grant]>,
    /// As it is shown, but for what [`stat`](Self::stat) computes. `cversion` counts the children
    /// that were ever created.
    stat: Stat,
    children: BTreeSet<String>,
    is_container: bool,
}

impl Node {
    /// Its data; `None` is null.
    pub fn data(&self) -> Option<&[u8]> {
        self.data.as_deref()
    }

    /// Its access control list.
    pub fn acl(&self) -> &[Grant] {
        &self.acl
    }

    /// Its stat, as clients see it.
    pub fn stat(&self) -> Stat {
        let num_children = length(self.children.len());
        Stat {
            // Creations and deletions, of which only the creations are counted.
            cversion: self.stat.cversion.wrapping_mul(2).wrapping_sub(num_children),
            data_length: length(self.data.as_ref().map_or(0, Bytes::len)),
            num_children,
            ..self.stat
        }
    }

    /// The names of its children, sorted. A real server has them in no order.
    pub fn children(&self) -> impl ExactSizeIterator<Item = &str> {
        self.children.iter().map(String::as_str)
    }

    /// How many children were ever created below it: the next sequence number.
    pub fn next_sequence(&self) -> i32 {
        self.stat.cversion
    }

    /// Whether it is deleted by the server after its last child.
    pub fn is_container(&self) -> bool {
        self.is_container
    }
}

/// A length that a frame once carried, so that it fits.
fn length(length: usize) -> i32 {
    i32::try_from(length).unwrap_or(i32::MAX)
}

/// What happened to a node, for those who watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) kind: EventType,
    pub(super) path: String,
}

/// The result of a change.
#[derive(Clone, Debug)]
pub(super) enum Applied {
    Created { opcode: OpCode, path: String, stat: Stat },
    Deleted,
    DataSet(Stat),
    Checked,
    Refused(ErrorCode),
}

/// All nodes.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: BTreeMap<String, Node>,
    ephemerals: BTreeMap<SessionId, BTreeSet<String>>,
    containers: BTreeSet<String>,
}

impl Tree {
    /// The nodes that a new server has.
    pub(super) fn new() -> Self {
        let open: Arc<[Grant]> = [Grant::open()].into();
        let node = |children: &[&str], aversion| Node {
            data: Some(Bytes::new()),
            acl: open.clone(),
            stat: Stat { aversion, ..Stat::default() },
            children: children.iter().map(ToString::to_string).collect(),
            is_container: false,
        };
        let nodes = [
            ("/", node(&["zookeeper"], 0)),
            ("/zookeeper", node(&["config", "quota"], 0)),
            // Its list is set by the server itself, with -1 for "any version", which then stays.
            ("/zookeeper/config", node(&[], -1)),
            ("/zookeeper/quota", node(&[], 0)),
        ];
        Self {
            nodes: nodes.into_iter().map(|(path, node)| (path.to_string(), node)).collect(),
            ephemerals: BTreeMap::new(),
            containers: BTreeSet::new(),
        }
    }

    /// The node at `path`. The empty path is the root too, as on a real server.
    pub fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(if path.is_empty() { "/" } else { path })
    }

    /// All nodes with their paths, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.nodes.iter().map(|(path, node)| (path.as_str(), node))
    }

    /// The ephemeral nodes of a session, sorted.
    pub fn ephemerals(&self, session: SessionId) -> impl Iterator<Item = &str> {
        self.ephemerals.get(&session).into_iter().flatten().map(String::as_str)
    }

    /// Whether there is any container.
    pub(super) fn has_containers(&self) -> bool {
        !self.containers.is_empty()
    }

    /// The containers that had children and have none any more.
    pub(super) fn spent_containers(&self) -> Vec<String> {
        let spent = |path: &&String| {
            self.get(path).is_some_and(|node| node.stat.cversion > 0 && node.children.is_empty())
        };
        self.containers.iter().filter(spent).cloned().collect()
    }

    /// Makes a change and appends what watchers are to hear of it, in their order.
    pub(super) fn apply(
        &mut self,
        change: &Change,
        zxid: Zxid,
        time: i64,
        events: &mut Vec<Event>,
    ) -> Applied {
        match change {
            Change::Create(create) => self.create(create, zxid, time, events),
            Change::Delete { path } => {
                self.delete(path, zxid, events);
                Applied::Deleted
            }
            Change::SetData { path, data } => match self.nodes.get_mut(path) {
                Some(node) => {
                    node.data.clone_from(data);
                    node.stat.version = node.stat.version.wrapping_add(1);
                    node.stat.mzxid = zxid;
                    node.stat.mtime = time;
                    events.push(Event { kind: EventType::NODE_DATA_CHANGED, path: path.clone() });
                    Applied::DataSet(node.stat())
                }
                None => Applied::Refused(ErrorCode::NO_NODE),
            },
            Change::Check => Applied::Checked,
        }
    }

    /// Deletes the ephemeral nodes of a session.
    pub(super) fn end_session(&mut self, session: SessionId, zxid: Zxid, events: &mut Vec<Event>) {
        for path in self.ephemerals.remove(&session).unwrap_or_default() {
            self.delete(&path, zxid, events);
        }
    }

    fn create(
        &mut self,
        create: &Create,
        zxid: Zxid,
        time: i64,
        events: &mut Vec<Event>,
    ) -> Applied {
        let path = &create.path;
        let is_container = create.opcode == OpCode::CREATE_CONTAINER;
        let node = Node {
            data: create.data.clone(),
            acl: create.acl.clone(),
            stat: Stat {
                czxid: zxid,
                mzxid: zxid,
                pzxid: zxid,
                ctime: time,
                mtime: time,
                ephemeral_owner: create.owner,
                ..Stat::default()
            },
            children: BTreeSet::new(),
            is_container,
        };
        let stat = node.stat();
        if create.owner != SessionId::NONE {
            self.ephemerals.entry(create.owner).or_default().insert(path.clone());
        }
        if is_container {
            self.containers.insert(path.clone());
        }
        self.nodes.insert(path.clone(), node);
        events.push(Event { kind: EventType::NODE_CREATED, path: path.clone() });
        self.change_parent(path, events, |parent, name| {
            parent.children.insert(name.to_string());
            // The counter sticks at its end instead of wrapping (`DataTree.createNode`).
            if create.parent_cversion > parent.stat.cversion {
                parent.stat.cversion = create.parent_cversion;
                parent.stat.pzxid = zxid;
            }
        });
        Applied::Created { opcode: create.opcode, path: path.clone(), stat }
    }

    fn delete(&mut self, path: &str, zxid: Zxid, events: &mut Vec<Event>) {
        let Some(node) = self.nodes.remove(path) else { return };
        if let Some(owned) = self.ephemerals.get_mut(&node.stat.ephemeral_owner) {
            owned.remove(path);
        }
        self.containers.remove(path);
        events.push(Event { kind: EventType::NODE_DELETED, path: path.to_string() });
        self.change_parent(path, events, |parent, name| {
            parent.children.remove(name);
            parent.stat.pzxid = zxid;
        });
    }

    fn change_parent(
        &mut self,
        path: &str,
        events: &mut Vec<Event>,
        change: impl FnOnce(&mut Node, &str),
    ) {
        if let Some(parent) = path::parent(path)
            && let Some(node) = self.nodes.get_mut(parent)
            && let Some((_, name)) = path.rsplit_once('/')
        {
            change(node, name);
            let path = parent.to_string();
            events.push(Event { kind: EventType::NODE_CHILDREN_CHANGED, path });
        }
    }
}
