//! Locks: who queued, who held, who was woken, and why a node went, from the messages alone.
//!
//! A lock is a node with ephemeral sequential children, as those of Curator, kazoo and zk-recipes.
//! A client acquires it when it learns that no child is ahead of its own: from a list, or from the
//! event about the last child ahead, unless it asks for a list then.

mod report;

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use zk_proto::conversation::{Direction, Kind};
use zk_proto::keeper::Dialect;
use zk_proto::{
    ConnectResponse, CreateMode, Decode as _, ErrorCode, EventType, MultiOp, MultiResult, OpCode,
    Request, Response, SessionId,
};

use crate::tracker::Seen;

#[derive(Debug, Default)]
pub(crate) struct Locks {
    clients: Vec<Client>,
    /// The client of each connection.
    connections: HashMap<usize, usize>,
    /// The session that a connection asks for.
    resumed: HashMap<usize, SessionId>,
    queues: BTreeMap<String, Queue>,
    /// What requests without a reply do, by connection and number.
    pending: HashMap<(usize, u64), Pending>,
    now: Duration,
}

#[derive(Debug)]
struct Client {
    name: String,
    session: SessionId,
    timeout: Duration,
    /// When it last sent something.
    sent: Duration,
}

/// The creations, by their place in a multi, and the deletions of a request.
#[derive(Debug, Default)]
struct Pending {
    time: Duration,
    created: Vec<(usize, String, Claim)>,
    deleted: Vec<String>,
}

#[derive(Debug, Default)]
struct Queue {
    entries: Vec<Entry>,
}

/// What a child claims.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Claim {
    #[default]
    Exclusive,
    Shared,
    /// A permit of a semaphore, of which several are held.
    Permit,
}

#[derive(Debug, Default)]
struct Entry {
    name: String,
    sequence: Option<i64>,
    claim: Claim,
    client: Option<usize>,
    /// The zxid with which it was there.
    zxid: i64,
    asked: Duration,
    queued: Duration,
    /// The children ahead when it was queued.
    ahead: usize,
    wakes: usize,
    woken: Option<Duration>,
    /// When it had no child ahead.
    free: Option<Duration>,
    acquired: Option<Duration>,
    /// The last child that was ahead.
    before: Option<usize>,
    /// When its deletion was asked for, and by which client.
    left: Option<(Duration, usize)>,
    gone: Option<(Duration, End)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Released,
    Closed,
    GaveUp,
    Deleted,
    Expired,
    /// Nothing shows why.
    Vanished,
}

impl End {
    fn name(self) -> &'static str {
        match self {
            Self::Released => "released",
            Self::Closed => "session closed",
            Self::GaveUp => "gave up",
            Self::Deleted => "deleted by another client",
            Self::Expired => "session expired",
            Self::Vanished => "vanished",
        }
    }
}

fn split(path: &str) -> Option<(&str, &str)> {
    let (parent, name) = path.rsplit_once('/')?;
    Some((if parent.is_empty() { "/" } else { parent }, name))
}

fn sequence(name: &str) -> Option<i64> {
    let at = name.len().checked_sub(10)?;
    name.get(at..)?.parse().ok()
}

/// Returns what a created node claims, or `None` if it is none of a recipe.
fn claim(path: &str, mode: CreateMode) -> Option<Claim> {
    let (_, name) = split(path)?;
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    match mode {
        CreateMode::EPHEMERAL_SEQUENTIAL if has(&["-lease-"]) => Some(Claim::Permit),
        CreateMode::EPHEMERAL_SEQUENTIAL if has(&["__READ__", "__rlock__", "read-"]) => {
            Some(Claim::Shared)
        }
        CreateMode::EPHEMERAL_SEQUENTIAL => Some(Claim::Exclusive),
        // A permit of kazoo's semaphore.
        CreateMode::EPHEMERAL
            if name.len() == 32 && name.bytes().all(|it| it.is_ascii_hexdigit()) =>
        {
            Some(Claim::Permit)
        }
        _ => None,
    }
}

impl Queue {
    fn blocks(&self, place: usize, other: usize) -> bool {
        let (entry, other) = (&self.entries[place], &self.entries[other]);
        let conflicts = match entry.claim {
            Claim::Permit => false,
            Claim::Shared => other.claim == Claim::Exclusive,
            Claim::Exclusive => other.claim != Claim::Permit,
        };
        conflicts && other.gone.is_none() && other.sequence < entry.sequence
    }

    fn ahead(&self, place: usize) -> usize {
        (0..self.entries.len()).filter(|other| self.blocks(place, *other)).count()
    }

    fn find(&self, name: &str) -> Option<usize> {
        // Names of a lock that is used again do not repeat, except those without a number.
        self.entries.iter().rposition(|entry| entry.name == name)
    }

    /// Adds a child. It may turn out to be ahead of others.
    fn push(&mut self, entry: Entry) {
        let queued = entry.queued;
        self.entries.push(entry);
        for place in 0..self.entries.len() {
            let ahead = self.ahead(place);
            let is_last = place + 1 == self.entries.len();
            let entry = &mut self.entries[place];
            if ahead > 0 && entry.gone.is_none() && entry.acquired.is_none() {
                (entry.ahead, entry.free) = (entry.ahead.max(ahead), None);
            } else if is_last {
                entry.free = Some(queued);
            }
        }
    }

    /// Ends a child, which may leave others without one ahead.
    fn end(&mut self, place: usize, now: Duration, end: End) {
        self.entries[place].gone = Some((now, end));
        for other in 0..self.entries.len() {
            let entry = &self.entries[other];
            let waits = entry.free.is_none() && entry.gone.is_none();
            if waits && self.ahead(other) == 0 {
                (self.entries[other].free, self.entries[other].before) = (Some(now), Some(place));
            }
        }
    }
}

impl Entry {
    fn named(name: &str) -> Self {
        Self { name: name.to_owned(), sequence: sequence(name), ..Self::default() }
    }

    /// Returns when it acquired. Some clients need no list if nothing is ahead.
    fn acquired(&self) -> Option<Duration> {
        let is_served = self.ahead == 0 || self.woken.is_some();
        let implied = self.free.filter(|_| is_served).map(|free| free.max(self.queued));
        let implied = implied.map(|free| self.woken.map_or(free, |woken| woken.max(free)));
        self.acquired
            .or(implied.filter(|implied| self.left.is_none_or(|(left, _)| left > *implied)))
    }

    fn left(&self) -> Option<Duration> {
        let gone = self.gone.map(|(gone, _)| gone);
        self.left.map(|(left, _)| left).or(gone)
    }
}

impl Locks {
    /// Takes the next message. Messages of all connections come in the order of their times.
    pub(crate) fn add(&mut self, seen: &Seen<'_>) {
        let (connection, message) = (seen.connection, &seen.message);
        self.now = seen.time.unwrap_or(self.now).max(self.now);
        let now = self.now;
        let client = *self.connections.entry(connection).or_insert_with(|| {
            let (name, session) = (seen.name.to_owned(), SessionId::NONE);
            self.clients.push(Client { name, session, timeout: Duration::ZERO, sent: now });
            self.clients.len() - 1
        });
        if message.direction == Direction::ToServer {
            self.clients[client].sent = now;
        }
        match message.kind {
            _ if seen.missing > 0 => {}
            Kind::ConnectRequest => {
                if let Ok((_, request)) = Dialect::handshake(message.payload()) {
                    self.resumed.insert(connection, request.session_id);
                }
            }
            Kind::ConnectResponse => self.connected(connection, message.payload()),
            Kind::Request(_) => {
                if let Some(Ok(request)) = message.request() {
                    self.request(connection, client, message.number, &request);
                }
            }
            Kind::Reply { request, header, opcode } => {
                let pending = self.pending.remove(&(connection, request)).unwrap_or_default();
                let is_gone = matches!(header.err, ErrorCode::OK | ErrorCode::NO_NODE);
                if is_gone && opcode != OpCode::MULTI {
                    pending.deleted.iter().for_each(|path| self.gone(path));
                }
                if let Some(Ok(response)) = message.response() {
                    self.reply(client, seen, header.zxid.0, pending, &response);
                }
            }
            Kind::Notification(_) => {
                if let Some(Ok(event)) = message.event() {
                    self.event(client, event.event_type, event.path);
                }
            }
            _ => {}
        }
    }

    fn connected(&mut self, connection: usize, payload: &[u8]) {
        let Ok(response) = ConnectResponse::decode_all(payload) else { return };
        let session = response.session_id;
        if session == SessionId::NONE {
            let asked = self.resumed.get(&connection).copied().unwrap_or_default();
            let client = self.clients.iter().position(|it| it.session == asked);
            if let Some(client) = client.filter(|_| asked != SessionId::NONE) {
                self.end_all(client, End::Expired);
            }
            return;
        }
        let known = self.clients.iter().position(|it| it.session == session);
        let own = self.connections.get(&connection).copied().unwrap_or_default();
        let client = known.unwrap_or(own);
        self.connections.insert(connection, client);
        let client = &mut self.clients[client];
        client.session = session;
        client.timeout = Duration::from_millis(response.timeout.try_into().unwrap_or_default());
    }

    fn request(&mut self, connection: usize, client: usize, number: u64, request: &Request<'_>) {
        let mut pending = Pending { time: self.now, ..Pending::default() };
        let Pending { created, deleted, .. } = &mut pending;
        let mut create = |place, path: &str, mode| {
            created.extend(claim(path, mode).map(|claim| (place, path.to_owned(), claim)));
        };
        match request {
            Request::Create(body) | Request::Create2(body) => create(0, body.path, body.mode),
            Request::Delete(body) => deleted.push(body.path.to_owned()),
            Request::Multi(multi) => {
                for (place, op) in multi.iter().enumerate() {
                    match op {
                        MultiOp::Create(body) | MultiOp::Create2(body) => {
                            create(place, body.path, body.mode);
                        }
                        MultiOp::Delete(body) => deleted.push(body.path.to_owned()),
                        _ => {}
                    }
                }
            }
            Request::GetChildren(body) | Request::GetChildren2(body) => {
                // It does not trust the event alone.
                for entry in self.waiting(client, body.path) {
                    if entry.acquired.is_some() && entry.acquired == entry.woken {
                        entry.acquired = None;
                    }
                }
            }
            Request::CloseSession(()) => {
                let now = self.now;
                let entries = self.queues.values_mut().flat_map(|queue| &mut queue.entries);
                let own = entries.filter(|it| it.client == Some(client) && it.gone.is_none());
                own.for_each(|entry| entry.left = entry.left.or(Some((now, usize::MAX))));
            }
            _ => {}
        }
        for path in &pending.deleted {
            let now = self.now;
            if let Some(entry) = self.entry(path).filter(|entry| entry.gone.is_none()) {
                entry.left = entry.left.or(Some((now, client)));
            }
        }
        if !pending.created.is_empty() || !pending.deleted.is_empty() {
            self.pending.insert((connection, number), pending);
        }
    }

    fn reply(
        &mut self,
        client: usize,
        seen: &Seen<'_>,
        zxid: i64,
        pending: Pending,
        response: &Response<'_>,
    ) {
        let listed = seen.paths.first().map_or("", String::as_str);
        match response {
            Response::Create(body) => self.created(client, zxid, &pending, 0, body.path),
            Response::Create2(body) => self.created(client, zxid, &pending, 0, body.path),
            Response::Multi(multi) if multi.failure().is_none() => {
                pending.deleted.iter().for_each(|path| self.gone(path));
                for (place, result) in multi.iter().enumerate() {
                    match result {
                        MultiResult::Create(body) => {
                            self.created(client, zxid, &pending, place, body.path);
                        }
                        MultiResult::Create2(body) => {
                            self.created(client, zxid, &pending, place, body.path);
                        }
                        _ => {}
                    }
                }
            }
            Response::GetChildren(body) => {
                self.listed(client, listed, zxid, &body.children.iter().collect::<Vec<_>>());
            }
            Response::GetChildren2(body) => {
                self.listed(client, listed, zxid, &body.children.iter().collect::<Vec<_>>());
            }
            Response::CloseSession(()) => self.end_all(client, End::Closed),
            _ => {}
        }
    }

    fn created(&mut self, client: usize, zxid: i64, pending: &Pending, place: usize, path: &str) {
        let claimed = pending.created.iter().find(|(at, ..)| *at == place);
        let (Some((_, _, claim)), Some((parent, name))) = (claimed, split(path)) else { return };
        let queue = self.queues.entry(parent.to_owned()).or_default();
        match queue.find(name).filter(|place| queue.entries[*place].gone.is_none()) {
            // Another client listed it before this reply.
            Some(place) => {
                let entry = &mut queue.entries[place];
                (entry.client, entry.asked) = (Some(client), pending.time);
            }
            None => {
                let (client, asked, queued) = (Some(client), pending.time, self.now);
                let named = Entry::named(name);
                queue.push(Entry { claim: *claim, client, zxid, asked, queued, ..named });
            }
        }
    }

    fn listed(&mut self, client: usize, path: &str, zxid: i64, children: &[&str]) {
        let now = self.now;
        // The reply to a creation may have been lost, but not its request.
        let asked = self.pending.iter().flat_map(|((connection, _), pending)| {
            let client = self.connections.get(connection).copied();
            pending.created.iter().map(move |created| (client, pending.time, created))
        });
        let asked: Vec<_> = asked.map(|(client, time, it)| (client, time, it.clone())).collect();
        let is_lock = self.queues.contains_key(path);
        for name in children {
            let full = format!("{}/{name}", path.trim_end_matches('/'));
            let own = asked.iter().find(|(_, _, (_, asked, _))| full.starts_with(asked.as_str()));
            let is_new = self.queues.get(path).is_none_or(|queue| queue.find(name).is_none());
            if !is_new || own.is_none() && (!is_lock || sequence(name).is_none()) {
                continue;
            }
            let guess = claim(&full, CreateMode::EPHEMERAL_SEQUENTIAL);
            let (client, asked, claim) = match own {
                Some((client, time, (_, _, claim))) => (*client, *time, *claim),
                None => (None, now, guess.unwrap_or(Claim::Exclusive)),
            };
            let queue = self.queues.entry(path.to_owned()).or_default();
            let named = Entry::named(name);
            queue.push(Entry { claim, client, zxid, asked, queued: now, ..named });
        }
        let Some(queue) = self.queues.get(path) else { return };
        let has = |entry: &Entry| children.contains(&&entry.name[..]);
        let missing = queue.entries.iter().filter(|it| it.gone.is_none() && it.zxid <= zxid);
        let missing: Vec<_> =
            missing.filter(|entry| !has(entry)).map(|it| it.name.clone()).collect();
        let parent = path.trim_end_matches('/');
        missing.iter().for_each(|name| self.gone(&format!("{parent}/{name}")));
        let Some(queue) = self.queues.get_mut(path) else { return };
        for place in 0..queue.entries.len() {
            let is_free = queue.ahead(place) == 0;
            let entry = &mut queue.entries[place];
            let is_own = entry.client == Some(client) && entry.gone.is_none();
            if is_own && is_free && children.contains(&&entry.name[..]) {
                entry.acquired.get_or_insert(now);
            }
        }
    }

    fn event(&mut self, client: usize, event: EventType, path: &str) {
        let now = self.now;
        let lock = match event {
            EventType::NODE_DELETED => {
                self.gone(path);
                split(path).map_or("", |(parent, _)| parent)
            }
            EventType::NODE_CHILDREN_CHANGED => path,
            _ => return,
        };
        for entry in self.waiting(client, lock).filter(|it| it.acquired.is_none()) {
            entry.wakes += 1;
            entry.woken = Some(now);
            if event == EventType::NODE_DELETED && entry.free.is_some() {
                entry.acquired = Some(now);
            }
        }
    }

    /// Returns the children of a client that are in a queue.
    fn waiting(&mut self, client: usize, path: &str) -> impl Iterator<Item = &mut Entry> {
        let entries = self.queues.get_mut(path).map_or(&mut [][..], |queue| &mut queue.entries);
        entries.iter_mut().filter(move |it| it.client == Some(client) && it.gone.is_none())
    }

    fn entry(&mut self, path: &str) -> Option<&mut Entry> {
        let (parent, name) = split(path)?;
        let queue = self.queues.get_mut(parent)?;
        let place = queue.find(name)?;
        queue.entries.get_mut(place)
    }

    /// Ends a child for a reason that the messages before show.
    fn gone(&mut self, path: &str) {
        let Some((parent, name)) = split(path) else { return };
        let Some(queue) = self.queues.get_mut(parent) else { return };
        let Some(place) = queue.find(name) else { return };
        let entry = &queue.entries[place];
        if entry.gone.is_some() {
            return;
        }
        let end = match (entry.left, entry.client) {
            (Some((_, usize::MAX)), _) => End::Closed,
            (Some((_, by)), owner) if owner.is_some_and(|owner| owner != by) => End::Deleted,
            (Some(_), _) if entry.acquired().is_some() => End::Released,
            (Some(_), _) => End::GaveUp,
            (None, Some(owner)) => {
                let Client { sent, timeout, .. } = self.clients[owner];
                // Servers end sessions some milliseconds late, never early.
                let is_silent = !timeout.is_zero() && self.now.saturating_sub(sent) >= timeout;
                if is_silent { End::Expired } else { End::Vanished }
            }
            (None, None) => End::Vanished,
        };
        queue.end(place, self.now, end);
    }

    fn end_all(&mut self, client: usize, end: End) {
        for queue in self.queues.values_mut() {
            for place in 0..queue.entries.len() {
                let entry = &queue.entries[place];
                if entry.client == Some(client) && entry.gone.is_none() {
                    queue.end(place, self.now, end);
                }
            }
        }
    }
}
