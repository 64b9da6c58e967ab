//! The contenders at a lock path, whatever the kind of lock.

use zk_recipes::session::proto::{ErrorCode, path};
use zk_recipes::session::{Client, RequestError};
use zk_recipes::{LockError, Mutex, Options, QueueEntry, RwLock, Scheme, Semaphore};

use crate::Failure;

/// All contenders at a lock path.
#[derive(Default)]
pub(crate) struct Contents {
    /// The kinds of locks found; more than one only by mistake.
    pub(crate) kinds: Vec<String>,
    pub(crate) entries: Vec<QueueEntry>,
}

/// The kinds of locks whose contenders are direct children of the lock path. Their names show the
/// kind.
const KINDS: [(&str, Scheme); 5] = [
    ("mutex", Scheme::CURATOR_MUTEX),
    ("read/write lock", Scheme::CURATOR_READ_WRITE),
    ("leader election", Scheme::CURATOR_LEADER),
    ("lock with kazoo's names", Scheme::KAZOO_READ_WRITE),
    ("mutex with names of ZooKeeper's recipe", Scheme::ZOOKEEPER_RECIPE),
];

/// The two nodes of a semaphore that have contenders as children, and the schemes of their names.
const SEMAPHORE: [(&str, Scheme); 2] =
    [("leases", Scheme::CURATOR_LEASE), ("locks", Scheme::CURATOR_MUTEX)];

/// Reads all contenders at `path`. Returns `None` if the node does not exist.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Option<Contents>, Failure> {
    let Some(children) = children(client, path).await? else {
        return Ok(None);
    };
    let mut contents = Contents::default();
    for (kind, scheme) in KINDS {
        if children.iter().any(|child| scheme.parse(child).is_some()) {
            let options = Options::new().scheme(scheme);
            let entries = if scheme.has_readers() {
                RwLock::with(client, path, options)?.contenders().await?
            } else {
                Mutex::with(client, path, options)?.contenders().await?
            };
            contents.kinds.push(kind.to_owned());
            contents.entries.extend(entries);
        }
    }
    if SEMAPHORE.iter().any(|(parent, _)| children.iter().any(|child| child == parent)) {
        read_semaphore(client, path, &mut contents).await?;
    }
    Ok(Some(contents))
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
        Ok(Some(permits)) => permits.to_string(),
        Ok(None) => "an unknown number of".to_owned(),
        Err(error) if error.reason == LockError::NoMaximum => "an unknown number of".to_owned(),
        Err(error) => return Err(error.into()),
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
    contents.kinds.push(format!("semaphore with {permits} permits"));
    contents.entries.extend(leases);
    contents.entries.extend(waiting);
    Ok(())
}

/// Returns a contender at `path` of another kind of lock: neither would see the other. `own` is the
/// scheme of this lock, or `None` for a semaphore.
pub(crate) async fn contender_of_other_kind(
    client: &Client,
    path: &str,
    own: Option<Scheme>,
) -> Result<Option<String>, RequestError> {
    let sees = |scheme: Scheme, child: &str| own == Some(scheme) && scheme.parse(child).is_some();
    let is_other = |child: &&String| {
        KINDS.iter().any(|(_, scheme)| scheme.parse(child).is_some() && !sees(*scheme, child))
    };
    let direct = children(client, path).await?.unwrap_or_default();
    if let Some(other) = direct.iter().find(is_other) {
        return Ok(Some(other.clone()));
    }
    if own.is_some() {
        for (parent, scheme) in SEMAPHORE {
            let parent = path::child(path, parent);
            let below = children(client, &parent).await?.unwrap_or_default();
            if let Some(other) = below.into_iter().find(|child| scheme.parse(child).is_some()) {
                return Ok(Some(other));
            }
        }
    }
    Ok(None)
}

/// Returns the paths where a contender of this name can be. None if no scheme has such names.
pub(crate) fn possible_paths(lock: &str, node: &str) -> Vec<String> {
    let is_named_by = |(_, scheme): &(&str, Scheme)| scheme.parse(node).is_some();
    let direct = KINDS.iter().any(is_named_by).then(|| path::child(lock, node));
    let of_semaphore = SEMAPHORE.iter().filter(|kind| is_named_by(kind));
    let below = |(parent, _): &(&str, _)| path::child(&path::child(lock, parent), node);
    direct.into_iter().chain(of_semaphore.map(below)).collect()
}

async fn children(client: &Client, path: &str) -> Result<Option<Vec<String>>, RequestError> {
    match client.get_children(path).await {
        Ok((children, _)) => Ok(Some(children)),
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(None),
        Err(error) => Err(error),
    }
}
