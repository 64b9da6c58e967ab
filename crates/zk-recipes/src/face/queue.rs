//! A lock as its contenders see it: where it is, and how it is taken.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use core::fmt;
use core::future::Future;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;
use zk_session::proto::path;
use zk_session::{Client, End};

use crate::error::LockError;
use crate::face::desk::Handle;
use crate::face::held::Held;
use crate::face::memory::Memory;
use crate::face::options::{Attempt, Options};
use crate::face::runner::{self, Note};
use crate::machine::{Claim, Contest, Entry, Machine, Scheme};

/// What mutexes and read/write locks have in common.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) scheme: Scheme,
    pub(crate) options: Options,
    cleanups: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
    memory: Memory,
}

impl fmt::Debug for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, scheme, options, .. } = self;
        let mut queue = f.debug_struct("Queue");
        queue.field("path", path).field("scheme", scheme).field("options", options);
        queue.finish_non_exhaustive()
    }
}

impl Queue {
    pub(crate) fn new(
        client: &Client,
        path: &str,
        default: Scheme,
        options: Options,
    ) -> Result<Self, LockError> {
        path::validate(path)?;
        Ok(Self {
            client: client.clone(),
            path: path.to_string(),
            scheme: options.scheme.unwrap_or(default),
            options,
            cleanups: Arc::default(),
            attempts: Arc::default(),
            memory: Memory::default(),
        })
    }

    pub(crate) fn enter(
        &self,
        claim: Claim,
        entry: Entry,
    ) -> impl Future<Output = Result<Held, LockError>> + Send + use<> {
        self.begin(claim, entry).held()
    }

    /// Enters the queue at once.
    pub(crate) fn begin(&self, claim: Claim, entry: Entry) -> Entrance {
        self.start(self.memory.contender(self.contest(claim, entry)), self.path.clone())
    }

    /// An attempt that is to begin now.
    pub(crate) fn contest(&self, claim: Claim, entry: Entry) -> Contest {
        Contest {
            claim,
            entry,
            data: self.options.data.clone(),
            acl: self.options.acl.clone(),
            parent_acl: self.options.parent_acl.clone(),
            foreign: self.options.foreign,
            trust: self.options.trust,
            revocable: self.options.revocable,
            ..Contest::new(
                self.client.chroot().apply(&self.path).into_owned(),
                self.scheme,
                Uuid::new_v4(),
                self.client.session_id(),
            )
        }
    }

    /// Has `machine` run, whose nodes are in `directory`.
    pub(crate) fn start(
        &self,
        machine: impl Machine + Send + 'static,
        directory: String,
    ) -> Entrance {
        let handle = self.start_noted(machine, self.note());
        Entrance { client: self.client.clone(), directory, handle }
    }

    /// What is to be told of an attempt that begins now.
    pub(crate) fn note(&self) -> Option<Note> {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let (observer, path) = (self.options.observer.clone()?, self.path.clone());
        Some(Box::new(move |event| observer(Attempt { path: &path, number }, event)))
    }

    /// Has `machine` run, and `note` hear what it tells.
    pub(crate) fn start_noted(
        &self,
        machine: impl Machine + Send + 'static,
        note: Option<Note>,
    ) -> Handle {
        runner::start(&self.client, machine, note, self.cleanups.clone())
    }

    /// The path of a node below that of the lock.
    pub(crate) fn below(&self, name: &str) -> String {
        path::child(&self.path, name)
    }

    pub(crate) fn pending_cleanups(&self) -> usize {
        self.cleanups.load(Ordering::Relaxed)
    }
}

/// Somebody on the way to a lock. Dropped, it gives up.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(crate) client: Client,
    pub(crate) directory: String,
    pub(crate) handle: Handle,
}

impl Entrance {
    pub(crate) async fn held(self) -> Result<Held, LockError> {
        match self.handle.acquired().await {
            Some(place) => Ok(Held::new(self.client, self.directory, place?, self.handle)),
            // The runtime was shut down.
            None => Err(LockError::Ended(End::Closed)),
        }
    }
}

/// What comes of `acquiring`, if it comes in time. The time counts whatever the network does.
pub(crate) async fn before<T>(
    deadline: impl Into<Option<Instant>>,
    acquiring: impl Future<Output = Result<T, LockError>>,
) -> Result<T, LockError> {
    match deadline.into() {
        Some(deadline) => {
            let in_time = tokio::time::timeout_at(deadline, acquiring).await;
            in_time.unwrap_or(Err(LockError::TimedOut))
        }
        None => acquiring.await,
    }
}

/// As [`before`], for no longer than `timeout` from now.
pub(crate) fn within<T>(
    timeout: Duration,
    acquiring: impl Future<Output = Result<T, LockError>>,
) -> impl Future<Output = Result<T, LockError>> {
    before(after(timeout), acquiring)
}

/// When `timeout` from now is; never, if that is later than a clock can tell.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
