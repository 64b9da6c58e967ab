//! The cost of a release for the waiters, by the kind of lock.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Semaphore, mpsc};
use tokio::time::sleep;
use zk_recipes::session::{Client, proto::SessionId};
use zk_recipes::{HerdMutex, Mutex, RecipeError, SimpleLock};
use zk_test_server::serve::Embedded;
use zk_test_server::server::Counters;

const LOCK: &str = "/locks/herd";
/// The longest timeout that servers grant, so that no session expires on a busy machine.
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

/// A kind of exclusive lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A single node that all contenders try to create.
    Simple,
    /// A queue whose waiters all watch the lock path.
    Herd,
    /// A queue in which each waiter watches its predecessor.
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

/// The cost of one release, until all remaining waiters wait again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Watch events.
    pub(crate) notifications: u64,
    /// Requests of clients, including the release itself.
    pub(crate) requests: u64,
    /// Bytes from the server.
    pub(crate) bytes: u64,
}

/// Lets `waiters` sessions wait for a lock, and measures the cost of its release on the wire of an
/// embedded server. Then every waiter acquires the lock in turn.
///
/// # Errors
///
/// If no port is free.
///
/// # Panics
///
/// If the lock does not work.
pub(crate) async fn measure(kind: Kind, waiters: usize) -> io::Result<Cost> {
    let embedded = Embedded::start(1).await?;
    let mut clients = Vec::new();
    for _ in 0..=waiters {
        let builder = Client::builder(&embedded.connect_string()).session_timeout(SESSION_TIMEOUT);
        clients.push(builder.connect().await.expect("a server answers"));
    }
    let (acquired, mut turns) = mpsc::unbounded_channel();
    let may_release = Arc::new(Semaphore::new(0));
    let mut contenders = Vec::new();
    let mut turn = async || turns.recv().await.expect("one contender acquires the lock");
    let mut first = None;
    for client in &clients {
        let (acquired, may_release) = (acquired.clone(), may_release.clone());
        contenders.push(tokio::spawn(hold_once(kind, client.clone(), acquired, may_release)));
        if first.is_none() {
            first = Some(turn().await);
        }
    }
    let first = first.expect("a client");
    // The second in line of a mutex also watches its own node.
    let of_second = usize::from(kind == Kind::Mutex && waiters > 0);
    let before = all_wait(&embedded, &first, waiters + of_second).await;
    may_release.add_permits(1);
    let next = turn().await;
    let after = all_wait(&embedded, &next, waiters - 1).await;
    may_release.add_permits(waiters);
    for contender in contenders {
        contender.await.expect("no panic").expect("acquired");
    }
    Ok(Cost {
        notifications: after.notifications - before.notifications,
        requests: after.all_requests() - before.all_requests(),
        bytes: after.bytes - before.bytes,
    })
}

/// The session and the node of the holder.
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
            may_release.acquire().await.expect("an open session").forget();
            guard.release().await
        }};
    }
    match kind {
        Kind::Simple => hold!(SimpleLock),
        Kind::Herd => hold!(HerdMutex),
        Kind::Mutex => hold!(Mutex),
    }
}

/// Waits until nothing is in flight: the holder watches its own node, which it does last, and the
/// waiters have `watches` watches.
async fn all_wait(embedded: &Embedded, holder: &Holder, watches: usize) -> Counters {
    let all_wait = |embedded: &Embedded| {
        embedded.with(|ensemble| {
            let watched = ensemble.watched();
            watched.len() == 1 + watches && watched.contains(&(holder.0, holder.1.as_str()))
        })
    };
    while !all_wait(embedded) {
        sleep(Duration::from_millis(1)).await;
    }
    embedded.with(|ensemble| ensemble.counters().clone())
}
