//! The contenders of a lock, listed for other clients.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use bytes::Bytes;
use zk_session::Error;
use zk_session::proto::{ErrorCode, SessionId, Stat, Zxid, path};

use super::call::Call;
use super::pending::Pending;
use super::queue::Queue;
use crate::attempt::{AttemptConfig, LockMode, QueuedNode, Scheme, queue_order};
use crate::client::SessionClient;
use crate::error::LockError;

/// A contender that holds a lock or waits for it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEntry {
    /// The name of its node below the lock path.
    pub node: String,
    /// Whether it shares the lock with others.
    pub mode: LockMode,
    /// The node that it waits for and watches. `None` for a holder.
    pub waits_for: Option<String>,
    /// The data of its node. `None` if its access control list denies reading it, or if the data
    /// exceeds [`max_reply`](zk_session::ClientBuilder::max_reply).
    pub data: Option<Bytes>,
    /// Its session.
    ///
    /// The session, the token and the time are 0 if the server refuses to report the node's stat.
    /// Servers since 3.9 do so without read permission.
    pub session: SessionId,
    /// Its fencing token. A reader that was a writer before has a greater one here.
    pub token: Zxid,
    /// The time when its node was created, by the leader's clock: milliseconds since 1970.
    pub since: i64,
    /// How many attempts of this lock value and its clones wait for this holder within this
    /// process, and have [no node](crate::Options::local_hand_over). It is 0 for holders of other
    /// processes, however many wait there: reporting them would take a write for each change.
    pub local_waiters: usize,
}

impl QueueEntry {
    /// Returns whether it holds the lock.
    pub const fn is_holder(&self) -> bool {
        self.waits_for.is_none()
    }

    /// Creates an entry from a node's position, data and stat.
    fn new(place: &QueuedNode<'_>, (data, stat): Found) -> Self {
        Self {
            node: place.name.child.to_string(),
            mode: place.name.mode,
            waits_for: place.waits_for.map(ToString::to_string),
            data,
            session: stat.ephemeral_owner,
            token: stat.czxid,
            since: stat.ctime,
            local_waiters: 0,
        }
    }
}

/// The data of a node, if it can be read, and its stat.
type Found = (Option<Bytes>, Stat);

/// Returns whether the error means that the node exists but cannot be read.
const fn is_unreadable(error: &Error) -> bool {
    matches!(error, Error::Server(ErrorCode::NO_AUTH) | Error::ReplyTooLarge { .. })
}

/// The number of nodes that are read before their replies are awaited.
const AT_ONCE: usize = 1000;

/// Lists the contenders of a queue.
pub(crate) fn list<C: SessionClient>(
    queue: &Queue<C>,
    operation: &'static str,
) -> Pending<Vec<QueueEntry>, C> {
    let (call, queue) = (queue.call(operation), queue.clone());
    Pending::within(call, async move {
        let mut entries = list_in(&queue, &queue.path, queue.scheme).await?;
        if let Some((node, waiting)) = queue.locally_held() {
            let held = entries.iter_mut().find(|entry| entry.node == node);
            held.into_iter().for_each(|entry| entry.local_waiters = waiting);
        }
        Ok(entries)
    })
}

/// Lists the contenders below a node.
pub(crate) async fn list_in<C: SessionClient>(
    queue: &Queue<C>,
    parent: &str,
    scheme: Scheme,
) -> Result<Vec<QueueEntry>, LockError> {
    let listed = try_list_in(&queue.client, parent, scheme).await?;
    if listed.is_empty() {
        queue.check_chroot().await?;
    }
    Ok(listed)
}

async fn try_list_in(
    client: &impl SessionClient,
    parent: &str,
    scheme: Scheme,
) -> Result<Vec<QueueEntry>, Error> {
    let children = match client.get_children(parent).await {
        Ok((children, _)) => children,
        Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let queued = queue_order(scheme, children.iter().map(String::as_str));
    let mut entries = Vec::with_capacity(queued.len());
    for some in queued.chunks(AT_ONCE) {
        let paths = some.iter().map(|place| path::child(parent, place.name.child));
        let found = look_at(client, &paths.collect::<Vec<_>>()).await?;
        // A node without a stat was deleted since the list.
        let there = some.iter().zip(found).filter_map(|(place, found)| Some((place, found?)));
        entries.extend(there.map(|(place, found)| QueueEntry::new(place, found)));
    }
    Ok(entries)
}

/// Returns the data and stat of each of these nodes, if it exists.
async fn look_at<C: SessionClient>(
    client: &C,
    paths: &[String],
) -> Result<Vec<Option<Found>>, Error> {
    let read = ask_each(client, paths, |path| client.get_data(path)).await?;
    let unreadable = |(path, found): (&String, &Result<_, Error>)| {
        found.as_ref().is_err_and(is_unreadable).then(|| path.clone())
    };
    let unreadable: Vec<_> = paths.iter().zip(&read).filter_map(unreadable).collect();
    // `exists` needs no read permission before 3.9.
    let stats = ask_each(client, &unreadable, |path| client.exists(path)).await?;
    let mut stats = stats.into_iter();
    let mut found = Vec::with_capacity(paths.len());
    for read in read {
        found.push(match read {
            Ok((data, stat)) => Some((Some(data), stat)),
            Err(error) if is_unreadable(&error) => match stats.next() {
                Some(Ok(stat)) => stat.map(|stat| (None, stat)),
                Some(Err(error)) if !is_unreadable(&error) => return Err(error),
                _ => Some((None, Stat::default())),
            },
            Err(Error::Server(ErrorCode::NO_NODE)) => None,
            Err(error) => return Err(error),
        });
    }
    Ok(found)
}

/// Sends a request for each of these nodes, as many at a time as the session accepts.
async fn ask_each<C: SessionClient, T: Send>(
    client: &C,
    paths: &[String],
    ask: impl Fn(&str) -> C::Answer<T> + Send + Sync,
) -> Result<Vec<Result<T, Error>>, Error> {
    // All requests are sent before the first reply is awaited.
    let asked: Vec<_> = paths.iter().map(|path| ask(path)).collect();
    let mut answers = Vec::with_capacity(paths.len());
    for (path, asked) in paths.iter().zip(asked) {
        let mut answer = asked.await.map_err(Error::from);
        while answer.as_ref().is_err_and(Error::is_full) {
            client.ready().await?;
            answer = ask(path).await.map_err(Error::from);
        }
        answers.push(answer);
    }
    Ok(answers)
}

/// Asks the owner of a node to release the lock.
pub(crate) fn revoke<C: SessionClient>(client: &C, path: String) -> Pending<(), C> {
    let call = Call { operation: "revoke", path: path.as_str().into(), client: client.clone() };
    let client = client.clone();
    Pending::within(call, async move {
        Ok(client.set_data(&path, AttemptConfig::REVOKE, None).await.map(drop)?)
    })
}
