//! The one server: a tree, and what changes in it.

use alloc::collections::BTreeMap;

use zk_session::proto::{CreateRequest, Sequence, SetDataResponse, path};

use super::*;

/// Which events a watch is told of.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Watched {
    Data,
    Children,
    Absence,
}

impl Watched {
    const fn is_told(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED => matches!(self, Self::Absence),
            EventType::NODE_DATA_CHANGED => matches!(self, Self::Data),
            EventType::NODE_CHILDREN_CHANGED => matches!(self, Self::Children),
            _ => matches!(self, Self::Data | Self::Children),
        }
    }
}

/// A watch, as a session notes it.
#[derive(Clone, Hash)]
pub(super) struct SessionWatch {
    pub(super) op: OpId,
    pub(super) path: String,
    /// Nothing as long as the server has not confirmed it.
    pub(super) watched: Option<Watched>,
}

impl SessionWatch {
    pub(super) fn is_told(&self, path: &str, event: EventType) -> bool {
        self.path == path && self.watched.is_some_and(|watched| watched.is_told(event))
    }
}

#[derive(Clone, Hash)]
pub(in super::super) struct Node {
    pub(in super::super) owner: Option<usize>,
    pub(in super::super) created: i64,
    pub(in super::super) modified: i64,
    children_modified: i64,
    /// How many sequential nodes were created below it.
    pub(in super::super) counter: i32,
}

#[derive(Clone, Hash)]
pub(in super::super) struct Tree {
    nodes: BTreeMap<String, Node>,
    pub(in super::super) zxid: i64,
    /// What is to be told to those who watch.
    pub(super) events: Vec<(String, EventType)>,
}

impl Tree {
    pub(super) fn with<'a>(nodes: impl Iterator<Item = &'a str>) -> Self {
        let mut tree = Self { nodes: BTreeMap::new(), zxid: 0, events: Vec::new() };
        nodes.for_each(|path| tree.insert(path.to_string(), None));
        tree.events.clear();
        tree
    }

    pub(in super::super) fn node(&self, path: &str) -> Option<&Node> {
        self.nodes.get(path)
    }

    /// The nodes of sessions.
    pub(in super::super) fn owned(&self) -> impl Iterator<Item = (&str, usize)> + Clone {
        self.nodes.iter().filter_map(|(path, node)| Some((path.as_str(), node.owner?)))
    }

    // ---- Requests ------------------------------------------------------------------------------

    /// What the server answers, and which watch it sets if it was asked for one.
    pub(super) fn execute(
        &mut self,
        party: usize,
        request: &Request<'_>,
    ) -> (Result<Reply, Error>, Watched) {
        let answer = match request {
            Request::Create2(create) => self.create(party, create).map(|path| {
                let stat = self.stat(&path).unwrap_or_default();
                reply(OpCode::CREATE2, &Create2Response { path: &path, stat })
            }),
            Request::Create(create) => self.create(party, create).map(|_| ok()),
            Request::Delete(delete) => self.delete(delete.path).map(|()| ok()),
            Request::SetData(set) => self
                .set_data(set.path)
                .map(|stat| reply(OpCode::SET_DATA, &SetDataResponse { stat })),
            Request::Exists(exists) => match self.stat(exists.path) {
                Some(stat) => {
                    return (reply(OpCode::EXISTS, &ExistsResponse { stat }), Watched::Data);
                }
                None => return (refused(ErrorCode::NO_NODE), Watched::Absence),
            },
            Request::GetChildren(list) => {
                let answer = self.list(list.path);
                return (answer.unwrap_or_else(refused), Watched::Children);
            }
            Request::GetData(get) => self
                .stat(get.path)
                .ok_or(ErrorCode::NO_NODE)
                .map(|stat| reply(OpCode::GET_DATA, &GetDataResponse { data: Some(b""), stat })),
            Request::Sync(_) => Ok(ok()),
            request => panic!("{request:?}"),
        };
        (answer.unwrap_or_else(refused), Watched::Data)
    }

    fn stat(&self, path: &str) -> Option<Stat> {
        let Node { owner, created, modified, .. } = *self.nodes.get(path)?;
        let ephemeral_owner = owner.map_or(SessionId(0), session);
        Some(Stat {
            czxid: Zxid(created),
            mzxid: Zxid(modified),
            ephemeral_owner,
            ..Stat::default()
        })
    }

    fn list(&self, directory: &str) -> Result<Result<Reply, Error>, ErrorCode> {
        self.nodes.get(directory).ok_or(ErrorCode::NO_NODE)?;
        let below = self.nodes.keys().filter(|node| path::parent(node) == Some(directory));
        let names: Vec<_> = below.filter_map(|node| node.rsplit('/').next()).collect();
        Ok(reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() }))
    }

    fn create(&mut self, party: usize, create: &CreateRequest<'_>) -> Result<String, ErrorCode> {
        let parent = path::parent(create.path).expect("a child");
        let parent = self.nodes.get_mut(parent).ok_or(ErrorCode::NO_NODE)?;
        let (path, owner) = match create.mode {
            CreateMode::EPHEMERAL_SEQUENTIAL => {
                parent.counter += 1;
                (format!("{}{}", create.path, Sequence(parent.counter)), Some(party))
            }
            CreateMode::PERSISTENT => (create.path.to_string(), None),
            mode => panic!("{mode:?}"),
        };
        if self.nodes.contains_key(&path) {
            return Err(ErrorCode::NODE_EXISTS);
        }
        self.insert(path.clone(), owner);
        Ok(path)
    }

    fn insert(&mut self, path: String, owner: Option<usize>) {
        self.zxid += 1;
        let now = self.zxid;
        let node = Node { owner, created: now, modified: now, children_modified: now, counter: 0 };
        self.events.push((path.clone(), EventType::NODE_CREATED));
        self.children_changed(&path);
        self.nodes.insert(path, node);
    }

    fn children_changed(&mut self, path: &str) {
        let parent = path::parent(path).unwrap_or_default();
        if let Some(node) = self.nodes.get_mut(parent) {
            node.children_modified = self.zxid;
            self.events.push((parent.to_string(), EventType::NODE_CHILDREN_CHANGED));
        }
    }

    fn set_data(&mut self, path: &str) -> Result<Stat, ErrorCode> {
        let node = self.nodes.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
        self.zxid += 1;
        node.modified = self.zxid;
        self.events.push((path.to_string(), EventType::NODE_DATA_CHANGED));
        Ok(self.stat(path).unwrap_or_default())
    }

    pub(super) fn delete(&mut self, path: &str) -> Result<(), ErrorCode> {
        self.nodes.get(path).ok_or(ErrorCode::NO_NODE)?;
        self.zxid += 1;
        self.remove(path);
        Ok(())
    }

    fn remove(&mut self, path: &str) {
        self.nodes.remove(path);
        self.events.push((path.to_string(), EventType::NODE_DELETED));
        self.children_changed(path);
    }

    /// All nodes of a session go in one transaction.
    pub(super) fn expire(&mut self, party: usize) {
        self.zxid += 1;
        let its: Vec<_> = self.owned().filter(|(_, owner)| *owner == party).collect();
        let its: Vec<_> = its.into_iter().map(|(path, _)| path.to_string()).collect();
        its.iter().for_each(|path| self.remove(path));
    }

    /// What a watch would have told that was away since `seen`.
    pub(super) fn missed(&self, watch: &SessionWatch, seen: i64) -> Option<EventType> {
        let node = self.nodes.get(&watch.path);
        match (watch.watched?, node) {
            (Watched::Absence, node) => node.map(|_| EventType::NODE_CREATED),
            (_, None) => Some(EventType::NODE_DELETED),
            (Watched::Data, Some(node)) => {
                (node.modified > seen).then_some(EventType::NODE_DATA_CHANGED)
            }
            (Watched::Children, Some(node)) => {
                (node.children_modified > seen).then_some(EventType::NODE_CHILDREN_CHANGED)
            }
        }
    }
}
