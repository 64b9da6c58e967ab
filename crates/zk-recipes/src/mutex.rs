//! The exclusive lock.

use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;

use bytes::Bytes;
use tokio::time::Instant;
use uuid::Uuid;
use zk_session::proto::Zxid;
use zk_session::proto::path::{self, PathError};
use zk_session::{Client, End};

use crate::error::{LockError, Loss};
use crate::machine::{Contest, Event, Scheme};
use crate::runner::{self, Handle, Observer, Place, Status};

/// An exclusive, fair lock without a herd.
///
/// The lock is a directory of the tree; its contenders stand in it as ephemeral nodes, in the
/// order of their arrival, each watching only the one before it. Names follow Apache Curator's
/// `InterProcessMutex`, so Java, Go and Rust can contend for one lock. Missing directories are
/// created, as containers, which the server removes when they are no longer used.
///
/// # Guarantee
///
/// At most one contender holds the lock, as the ensemble sees it. A holder that is cut off cannot
/// know at once that the ensemble has given its lock to another; [`MutexGuard::lost`] and
/// [`MutexGuard::state`] tell as early as can be, and [`MutexGuard::fencing_token`] lets others
/// refuse what comes too late.
///
/// # Cost
///
/// One round trip to acquire a lock that is free, and one to release it. A lock that is passed on
/// wakes exactly one waiter, however many there are.
#[derive(Clone)]
pub struct Mutex {
    client: Client,
    path: String,
    data: Bytes,
    observer: Option<Observer>,
}

impl fmt::Debug for Mutex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mutex").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Mutex {
    /// The lock at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// When the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, PathError> {
        path::validate(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_string(),
            data: Bytes::new(),
            observer: None,
        })
    }

    /// Has lock nodes hold `data`, for people who look who is there.
    #[must_use]
    pub fn data(mut self, data: impl Into<Bytes>) -> Self {
        self.data = data.into();
        self
    }

    /// Has `observer` told everything that happens to contenders made from now on. It is called
    /// from within a task and must not block.
    #[must_use]
    pub fn observer(mut self, observer: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// The path of the lock.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Waits for the lock. To be called within a tokio runtime, on which a task is spawned.
    ///
    /// # Errors
    ///
    /// See [`LockError`]. A lost connection is none: the place in the queue is kept as long as
    /// the session lives.
    ///
    /// # Ordering
    ///
    /// Contenders are served in the order in which their nodes reach the server. The request is
    /// on its way when this method returns, before its future is awaited.
    ///
    /// # Cancellation
    ///
    /// Dropping the future gives the place up: the node is deleted in the background, also when
    /// nobody knows yet whether it exists, and also after a lost connection. So
    /// [`tokio::time::timeout`] can be put around it.
    pub fn acquire(&self) -> impl Future<Output = Result<MutexGuard, LockError>> + Send + use<> {
        let contest = Contest {
            directory: self.client.chroot().apply(&self.path).into_owned(),
            scheme: Scheme::CURATOR_MUTEX,
            guid: Uuid::new_v4(),
            session: self.client.session_id(),
            data: self.data.clone(),
        };
        let client = self.client.clone();
        let mut handle = runner::start(&client, contest, self.observer.clone());
        async move {
            match (&mut handle.acquired).await {
                Ok(Ok(place)) => Ok(MutexGuard { client, place, handle }),
                Ok(Err(error)) => Err(error),
                // The runtime was shut down.
                Err(_) => Err(LockError::Ended(End::Closed)),
            }
        }
    }
}

/// How things stand with a lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// It is held, as far as is known.
    Held,
    /// The connection is lost. The lock is probably still held, until the
    /// [lease](MutexGuard::lease) ends; after that, nothing is sure.
    Suspended,
    /// It is not held any more.
    Lost(Loss),
}

/// A lock that is held. Dropped, it is released in the background.
#[derive(Debug)]
#[must_use = "a guard that is dropped releases its lock"]
pub struct MutexGuard {
    client: Client,
    place: Place,
    handle: Handle,
}

impl MutexGuard {
    /// Greater than that of anybody who held this lock before, whatever happened in between. A
    /// resource that remembers the greatest token it has seen, and refuses smaller ones, is safe
    /// from holders that have lost the lock and do not know it yet.
    ///
    /// It is the transaction that created the lock node (its `czxid`). It compares with tokens
    /// of the same ensemble only.
    pub fn fencing_token(&self) -> Zxid {
        self.place.token
    }

    /// The name of the lock node within the lock's directory.
    pub fn node(&self) -> &str {
        &self.place.node
    }

    /// How things stand now, as far as is known here.
    pub fn state(&self) -> Holding {
        holding(&self.handle.status.borrow())
    }

    /// Waits until the lock is lost: its session has ended, or somebody has deleted its node.
    /// Never returns while it is held, or may be.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let mut status = self.handle.status.clone();
        async move {
            let lost = |status: &Status| matches!(holding(status), Holding::Lost(_));
            let status = status.wait_for(lost).await;
            match status.as_deref().map(holding) {
                Ok(Holding::Lost(loss)) => loss,
                _ => Loss::Ended(End::Closed),
            }
        }
    }

    /// Until when the ensemble is bound to keep the session, and with it the lock, as far as can
    /// be known here; see [`Client::lease`].
    pub fn lease(&self) -> Option<Instant> {
        self.client.lease()
    }

    /// Releases the lock and waits until the next in line can have it.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when it had been lost before.
    ///
    /// # Cancellation
    ///
    /// The lock is released when this method is called; dropping its future changes nothing.
    pub fn release(self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let Handle { interest, mut status, .. } = self.handle;
        drop(interest);
        async move {
            let over = |status: &Status| !matches!(status, Status::Held | Status::Suspended);
            let status = status.wait_for(over).await;
            match status.as_deref() {
                Ok(Status::Failed(error)) => Err(error.clone()),
                Ok(Status::Lost(loss)) => Err(LockError::Lost(*loss)),
                Ok(_) => Ok(()),
                // The runtime was shut down.
                Err(_) => Err(LockError::Ended(End::Closed)),
            }
        }
    }
}

fn holding(status: &Status) -> Holding {
    match status {
        Status::Held => Holding::Held,
        Status::Suspended => Holding::Suspended,
        Status::Lost(loss) => Holding::Lost(*loss),
        // Only once the guard is gone.
        Status::Released | Status::Failed(_) => Holding::Lost(Loss::Ended(End::Closed)),
    }
}
