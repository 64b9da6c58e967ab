//! A lock as its contenders see it: where it is, and how it is taken.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};

use zk_session::End;
use zk_session::proto::path;

use crate::error::{LockError, RecipeError};
use crate::face::SessionClient;
use crate::face::abandoned::Tracked;
use crate::face::call::Call;
use crate::face::guid;
use crate::face::held::HeldLock;
use crate::face::memory::Memory;
use crate::face::options::{Attempt, Options};
use crate::face::reporter::{self, Hook, Note};
use crate::face::status::{Handle, Place};
use crate::machine::{Claim, Contest, Entry, Machine, Scheme};

/// What mutexes and read/write locks have in common.
#[derive(Clone)]
pub(crate) struct Queue<C> {
    pub(crate) client: C,
    pub(crate) path: Arc<str>,
    pub(crate) scheme: Scheme,
    pub(crate) options: Options,
    cleanups: Arc<AtomicUsize>,
    abandoned: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
    memory: Memory,
}

impl<C> fmt::Debug for Queue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, scheme, options, .. } = self;
        let mut queue = f.debug_struct("Queue");
        queue.field("path", path).field("scheme", scheme).field("options", options);
        queue.finish_non_exhaustive()
    }
}

impl<C: SessionClient> Queue<C> {
    pub(crate) fn new(
        client: &C,
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
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Enters the queue at once.
    pub(crate) fn enter(&self, operation: &'static str, claim: Claim, entry: Entry) -> Entrance<C> {
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
    ) -> Entrance<C> {
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
        self.attach(machine, note, None)
    }

    /// Has `machine` run, and `hook` receive its events before anybody else.
    #[cfg(feature = "blocking")]
    pub(crate) fn start_hooked(
        &self,
        machine: impl Machine + Send + 'static,
        hook: Hook,
    ) -> Handle {
        self.attach(machine, self.note(), Some(hook))
    }

    fn attach(
        &self,
        machine: impl Machine + Send + 'static,
        note: Option<Note>,
        hook: Option<Hook>,
    ) -> Handle {
        let machine = Tracked::new(machine, self.abandoned.clone());
        reporter::start(&self.client, machine, note, hook, self.cleanups.clone())
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
pub(crate) struct Entrance<C> {
    pub(crate) call: Call<C>,
    directory: Arc<str>,
    pub(crate) handle: Handle,
}

impl<C> Entrance<C> {
    /// The lock, once the result of acquiring it is there; none if the runtime was shut down.
    pub(crate) fn finish(
        self,
        result: Option<Result<Place, LockError>>,
    ) -> Result<HeldLock<C>, RecipeError>
    where
        C: SessionClient,
    {
        let Self { call, directory, handle } = self;
        match result {
            Some(Ok(place)) => Ok(HeldLock::new(call.client, call.path, directory, place, handle)),
            Some(Err(error)) => Err(call.failed(error)),
            None => Err(call.failed(LockError::Ended(End::Closed))),
        }
    }
}
