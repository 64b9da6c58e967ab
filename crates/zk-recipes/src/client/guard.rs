//! A lock that is held.

#[cfg(feature = "full")]
mod full;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::iter;
use core::ops::Deref;
use core::pin::Pin;
use core::sync::atomic::{AtomicBool, Ordering};
use core::task::{Context, Poll, ready};
use std::time::Instant;

use zk_session::proto::{ErrorCode, Zxid, path};
use zk_session::{Attachment, End, Error, RequestError, Transaction};

use super::call::Call;
use super::deadlocks::Mark;
use super::local::SpecialHolder;
use super::pending::{Pending, Signal};
use super::status::{Handle, HeldNode, MachineReport, Status, WaitFor};
use crate::Client;
use crate::attempt::Command;
use crate::client::SessionClient;
use crate::client::session_client::{TimeLimit, unless};
use crate::error::{LockError, Loss, RecipeError, Unconfirmed};

/// The state of an acquired lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// The lock is held, as far as this client knows.
    Held,
    /// The connection is lost. The lock is probably held until the lease of the session ends. After
    /// that it is unknown.
    Suspended,
    /// The lock is no longer held.
    Lost(Loss),
}

/// A number that is greater than those of all earlier holders of a lock.
///
/// It has two parts, and the first one decides. Without
/// [local hand-over](crate::Options::local_hand_over), the second one is always 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(
    /// The transaction that created the lock node (its `czxid`).
    pub i64,
    /// Counts the holders of this process with this node, from 0.
    pub u32,
);

impl FencingToken {
    /// Returns the transaction that created the lock node.
    pub const fn zxid(self) -> Zxid {
        Zxid(self.0)
    }

    /// Returns how many holders of this process have had this node before.
    pub const fn turn(self) -> u32 {
        self.1
    }

    /// Returns both parts as one number. That of another client is its `czxid`, times 2³².
    pub const fn to_u128(self) -> u128 {
        (self.0.cast_unsigned() as u128) << 32 | self.1 as u128
    }
}

/// As a decimal number: `4294967302`, or `4294967302.0000000007` for the seventh turn after the
/// first. So it compares, as a number, with the `czxid` of another client.
impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(zxid, 0) => write!(f, "{zxid}"),
            Self(zxid, turn) => write!(f, "{zxid}.{turn:010}"),
        }
    }
}

/// A lock that is held, or permits of a semaphore. Dropped, it is released in the background.
///
/// ```no_run
/// # async fn work(token: zk_recipes::FencingToken) {}
/// # async fn example(guard: zk_recipes::Guard) {
/// tokio::select! {
///     () = work(guard.fencing_token()) => drop(guard),
///     loss = guard.lost() => eprintln!("lost: {loss}"), // The work ended at its last `await`.
/// }
/// # }
/// ```
///
/// `let _ = mutex.acquire().await?;` drops it at once. Bind it to a name, or let
/// [`Pending::run`] hold it for as long as some work lasts.
///
/// For permits, the node and the fencing token are those of the first one. One transaction creates
/// all nodes, and the loss of one permit is the loss of all. Acquire permits one by one if you
/// release them one by one.
#[doc(alias("HeldLock", "MutexGuard", "PermitGuard"))]
#[must_use = "a guard that is dropped releases its lock"]
pub struct Guard<C = Client> {
    client: C,
    /// The path of the lock.
    path: Arc<str>,
    parent: Arc<str>,
    node: HeldNode,
    handle: Holder,
}

/// The node of a guard. Dropping it releases the lock.
enum Holder {
    Own(Handle),
    Special(Box<SpecialHolder>),
}

impl Holder {
    fn special(&self) -> Option<&SpecialHolder> {
        match self {
            Self::Own(_) => None,
            Self::Special(holder) => Some(&**holder),
        }
    }

    /// Returns the node, which the caller releases. `None` if others have it.
    fn end(self) -> Option<Handle> {
        match self {
            Self::Own(handle) => Some(handle),
            Self::Special(holder) => holder.end(),
        }
    }
}

impl Deref for Holder {
    type Target = Handle;

    fn deref(&self) -> &Handle {
        match self {
            Self::Own(handle) => handle,
            Self::Special(holder) => holder.handle(),
        }
    }
}

impl<C: SessionClient> fmt::Debug for Guard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard")
            .field("node", &self.node_path())
            .field("token", &self.fencing_token().0)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl<C: SessionClient> Guard<C> {
    pub(crate) fn new(
        client: C,
        path: Arc<str>,
        parent: Arc<str>,
        node: HeldNode,
        handle: Handle,
    ) -> Self {
        Self { client, path, parent, node, handle: Holder::Own(handle) }
    }

    /// Creates a guard that does not have a node of its own.
    pub(crate) fn of_holder(
        client: C,
        path: Arc<str>,
        node: HeldNode,
        holder: Box<SpecialHolder>,
    ) -> Self {
        Self { client, parent: path.clone(), path, node, handle: Holder::Special(holder) }
    }

    /// Remembers the owner.
    pub(crate) fn of_owner(self, mark: Option<Mark>) -> Self {
        let handle = match (self.handle, mark) {
            (Holder::Own(handle), Some(mark)) => Holder::Special(mark.hold(handle)),
            (handle, _) => handle,
        };
        Self { handle, ..self }
    }

    /// Returns the node, which the caller releases. `None` if others have it.
    pub(crate) fn into_node(self) -> (HeldNode, Option<Handle>) {
        (self.node, self.handle.end())
    }

    /// Returns the fencing token, which is greater than that of any earlier holder of this lock. A
    /// resource that remembers the greatest token it has seen, and refuses smaller ones, is safe
    /// from holders that have lost the lock and do not know it yet.
    ///
    /// With [local hand-over](crate::Options::local_hand_over), a resource compares both parts of
    /// it: [`to_u128`](FencingToken::to_u128) is one number, and it prints as one.
    ///
    /// After the ensemble was wiped or restored from a backup, tokens may be smaller: reset what the
    /// resource remembers before the servers start again.
    ///
    /// It is the transaction that created the lock node (its `czxid`). It compares with tokens of
    /// the same ensemble only. It does not order those that hold a lock together, as readers do.
    ///
    /// Hand out the number `.0` in decimal, as `zk-lock`, log lines and the examples do. Every
    /// language reads it, and shells compare it with `-lt`. Compare it as a number of 64 bits, not as
    /// text. A [`Zxid`] itself prints in hexadecimal, as ZooKeeper prints zxids.
    pub fn fencing_token(&self) -> FencingToken {
        FencingToken(self.node.token.0, self.handle.special().map_or(0, |holder| holder.turn()))
    }

    /// Returns the current state, as far as this client knows.
    ///
    /// It compares the lease of the session with the session's clock. So by the default
    /// [policy](crate::DisconnectPolicy), the lock is reported lost as soon as the lease ends, even
    /// if the runtime is blocked or the process was stopped. Once reported lost, it stays lost.
    pub fn state(&self) -> Holding {
        self.handle.command(Command::CheckLease);
        self.handle.status.read(holding)
    }

    /// Returns whether the lock is lost; see [`state`](Self::state).
    pub fn is_lost(&self) -> bool {
        matches!(self.state(), Holding::Lost(_))
    }

    /// Waits until the lock is lost, and returns why. If the lock is released, it returns
    /// [`Loss::Released`], before the servers know of the release.
    ///
    /// The lock is lost when its session ends, when its node is deleted, or when the
    /// [policy](crate::Options::disconnect_policy) says so. With
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports), it never returns while
    /// there is no connection.
    ///
    /// The runtime of an async client wakes it. While that runtime is blocked,
    /// [`state`](Self::state) reports the loss sooner.
    pub fn lost(&self) -> Signal<Loss, C> {
        Signal::new(&self.client, self.losing())
    }

    /// Runs a callback once, when the lock is lost. It is dropped instead when the lock is released,
    /// here or by another guard of a [`ReentrantMutex`](crate::ReentrantMutex).
    ///
    /// If the lock is lost already, the callback runs before this method returns. Otherwise it runs
    /// soon after the loss is noticed, in a thread of the lock's own, so it may block and use the
    /// client. If the system has no thread left, it runs in one that uses the session. In a program
    /// with tokio, it may spawn tasks.
    ///
    /// The callbacks of one lock run one at a time, in the order in which they were added. If one
    /// panics, the others still run.
    pub fn on_lost(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        self.state();
        let callback = match self.handle.special() {
            None => Box::new(callback),
            Some(holder) => holder.until_end(Box::new(callback)),
        };
        if let Some((callback, loss)) = self.handle.status.on_loss(callback) {
            callback(loss);
        }
    }

    /// Releases the lock and waits until the next contender can have it. Without a server it waits
    /// until the end of the session's lease at most.
    ///
    /// The release begins at the call. Dropping the returned value changes nothing.
    ///
    /// If the lock is [passed on](crate::Options::local_hand_over) within this process, or its node
    /// is still held by other readers of it, there is nothing to confirm, and nothing to wait for.
    ///
    /// # Errors
    ///
    /// [`Lost`](LockError::Lost) when the lock had been lost before.
    /// [`NotConfirmed`](LockError::NotConfirmed) when no server has confirmed the release: the lock
    /// is no longer held here, and its node is deleted in the background or with the session.
    pub fn release(self) -> Pending<(), C> {
        let (client, path) = (self.client.clone(), self.path.clone());
        let state = self.handle.status.read(holding);
        match (self.into_node().1, state) {
            (Some(handle), _) => Pending::release(client, Releasing::new(path, &handle)),
            (None, Holding::Lost(loss)) => {
                let error = RecipeError::new("release", &path, LockError::Lost(loss));
                Pending::done(client, Err(error))
            }
            (None, _) => Pending::done(client, Ok(())),
        }
    }

    /// Begins a transaction that is applied only if the lock node still exists. So none is applied
    /// once the ensemble has given the lock to another contender.
    ///
    /// The first operation of the transaction, number 0, is that check. If it fails with
    /// [`NO_NODE`](ErrorCode::NO_NODE), the lock is lost. Several permits have one check each.
    pub fn transaction(&self) -> Transaction<'_, C> {
        check(&self.client, &self.node_paths())
    }

    /// Asks a quorum of the ensemble whether the lock is still held. If this succeeds, it was held
    /// when the server answered. A connection, or a read, proves less.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is no longer held. Without a server, it is returned when the
    /// lease ends, unless the policy is
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports). After any other error
    /// it is unknown whether the lock is held.
    pub fn validate(&self) -> Pending<(), C> {
        let (client, nodes, losing) = (self.client.clone(), self.node_paths(), self.losing());
        Pending::within(self.call("validate"), async move {
            match unless(losing, C::commit(check(&client, &nodes))).await {
                Ok(checked) => checked.map(drop).map_err(not_validated),
                Err(loss) => Err(LockError::Lost(loss)),
            }
        })
    }

    /// Returns the end of the session's lease: until then the ensemble must keep the session, and
    /// with it the lock. See `lease` of the client. `None` if the lock
    /// is lost.
    ///
    /// Call this again each time: after a suspension of the machine, earlier results are too late.
    ///
    /// Other systems delay the next holder after a crash (lock-delay). Here the holder takes the time
    /// off: to let requests that take effect within `d` come before those of the next holder, begin
    /// none later than `d` before this instant.
    pub fn lease(&self) -> Option<Instant> {
        self.client.lease_end().filter(|_| !self.is_lost())
    }

    /// Waits until another client asks for the lock. Never returns for locks that are not
    /// [revocable](crate::Options::revocable).
    pub fn revoked(&self) -> Signal<(), C> {
        let revoked =
            self.handle.status.wait(|report: &mut MachineReport| report.revoked.then_some(()));
        Signal::new(&self.client, async {
            if revoked.await.is_none() {
                core::future::pending::<()>().await;
            }
        })
    }

    /// Returns the parent of the lock node, which is the path of most locks.
    pub fn lock_path(&self) -> &str {
        &self.parent
    }

    /// Returns the name of the lock node below its parent.
    pub fn node(&self) -> &str {
        &self.node.name
    }

    /// Returns the path of the lock node.
    pub fn node_path(&self) -> String {
        self.path_of(&self.node.name)
    }

    /// The operation and path that its errors name.
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    fn path_of(&self, node: &str) -> String {
        path::child(&self.parent, node)
    }

    /// Returns the nodes that exist while the lock is held.
    pub(crate) fn node_paths(&self) -> Vec<String> {
        let others = self.node.leases.iter().skip(1);
        let names = iter::once(&self.node.name).chain(others);
        names.map(|name| self.path_of(name)).collect()
    }

    /// Waits until the lock is lost.
    pub(crate) fn losing(&self) -> Losing {
        let (status, attachment) = (&self.handle.status, &self.handle.attachment);
        let ended = self.handle.special().and_then(|holder| holder.signal());
        let lost = status.wait(loss as fn(&mut MachineReport) -> _);
        Losing { lost, attachment: attachment.clone(), ended }
    }

    /// Begins the release.
    pub(crate) fn releasing(self) -> Releasing {
        Releasing::new(self.path, &self.handle)
    }
}

/// Begins a transaction with a check of each of these nodes.
pub(crate) fn check<'a, C: SessionClient>(client: &'a C, nodes: &[String]) -> Transaction<'a, C> {
    nodes.iter().fold(client.transaction(), |checks, node| checks.check(node, None))
}

/// Waits until a lock is lost.
pub(crate) struct Losing {
    lost: WaitFor<fn(&mut MachineReport) -> Option<Loss>>,
    attachment: Attachment,
    /// Whether the turn has ended.
    ended: Option<Arc<AtomicBool>>,
}

impl Future for Losing {
    type Output = Loss;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Loss> {
        if !self.attachment.command(&mut Command::CheckLease) && self.attachment.is_forked() {
            return Poll::Ready(Loss::Ended(End::Forked));
        }
        let lost = Pin::new(&mut self.lost).poll(cx);
        match &self.ended {
            Some(ended) if ended.load(Ordering::Acquire) => Poll::Ready(Loss::Released),
            _ => lost.map(|loss| loss.unwrap_or(CLOSED)),
        }
    }
}

/// Waits until a lock is no longer held.
pub(crate) struct Releasing {
    released: WaitFor<fn(&mut MachineReport) -> Option<Status>>,
    path: Arc<str>,
}

impl Releasing {
    /// The release begins when the handle is dropped.
    fn new(path: Arc<str>, handle: &Handle) -> Self {
        handle.check_process();
        Self { released: handle.status.wait(over as fn(&mut MachineReport) -> _), path }
    }

    pub(crate) fn poll<C: SessionClient>(
        &mut self,
        client: &C,
        limit: &mut TimeLimit,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), RecipeError>> {
        let released = match Pin::new(&mut self.released).poll(cx) {
            Poll::Ready(over) => released(over),
            Poll::Pending => {
                ready!(limit.poll(client, cx));
                Err(LATE)
            }
        };
        Poll::Ready(released.map_err(|error| RecipeError::new("release", &self.path, error)))
    }
}

/// The time limit has passed before the confirmation.
const LATE: LockError = LockError::NotConfirmed(Unconfirmed::TimedOut);

/// Returns why the lock was lost, once it is.
pub(crate) fn loss(report: &mut MachineReport) -> Option<Loss> {
    match holding(report) {
        Holding::Lost(loss) => Some(loss),
        Holding::Held | Holding::Suspended => None,
    }
}

/// Returns the last status, once it is known.
fn over(report: &mut MachineReport) -> Option<Status> {
    report.status.is_over().then(|| report.status.clone())
}

/// The result of a release. `None` if the machine has ended without one.
fn released(over: Option<Status>) -> Result<(), LockError> {
    match over {
        Some(Status::Failed(error)) => Err(error),
        Some(Status::Lost(loss)) => Err(LockError::Lost(loss)),
        Some(_) => Ok(()),
        // The runtime was shut down.
        None => Err(LockError::NotConfirmed(Unconfirmed::Ended(End::Closed))),
    }
}

/// The loss if the client has ended without reporting one, as when its runtime is shut down.
const CLOSED: Loss = Loss::Ended(End::Closed);

/// Converts the error of a transaction that consists of checks only.
pub(crate) fn not_validated(error: RequestError) -> LockError {
    match error.reason {
        Error::Transaction { code: ErrorCode::NO_NODE, .. } => LockError::Lost(Loss::NodeDeleted),
        error => error.into(),
    }
}

pub(crate) const fn holding(report: &MachineReport) -> Holding {
    match &report.status {
        Status::Held | Status::Suspended if report.is_final => Holding::Lost(CLOSED),
        Status::Held => Holding::Held,
        Status::Suspended => Holding::Suspended,
        Status::Lost(loss) => Holding::Lost(*loss),
        // Only after the guard has been released.
        Status::Releasing | Status::Released | Status::Failed(_) => Holding::Lost(Loss::Released),
    }
}
