//! A cache of a node, or of a node and everything below it.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt;
use core::sync::atomic::AtomicUsize;
use std::sync::PoisonError;

use zk_session::dispatch::{Attached, Input, Port};
use zk_session::proto::path;
use zk_session::proto::recording::Description;
use zk_session::threads::{Mutex, MutexGuard};
use zk_session::{Chroot, End};

use crate::Client;
use crate::cache::{CacheConfig, CacheEvent, CacheMachine, CacheState, CachedNode};
use crate::client::SessionClient;
use crate::client::call::Call;
use crate::client::pending::Pending;
use crate::client::report::MachineReport;
use crate::client::status::{ChangeEffects, Handle, SharedStatus};
use crate::error::{CacheError, LockError, RecipeError};

/// The greatest number of unread changes of a receiver.
const MAX_UNREAD: usize = 1024;

/// A copy of a node and everything below it, kept up to date. It is Apache Curator's
/// `CuratorCache`. Its clones share one copy; the last one to be dropped ends it.
///
/// ```no_run
/// use zk_recipes::{Cache, CacheChange, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::builder("127.0.0.1:2181").renew(true).connect().await?;
/// let config = Cache::new(&client, "/config")?;
/// config.ready().await?;
/// println!("{:?}", config.get("/config/printer"));
/// let changes = config.changes();
/// loop {
///     match changes.next().await? {
///         CacheChange::Ready => println!("all: {:?}", config.snapshot()),
///         CacheChange::Changed { path, node } => println!("{path} is now {:?}", node.data),
///         change => println!("{change:?}"),
///     }
/// }
/// # }
/// ```
///
/// # Guarantee
///
/// * When the cache is [ready](CacheState::Ready) and nothing has changed for a moment, it equals
///   the tree of the server that serves the session. Like all reads, it may be behind other
///   servers.
/// * Every change is reported, or covered by a [`Reset`](CacheChange::Reset). Of several quick
///   changes of one node's data, only the last is reported. A node that is created and deleted at
///   once may not be reported at all. One that is deleted and created again is reported as removed
///   and added.
/// * Without a connection it keeps the nodes last known, as [`Stale`](CacheState::Stale). On the
///   next connection, also of a session that was [renewed](zk_session::ClientBuilder::renew), it
///   reads the tree again and reports the differences.
/// * It never holds more nodes and bytes than its limits. Beyond them it ends, with
///   [`CacheError::Full`]. Unread changes come on top.
///
/// Nodes that the client must not read are left out, and maybe what is below them. If the root is
/// one of them, the cache ends. A node whose access control list forbids reading it later may stay
/// as it was until the next connection: newer servers send no events of it.
///
/// # Cost
///
/// One persistent watch. One request for each node, and another for each node with children, on
/// every connection; then one notification and at most one request for each change. Servers before
/// 3.6 have no persistent watches: it costs two one-shot watches and two requests for each node, and
/// time in proportion to the number of watches for each event. Cache no more than 10,000 nodes so.
///
/// On servers from 3.6 to 3.8, a watch of another kind replaces the persistent one, if the same
/// client sets it on the root (ZOOKEEPER-4466). The cache then misses changes until the next
/// connection. So watch the root by [`changes`](Self::changes) only, or by another client.
#[doc(alias("CuratorCache", "TreeCache", "NodeCache", "PathChildrenCache", "TreeCacheListener"))]
#[derive(Clone)]
#[must_use = "a cache that is dropped ends"]
pub struct Cache<C = Client> {
    call: Call<C>,
    shared: SharedCache,
    handle: Arc<Handle>,
}

impl<C: SessionClient> fmt::Debug for Cache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cache = f.debug_struct("Cache");
        cache.field("path", &self.call.path).field("state", &self.state());
        cache.finish_non_exhaustive()
    }
}

/// The options of a [`Cache`].
///
/// ```
/// use zk_recipes::CacheOptions;
///
/// let options = CacheOptions::new().max_nodes(1000).max_bytes(1 << 20);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct CacheOptions(CacheConfig);

impl Default for CacheOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl CacheOptions {
    /// Returns the defaults: everything below the root, at most 100,000 nodes and 64 MiB.
    pub fn new() -> Self {
        Self(CacheConfig::new("/".into()))
    }

    /// Leaves out what is below the root. Servers since 3.6 still notify of it.
    pub fn only_root(mut self) -> Self {
        self.0.is_recursive = false;
        self
    }

    /// Sets two one-shot watches on each node, even if the server knows persistent watches.
    pub fn one_shot_watches(mut self) -> Self {
        self.0.is_persistent = false;
        self
    }

    /// Sets the greatest number of nodes.
    pub fn max_nodes(mut self, max_nodes: usize) -> Self {
        self.0.max_nodes = max_nodes;
        self
    }

    /// Sets the greatest memory of all nodes, in bytes: data, paths, and about 200 bytes for each.
    pub fn max_bytes(mut self, max_bytes: usize) -> Self {
        self.0.max_bytes = max_bytes;
        self
    }

    /// Sets the greatest number of reads under way. The default is 64.
    pub fn max_requests(mut self, max_requests: usize) -> Self {
        self.0.max_requests = max_requests;
        self
    }
}

/// A change of a [`Cache`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheChange {
    /// A node was found that was not there before.
    Added {
        /// The path of the node.
        path: String,
        /// Its data and stat.
        node: CachedNode,
    },
    /// The data of a node was written, once or several times.
    Changed {
        /// The path of the node.
        path: String,
        /// Its new data and stat.
        node: CachedNode,
    },
    /// A node was deleted.
    Removed {
        /// The path of the node.
        path: String,
        /// The data and stat that it had last.
        node: CachedNode,
    },
    /// Changes may be missing here. After the next [`Ready`](Self::Ready), a
    /// [snapshot](Cache::snapshot) contains all of them.
    ///
    /// There are three reasons:
    ///
    /// * The connection was lost. The differences follow, too.
    /// * More than 1,024 changes were unread, or more data than [`CacheOptions::max_bytes`]. They
    ///   are dropped.
    /// * The cache is older than this receiver of changes.
    Reset,
    /// The tree is read completely.
    Ready,
}

/// The machine and its receivers. The machine writes it while the session is locked.
#[derive(Clone)]
struct SharedCache(Arc<Mutex<CacheContent>>);

struct CacheContent {
    machine: CacheMachine,
    receivers: Vec<ChangeReceiver>,
    /// The greatest size of the unread changes of a receiver, in bytes.
    max_bytes: usize,
    last_receiver: u64,
    chroot: Chroot,
}

impl SharedCache {
    fn lock(&self) -> MutexGuard<'_, CacheContent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CacheContent {
    fn push(&mut self, event: CacheEvent) {
        if self.receivers.is_empty() {
            return;
        }
        let path = |path: &str| self.chroot.strip(path).unwrap_or(path).to_string();
        let change = match event {
            CacheEvent::Added(at, node) => CacheChange::Added { path: path(&at), node },
            CacheEvent::Changed(at, node) => CacheChange::Changed { path: path(&at), node },
            CacheEvent::Removed(at, node) => CacheChange::Removed { path: path(&at), node },
            CacheEvent::Reset => CacheChange::Reset,
            CacheEvent::Ready => CacheChange::Ready,
            CacheEvent::Ended(_) => return,
        };
        for receiver in &mut self.receivers {
            receiver.bytes += change.data_length();
            receiver.unread.push_back(change.clone());
            if receiver.unread.len() > MAX_UNREAD || receiver.bytes > self.max_bytes {
                receiver.restart(self.machine.state());
            }
        }
    }
}

impl CacheChange {
    fn data_length(&self) -> usize {
        match self {
            Self::Added { node, .. } | Self::Changed { node, .. } | Self::Removed { node, .. } => {
                node.data.len()
            }
            Self::Reset | Self::Ready => 0,
        }
    }
}

/// A receiver of changes.
struct ChangeReceiver {
    number: u64,
    unread: VecDeque<CacheChange>,
    /// The length of the data of unread changes.
    bytes: usize,
}

impl ChangeReceiver {
    fn new(number: u64, state: &CacheState) -> Self {
        let mut this = Self { number, unread: VecDeque::new(), bytes: 0 };
        this.restart(state);
        this
    }

    /// Drops the unread changes, and says so.
    fn restart(&mut self, state: &CacheState) {
        self.bytes = 0;
        self.unread.clear();
        self.unread.push_back(CacheChange::Reset);
        if *state == CacheState::Ready {
            self.unread.push_back(CacheChange::Ready);
        }
    }

    fn pop(&mut self) -> Option<CacheChange> {
        let change = self.unread.pop_front()?;
        self.bytes -= change.data_length();
        Some(change)
    }
}

/// The machine at the session.
pub(crate) struct Follower {
    shared: SharedCache,
    status: Arc<SharedStatus>,
}

impl Follower {
    pub(crate) fn new(config: CacheConfig, chroot: Chroot) -> Self {
        let max_bytes = config.max_bytes;
        let machine = CacheMachine::new(config);
        let content =
            CacheContent { machine, receivers: Vec::new(), max_bytes, last_receiver: 0, chroot };
        let shared = SharedCache(Arc::new(Mutex::new(content)));
        Self { shared, status: Arc::new(SharedStatus::new(Arc::<AtomicUsize>::default())) }
    }

    fn wake(&self, port: &mut Port<'_>) {
        self.status.change(|_| {}).into_iter().for_each(|notices| notices.defer(port));
    }
}

impl Attached for Follower {
    fn handle(&mut self, input: Input, port: &mut Port<'_>) {
        let mut content = self.shared.lock();
        let mut events = Vec::new();
        content.machine.drive(input, port, |event, _| events.push(event));
        if events.is_empty() {
            return;
        }
        events.into_iter().for_each(|event| content.push(event));
        // A waiter locks its status first.
        drop(content);
        self.wake(port);
    }

    /// Any command ends the cache.
    fn command(&mut self, _: &mut dyn Any, port: &mut Port<'_>) {
        self.shared.lock().machine.close();
        self.wake(port);
    }

    fn is_done(&self) -> bool {
        self.shared.lock().machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.shared.lock().machine.describe(description);
    }
}

impl Drop for Follower {
    /// The runtime of the client was shut down, unless the cache has ended already.
    fn drop(&mut self) {
        self.shared.lock().machine.close();
        self.status.change(MachineReport::finish).into_iter().for_each(ChangeEffects::run);
    }
}

impl<C: SessionClient> Cache<C> {
    /// Caches the node at `path` and everything below it, with the default options. The node need
    /// not exist. This waits for nothing: see [`ready`](Self::ready).
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, CacheOptions::new())
    }

    /// Caches the node at `path`, with options.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: CacheOptions) -> Result<Self, RecipeError> {
        path::validate(path).map_err(|error| RecipeError::new("new", path, error))?;
        let chroot = client.chroot().clone();
        let config = CacheConfig { root: chroot.apply(path).into(), ..options.0 };
        let follower = Follower::new(config, chroot);
        let (shared, status) = (follower.shared.clone(), follower.status.clone());
        let handle = Arc::new(Handle { status, attachment: client.attach(Box::new(follower)) });
        let call = Call { operation: "ready", path: path.into(), client: client.clone() };
        Ok(Self { call, shared, handle })
    }

    /// Returns the path of the root.
    pub fn path(&self) -> &str {
        &self.call.path
    }

    /// Returns how complete the cache is.
    pub fn state(&self) -> CacheState {
        self.shared.lock().machine.state().clone()
    }

    /// Returns a node, if it is in the cache.
    pub fn get(&self, path: &str) -> Option<CachedNode> {
        let content = self.shared.lock();
        content.machine.tree().get(&content.chroot.apply(path)).cloned()
    }

    /// Returns the names of the children of a node, sorted.
    pub fn children(&self, path: &str) -> Vec<String> {
        let content = self.shared.lock();
        let path = content.chroot.apply(path);
        content.machine.tree().children(&path).map(ToString::to_string).collect()
    }

    /// Returns all nodes, by path. It copies the paths; the data is shared. The session waits for
    /// it: for large trees, prefer [`get`](Self::get) and [`children`](Self::children).
    pub fn snapshot(&self) -> BTreeMap<String, CachedNode> {
        let content = self.shared.lock();
        let nodes = content.machine.tree().iter().map(|(path, node)| {
            (content.chroot.strip(path).unwrap_or(path).to_string(), node.clone())
        });
        nodes.collect()
    }

    /// Returns the number of nodes.
    pub fn len(&self) -> usize {
        self.shared.lock().machine.tree().len()
    }

    /// Returns whether the cache has no node.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the changes from now on. The first one is a [`Reset`](CacheChange::Reset), then
    /// follows a [`Ready`](CacheChange::Ready) if the cache is ready.
    pub fn changes(&self) -> CacheChanges<C> {
        let content = &mut *self.shared.lock();
        content.last_receiver += 1;
        content.receivers.push(ChangeReceiver::new(content.last_receiver, content.machine.state()));
        let call = Call { operation: "next", ..self.call.clone() };
        let (shared, status) = (self.shared.clone(), self.handle.status.clone());
        CacheChanges { call, shared, status, receiver: content.last_receiver }
    }

    /// Waits until the cache is [ready](CacheState::Ready): the tree is read completely, and the
    /// cache follows it.
    ///
    /// # Errors
    ///
    /// The error that the cache has ended with: [`CacheError::Full`], [`LockError::Request`] if
    /// a node cannot be read, or [`LockError::Ended`] with the session.
    pub fn ready(&self) -> Pending<(), C, RecipeError<CacheError>> {
        let shared = self.shared.clone();
        wait(&self.call, &self.handle.status, LockError::NoAnswer, move || {
            match shared.lock().machine.state() {
                CacheState::Loading | CacheState::Stale => None,
                CacheState::Ready => Some(Ok(())),
                CacheState::Ended(error) => Some(Err(error.clone())),
            }
        })
    }
}

/// The changes of a [`Cache`]. It ends with the cache, and does not keep it alive.
pub struct CacheChanges<C = Client> {
    call: Call<C>,
    shared: SharedCache,
    status: Arc<SharedStatus>,
    receiver: u64,
}

impl<C: SessionClient> fmt::Debug for CacheChanges<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CacheChanges").field("path", &self.call.path).finish_non_exhaustive()
    }
}

impl<C> Drop for CacheChanges<C> {
    fn drop(&mut self) {
        self.shared.lock().receivers.retain(|receiver| receiver.number != self.receiver);
    }
}

impl<C: SessionClient> CacheChanges<C> {
    /// Waits for the next change. Only one caller at a time receives each change.
    ///
    /// # Errors
    ///
    /// The error that the cache has ended with; [`LockError::Ended`] when the cache was dropped.
    pub fn next(&self) -> Pending<CacheChange, C, RecipeError<CacheError>> {
        let (shared, receiver) = (self.shared.clone(), self.receiver);
        wait(&self.call, &self.status, LockError::TimedOut, move || {
            let content = &mut *shared.lock();
            let mut receivers = content.receivers.iter_mut();
            let receiver = receivers.find(|other| other.number == receiver);
            match (receiver.and_then(ChangeReceiver::pop), content.machine.state()) {
                (Some(change), _) => Some(Ok(change)),
                (None, CacheState::Ended(error)) => Some(Err(error.clone())),
                (None, _) => None,
            }
        })
    }
}

/// Waits until `find` returns a value. Fails with `late` at the time limit.
fn wait<C: SessionClient, T: Send + 'static>(
    call: &Call<C>,
    status: &Arc<SharedStatus>,
    late: LockError,
    mut find: impl FnMut() -> Option<Result<T, CacheError>> + Send + Unpin + 'static,
) -> Pending<T, C, RecipeError<CacheError>> {
    let found = status.wait(move |_| find());
    Pending::within_or(call.clone(), || late, async {
        found.await.unwrap_or_else(|| Err(LockError::Ended(End::Closed).into()))
    })
}
