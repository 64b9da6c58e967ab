//! What a lock's directory holds, whatever kind of lock it is.

use zk_recipes::machine::Scheme;
use zk_recipes::session::proto::ErrorCode;
use zk_recipes::session::{Client, Error};
use zk_recipes::{Entrant, LockError, Mutex, Options, RwLock, Semaphore};

use crate::Failure;

/// Somebody who holds a lock or waits for it.
pub(crate) struct Entry {
    pub(crate) entrant: Entrant,
    pub(crate) directory: String,
}

impl Entry {
    pub(crate) fn name(&self) -> &str {
        &self.entrant.node
    }
}

/// Everybody who holds a lock or waits for it.
pub(crate) struct Contents {
    /// What kind of lock it is.
    pub(crate) kind: String,
    pub(crate) entries: Vec<Entry>,
}

/// The kinds of locks, as whoever looks at their names can tell them apart.
const KINDS: [(&str, Scheme); 6] = [
    ("mutex", Scheme::CURATOR_MUTEX),
    ("read/write lock", Scheme::CURATOR_READ_WRITE),
    ("leader election", Scheme::CURATOR_LEADER),
    ("mutex, names of kazoo", Scheme::KAZOO_MUTEX),
    ("read/write lock, names of kazoo", Scheme::KAZOO_READ_WRITE),
    ("mutex, names of ZooKeeper's recipe", Scheme::ZOOKEEPER_RECIPE),
];

/// Whether it is the name of a contender for any kind of lock.
pub(crate) fn is_contender(child: &str) -> bool {
    KINDS.iter().any(|(_, scheme)| scheme.parse(child).is_some())
}

/// # Errors
///
/// When there is no such path, or it cannot be read.
pub(crate) async fn read(client: &Client, path: &str) -> Result<Contents, Failure> {
    let children = match client.get_children(path).await {
        Ok((children, _)) => children,
        Err(Error::Server(ErrorCode::NO_NODE)) => {
            return Err(format!("there is no lock at {path}").into());
        }
        Err(error) => return Err(error.into()),
    };
    if children.iter().any(|child| child == "leases") {
        return semaphore(client, path).await;
    }
    let matching = |scheme: &Scheme| children.iter().filter(|c| scheme.parse(c).is_some()).count();
    // Of two that read as many, the simpler one comes first.
    let (kind, scheme) =
        KINDS.iter().rev().max_by_key(|(_, scheme)| matching(scheme)).expect("there are kinds");
    if matching(scheme) == 0 {
        return Ok(Contents { kind: "no contender".to_owned(), entries: Vec::new() });
    }
    let options = Options::new().scheme(*scheme);
    let entrants = if scheme.has_readers() {
        RwLock::with(client, path, options)?.contenders().await?
    } else {
        Mutex::with(client, path, options)?.contenders().await?
    };
    Ok(Contents { kind: (*kind).to_owned(), entries: entries(entrants, path) })
}

async fn semaphore(client: &Client, path: &str) -> Result<Contents, Failure> {
    let semaphore = Semaphore::open(client, path)?;
    let permits = match semaphore.permits().await {
        Ok(permits) => permits.map_or("an unknown number of".to_owned(), |n| n.to_string()),
        Err(LockError::NoMaximum) => "an unknown number of".to_owned(),
        Err(error) => return Err(error.into()),
    };
    let leases = entries(semaphore.leases().await?, &format!("{path}/leases"));
    let mut waiting = semaphore.waiting().await?;
    // The first in the queue waits for a lease to be given back.
    if let Some(first) = waiting.first_mut() {
        first.waits_for = Some("a lease".to_owned());
    }
    let waiting = entries(waiting, &format!("{path}/locks"));
    let kind = format!("semaphore with {permits} permits");
    Ok(Contents { kind, entries: leases.into_iter().chain(waiting).collect() })
}

fn entries(entrants: Vec<Entrant>, directory: &str) -> Vec<Entry> {
    let directory = directory.trim_end_matches('/');
    entrants.into_iter().map(|entrant| Entry { entrant, directory: directory.to_owned() }).collect()
}
