//! The contenders at a lock path, whatever the kind of lock.

use std::future::pending;

use bytes::Bytes;
use zk_recipes::session::proto::{ErrorCode, SessionId, Stat, Zxid, path};
use zk_recipes::session::{Client, End, Error, RequestError, State};
use zk_recipes::{
    LockError, LockMode, Mutex, Options, QueueEntry, RwLock, Scheme, Semaphore, SemaphoreError,
};

use crate::{Failure, lock_error};

/// A contender, like [`QueueEntry`], but also of locks that this library does not have.
pub(crate) struct Contender {
    /// The kind of its lock.
    pub(crate) kind: &'static str,
    pub(crate) node: String,
    pub(crate) mode: LockMode,
    pub(crate) waits_for: Option<String>,
    pub(crate) data: Option<Bytes>,
    pub(crate) session: SessionId,
    pub(crate) token: Zxid,
    pub(crate) since: i64,
}

impl Contender {
    pub(crate) const fn is_holder(&self) -> bool {
        self.waits_for.is_none()
    }
}

/// All contenders at a lock path.
#[derive(Default)]
pub(crate) struct Contents {
    /// The names of all children of the lock path.
    pub(crate) children: Vec<String>,
    /// The number that the next node gets, at least. Of a semaphore, the greater one of its two.
    pub(crate) next_sequence: u32,
    /// The kinds of locks found, described; more than one only by mistake.
    pub(crate) kinds: Vec<String>,
    /// In the order of their queues.
    pub(crate) contenders: Vec<Contender>,
}

impl Contents {
    fn add(&mut self, kind: &'static str, entries: Vec<QueueEntry>) {
        self.contenders.extend(entries.into_iter().map(|entry| {
            let QueueEntry { node, mode, waits_for, data, session, token, since, .. } = entry;
            Contender { kind, node, mode, waits_for, data, session, token, since }
        }));
    }
}

/// The kinds of locks whose contenders are direct children of the lock path. Their names show the
/// kind.
pub(crate) const KINDS: [(&str, Scheme); 5] = [
    ("mutex", Scheme::CURATOR_MUTEX),
    ("read/write lock", Scheme::CURATOR_READ_WRITE),
    ("leader election", Scheme::CURATOR_LEADER),
    ("lock with kazoo's names", Scheme::KAZOO_READ_WRITE),
    ("mutex with names of ZooKeeper's recipe", Scheme::ZOOKEEPER_RECIPE),
];

/// The two nodes of a semaphore that have contenders as children, and the schemes of their names.
pub(crate) const SEMAPHORE: [(&str, Scheme); 2] =
    [("leases", Scheme::CURATOR_LEASE), ("locks", Scheme::CURATOR_MUTEX)];

/// Reads all contenders at `path`. Returns `None` if the node does not exist.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Option<Contents>, Failure> {
    let Some((children, stat)) = found(client.get_children(path).await)? else { return Ok(None) };
    let next_sequence = next_sequence(client, path, &children, &stat).await?;
    let mut contents = Contents { next_sequence, ..Contents::default() };
    for (kind, scheme) in KINDS {
        if children.iter().any(|child| scheme.parse(child).is_some()) {
            let options = Options::new().scheme(scheme);
            let entries = if scheme.has_readers() {
                RwLock::with(client, path, options)?.contenders().await?
            } else {
                Mutex::with(client, path, options)?.contenders().await?
            };
            contents.kinds.push(kind.to_owned());
            contents.add(kind, entries);
        }
    }
    if SEMAPHORE.iter().any(|(parent, _)| children.iter().any(|child| child == parent)) {
        read_semaphore(client, path, &mut contents).await?;
    }
    if children.iter().any(|child| is_kazoo_permit(child)) {
        read_kazoo_semaphore(client, path, &children, &mut contents).await?;
    }
    contents.children = children;
    Ok(Some(contents))
}

/// The kind of kazoo's semaphores. Their permit nodes are direct children of the lock path, and
/// have no number.
pub(crate) const KAZOO_SEMAPHORE: &str = "semaphore of kazoo";

/// Returns whether a node is named like a permit of kazoo: by a guid without dashes.
pub(crate) fn is_kazoo_permit(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// The end of the path of the mutex where contenders for permits of kazoo wait.
pub(crate) const KAZOO_QUEUE: &str = "-__lock__";

pub(crate) fn kazoo_queue(path: &str) -> String {
    format!("{path}{KAZOO_QUEUE}")
}

async fn read_kazoo_semaphore(
    client: &Client,
    path: &str,
    children: &[String],
    contents: &mut Contents,
) -> Result<(), Failure> {
    let before = contents.contenders.len();
    for node in children.iter().filter(|child| is_kazoo_permit(child)) {
        let (data, stat) = match client.get_data(&path::child(path, node)).await {
            Ok((data, stat)) => (Some(data), stat),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => continue,
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => (None, Stat::default()),
            Err(error) => return Err(error.into()),
        };
        // Permits are ephemeral. Another program may name its own nodes by guids.
        if data.is_none() || stat.ephemeral_owner != SessionId(0) {
            contents.contenders.push(Contender {
                kind: KAZOO_SEMAPHORE,
                node: node.clone(),
                mode: LockMode::Shared,
                waits_for: None,
                data,
                session: stat.ephemeral_owner,
                token: stat.czxid,
                since: stat.ctime,
            });
        }
    }
    if contents.contenders.len() == before {
        return Ok(());
    }
    contents.contenders[before..].sort_by_key(|permit| permit.token);
    let permits = match client.get_data(path).await {
        Ok((data, _)) => String::from_utf8_lossy(&data).parse::<u32>().ok(),
        Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => None,
        Err(error) => return Err(error.into()),
    };
    let options = Options::new().scheme(Scheme::KAZOO_MUTEX);
    let mut waiting = Mutex::with(client, &kazoo_queue(path), options)?.contenders().await?;
    if let Some(first) = waiting.first_mut() {
        first.waits_for = Some("permits".to_owned());
    }
    contents.add(KAZOO_SEMAPHORE, waiting);
    contents.kinds.push(with_permits(KAZOO_SEMAPHORE, permits));
    Ok(())
}

/// Reads, again if an outage interrupts it. Each request waits for a connection.
pub(crate) async fn despite_outages<T>(
    read: impl AsyncFn() -> Result<T, Failure>,
) -> Result<T, Failure> {
    loop {
        match read().await {
            Err(failure) if is_outage(&failure) => {}
            result => return result,
        }
    }
}

/// Returns what a request does, or `None` without a connection: the request would wait for one.
pub(crate) async fn while_connected<T>(
    client: &Client,
    request: impl IntoFuture<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        () = connection_lost(client) => None,
        result = request.into_future() => Some(result),
    }
}

/// Waits until the connection is lost.
pub(crate) async fn connection_lost(client: &Client) {
    let is_lost = |state: &State| !matches!(state, State::Connected { .. } | State::Ended(_));
    if client.states().wait_for(is_lost).await.is_err() {
        // Requests fail by the end of the session, so this need not report it.
        pending::<()>().await;
    }
}

pub(crate) fn is_outage(failure: &Failure) -> bool {
    let error = match lock_error(failure) {
        Some(LockError::Request(error)) => Some(error),
        Some(LockError::Ended(end)) => return *end == End::Expired,
        _ => failure.downcast_ref::<RequestError>().map(|error| &error.reason),
    };
    matches!(error, Some(Error::ConnectionLost | Error::Ended { end: End::Expired, .. }))
}

/// Returns the number that the next node at a lock path gets, at least.
async fn next_sequence(
    client: &Client,
    path: &str,
    children: &[String],
    stat: &Stat,
) -> Result<u32, RequestError> {
    let mut next = next_number(stat);
    for (parent, _) in SEMAPHORE.iter().filter(|(parent, _)| children.iter().any(|it| it == parent))
    {
        match client.exists(&path::child(path, parent)).await {
            Ok(stat) => next = next.max(stat.as_ref().map_or(0, next_number)),
            // Servers since 3.9 need permission to read.
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(next)
}

/// Returns the sequence number of the next child. A server counts the creations of children. It shows
/// twice their number, less that of the children there are, in 32 bits.
fn next_number(stat: &Stat) -> u32 {
    stat.cversion.wrapping_add(stat.num_children).cast_unsigned() / 2
}

async fn read_semaphore(
    client: &Client,
    path: &str,
    contents: &mut Contents,
) -> Result<(), Failure> {
    let semaphore = Semaphore::open(client, path)?;
    let mut leases = semaphore.leases().await?;
    let mut waiting = semaphore.waiting().await?;
    if leases.is_empty() && waiting.is_empty() {
        return Ok(());
    }
    let permits = match semaphore.permits().await {
        Err(error) if error.reason == SemaphoreError::NoMaximum => None,
        permits => permits?,
    };
    // The first waiter may have created its permit node already, while it waits for other permits.
    if let Some(first) = waiting.first_mut() {
        first.waits_for = Some("permits".to_owned());
        let is_of_first =
            |lease: &&mut QueueEntry| lease.session == first.session && lease.token > first.token;
        for lease in leases.iter_mut().filter(is_of_first) {
            lease.waits_for = Some("permits".to_owned());
        }
    }
    contents.kinds.push(with_permits("semaphore", permits));
    contents.add("semaphore", leases);
    contents.add("semaphore", waiting);
    Ok(())
}

/// Describes a kind of semaphore with this number of permits.
fn with_permits(kind: &str, permits: Option<u32>) -> String {
    let permits = permits.map_or("an unknown number of".to_owned(), |permits| permits.to_string());
    format!("{kind} with {permits} permits")
}

/// Returns how many permits of the semaphore at `path` are held.
pub(crate) async fn permits_held(client: &Client, path: &str) -> Result<usize, Failure> {
    let mut contents = Contents::default();
    read_semaphore(client, path, &mut contents).await?;
    Ok(contents.contenders.iter().filter(|one| one.is_holder()).count())
}

/// Returns a contender of a semaphore at `path`, if there is one.
pub(crate) async fn semaphore_contender(
    client: &Client,
    path: &str,
) -> Result<Option<String>, RequestError> {
    // `locks` before `leases`: a contender moves in this direction, and creates its permit node
    // before it deletes the node in `locks`. In the other order, both lists could miss it.
    for (parent, scheme) in SEMAPHORE.into_iter().rev() {
        let below = children(client, &path::child(path, parent)).await?.unwrap_or_default();
        if let Some(contender) = below.into_iter().find(|child| scheme.parse(child).is_some()) {
            return Ok(Some(contender));
        }
    }
    Ok(None)
}

/// Returns whether a node belongs to a contender of a kind of lock that is shown here.
pub(crate) fn is_contender(name: &str) -> bool {
    KINDS.iter().chain(&SEMAPHORE).any(|(_, scheme)| scheme.parse(name).is_some())
}

/// Returns the short name of a node: its marker and its sequence number, as `lock-12`.
pub(crate) fn label(node: &str) -> String {
    if is_kazoo_permit(node) {
        return node.to_owned();
    }
    let named = node.trim_end_matches(|c: char| c.is_ascii_digit());
    let (marker, number) = (named.trim_end_matches(['-', '_']), &node[named.len()..]);
    let Ok(number) = number.parse::<u64>() else { return node.to_owned() };
    let marker = match marker.starts_with("x-") {
        true => "x",
        false => marker.rsplit(['-', '_']).next().unwrap_or(marker),
    };
    format!("{marker}-{number}")
}

/// Returns the path of the contender that `ls` shows by this label, or of all if there are several.
pub(crate) async fn paths_of_label(
    client: &Client,
    path: &str,
    shown: &str,
) -> Result<Vec<String>, Failure> {
    let contents = read(client, path).await?.unwrap_or_default();
    let nodes = contents.contenders.iter().map(|contender| contender.node.as_str());
    let found: Vec<_> = nodes.filter(|node| label(node) == shown).collect();
    match found[..] {
        [] => Ok(Vec::new()),
        [node] => Ok(possible_paths(path, node)),
        _ => Err(format!("several contenders are called '{shown}': use a name of `ls -v`").into()),
    }
}

/// Returns the paths where a contender of this name can be. None if no scheme has such names.
pub(crate) fn possible_paths(lock: &str, node: &str) -> Vec<String> {
    let is_named_by = |(_, scheme): &(&str, Scheme)| scheme.parse(node).is_some();
    let is_direct = KINDS.iter().any(is_named_by) || is_kazoo_permit(node);
    let direct = is_direct.then(|| path::child(lock, node));
    let of_semaphore = SEMAPHORE.iter().filter(|kind| is_named_by(kind));
    let below = |(parent, _): &(&str, _)| path::child(&path::child(lock, parent), node);
    direct.into_iter().chain(of_semaphore.map(below)).collect()
}

/// Returns the path of a contender's node. `kind` is that of [`Contender`].
pub(crate) fn node_path(lock: &str, kind: &str, node: &str) -> Option<String> {
    let parents = SEMAPHORE.iter().filter(|(_, scheme)| scheme.parse(node).is_some());
    match kind {
        "semaphore" => {
            let mut below =
                parents.map(|(parent, _)| path::child(&path::child(lock, parent), node));
            below.next()
        }
        KAZOO_SEMAPHORE if !is_kazoo_permit(node) => Some(path::child(&kazoo_queue(lock), node)),
        _ => Some(path::child(lock, node)),
    }
}

pub(crate) async fn children(
    client: &Client,
    path: &str,
) -> Result<Option<Vec<String>>, RequestError> {
    Ok(found(client.get_children(path).await)?.map(|(children, _)| children))
}

/// Returns an answer, or `None` if the node does not exist.
pub(crate) fn found<T>(answer: Result<T, RequestError>) -> Result<Option<T>, RequestError> {
    match answer {
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        answer => answer.map(Some),
    }
}

#[cfg(test)]
mod tests;
