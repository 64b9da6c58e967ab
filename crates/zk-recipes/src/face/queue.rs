//! A lock as its contenders see it: where it is, and how it is taken.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::Poll;

use tokio::time::Instant;
use zk_session::proto::path;
use zk_session::{Client, End, State};

use crate::error::{LockError, RecipeError};
use crate::face::abandoned::Tracked;
use crate::face::call::Call;
use crate::face::guid;
use crate::face::held::Held;
use crate::face::memory::Memory;
use crate::face::options::{Attempt, Options};
use crate::face::reporter::{self, Note};
use crate::face::status::Handle;
use crate::machine::{Claim, Contest, Entry, Machine, Scheme};

/// What mutexes and read/write locks have in common.
#[derive(Clone)]
pub(crate) struct Queue {
    pub(crate) client: Client,
    pub(crate) path: Arc<str>,
    pub(crate) scheme: Scheme,
    pub(crate) options: Options,
    cleanups: Arc<AtomicUsize>,
    abandoned: Arc<AtomicUsize>,
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
    ) -> Result<Self, RecipeError> {
        path::validate(path).map_err(|error| RecipeError::new("new", path, error))?;
        Ok(Self {
            client: client.clone(),
            path: path.into(),
            scheme: options.scheme.unwrap_or(default),
            options,
            cleanups: Arc::default(),
            abandoned: Arc::default(),
            attempts: Arc::default(),
            memory: Memory::default(),
        })
    }

    /// What is asked for, as its errors name it.
    pub(crate) fn call(&self, operation: &'static str) -> Call {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Enters the queue at once.
    pub(crate) fn enter(&self, operation: &'static str, claim: Claim, entry: Entry) -> Entrance {
        let contender = self.memory.contender(self.contest(claim, entry));
        self.start(operation, contender, self.path.clone())
    }

    /// An attempt that is to begin now.
    pub(crate) fn contest(&self, claim: Claim, entry: Entry) -> Contest {
        let session = self.client.session_id();
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
                guid::next(session),
                session,
            )
        }
    }

    /// Has `machine` run, whose nodes are in `directory`.
    pub(crate) fn start(
        &self,
        operation: &'static str,
        machine: impl Machine + Send + 'static,
        directory: Arc<str>,
    ) -> Entrance {
        let handle = self.start_noted(machine, self.note());
        Entrance { call: self.call(operation), directory, handle }
    }

    /// What is to be told of an attempt that begins now.
    pub(crate) fn note(&self) -> Option<Note> {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let (observer, path) = (self.options.observer.clone()?, self.path.clone());
        Some(Arc::new(move |event: &_| observer(Attempt { path: &path, number }, event)))
    }

    /// Has `machine` run, and `note` hear what it tells.
    pub(crate) fn start_noted(
        &self,
        machine: impl Machine + Send + 'static,
        note: Option<Note>,
    ) -> Handle {
        let machine = Tracked::new(machine, self.abandoned.clone());
        reporter::start(&self.client, machine, note, self.cleanups.clone())
    }

    /// The path of a node below that of the lock.
    pub(crate) fn below(&self, name: &str) -> String {
        path::child(&self.path, name)
    }

    pub(crate) fn pending_cleanups(&self) -> usize {
        self.cleanups.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned_nodes(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// Somebody on the way to a lock. Dropped, it gives up.
#[derive(Debug)]
pub(crate) struct Entrance {
    call: Call,
    directory: Arc<str>,
    pub(crate) handle: Handle,
}

impl Entrance {
    pub(crate) async fn held(self) -> Result<Held, RecipeError> {
        match self.handle.acquired().await {
            Some(Ok(place)) => {
                let Self { call, directory, handle } = self;
                Ok(Held::new(call.client, call.path, directory, place, handle))
            }
            Some(Err(error)) => Err(self.call.failed(error)),
            // The runtime was shut down.
            None => Err(self.call.failed(LockError::Ended(End::Closed))),
        }
    }
}

/// How an attempt is made that is limited by `deadline`, and by when that has to end: one that
/// begins too late ends by itself.
pub(crate) fn entry(deadline: Option<Instant>) -> (Entry, Option<Instant>) {
    match deadline {
        Some(deadline) if deadline <= Instant::now() => (Entry::OnlyIfFirst, None),
        deadline => (Entry::Queue, deadline),
    }
}

/// What comes of `asking`, unless there is no connection to a majority, or it is lost.
pub(crate) async fn while_connected<T>(
    client: &Client,
    asking: impl Future<Output = T>,
) -> Option<T> {
    let mut states = client.states();
    // The end of the session is told to whoever asks.
    let is_lost = |state: &State| !matches!(state, State::Connected { .. } | State::Ended(_));
    let (mut losing, mut asking) = (pin!(states.wait_for(is_lost)), pin!(asking));
    poll_fn(|cx| match losing.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(None),
        Poll::Pending => asking.as_mut().poll(cx).map(Some),
    })
    .await
}
