//! A lock with a queue: its path and options, and the attempts to acquire it.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::pending;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use zk_session::End;
use zk_session::proto::{ErrorCode, NodeKind, path};

use super::SessionClient;
use super::abandoned::Tracked;
use super::call::Call;
use super::client::{before, unless};
use super::guid;
use super::held::HeldLock;
use super::hint_cache::HintCache;
use super::observed::Observed;
use super::options::{Attempt, Options};
use super::reporter::{self, Hook, Note};
use super::status::{Handle, Report};
use crate::error::{LockError, RecipeError};
use crate::machine::{
    AccessList, AttemptConfig, HintingContender, LockMode, Machine, Scheme, WaitPolicy,
};
#[cfg(feature = "renewal")]
use crate::machine::{Requeuing, Restart};

/// A lock path, and the options of this process's contenders.
#[derive(Clone)]
pub(crate) struct Queue<C> {
    pub(crate) client: C,
    /// The recipe, as observers of the process know it.
    recipe: &'static str,
    pub(crate) path: Arc<str>,
    pub(crate) scheme: Scheme,
    pub(crate) options: Options,
    cleanups: Arc<AtomicUsize>,
    abandoned: Arc<AtomicUsize>,
    attempts: Arc<AtomicUsize>,
    hint_cache: HintCache,
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
        recipe: &'static str,
        path: &str,
        default: Scheme,
        options: Options,
    ) -> Result<Self, RecipeError> {
        path::validate(path).map_err(|error| RecipeError::new("new", path, error))?;
        Observed::register(recipe);
        Ok(Self {
            client: client.clone(),
            recipe,
            path: path.into(),
            scheme: options.scheme.unwrap_or(default),
            options,
            cleanups: Arc::default(),
            abandoned: Arc::default(),
            attempts: Arc::default(),
            hint_cache: HintCache::default(),
        })
    }

    /// The operation and path that errors name.
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Enters the queue at once, before the returned value is awaited.
    pub(crate) fn enter(
        &self,
        operation: &'static str,
        mode: LockMode,
        wait_policy: WaitPolicy,
    ) -> PendingAcquire<C> {
        let config = self.config(mode, wait_policy);
        let contender = HintingContender::new(config, self.hint_cache.clone());
        let parent = self.path.clone();
        let pending = self.start(operation, self.requeuing(contender, wait_policy), parent);
        pending.refusing_leftovers(self.scheme)
    }

    /// Makes a machine that waits queue again on the next session, if there can be one.
    #[cfg(feature = "renewal")]
    pub(crate) fn requeuing<M: Restart>(
        &self,
        machine: M,
        wait_policy: WaitPolicy,
    ) -> Requeuing<M> {
        Requeuing::new(machine, wait_policy == WaitPolicy::Queue && self.client.renews())
    }

    #[cfg(not(feature = "renewal"))]
    pub(crate) fn requeuing<M>(&self, machine: M, _: WaitPolicy) -> M {
        machine
    }

    /// Returns the configuration of an attempt that begins as soon as a quorum serves the session.
    pub(crate) fn config(&self, mode: LockMode, wait_policy: WaitPolicy) -> AttemptConfig {
        let lock_path = match self.client.chroot().apply(&self.path) {
            Cow::Borrowed(_) => self.path.clone(),
            Cow::Owned(path) => path.into(),
        };
        AttemptConfig {
            chroot_length: self.client.chroot().apply("/").len(),
            mode,
            wait_policy,
            data: self.options.data.clone(),
            acl: self.options.acl.clone(),
            parent_acl: self.options.parent_acl.clone(),
            unknown_nodes: self.options.unknown_nodes,
            disconnect_policy: self.options.disconnect_policy,
            revocable: self.options.revocable,
            ..AttemptConfig::new(lock_path, self.scheme, guid::next(self.client.resumption()))
        }
    }

    /// Attaches `machine`, whose nodes are below `parent`.
    pub(crate) fn start(
        &self,
        operation: &'static str,
        machine: impl Machine + Send + 'static,
        parent: Arc<str>,
    ) -> PendingAcquire<C> {
        let handle = self.attach(machine, self.note(), None);
        PendingAcquire { call: self.call(operation), parent, handle, leftovers: None }
    }

    /// Returns a function that calls the user's observer with the events of a new attempt.
    pub(crate) fn note(&self) -> Option<Note> {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let (observer, path) = (self.options.observer.clone()?, self.path.clone());
        Some(Arc::new(move |event: &_| observer(Attempt { path: &path, number }, event)))
    }

    /// Attaches `machine`. Its events go to `hook`, with the session locked, and then to `note`.
    pub(crate) fn attach(
        &self,
        machine: impl Machine + Send + 'static,
        note: Option<Note>,
        hook: Option<Hook>,
    ) -> Handle {
        let machine = Tracked::new(machine, self.abandoned.clone());
        let observed = Observed::new(self.recipe, &self.path);
        reporter::start(&self.client, machine, observed, note, hook, self.cleanups.clone())
    }

    /// Checks that the chroot exists. Its absence explains why another node is missing.
    pub(crate) async fn check_chroot(&self) -> Result<(), LockError> {
        let chroot = self.client.chroot().apply("/");
        if chroot == "/" || self.client.exists("/").await?.is_some() {
            return Ok(());
        }
        Err(LockError::NoChroot { chroot: chroot.into_owned() })
    }

    /// Creates a persistent node, and containers for its missing ancestors below the chroot.
    pub(crate) async fn create_persistent(
        &self,
        path: &str,
        data: &[u8],
        acl: &AccessList,
    ) -> Result<(), LockError> {
        let acl: Vec<_> = acl.list().iter().collect();
        // The parent may be deleted in between, but not for ever.
        loop {
            let created = self.client.create_with_acl(path, data, NodeKind::Persistent, &acl).await;
            match created {
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                created => return Ok(created.map(drop)?),
            }
            self.check_chroot().await?;
            let parent = path::parent(path).unwrap_or("/");
            let parent_acl: Vec<_> = self.options.parent_acl.list().iter().collect();
            self.client.ensure_path_with(parent, NodeKind::Container, &parent_acl).await?;
        }
    }

    /// Returns the path of a node below the lock path.
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

/// An attempt to acquire a lock. Dropping it gives up.
#[derive(Debug)]
pub(crate) struct PendingAcquire<C> {
    pub(crate) call: Call<C>,
    parent: Arc<str>,
    pub(crate) handle: Handle,
    /// The scheme of nodes that an earlier client of a resumed session may have left behind.
    leftovers: Option<Scheme>,
}

impl<C: SessionClient> PendingAcquire<C> {
    /// Fails instead of waiting if an earlier client of the session has left a contender behind.
    pub(crate) fn refusing_leftovers(mut self, scheme: Scheme) -> Self {
        self.leftovers = (self.call.client.resumption() != 0).then_some(scheme);
        self
    }

    /// Waits until it is known that an earlier client of this session has left a contender behind,
    /// or for ever. A server without `getEphemerals` does not know any.
    async fn leftover(client: &C, parent: &str, scheme: Option<Scheme>) -> String {
        let leftover = match scheme {
            Some(scheme) => client.get_ephemerals(parent).await.ok().and_then(|paths| {
                let is_leftover = |path: &String| {
                    let name = path.strip_prefix(parent).and_then(|name| name.strip_prefix('/'));
                    let name = name.and_then(|name| scheme.parse(name));
                    name.and_then(|name| name.guid).is_some_and(|guid| {
                        let guid = AttemptConfig::node_guid(guid, client.session_id());
                        !guid::is_of(guid, client.resumption())
                    })
                };
                paths.into_iter().find(is_leftover)
            }),
            None => None,
        };
        match leftover {
            Some(node) => node,
            None => pending().await,
        }
    }

    /// Waits for the lock until `end`.
    pub(crate) async fn held(self, end: Option<Instant>) -> Result<HeldLock<C>, RecipeError> {
        let acquired = self.handle.status.wait(|report: &mut Report| report.acquired.take());
        let leftover = Self::leftover(&self.call.client, &self.parent, self.leftovers);
        let acquired = before::<C, _>(end, unless(leftover, acquired)).await;
        let Self { call, parent, handle, .. } = self;
        match acquired {
            Some(Ok(Some(Ok(node)))) => {
                Ok(HeldLock::new(call.client, call.path, parent, node, handle))
            }
            Some(Ok(Some(Err(error)))) => Err(call.failed(error)),
            // The runtime was shut down.
            Some(Ok(None)) => Err(call.failed(LockError::Ended(End::Closed))),
            Some(Err(node)) => Err(call.failed(LockError::HeldByOwnSession { node })),
            None => Err(call.failed(LockError::TimedOut)),
        }
    }
}
