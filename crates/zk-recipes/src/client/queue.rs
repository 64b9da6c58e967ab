//! A lock with a queue: its path and options, and the attempts to acquire it.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::future::poll_fn;
use core::ops::Deref;
use core::pin::Pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::time::Instant;

use zk_session::proto::{ErrorCode, NodeKind, path};
use zk_session::threads::Mutex;
use zk_session::{End, Error};

use super::abandoned::Abandoned;
use super::call::Call;
use super::guid;
use super::held_lock::{HeldLock, Holder};
use super::local::LocalLock;
use super::observed;
use super::report::{HeldNode, MachineReport};
use super::reporter;
use super::reporter::{Hook, Note};
use super::status::{Handle, SharedStatus, WaitFor};
use crate::attempt::{AccessList, AttemptConfig, LockMode, Machine, Parents, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::lookout::{Lookout, Seen};
use crate::client::session_client::TimeLimit;
use crate::error::{LockError, Reason, RecipeError};
use crate::lock::{Contender, HintCell};
use crate::options::{Attempt, Options, UserObserver};

/// A lock of this process. Its clones are one lock.
#[derive(Clone)]
pub(crate) struct Queue<C>(Arc<SharedQueue<C>>);

/// A lock path, and the options of this process's contenders.
pub(crate) struct SharedQueue<C> {
    pub(crate) client: C,
    /// The recipe, as observers of the process know it.
    recipe: &'static str,
    pub(crate) path: Arc<str>,
    pub(crate) scheme: Scheme,
    pub(crate) options: Options,
    cleanups: Arc<AtomicUsize>,
    abandoned: Arc<AtomicUsize>,
    attempts: AtomicUsize,
    hint_cell: Arc<dyn HintCell>,
    /// Whether the client renews its session. It never changes, and to ask the client locks the
    /// session.
    #[cfg_attr(not(feature = "full"), expect(dead_code, reason = "then no attempt queues again"))]
    renews: bool,
    /// The client's [number](zk_session::AnyClient::resumption). Kept for the same reasons.
    resumption: usize,
    /// With `Options::local_hand_over`.
    pub(crate) local: Option<Arc<LocalLock>>,
}

impl<C> Deref for Queue<C> {
    type Target = SharedQueue<C>;

    fn deref(&self) -> &SharedQueue<C> {
        &self.0
    }
}

impl<C> fmt::Debug for Queue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SharedQueue { path, scheme, options, .. } = &**self;
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
        observed::register(recipe);
        Ok(Self(Arc::new(SharedQueue {
            client: client.clone(),
            recipe,
            path: path.into(),
            scheme: options.scheme.unwrap_or(default),
            local: options.local.start(C::now),
            options,
            cleanups: Arc::default(),
            abandoned: Arc::default(),
            attempts: AtomicUsize::default(),
            hint_cell: Arc::new(Mutex::new(None)),
            renews: client.renews(),
            resumption: client.resumption(),
        })))
    }

    /// The operation and path that errors name.
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Enters the queue at once.
    pub(crate) fn enter<R: Reason>(
        &self,
        operation: &'static str,
        mode: LockMode,
        wait_policy: WaitPolicy,
    ) -> Attempted<C, R> {
        let machine = || {
            let mut config = self.config(mode, wait_policy);
            config.hint_cell = Some(self.hint_cell.clone());
            self.requeuing(Contender::new(config), wait_policy)
        };
        let pending = self.start(operation, machine, self.path.clone());
        pending.refusing_leftovers(self.scheme)
    }

    /// Makes a machine that waits queue again on the next session, if there can be one.
    #[cfg(feature = "full")]
    pub(crate) fn requeuing<M: crate::machine::Restart>(
        &self,
        machine: M,
        wait_policy: WaitPolicy,
    ) -> crate::machine::Requeuing<M> {
        crate::machine::Requeuing::new(machine, wait_policy == WaitPolicy::Queue && self.renews)
    }

    #[cfg(not(feature = "full"))]
    pub(crate) fn requeuing<M>(&self, machine: M, _: WaitPolicy) -> M {
        machine
    }

    /// Returns the lock path with the chroot.
    pub(crate) fn server_path(&self) -> Arc<str> {
        match self.client.chroot().apply(&self.path) {
            Cow::Borrowed(_) => self.path.clone(),
            Cow::Owned(path) => path.into(),
        }
    }

    /// Returns the configuration of an attempt that begins as soon as a quorum serves the session.
    pub(crate) fn config(&self, mode: LockMode, wait_policy: WaitPolicy) -> AttemptConfig {
        AttemptConfig {
            chroot_length: self.client.chroot().apply("/").len(),
            mode,
            wait_policy,
            data: self.options.data.clone(),
            acl: self.options.acl.clone(),
            parent_acl: self.options.parent_acl.clone(),
            parents: self.options.parents,
            unknown_nodes: self.options.unknown_nodes,
            disconnect_policy: self.options.disconnect_policy,
            revocable: self.options.revocable,
            ..AttemptConfig::new(self.server_path(), self.scheme, guid::next(self.resumption))
        }
    }

    /// Attaches the machine that `make` returns, whose nodes are below `parent`.
    pub(crate) fn start<R: Reason, M: Machine + Send + 'static>(
        &self,
        operation: &'static str,
        make: impl FnOnce() -> M,
        parent: Arc<str>,
    ) -> Attempted<C, R> {
        let handle = self.attach(make, self.note(), None);
        let acquired = handle.status.wait(MachineReport::take_answer as TakeAnswer<R>);
        Attempted {
            queue: self.clone(),
            operation,
            parent,
            handle: Some(handle),
            acquired,
            leftover: None,
            patience: Patience::default(),
        }
    }

    /// Returns a function that calls the user's observer with the events of a new attempt.
    pub(crate) fn note(&self) -> Option<Note> {
        let number = self.attempts.fetch_add(1, Ordering::Relaxed) + 1;
        let (UserObserver(observer), path) = (self.options.observer.clone()?, self.path.clone());
        Some(Arc::new(move |event: &_| observer(Attempt { path: &path, number }, event)))
    }

    /// Attaches the machine that `make` returns. Its events go to `hook`, with the session locked,
    /// and then to `note`.
    pub(crate) fn attach<M: Machine + Send + 'static>(
        &self,
        make: impl FnOnce() -> M,
        note: Option<Note>,
        hook: Option<Hook>,
    ) -> Handle {
        let observers = observed::observers(self.recipe, &self.path);
        let abandoned = Abandoned::new(self.abandoned.clone());
        let cleanups = self.cleanups.clone();
        reporter::start(&self.client, make, observers, abandoned, note, hook, cleanups)
    }

    /// Checks that the chroot exists. Its absence explains why another node is missing.
    pub(crate) async fn check_chroot(&self) -> Result<(), LockError> {
        let chroot = self.client.chroot().apply("/");
        if chroot == "/" || self.client.exists("/").await?.is_some() {
            return Ok(());
        }
        Err(LockError::NoChroot { chroot: chroot.into_owned() })
    }

    /// Creates a persistent node, and its missing ancestors below the chroot.
    pub(crate) async fn create_persistent(
        &self,
        path: &str,
        data: &[u8],
        acl: &AccessList,
    ) -> Result<(), LockError> {
        let acl: Vec<_> = acl.list().iter().collect();
        // The parent may be deleted in between, but not for ever.
        loop {
            // In a transaction, since an early ClickHouse Keeper lacks `create2`.
            let node = self.client.transaction();
            let node = node.create_with_acl(path, data, NodeKind::Persistent, &acl);
            match C::commit(node).await.map_err(Error::from) {
                Err(Error::Transaction { code: ErrorCode::NO_NODE, .. }) => {}
                Err(Error::Transaction { code, .. }) => return Err(Error::Server(code).into()),
                created => return Ok(created.map(drop)?),
            }
            self.check_chroot().await?;
            let ancestors = match self.options.parents {
                Parents::None => return Err(Error::Server(ErrorCode::NO_NODE).into()),
                parents if parents.are_containers(self.client.server_kind()) => NodeKind::Container,
                _ => NodeKind::Persistent,
            };
            let parent = path::parent(path).unwrap_or("/");
            let parent_acl: Vec<_> = self.options.parent_acl.list().iter().collect();
            self.client.ensure_path_with(parent, ancestors, &parent_acl).await?;
        }
    }

    /// Returns the path of a node below the lock path.
    pub(crate) fn below(&self, name: &str) -> String {
        path::child(&self.path, name)
    }

    /// Returns the node that this process shares, and how many of its attempts wait for that.
    pub(crate) fn locally_held(&self) -> Option<(String, usize)> {
        self.local.as_ref()?.held()
    }

    /// Returns how many attempts wait for another one of this process.
    pub(crate) fn local_waiters(&self) -> usize {
        self.local.as_ref().map_or(0, |local| local.waiting())
    }

    pub(crate) fn pending_cleanups(&self) -> usize {
        self.cleanups.load(Ordering::Relaxed)
    }

    pub(crate) fn abandoned_nodes(&self) -> usize {
        self.abandoned.load(Ordering::Relaxed)
    }
}

/// Takes the result of an attempt from its report.
type TakeAnswer<R> = fn(&mut MachineReport) -> Option<Result<HeldNode, R>>;

/// An attempt to acquire a lock. Dropping it gives up.
pub(crate) struct Attempted<C, R = LockError> {
    queue: Queue<C>,
    operation: &'static str,
    parent: Arc<str>,
    /// `None` once the lock is held.
    handle: Option<Handle>,
    acquired: WaitFor<TakeAnswer<R>>,
    /// Finds a node that an earlier client of a resumed session has left behind.
    leftover: Option<Pin<Box<dyn Future<Output = String> + Send>>>,
    pub(super) patience: Patience,
}

impl<C: SessionClient, R: Reason> Attempted<C, R> {
    /// Fails instead of waiting if an earlier client of the session has left a contender behind.
    pub(crate) fn refusing_leftovers(mut self, scheme: Scheme) -> Self {
        if self.queue.resumption != 0 {
            let (client, parent) = (self.queue.client.clone(), self.parent.clone());
            self.leftover = Some(Box::pin(leftover(client, parent, scheme)));
        }
        self
    }

    /// Returns the status of the machine. `None` once the lock is held.
    pub(crate) fn status(&self) -> Option<Arc<SharedStatus>> {
        self.handle.as_ref().map(|handle| handle.status.clone())
    }

    /// Waits until the lock is held, or until `end`.
    pub(crate) async fn held(
        mut self,
        end: Option<Instant>,
    ) -> Result<HeldLock<C>, RecipeError<R>> {
        let mut limit = TimeLimit::new(end);
        poll_fn(|cx| self.poll_held(&mut limit, cx)).await
    }

    /// Waits until the lock is held, or the attempt has failed.
    pub(crate) fn poll_held(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HeldLock<C>, RecipeError<R>>> {
        let node = ready!(self.poll_acquired(limit, cx)).map_err(|error| self.failed(error))?;
        let Some(handle) = self.handle.take() else {
            // The runtime was shut down.
            return Poll::Ready(Err(self.failed(LockError::Ended(End::Closed).into())));
        };
        Poll::Ready(Ok(HeldLock {
            client: self.queue.client.clone(),
            path: self.queue.path.clone(),
            parent: self.parent.clone(),
            node,
            holder: Holder::Own(handle),
        }))
    }

    fn failed(&self, error: R) -> RecipeError<R> {
        self.queue.call(self.operation).failed(error)
    }

    fn poll_acquired(
        &mut self,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<HeldNode, R>> {
        if let Poll::Ready(acquired) = Pin::new(&mut self.acquired).poll(cx) {
            // The runtime was shut down.
            let closed = || Err(LockError::Ended(End::Closed).into());
            let acquired = acquired.unwrap_or_else(closed);
            self.handle.take_if(|_| acquired.is_err());
            return Poll::Ready(acquired);
        }
        if let Some(leftover) = &mut self.leftover
            && let Poll::Ready(node) = leftover.as_mut().poll(cx)
        {
            self.handle = None;
            return Poll::Ready(Err(LockError::HeldByOwnSession { node }.into()));
        }
        let Some(handle) = &self.handle else { return Poll::Pending };
        let given_up = self.patience.poll(limit, &self.queue.client, &handle.status, cx);
        given_up.map(|error| Err(error.into()))
    }
}

/// How long an attempt waits: until its time limit, and for the first answer.
#[derive(Default)]
pub(crate) struct Patience {
    /// When the attempt was first polled, if it has a time limit.
    begun: Option<Instant>,
    /// Set once the time limit has passed.
    lookout: Option<Lookout>,
}

impl Patience {
    /// However short its limit, an attempt waits this long for the first answer.
    pub(crate) const FOR_AN_ANSWER: Duration = Duration::from_secs(1);

    /// Completes when the attempt must fail: it is late, and others are ahead, the connection is
    /// lost, or the time for the first answer is over.
    pub(crate) fn poll<C: SessionClient>(
        &mut self,
        limit: &mut TimeLimit,
        client: &C,
        status: &SharedStatus,
        cx: &mut Context<'_>,
    ) -> Poll<LockError> {
        if limit.end.is_none() {
            return Poll::Pending;
        }
        let begun = *self.begun.get_or_insert_with(C::now);
        ready!(limit.poll(client, cx));
        let lookout = self.lookout.get_or_insert_with(|| {
            let waited = C::now().saturating_duration_since(begun);
            Lookout::new(client, Some(Self::FOR_AN_ANSWER.saturating_sub(waited)))
        });
        match Pin::new(lookout).poll(cx) {
            Poll::Ready(Seen::Disconnected) => Poll::Ready(LockError::NoConnection),
            Poll::Ready(Seen::Late) => Poll::Ready(status.late()),
            Poll::Pending if !status.is_waiting() => Poll::Pending,
            Poll::Pending => Poll::Ready(LockError::TimedOut),
        }
    }
}

/// Waits until it is known that an earlier client of this session has left a contender behind, or
/// for ever. A server without `getEphemerals` does not know any.
pub(crate) async fn leftover<C: SessionClient>(
    client: C,
    parent: Arc<str>,
    scheme: Scheme,
) -> String {
    let is_leftover = |path: &String| {
        let name = path.strip_prefix(&*parent).and_then(|name| name.strip_prefix('/'));
        let guid = name.and_then(|name| scheme.parse(name)).and_then(|name| name.guid);
        guid.is_some_and(|guid| {
            let guid = AttemptConfig::node_guid(guid, client.session_id());
            !guid::is_of(guid, client.resumption())
        })
    };
    let paths = match client.resumption() {
        0 => Vec::new(),
        _ => client.get_ephemerals(&parent).await.unwrap_or_default(),
    };
    match paths.into_iter().find(is_leftover) {
        Some(node) => node,
        None => core::future::pending().await,
    }
}
