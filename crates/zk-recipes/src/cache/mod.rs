//! A cache of a node, or of a node and everything below it.
//!
//! The machine *walks* the tree on every new connection: it reads the root, lists its children,
//! reads those, and so on. A watch that is set before the walk reports what changes during the walk
//! and after it:
//!
//! * One persistent watch on the root. Each event names the node to read again, or to remove.
//! * On servers before 3.6, two one-shot watches on each node, which the reads set.
//!
//! A server sends an event ahead of any reply that shows the change, and may send it ahead of
//! replies that do not show it. So a part of a node that changes while it is read is read again,
//! and of two replies the newer one counts.

#[cfg(all(feature = "full", feature = "blocking"))]
pub(crate) mod recipe;

mod jobs;
mod replies;
mod tree;

use alloc::collections::VecDeque;
use core::time::Duration;

use zk_session::dispatch::{Input, Port};
use zk_session::proto::recording::Description;
use zk_session::proto::{
    AddWatchMode, AddWatchRequest, ErrorCode, ExistsRequest, GetChildrenRequest, GetDataRequest,
    Request, path,
};
use zk_session::session::{Reply, State};
use zk_session::sync::Arc;
use zk_session::{End, Error, Invalid, ServerKind};

use self::jobs::{Jobs, Part};
pub use self::tree::{CacheTree, CachedNode};
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
use crate::error::{CacheError, LockError};
use crate::numbered::Numbered;

/// The configuration of a [`CacheMachine`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CacheConfig {
    /// The node, as a path of the server: with the [chroot](zk_session::Chroot).
    pub root: Arc<str>,
    /// Whether everything below the node belongs to the cache, too. The default is `true`.
    pub is_recursive: bool,
    /// Whether to use a persistent watch, if the server knows them. The default is `true`.
    pub is_persistent: bool,
    /// The greatest number of nodes. The default is 100,000.
    pub max_nodes: usize,
    /// The greatest memory of all nodes, in bytes: data, paths, and about 200 bytes for each. The
    /// default is 64 MiB.
    pub max_bytes: usize,
    /// The greatest number of reads under way, at least 1. The default is 64.
    pub max_requests: usize,
}

impl CacheConfig {
    /// Makes a configuration with the defaults.
    pub fn new(root: Arc<str>) -> Self {
        Self {
            root,
            is_recursive: true,
            is_persistent: true,
            max_nodes: 100_000,
            max_bytes: 64 << 20,
            max_requests: 64,
        }
    }
}

/// How complete a cache is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheState {
    /// The tree was never read completely.
    Loading,
    /// The cache follows the server that serves the session. That server may be behind others.
    Ready,
    /// The connection was lost after the cache was ready. The tree is read again on the next one;
    /// until then the nodes are the last ones known.
    Stale,
    /// The cache has ended, and its nodes are dropped.
    Ended(CacheError),
}

/// What a cache reports. Paths are those of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CacheEvent {
    /// A node was found that was not there before.
    Added(Arc<str>, CachedNode),
    /// The data of a node was written, once or several times.
    Changed(Arc<str>, CachedNode),
    /// A node was deleted. It had this data last.
    Removed(Arc<str>, CachedNode),
    /// Changes may be missing here: the connection was lost. The tree is read again. The
    /// differences follow, and then [`Ready`](Self::Ready).
    Reset,
    /// The tree is read completely.
    Ready,
    /// The cache has ended. This is the last event.
    Ended(CacheError),
}

/// A request of a cache.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheRequest {
    /// Sets a persistent watch on a node and everything below it.
    ///
    /// A cache of one node sets it, too: on servers from 3.6 to 3.8 a watch of another mode would
    /// replace that of another cache (ZOOKEEPER-4466).
    Watch(Arc<str>),
    /// Reads data, and sets a one-shot watch or none.
    Data(Arc<str>, bool),
    /// Lists children, and sets a one-shot watch or none.
    Children(Arc<str>, bool),
    /// Sets a one-shot watch for the creation of a missing node.
    Existence(Arc<str>),
}

impl CacheRequest {
    /// Returns the request to send.
    pub fn request(&self) -> Request<'_> {
        match self {
            Self::Watch(path) => {
                let mode = AddWatchMode::PERSISTENT_RECURSIVE;
                Request::AddWatch(AddWatchRequest { path, mode })
            }
            Self::Data(path, watch) => Request::GetData(GetDataRequest { path, watch: *watch }),
            Self::Children(path, watch) => {
                Request::GetChildren2(GetChildrenRequest { path, watch: *watch })
            }
            Self::Existence(path) => Request::Exists(ExistsRequest { path, watch: true }),
        }
    }
}

/// An output of a cache, for its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CacheOutput {
    /// Submit the request. The tag identifies its reply and its watch.
    Submit(u64, CacheRequest),
    /// Drop the watch of the request with this tag.
    Unwatch(u64),
    /// Drop all watches.
    UnwatchAll,
    /// Give [`Input::Timer`] after this delay.
    SetTimer(Duration),
    /// Report to the owner.
    Event(CacheEvent),
}

/// Keeps a copy of a node, or of a node and everything below it.
///
/// Call [`drive`](Self::drive) in [`Attached::handle`](zk_session::dispatch::Attached::handle). The
/// machine outlives its session: return `true` from
/// [`Attached::outlives_session`](zk_session::dispatch::Attached::outlives_session).
///
/// ```
/// use zk_recipes::machine::{CacheConfig, CacheEvent, CacheMachine};
/// use zk_recipes::session::dispatch::{Attached, Input, Port};
///
/// struct Config(CacheMachine);
///
/// impl Attached for Config {
///     fn handle(&mut self, input: Input, port: &mut Port<'_>) {
///         self.0.drive(input, port, |event, _| match event {
///             CacheEvent::Added(path, node) => println!("{path}: {:?}", node.data),
///             event => println!("{event:?}"),
///         });
///     }
///
///     fn is_done(&self) -> bool {
///         self.0.is_done()
///     }
///
///     fn outlives_session(&self) -> bool {
///         true
///     }
/// }
///
/// let machine = CacheMachine::new(CacheConfig::new("/config".into()));
/// # let _ = Config(machine);
/// ```
#[derive(Clone, Debug)]
pub struct CacheMachine {
    config: CacheConfig,
    state: CacheState,
    tree: CacheTree,
    jobs: Jobs,
    /// The number of the walk, which begins with each connection.
    walk: u64,
    is_walking: bool,
    is_connected: bool,
    /// Whether to wait for the timer.
    is_pausing: bool,
    /// Whether a server has refused a persistent watch, or may be too old for one.
    has_old_server: bool,
    last_tag: u64,
    /// The request of the persistent watch, or zero.
    watch: u64,
    /// The request that watches for the creation of the root, or zero.
    existence_watch: u64,
    /// Requests without a reply, with the walk that submitted them.
    under_way: Numbered<(Arc<str>, Part, u64)>,
    outputs: VecDeque<CacheOutput>,
}

/// # Getters
impl CacheMachine {
    /// Returns how complete the cache is.
    pub fn state(&self) -> &CacheState {
        &self.state
    }

    /// Describes the machine. Call it in
    /// [`Attached::describe`](zk_session::dispatch::Attached::describe) of a machine that adds no
    /// decisions.
    pub fn describe(&self, description: &mut Description<'_>) {
        let CacheConfig { root, is_recursive, is_persistent, .. } = &self.config;
        let CacheConfig { max_nodes, max_bytes, max_requests, .. } = &self.config;
        description.machine("cache", root);
        description.number((*is_recursive).into());
        description.number((*is_persistent).into());
        description.number(*max_nodes as u64);
        description.number(*max_bytes as u64);
        description.number(*max_requests as u64);
    }

    /// Returns the nodes.
    pub fn tree(&self) -> &CacheTree {
        &self.tree
    }

    /// Returns whether the cache has ended.
    pub fn is_done(&self) -> bool {
        matches!(self.state, CacheState::Ended(_))
    }

    /// Returns whether one persistent watch serves the cache. Otherwise each node has watches of
    /// its own.
    pub fn is_persistent(&self) -> bool {
        self.config.is_persistent && !self.has_old_server
    }
}

/// # Inputs
impl CacheMachine {
    /// Creates a cache that begins with the first connection.
    pub fn new(config: CacheConfig) -> Self {
        let valid = path::validate(&config.root);
        let mut machine = Self {
            config,
            state: CacheState::Loading,
            tree: CacheTree::default(),
            jobs: Jobs::default(),
            walk: 0,
            is_walking: false,
            is_connected: false,
            is_pausing: false,
            has_old_server: false,
            last_tag: 0,
            watch: 0,
            existence_watch: 0,
            under_way: Numbered::new(),
            outputs: VecDeque::new(),
        };
        if let Err(error) = valid {
            machine.end(LockError::Path(error));
        }
        machine
    }

    /// Handles an input of the dispatcher, and performs all outputs except events, which `observe`
    /// receives. It is called with the session locked.
    pub fn drive(
        &mut self,
        input: Input,
        port: &mut Port<'_>,
        mut observe: impl FnMut(CacheEvent, &mut Port<'_>),
    ) {
        // An early Keeper would end the session at a persistent watch.
        self.has_old_server |= port.server_kind() == ServerKind::Keeper;
        self.handle(input);
        while let Some(output) = self.poll_output() {
            match output {
                CacheOutput::Submit(tag, request) => {
                    port.submit_and_watch(tag, &request.request());
                }
                CacheOutput::Unwatch(tag) => port.unwatch(tag),
                CacheOutput::UnwatchAll => port.unwatch_all(),
                CacheOutput::SetTimer(after) => port.set_timer(Some(port.now() + after)),
                CacheOutput::Event(event) => observe(event, port),
            }
        }
    }

    /// Handles an input. Take all outputs afterwards.
    pub fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::State(State::Ended(end)) => self.end(LockError::Ended(end)),
            Input::State(State::Connected { .. } | State::ReadOnly { .. }) => self.begin(),
            Input::State(State::Suspended) => self.disconnected(),
            Input::State(State::Renewing) => {
                // These have failed without a reply.
                self.under_way = Numbered::new();
                self.disconnected();
            }
            Input::Reply { tag, result } => self.handle_reply(tag, result),
            Input::Watch { tag, event } => self.handle_watch(tag, &event),
            Input::Timer => self.resume(),
            _ => {}
        }
        self.submit_jobs();
        self.finish_walk();
    }

    /// Ends the cache: drops its nodes and watches.
    pub fn close(&mut self) {
        if !self.is_done() {
            self.end(LockError::Ended(End::Closed));
        }
    }

    /// Returns the next output, if there is one.
    pub fn poll_output(&mut self) -> Option<CacheOutput> {
        self.outputs.pop_front()
    }
}

/// # Connections
impl CacheMachine {
    /// Begins a walk: on a new connection, events may be missing.
    fn begin(&mut self) {
        self.disconnected();
        self.is_connected = true;
        self.is_pausing = false;
        self.walk += 1;
        self.is_walking = true;
        let root = self.config.root.clone();
        if self.is_persistent() {
            self.watch = self.submit(CacheRequest::Watch(root.clone()));
        }
        self.want(&root, Part::Data);
    }

    /// Drops what belongs to the last connection. The session need not set watches again that the
    /// next walk sets.
    fn disconnected(&mut self) {
        self.is_connected = false;
        self.is_walking = false;
        self.jobs.clear();
        (self.watch, self.existence_watch) = (0, 0);
        for entry in self.tree.entries_mut() {
            (entry.data_watch, entry.child_watch) = (0, 0);
        }
        self.outputs.push_back(CacheOutput::UnwatchAll);
        if self.state == CacheState::Ready {
            self.state = CacheState::Stale;
            self.report(CacheEvent::Reset);
        }
    }

    fn end(&mut self, error: impl Into<CacheError>) {
        let error = error.into();
        self.state = CacheState::Ended(error.clone());
        self.disconnected();
        self.tree = CacheTree::default();
        self.report(CacheEvent::Ended(error));
    }

    fn finish_walk(&mut self) {
        if !self.is_walking || !self.jobs.is_walk_over() {
            return;
        }
        self.is_walking = false;
        self.remove_unread();
        self.state = CacheState::Ready;
        self.report(CacheEvent::Ready);
    }

    /// Removes the nodes that this walk has not read.
    fn remove_unread(&mut self) {
        for path in self.tree.not_read_by(self.walk) {
            self.remove(&path);
        }
    }
}

/// # Requests
impl CacheMachine {
    fn want(&mut self, path: &Arc<str>, part: Part) {
        self.want_for(path, part, self.is_walking);
    }

    fn want_for(&mut self, path: &Arc<str>, part: Part, is_of_walk: bool) {
        self.jobs.want(path, part, is_of_walk);
        let CacheConfig { max_nodes, max_bytes, max_requests, .. } = self.config;
        // Nodes that were deleted count until the reply to their request.
        let most = max_nodes.saturating_add(max_requests);
        if self.jobs.len() > most || self.jobs.bytes() > max_bytes {
            self.end(CacheError::Full);
        }
    }

    fn submit(&mut self, request: CacheRequest) -> u64 {
        self.last_tag += 1;
        self.outputs.push_back(CacheOutput::Submit(self.last_tag, request));
        self.last_tag
    }

    fn submit_jobs(&mut self) {
        let limit = self.config.max_requests.max(1);
        while self.is_connected && !self.is_pausing && self.under_way.len() < limit {
            let Some((path, part)) = self.jobs.begin_next() else { return };
            let watches = !self.is_persistent();
            let tag = self.submit(match part {
                Part::Data => CacheRequest::Data(path.clone(), watches),
                Part::Children => CacheRequest::Children(path.clone(), watches),
                Part::Existence => CacheRequest::Existence(path.clone()),
            });
            self.under_way.insert(tag, (path, part, self.walk));
        }
    }

    fn unwatch(&mut self, tag: u64) {
        if tag != 0 {
            self.outputs.push_back(CacheOutput::Unwatch(tag));
        }
    }

    fn handle_reply(&mut self, tag: u64, result: Result<Reply, Error>) {
        if tag == self.watch {
            return self.watch_set(result);
        }
        let Some((path, part, walk)) = self.under_way.remove(tag) else { return };
        // Else it was submitted for another connection.
        if walk != self.walk || !self.is_connected {
            return;
        }
        if let Err(error) = &result {
            if part != Part::Existence || error.code() != Some(ErrorCode::NO_NODE) {
                self.unwatch(tag);
            }
            match RetryPolicy::of(error) {
                // The next connection begins anew.
                RetryPolicy::Now => return self.disconnected(),
                RetryPolicy::Later => {
                    self.jobs.repeat(path, part);
                    return self.pause();
                }
                RetryPolicy::Never => {}
            }
        }
        let Some(job) = self.jobs.finish(&path, part) else { return };
        let handled = match part {
            Part::Data => self.read(tag, &path, job, result),
            Part::Children => self.listed(tag, &path, job, result),
            Part::Existence => self.looked(tag, result),
        };
        match handled {
            Ok(()) if job.is_outdated => self.want_again(&path, part),
            Ok(()) => {}
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: Error) {
        self.end(match error {
            Error::Ended { end, .. } => LockError::Ended(end),
            error => LockError::Request(error),
        });
    }

    fn watch_set(&mut self, result: Result<Reply, Error>) {
        let Err(error) = result else { return };
        self.unwatch(self.watch);
        self.watch = 0;
        match RetryPolicy::of(&error) {
            // The server, or a session without the feature `full`.
            _ if error.code() == Some(ErrorCode::UNIMPLEMENTED)
                || matches!(error, Error::Invalid(Invalid::Reserved(_))) =>
            {
                self.has_old_server = true;
                self.begin();
            }
            RetryPolicy::Now => self.disconnected(),
            RetryPolicy::Later => {
                self.is_walking = false;
                self.jobs.clear();
                self.pause();
            }
            RetryPolicy::Never => self.fail(error),
        }
    }

    fn resume(&mut self) {
        self.is_pausing = false;
        // The watch was refused for now.
        if self.is_connected && self.is_persistent() && self.watch == 0 {
            self.begin();
        }
    }

    fn pause(&mut self) {
        self.is_pausing = true;
        self.outputs.push_back(CacheOutput::SetTimer(RETRY_AFTER));
    }

    fn report(&mut self, event: CacheEvent) {
        self.outputs.push_back(CacheOutput::Event(event));
    }
}

zk_session::proto::formatted_by_debug! {
    [] CacheConfig;
    [] CacheEvent;
    [] CacheMachine;
    [] CacheOutput;
    [] CacheRequest;
    [] CacheState;
    [] CacheTree;
    [] CachedNode;
}

#[cfg(test)]
mod tests;
