//! The async client: a thin face on [`Session`](crate::session::Session).

mod builder;
mod transaction;
mod watch;

use alloc::borrow::Cow;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll};

use bytes::Bytes;
use tokio::sync::{oneshot, watch as watch_channel};
use tokio::time::Instant;
use zk_proto::{
    Acl, Create2Response, CreateMode, CreateRequest, DeleteRequest, ErrorCode, ExistsRequest,
    ExistsResponse, GetChildren2Response, GetChildrenRequest, GetDataRequest, GetDataResponse,
    OpCode, Request, SessionId, SetDataRequest, SetDataResponse, Stat, SyncRequest, path,
};

pub use self::builder::{ClientBuilder, ConnectError};
pub use self::transaction::{Transaction, TransactionResult};
pub use self::watch::Watch;
use crate::chroot::Chroot;
use crate::connect_string::Member;
use crate::driver::Shared;
use crate::error::{Error, Outcome};
use crate::session::{End, Reply, State, Statistics};

/// A session with an ensemble, kept alive across its members. Cloning it is cheap; when the last
/// clone is dropped, the session is closed in the background.
///
/// # Ordering
///
/// Requests reach the server in the order in which the methods were *called*, not in which their
/// futures are awaited; many can be under way at once. Answers, and events of watches, become
/// ready in the order in which the server sent them.
///
/// # Cancellation
///
/// Dropping a future drops the answer. The request may still be applied.
///
/// # Loss of connection
///
/// Requests that no server can have seen wait for the next connection. Those that one may have
/// seen fail with [`Error::ConnectionLost`]. [`Error::outcome`] tells for every error whether the
/// request may have been applied.
#[derive(Clone, Debug)]
pub struct Client {
    handle: Arc<Handle>,
    chroot: Arc<Chroot>,
}

/// Shared by all clones of a client, and by nothing else: its end is the end of the session.
#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        close(&self.shared);
    }
}

fn close(shared: &Shared) {
    let mut inner = shared.lock();
    inner.session.close();
    inner.wake_driver();
}

impl Client {
    fn new(shared: Arc<Shared>, chroot: Chroot) -> Self {
        Self { handle: Arc::new(Handle { shared }), chroot: Arc::new(chroot) }
    }

    /// Connects with default settings to an ensemble: `host:port,host:port/chroot`.
    ///
    /// # Errors
    ///
    /// When the address is invalid or no member can be reached in time.
    pub async fn connect(at: &str) -> Result<Self, ConnectError> {
        Self::builder(at).connect().await
    }

    /// Settings for a connection to an ensemble: `host:port,host:port/chroot`.
    pub fn builder(at: &str) -> ClientBuilder {
        ClientBuilder::new(at)
    }

    // ---- The session ---------------------------------------------------------------------------

    /// How things stand now.
    pub fn state(&self) -> State {
        self.handle.shared.lock().session.state()
    }

    /// How things stand, as it changes. Short-lived states can be skipped; the last is not.
    pub fn states(&self) -> watch_channel::Receiver<State> {
        self.handle.shared.states.subscribe()
    }

    /// The session.
    pub fn session_id(&self) -> SessionId {
        self.handle.shared.lock().session.id()
    }

    /// The session timeout that the server granted.
    pub fn session_timeout(&self) -> core::time::Duration {
        self.handle.shared.lock().session.timeout()
    }

    /// Until when the ensemble is bound to keep the session, as far as can be known here; see
    /// [`Session::lease`](crate::session::Session::lease).
    pub fn lease(&self) -> Option<Instant> {
        let lease = self.handle.shared.lock().session.lease()?;
        Some(self.handle.shared.std_instant(lease))
    }

    /// What was sent and received so far.
    pub fn statistics(&self) -> Statistics {
        self.handle.shared.lock().session.statistics()
    }

    /// The members, in the order of the connection string; [`State::Connected`] counts them so.
    pub fn members(&self) -> &[Member] {
        &self.handle.shared.members
    }

    /// The directory that this client takes for the root.
    pub fn chroot(&self) -> &Chroot {
        &self.chroot
    }

    /// Ends the session, behind all requests made before, and waits for its end. The server
    /// deletes its ephemeral nodes. All clones of this client find it closed.
    ///
    /// Without a connection it does not wait for one; the server then finds out by itself, after
    /// the session timeout.
    pub async fn close(self) {
        close(&self.handle.shared);
        self.ended().await;
    }

    /// Waits for the end of the session.
    pub async fn ended(&self) -> End {
        let mut states = self.states();
        let ended = states.wait_for(|state| matches!(state, State::Ended(_))).await;
        match ended.as_deref() {
            Ok(State::Ended(end)) => *end,
            // The driver is gone, and the runtime with it.
            _ => End::Closed,
        }
    }

    // ---- Any operation -------------------------------------------------------------------------

    /// Sends any request as it is: paths are not checked, and are the server's, whatever the
    /// [`chroot`](Self::chroot).
    pub fn submit(&self, request: &Request<'_>) -> Answer {
        let shared = &self.handle.shared;
        let (sender, receiver) = oneshot::channel();
        let mut inner = shared.lock();
        let submitted = inner.session.submit(request, sender);
        inner.wake_driver();
        drop(inner);
        Answer { state: submitted.map(|_| receiver) }
    }

    /// As [`submit`](Self::submit), for a request that asks for a watch. If the request fails in
    /// a way that sets none, the watch is to be dropped.
    pub fn submit_and_watch(&self, request: &Request<'_>) -> (Answer, Option<Watch>) {
        let shared = &self.handle.shared;
        let (sender, receiver) = oneshot::channel();
        let (fire, event) = oneshot::channel();
        let mut inner = shared.lock();
        let submitted = inner.session.submit(request, sender);
        if let Ok(request) = submitted {
            inner.watches.insert(request, fire);
        }
        inner.wake_driver();
        drop(inner);
        let watch = submitted
            .as_ref()
            .ok()
            .map(|request| Watch::new(*request, event, shared.clone(), self.chroot.clone()));
        (Answer { state: submitted.map(|_| receiver) }, watch)
    }

    // ---- Nodes ---------------------------------------------------------------------------------

    /// Creates a node that is open to everybody: its path, with a sequence number if the mode is
    /// sequential, and its stat.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NODE_EXISTS`]; [`ErrorCode::NO_NODE`] when the parent is missing;
    /// [`ErrorCode::NO_CHILDREN_FOR_EPHEMERALS`]. After [`Error::ConnectionLost`] the node may
    /// exist; a sequential one is then only found by a name that nobody else uses.
    pub fn create(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
    ) -> impl Future<Output = Result<(String, Stat), Error>> + Send + use<> {
        self.create_with_acl(path, data, mode, &[Acl::OPEN])
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    ///
    /// As [`create`](Self::create), and [`ErrorCode::INVALID_ACL`].
    pub fn create_with_acl(
        &self,
        path: &str,
        data: &[u8],
        mode: CreateMode,
        acl: &[Acl<'_>],
    ) -> impl Future<Output = Result<(String, Stat), Error>> + Send + use<> {
        let answer = self.server_path_to_create(path, mode).map(|path| {
            let body = CreateRequest { path: &path, data: Some(data), acl: acl.into(), mode };
            self.submit(&match create_opcode(mode) {
                OpCode::CREATE_CONTAINER => Request::CreateContainer(body),
                _ => Request::Create2(body),
            })
        });
        let chroot = self.chroot.clone();
        async move {
            let reply = answer?.await?;
            let Create2Response { path, stat } = reply.decode()?;
            Ok((chroot.strip(path).unwrap_or(path).to_string(), stat))
        }
    }

    /// Deletes a node, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], [`ErrorCode::BAD_VERSION`], [`ErrorCode::NOT_EMPTY`].
    pub fn delete(
        &self,
        path: &str,
        version: Option<i32>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let version = any_version(version);
        let answer = self
            .server_path(path)
            .map(|path| self.submit(&Request::Delete(DeleteRequest { path: &path, version })));
        async move { answer?.await.map(drop) }
    }

    /// A node's stat, or `None` if there is no such node.
    pub fn exists(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<Option<Stat>, Error>> + Send + use<> {
        let answer = self
            .server_path(path)
            .map(|path| self.submit(&Request::Exists(ExistsRequest { path: &path, watch: false })));
        async move { stat_if_exists(answer?.await) }
    }

    /// As [`exists`](Self::exists), with a watch that fires when the node is created, changed or
    /// deleted.
    pub fn exists_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Option<Stat>, Watch), Error>> + Send + use<> {
        let answer = self.server_path(path).and_then(|path| {
            self.watched(&Request::Exists(ExistsRequest { path: &path, watch: true }))
        });
        async move {
            let (answer, watch) = answer?;
            Ok((stat_if_exists(answer.await)?, watch))
        }
    }

    /// A node's data and stat.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`].
    pub fn get_data(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Bytes, Stat), Error>> + Send + use<> {
        let answer = self.server_path(path).map(|path| {
            self.submit(&Request::GetData(GetDataRequest { path: &path, watch: false }))
        });
        async move { data_and_stat(&answer?.await?) }
    }

    /// As [`get_data`](Self::get_data), with a watch that fires when the node is changed or
    /// deleted. There is none if the node does not exist.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`].
    pub fn get_data_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Bytes, Stat, Watch), Error>> + Send + use<> {
        let answer = self.server_path(path).and_then(|path| {
            self.watched(&Request::GetData(GetDataRequest { path: &path, watch: true }))
        });
        async move {
            let (answer, watch) = answer?;
            let (data, stat) = data_and_stat(&answer.await?)?;
            Ok((data, stat, watch))
        }
    }

    /// Replaces a node's data, if it has this version, or whatever version it has.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`], [`ErrorCode::BAD_VERSION`].
    pub fn set_data(
        &self,
        path: &str,
        data: &[u8],
        version: Option<i32>,
    ) -> impl Future<Output = Result<Stat, Error>> + Send + use<> {
        let version = any_version(version);
        let answer = self.server_path(path).map(|path| {
            self.submit(&Request::SetData(SetDataRequest {
                path: &path,
                data: Some(data),
                version,
            }))
        });
        async move { Ok(answer?.await?.decode::<SetDataResponse>()?.stat) }
    }

    /// The names of a node's children, in no order, and its stat.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`].
    pub fn get_children(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat), Error>> + Send + use<> {
        let answer = self.server_path(path).map(|path| {
            self.submit(&Request::GetChildren2(GetChildrenRequest { path: &path, watch: false }))
        });
        async move { children_and_stat(&answer?.await?) }
    }

    /// As [`get_children`](Self::get_children), with a watch that fires when a child is created
    /// or deleted, or the node itself is deleted.
    ///
    /// # Errors
    ///
    /// [`ErrorCode::NO_NODE`].
    pub fn get_children_and_watch(
        &self,
        path: &str,
    ) -> impl Future<Output = Result<(Vec<String>, Stat, Watch), Error>> + Send + use<> {
        let answer = self.server_path(path).and_then(|path| {
            self.watched(&Request::GetChildren2(GetChildrenRequest { path: &path, watch: true }))
        });
        async move {
            let (answer, watch) = answer?;
            let (children, stat) = children_and_stat(&answer.await?)?;
            Ok((children, stat, watch))
        }
    }

    /// Waits until the member has caught up with what the leader had committed; reads that follow
    /// see at least that. It is not a quorum operation (ZOOKEEPER-1675).
    pub fn sync(&self, path: &str) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let answer = self
            .server_path(path)
            .map(|path| self.submit(&Request::Sync(SyncRequest { path: &path })));
        async move { answer?.await.map(drop) }
    }

    /// Several writes, all or none.
    pub fn transaction(&self) -> Transaction<'_> {
        Transaction::new(self)
    }

    fn server_path<'p>(&self, path: &'p str) -> Result<Cow<'p, str>, Error> {
        path::validate(path)?;
        Ok(self.chroot.apply(path))
    }

    fn server_path_to_create<'p>(
        &self,
        path: &'p str,
        mode: CreateMode,
    ) -> Result<Cow<'p, str>, Error> {
        if !mode.is_sequential() {
            return self.server_path(path);
        }
        path::validate_sequential(path)?;
        Ok(match (path, self.chroot.apply(path)) {
            // A number alone as the name, directly below the chroot.
            ("/", root) if root != "/" => Cow::Owned(root.into_owned() + "/"),
            (_, path) => path,
        })
    }

    fn watched(&self, request: &Request<'_>) -> Result<(Answer, Watch), Error> {
        match self.submit_and_watch(request) {
            (answer, Some(watch)) => Ok((answer, watch)),
            (answer, None) => Err(answer.into_error()),
        }
    }
}

/// The answer to a request, once it arrives.
#[derive(Debug)]
#[must_use = "the request is under way; only its answer is still to be awaited"]
pub struct Answer {
    state: Result<oneshot::Receiver<Result<Reply, Error>>, Error>,
}

impl Answer {
    fn into_error(self) -> Error {
        self.state.err().unwrap_or(GONE)
    }
}

/// The runtime was shut down under the session.
const GONE: Error = Error::Ended { end: End::Closed, outcome: Outcome::Unknown };

impl Future for Answer {
    type Output = Result<Reply, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match &mut self.state {
            Ok(receiver) => Pin::new(receiver).poll(cx).map(|answer| answer.unwrap_or(Err(GONE))),
            Err(error) => Poll::Ready(Err(error.clone())),
        }
    }
}

fn any_version(version: Option<i32>) -> i32 {
    version.unwrap_or(-1)
}

/// Containers have an operation of their own; servers take the mode of any other.
fn create_opcode(mode: CreateMode) -> OpCode {
    match mode {
        CreateMode::CONTAINER => OpCode::CREATE_CONTAINER,
        _ => OpCode::CREATE2,
    }
}

fn stat_if_exists(answer: Result<Reply, Error>) -> Result<Option<Stat>, Error> {
    match answer {
        Ok(reply) => Ok(Some(reply.decode::<ExistsResponse>()?.stat)),
        Err(Error::Server(ErrorCode::NO_NODE)) => Ok(None),
        Err(error) => Err(error),
    }
}

fn data_and_stat(reply: &Reply) -> Result<(Bytes, Stat), Error> {
    let GetDataResponse { data, stat } = reply.decode()?;
    Ok((data.map_or(Bytes::new(), |data| reply.body.slice_ref(data)), stat))
}

fn children_and_stat(reply: &Reply) -> Result<(Vec<String>, Stat), Error> {
    let GetChildren2Response { children, stat } = reply.decode()?;
    Ok((children.iter().map(ToString::to_string).collect(), stat))
}
