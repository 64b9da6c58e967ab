//! The ensemble: the log of transactions, servers that lag, and the tree that each of them shows.

use zk_session::proto::{CreateRequest, SetDataResponse, path};

use super::*;

/// The index of a transaction in the log. It identifies the state of the tree after it.
pub(crate) type Index = u8;

/// The index of a node among those that the tree has. It is valid within one step.
pub(crate) type NodeId = usize;

/// The owner of nodes that belong to no client of this world.
pub(crate) const OTHER_PROGRAM: usize = 99;

/// A number greater than the count of nodes.
pub(crate) const LATE: i32 = 100;

/// The events that a watch receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Watched {
    Absence,
    Data,
    Children,
}

impl Watched {
    pub(crate) const fn receives(self, event: EventType) -> bool {
        match event {
            EventType::NODE_CREATED => matches!(self, Self::Absence),
            EventType::NODE_DATA_CHANGED => matches!(self, Self::Data),
            EventType::NODE_CHILDREN_CHANGED => matches!(self, Self::Children),
            _ => matches!(self, Self::Data | Self::Children),
        }
    }
}

/// The sequence numbers that the servers assign.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbers {
    Rise,
    /// The numbers are exhausted.
    End,
    /// The numbers are exhausted, but look usable.
    EndUnnoticed,
}

impl Numbers {
    /// Returns the number of a node created after this many others.
    pub(crate) const fn at(self, before: i32) -> i32 {
        match (self, before) {
            (Self::Rise, number) => number,
            (Self::End, 1) => i32::MIN,
            (Self::End, _) => i32::MAX,
            (Self::EndUnnoticed, 1) => 0,
            (Self::EndUnnoticed, _) => 9,
        }
    }
}

#[derive(Clone, Hash)]
pub(crate) struct Node {
    pub(crate) path: Arc<str>,
    /// The path that an injected bug shows to some clients instead.
    alias: Option<Arc<str>>,
    pub(crate) owner: Option<usize>,
    /// That of its owner.
    session: SessionId,
    /// The transaction that decides its position in the queue: its creation, or that of the node
    /// that it replaced.
    pub(crate) place: Index,
    pub(crate) created: Index,
    deleted: Option<Index>,
    /// Its data, and since when.
    data: Vec<(Index, Arc<[u8]>)>,
    /// The number of nodes created below it.
    children: i32,
}

impl Node {
    pub(crate) fn exists_at(&self, index: Index) -> bool {
        self.created <= index && self.deleted.is_none_or(|deleted| deleted > index)
    }

    pub(crate) fn data_at(&self, index: Index) -> (Index, &[u8]) {
        let newest = self.data.iter().rfind(|(since, _)| *since <= index);
        newest.map_or((self.created, b""), |(since, data)| (*since, data))
    }

    pub(crate) fn version_at(&self, index: Index) -> i32 {
        let changes = self.data.iter().filter(|(since, _)| *since <= index).count();
        i32::try_from(changes).expect("few changes") - 1
    }

    pub(crate) fn is(&self, path: &str) -> bool {
        *self.path == *path || self.alias.as_deref() == Some(path)
    }

    pub(crate) fn is_in(&self, lock_path: &str) -> bool {
        path::parent(&self.path) == Some(lock_path)
    }
}

#[derive(Clone)]
pub(crate) struct Tree {
    numbers: Numbers,
    pub(crate) bug: Option<Bug>,
    nodes: Vec<Node>,
    pub(crate) log: Index,
    /// The last transaction that each server has applied.
    servers: Vec<Index>,
    /// How many sessions of each client have expired. Of the last clients, none has.
    expiries: Vec<u8>,
}

impl Hash for Tree {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.nodes, self.log, &self.servers, &self.expiries).hash(state);
    }
}

impl Tree {
    /// Creates a tree with these persistent nodes and their data.
    pub(crate) fn new(
        numbers: Numbers,
        servers: usize,
        bug: Option<Bug>,
        nodes: &[(&str, &[u8])],
    ) -> Self {
        let servers = alloc::vec![0; servers];
        let mut tree =
            Self { numbers, bug, nodes: Vec::new(), log: 0, servers, expiries: Vec::new() };
        for (path, data) in core::iter::once(&("/", &b""[..])).chain(nodes) {
            let data = alloc::vec![(0, (*data).into())];
            let path = (*path).into();
            tree.nodes.push(Node {
                path,
                alias: None,
                owner: None,
                session: SessionId::NONE,
                place: 0,
                created: 0,
                deleted: None,
                data,
                children: 0,
            });
        }
        tree
    }

    /// Advances the sequence numbers below a path, as if this many nodes had been created.
    pub(crate) fn created_before(&mut self, lock_path: &str, nodes: i32) {
        let lock_path = self.find_at(lock_path, self.log).expect("a parent");
        self.nodes[lock_path].children = nodes;
    }

    // ---- State of the tree ---------------------------------------------------------------------

    pub(crate) fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node]
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = (NodeId, &Node)> + Clone {
        self.nodes.iter().enumerate()
    }

    pub(crate) fn at(&self, index: Index) -> impl Iterator<Item = (NodeId, &Node)> + Clone {
        self.all().filter(move |(_, node)| node.exists_at(index))
    }

    /// Returns the ephemeral nodes that exist after the last transaction.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (NodeId, &Node)> + Clone {
        self.at(self.log).filter(|(_, node)| node.owner.is_some())
    }

    pub(crate) fn owned_by(
        &self,
        client: usize,
        index: Index,
    ) -> impl Iterator<Item = &Node> + Clone {
        self.at(index).map(|(_, node)| node).filter(move |node| node.owner == Some(client))
    }

    pub(crate) fn find_at(&self, path: &str, index: Index) -> Option<NodeId> {
        self.at(index).find(|(_, node)| node.is(path)).map(|(id, _)| id)
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Node> {
        self.find_at(path, self.log).map(|id| &self.nodes[id])
    }

    /// Returns the path of a node as a client sees it.
    pub(crate) fn visible_path(&self, node: &Node, client: usize) -> Arc<str> {
        let is_own = node.owner == Some(client);
        let by_alias = is_own == (self.bug == Some(Bug::ReadersWatchHigherWriters));
        node.alias.clone().filter(|_| by_alias).unwrap_or_else(|| node.path.clone())
    }

    /// Returns the session of a client, which differs after each expiry.
    pub(crate) fn session(&self, client: usize) -> SessionId {
        let expiries = self.expiries.get(client).copied().unwrap_or_default();
        session_after(client, expiries)
    }

    // ---- Servers -------------------------------------------------------------------------------

    pub(crate) fn is_lagging(&self, server: usize) -> bool {
        self.servers[server] < self.log
    }

    pub(crate) fn lagging(&self) -> impl Iterator<Item = usize> {
        (0..self.servers.len()).filter(|server| self.is_lagging(*server))
    }

    pub(crate) fn now(&self, server: usize) -> Index {
        self.servers[server]
    }

    /// Lets a server without clients apply the transactions up to this one.
    pub(crate) fn advance(&mut self, server: usize, to: Index) {
        self.servers[server] = to;
    }

    /// Removes the nodes that were deleted until then.
    pub(crate) fn forget(&mut self, until: Index) {
        self.nodes.retain(|node| node.deleted.is_none_or(|deleted| deleted > until));
    }

    pub(crate) fn sort_servers(&mut self) {
        self.servers.sort_unstable();
    }

    /// Applies the next transaction on a server. Returns the events of its watches.
    pub(crate) fn apply_next(&mut self, server: usize) -> (Index, Vec<(Arc<str>, EventType)>) {
        self.servers[server] += 1;
        let now = self.servers[server];
        let mut events = Vec::new();
        let mut notify = |node: &Node, event| {
            events.push((node.path.clone(), event));
            if event != EventType::NODE_DATA_CHANGED
                && let Some(parent) = path::parent(&node.path)
            {
                events.push((parent.into(), EventType::NODE_CHILDREN_CHANGED));
            }
        };
        for node in self.nodes.iter().filter(|node| node.created == now) {
            notify(node, EventType::NODE_CREATED);
        }
        for node in &self.nodes {
            if node.created < now && node.data.iter().any(|(since, _)| *since == now) {
                notify(node, EventType::NODE_DATA_CHANGED);
            }
            if node.deleted == Some(now) {
                notify(node, EventType::NODE_DELETED);
            }
        }
        (now, events)
    }

    /// Returns the event that a watch has missed since `seen`, if there is one.
    pub(crate) fn missed(
        &self,
        path: &str,
        watched: Watched,
        seen: Index,
        now: Index,
    ) -> Option<EventType> {
        let node = self.find_at(path, now).map(|id| &self.nodes[id]);
        let is_new = |index: Index| seen < index && index <= now;
        match (watched, node) {
            (Watched::Absence, node) => node.map(|_| EventType::NODE_CREATED),
            (_, None) => Some(EventType::NODE_DELETED),
            (Watched::Data, Some(node)) => {
                is_new(node.data_at(now).0).then_some(EventType::NODE_DATA_CHANGED)
            }
            // The counter of a node's children begins with its creation.
            (Watched::Children, Some(node)) if is_new(node.created) => {
                Some(EventType::NODE_CHILDREN_CHANGED)
            }
            (Watched::Children, Some(_)) => {
                let has_changed = |child: &Node| {
                    child.is_in(path)
                        && (is_new(child.created) || child.deleted.is_some_and(is_new))
                };
                self.nodes.iter().any(has_changed).then_some(EventType::NODE_CHILDREN_CHANGED)
            }
        }
    }

    // ---- Reads ---------------------------------------------------------------------------------

    /// Returns the reply of a server that has applied `now`, and the watch that a request may set.
    pub(crate) fn read(
        &self,
        client: usize,
        request: &Request<'_>,
        now: Index,
    ) -> (Result<Reply, Error>, Watched) {
        let find = |path| self.find_at(path, now).map(|id| &self.nodes[id]);
        let absent = Err(Error::Server(ErrorCode::NO_NODE));
        match request {
            Request::Exists(exists) => match find(exists.path) {
                Some(node) => {
                    let stat = self.stat(node, client, now);
                    (reply(OpCode::EXISTS, &ExistsResponse { stat }), Watched::Data)
                }
                None => (absent, Watched::Absence),
            },
            Request::GetData(get) => {
                let answer = find(get.path).map_or(absent, |node| {
                    let (stat, (_, data)) = (self.stat(node, client, now), node.data_at(now));
                    let is_hidden = self.bug == Some(Bug::NamesWithoutGuid);
                    let data = if is_hidden { b"" } else { data };
                    reply(OpCode::GET_DATA, &GetDataResponse { data: Some(data), stat })
                });
                (answer, Watched::Data)
            }
            Request::GetChildren(list) => {
                let exists = find(list.path).is_some()
                    || list.watch && self.bug == Some(Bug::ExistsForWatch);
                (
                    if exists { self.list(list.path, client, now, |_| true) } else { absent },
                    Watched::Children,
                )
            }
            Request::Sync(_) => (ok(), Watched::Data),
            request => panic!("{request:?}"),
        }
    }

    /// Returns the children for which `includes` returns true.
    pub(crate) fn list(
        &self,
        lock_path: &str,
        client: usize,
        now: Index,
        includes: impl Fn(&Node) -> bool,
    ) -> Result<Reply, Error> {
        let below = self.at(now).map(|(_, node)| node).filter(|node| node.is_in(lock_path));
        let paths: Vec<_> =
            below.filter(|it| includes(it)).map(|it| self.visible_path(it, client)).collect();
        let names: Vec<_> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
        reply(OpCode::GET_CHILDREN, &GetChildrenResponse { children: names[..].into() })
    }

    pub(crate) fn stat(&self, node: &Node, client: usize, now: Index) -> Stat {
        let ephemeral_owner = match self.bug {
            Some(Bug::OwnerUnchecked) if node.owner.is_some() => self.session(client),
            _ => node.session,
        };
        Stat {
            czxid: Zxid(node.created.into()),
            mzxid: Zxid(node.data_at(now).0.into()),
            version: node.version_at(now),
            ephemeral_owner,
            ..Stat::default()
        }
    }

    // ---- Writes --------------------------------------------------------------------------------

    /// Executes a write. Returns `None` if the request is none.
    pub(crate) fn write(
        &mut self,
        client: usize,
        request: &Request<'_>,
    ) -> Option<Result<Reply, Error>> {
        let answer = match request {
            Request::Create2(create) => self.create(Some(client), create).map(|id| {
                let (path, stat) = (
                    self.visible_path(&self.nodes[id], client),
                    self.stat(&self.nodes[id], client, self.log),
                );
                reply(OpCode::CREATE2, &Create2Response { path: &path, stat })
            }),
            Request::Create(create) | Request::CreateContainer(create) => {
                self.create(None, create).map(|_| ok())
            }
            Request::Delete(delete) => self.delete_path(delete.path).map(|()| ok()),
            Request::SetData(set) => {
                self.set_data(set.path, set.data.unwrap_or_default()).map(|id| {
                    let stat = self.stat(&self.nodes[id], client, self.log);
                    reply(OpCode::SET_DATA, &SetDataResponse { stat })
                })
            }
            Request::Multi(multi) => Ok(self.multi(client, &multi.iter().collect::<Vec<_>>())),
            _ => return None,
        };
        let log = self.log;
        let answer = answer.map_err(Error::Server).flatten();
        Some(answer.map(|reply| Reply::new(reply.opcode, Zxid(log.into()), reply.body)))
    }

    /// Creates a node in its own transaction.
    pub(crate) fn create(
        &mut self,
        owner: Option<usize>,
        create: &CreateRequest<'_>,
    ) -> Result<NodeId, ErrorCode> {
        let parent = path::parent(create.path).and_then(|parent| self.find_at(parent, self.log));
        let parent = parent.ok_or(ErrorCode::NO_NODE)?;
        let number = self.numbers.at(self.nodes[parent].children);
        let numbered = |prefix: &str, number| format!("{prefix}{}", SequenceNumber(number));
        let path = match create.mode {
            CreateMode::EPHEMERAL_SEQUENTIAL => numbered(create.path, number),
            _ => create.path.to_string(),
        };
        if self.find(&path).is_some() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        let alias = match self.bug {
            Some(Bug::ReadersWatchHigherWriters) if path.contains("READ") => {
                Some(numbered(create.path, number + LATE))
            }
            Some(Bug::DowngradeToTheEnd) if create.mode == CreateMode::EPHEMERAL => {
                Some(numbered(path.trim_end_matches(|it: char| it.is_ascii_digit()), number))
            }
            _ => None,
        };
        self.log += 1;
        self.nodes[parent].children += 1;
        let data = match create.data.unwrap_or_default() {
            [] => Vec::new(),
            data => alloc::vec![(self.log, data.into())],
        };
        self.nodes.push(Node {
            path: path.into(),
            alias: alias.map(Into::into),
            owner,
            session: owner.map_or(SessionId::NONE, |owner| self.session(owner)),
            place: self.log,
            created: self.log,
            deleted: None,
            data,
            children: 0,
        });
        Ok(self.nodes.len() - 1)
    }

    /// Creates several nodes, or replaces one by another, in one transaction.
    pub(crate) fn multi(
        &mut self,
        client: usize,
        operations: &[MultiOp<'_>],
    ) -> Result<Reply, Error> {
        let before = self.log;
        if let [MultiOp::Create(create), MultiOp::Delete(delete)] = operations {
            let exists = self.find(create.path).is_some();
            return match self.find_at(delete.path, before) {
                _ if exists => replaced(Some(ErrorCode::NODE_EXISTS)),
                None => replaced(Some(ErrorCode::NO_NODE)),
                Some(old) => {
                    let new = self.create(Some(client), create).expect("its parent is there");
                    self.nodes[old].deleted = Some(self.log);
                    self.nodes[new].place = self.nodes[old].place;
                    replaced(None)
                }
            };
        }
        if let Some((change, checks)) = operations.split_last()
            && let [MultiOp::Check(_), ..] = checks
        {
            return self.announce(checks, change);
        }
        let mut paths = Vec::new();
        for operation in operations {
            let MultiOp::Create(create) = operation else { panic!("{operation:?}") };
            self.log = before;
            let node = self.create(Some(client), create).map_err(Error::Server)?;
            paths.push(self.nodes[node].path.clone());
        }
        let created = |path| MultiResult::Create(CreateResponse { path });
        let results: Vec<_> = paths.iter().map(|path| created(path)).collect();
        reply(OpCode::MULTI, &Multi::new(&results))
    }

    /// Creates, changes or deletes a node while others exist.
    pub(crate) fn announce(
        &mut self,
        checks: &[MultiOp<'_>],
        change: &MultiOp<'_>,
    ) -> Result<Reply, Error> {
        let is_missing = |check: &MultiOp<'_>| match check {
            _ if self.bug == Some(Bug::AnnouncesUnchecked) => false,
            MultiOp::Check(check) => self.find_at(check.path, self.log).is_none(),
            other => panic!("{other:?}"),
        };
        let refusal = match (checks.iter().position(is_missing), change) {
            (Some(missing), _) => Some((missing, ErrorCode::NO_NODE)),
            (None, MultiOp::Create(create)) => {
                self.create(None, create).err().map(|code| (checks.len(), code))
            }
            (None, MultiOp::SetData(set)) => {
                let changed = self.set_data(set.path, set.data.unwrap_or_default());
                changed.err().map(|code| (checks.len(), code))
            }
            (None, MultiOp::Delete(delete)) => {
                let deleted = self.delete_version(delete.path, delete.version);
                deleted.err().map(|code| (checks.len(), code))
            }
            (None, other) => panic!("{other:?}"),
        };
        announced(checks.len(), refusal)
    }

    pub(crate) fn set_data(&mut self, path: &str, data: &[u8]) -> Result<NodeId, ErrorCode> {
        let id = self.find_at(path, self.log).ok_or(ErrorCode::NO_NODE)?;
        self.log += 1;
        self.nodes[id].data.push((self.log, data.into()));
        Ok(id)
    }

    pub(crate) fn delete_version(&mut self, path: &str, version: i32) -> Result<(), ErrorCode> {
        let id = self.find_at(path, self.log).ok_or(ErrorCode::NO_NODE)?;
        if self.bug != Some(Bug::RetractsAnyVersion)
            && self.nodes[id].version_at(self.log) != version
        {
            return Err(ErrorCode::BAD_VERSION);
        }
        self.delete(id);
        Ok(())
    }

    pub(crate) fn delete_path(&mut self, path: &str) -> Result<(), ErrorCode> {
        let id = self.find_at(path, self.log).ok_or(ErrorCode::NO_NODE)?;
        self.delete(id);
        Ok(())
    }

    /// Creates a sequential node for another program.
    pub(crate) fn add(&mut self, owner: usize, prefix: &str) {
        let mode = CreateMode::EPHEMERAL_SEQUENTIAL;
        let create = CreateRequest { path: prefix, data: None, acl: AccessList::OPEN.list(), mode };
        self.create(Some(owner), &create).expect("its parent is there");
    }

    /// Asks the owner of a node to release it.
    pub(crate) fn revoke(&mut self, node: NodeId) {
        let path = self.nodes[node].path.clone();
        self.set_data(&path, AttemptConfig::REVOKE).expect("it is there");
    }

    /// Deletes a node and creates it again.
    pub(crate) fn recreate(&mut self, path: &str) {
        self.delete_path(path).expect("it is there");
        let (mode, acl) = (CreateMode::PERSISTENT, AccessList::OPEN);
        let create = CreateRequest { path, data: None, acl: acl.list(), mode };
        self.create(None, &create).expect("it is gone");
    }

    pub(crate) fn delete(&mut self, node: NodeId) {
        self.log += 1;
        self.nodes[node].deleted = Some(self.log);
    }

    /// Deletes all nodes of a session in one transaction.
    pub(crate) fn expire(&mut self, client: usize) {
        self.expiries.resize(self.expiries.len().max(client + 1), 0);
        self.expiries[client] += 1;
        let now = self.log + 1;
        for node in &mut self.nodes {
            if node.owner == Some(client) && node.deleted.is_none() {
                node.deleted = Some(now);
                self.log = now;
            }
        }
    }
}
