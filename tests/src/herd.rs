//! What the release of a lock costs those who wait for it, by the kind of lock.

use core::fmt;
use std::io;
use std::sync::Arc;

use tokio::sync::{Semaphore, mpsc};
use zk_proto::SessionId;
use zk_recipes::{HerdMutex, Mutex, RecipeError, SimpleLock};
use zk_session::Client;

use crate::contention::clients;
use crate::serve::Embedded;
use crate::server::Counters;
use crate::suite::{SESSION_TIMEOUT, eventually};

const LOCK: &str = "/locks/herd";

/// A way to build an exclusive lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One node, which all run for.
    Simple,
    /// A queue, all of which watch the lock path.
    Herd,
    /// A queue in which each watches the one before it.
    Mutex,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Simple => "SimpleLock",
            Self::Herd => "HerdMutex",
            Self::Mutex => "Mutex",
        })
    }
}

/// What one release caused, until all who were left waited again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// Events of watches.
    pub notifications: u64,
    /// Requests of clients, with the release itself.
    pub requests: u64,
    /// Bytes from the server.
    pub bytes: u64,
}

/// Has `waiters` sessions wait for a lock, and counts what its release costs, on the wire of an
/// embedded server. Then all of them get the lock, one after another.
///
/// # Errors
///
/// When no port can be listened on.
///
/// # Panics
///
/// When the lock does not work.
pub async fn measure(kind: Kind, waiters: usize) -> io::Result<Cost> {
    let embedded = Embedded::start(1).await?;
    let clients = clients(&embedded.connect_string(), waiters + 1, SESSION_TIMEOUT).await;
    let (acquired, mut turns) = mpsc::unbounded_channel();
    let may_release = Arc::new(Semaphore::new(0));
    let mut contenders = Vec::new();
    let mut turn = async || turns.recv().await.expect("somebody gets the lock");
    let mut first = None;
    for client in &clients {
        let (acquired, may_release) = (acquired.clone(), may_release.clone());
        contenders.push(tokio::spawn(hold_once(kind, client.clone(), acquired, may_release)));
        if first.is_none() {
            first = Some(turn().await);
        }
    }
    let first = first.expect("there is a client");
    // The second in line of a mutex watches its own node as well.
    let of_second = usize::from(kind == Kind::Mutex && waiters > 0);
    let before = all_wait(&embedded, &first, waiters + of_second).await;
    may_release.add_permits(1);
    let next = turn().await;
    let after = all_wait(&embedded, &next, waiters - 1).await;
    may_release.add_permits(waiters);
    for contender in contenders {
        contender.await.expect("no panic").expect("it gets the lock");
    }
    Ok(Cost {
        notifications: after.notifications - before.notifications,
        requests: after.all_requests() - before.all_requests(),
        bytes: after.bytes - before.bytes,
    })
}

/// Who holds the lock, by which node.
type Holder = (SessionId, String);

async fn hold_once(
    kind: Kind,
    client: Client,
    acquired: mpsc::UnboundedSender<Holder>,
    may_release: Arc<Semaphore>,
) -> Result<(), RecipeError> {
    macro_rules! hold {
        ($lock:ident) => {{
            let guard = $lock::new(&client, LOCK)?.acquire().await?;
            let _ = acquired.send((client.session_id(), guard.node_path()));
            may_release.acquire().await.expect("it stays open").forget();
            guard.release().await
        }};
    }
    match kind {
        Kind::Simple => hold!(SimpleLock),
        Kind::Herd => hold!(HerdMutex),
        Kind::Mutex => hold!(Mutex),
    }
}

/// Waits until nothing is under way: the holder watches its own node, which comes last, and those
/// who wait have so many watches.
async fn all_wait(embedded: &Embedded, holder: &Holder, watches: usize) -> Counters {
    eventually(embedded, "all wait", |embedded| {
        embedded.with(|ensemble| {
            let watched = ensemble.watched();
            watched.len() == 1 + watches && watched.contains(&(holder.0, holder.1.as_str()))
        })
    })
    .await;
    embedded.with(|ensemble| ensemble.counters().clone())
}
