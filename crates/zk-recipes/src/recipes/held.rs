//! A held lock.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::time::Instant;

use zk_session::proto::{ErrorCode, Zxid, path};
use zk_session::{Attachment, End, Error, RequestError, State, Transaction};

use super::SessionClient;
use super::call::Call;
use super::client::{before, unless};
use super::macros::methods;
use super::status::{Handle, HeldNode, Report, SharedStatus, Status, WaitFor};
use crate::error::{LockError, Loss, RecipeError, Unconfirmed};
use crate::machine::Command;
#[cfg(feature = "conversions")]
use crate::machine::LockMode;

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

/// A held lock, with everything that all guards have in common.
pub struct HeldLock<C> {
    client: C,
    /// The path of the lock.
    path: Arc<str>,
    parent: Arc<str>,
    node: HeldNode,
    handle: Handle,
}

impl<C: SessionClient> fmt::Debug for HeldLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("node", &self.node_path())
            .field("token", &self.fencing_token().0)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl<C: SessionClient> HeldLock<C> {
    pub(super) fn new(
        client: C,
        path: Arc<str>,
        parent: Arc<str>,
        node: HeldNode,
        handle: Handle,
    ) -> Self {
        Self { client, path, parent, node, handle }
    }

    /// The operation and path that its errors name.
    pub(super) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Returns the fencing token, which is greater than that of any earlier holder of this lock. A
    /// resource that remembers the greatest token it has seen, and refuses smaller ones, is safe
    /// from holders that have lost the lock and do not know it yet.
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
    pub fn fencing_token(&self) -> Zxid {
        self.node.token
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

    fn path_of(&self, node: &str) -> String {
        path::child(&self.parent, node)
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

    /// Runs a callback once, when the lock is lost. It does not run when the lock is released.
    ///
    /// If the lock is lost already, the callback runs before this method returns. Otherwise it runs
    /// soon after the loss is noticed: with the async client in a task that uses the session, so it
    /// must not block; with the blocking client in a thread for callbacks. It may use the client.
    ///
    /// Callbacks run one at a time, those of one lock in the order in which they were added. If one
    /// panics, the others still run.
    pub fn on_lost(&self, callback: impl FnOnce(Loss) + Send + 'static) {
        self.state();
        if let Some((callback, loss)) = self.handle.status.on_loss(Box::new(callback)) {
            callback(loss);
        }
    }

    /// Begins a transaction that is applied only if the lock node still exists. So none is applied
    /// once the ensemble has given the lock to another contender.
    ///
    /// The first operation of the transaction, number 0, is that check. If it fails with
    /// [`NO_NODE`](ErrorCode::NO_NODE), the lock is lost. Several permits have one check each.
    pub fn transaction(&self) -> Transaction<'_, C> {
        self.check(self.client.transaction())
    }

    /// Adds the check that the lock is still held.
    pub(super) fn check<'a>(&self, transaction: Transaction<'a, C>) -> Transaction<'a, C> {
        let transaction = transaction.check(&self.node_path(), None);
        let others = self.node.leases.iter().skip(1);
        others.fold(transaction, |checks, lease| checks.check(&self.path_of(lease), None))
    }

    /// Returns the number of those checks.
    pub(super) fn checks(&self) -> usize {
        self.node.leases.len().max(1)
    }

    pub(crate) fn client(&self) -> &C {
        &self.client
    }

    /// Waits until the lock is lost.
    pub(crate) fn losing(&self) -> Losing {
        let (status, attachment) = (&self.handle.status, &self.handle.attachment);
        Losing { lost: status.wait(loss as fn(&mut Report) -> _), attachment: attachment.clone() }
    }

    /// Waits until another client asks for the lock. Returns `false` if that can no longer happen.
    pub(crate) fn revoking(&self) -> impl Future<Output = bool> + Send + use<C> {
        let revoked = self.handle.status.wait(|report: &mut Report| report.revoked.then_some(()));
        async { revoked.await.is_some() }
    }

    /// Begins the release. The future waits for its confirmation.
    pub(super) fn release(
        self,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        let Self { path, handle, .. } = self;
        handle.check_process();
        let status = handle.status.clone();
        drop(handle);
        async move {
            let released = confirmed::<C>(end, &status).await;
            released.map_err(|error| RecipeError::new("release", &path, error))
        }
    }

    /// Releases the lock when the recipe allows it, or at once if the future is dropped.
    pub(super) fn leave(
        self,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        self.handle.command(Command::Leave);
        async move {
            let left = confirmed::<C>(end, &self.handle.status).await;
            let is_connected = matches!(self.client.state(), State::Connected { .. });
            let left = left.map_err(|error| match error {
                LockError::NotConfirmed(Unconfirmed::TimedOut) if is_connected => {
                    LockError::OthersInside
                }
                error => error,
            });
            left.map_err(|error| self.call("leave").failed(error))
        }
    }

    /// Changes the mode of the lock. On failure it is held as before, or lost.
    #[cfg(feature = "conversions")]
    pub(super) async fn convert(
        &mut self,
        operation: &'static str,
        mode: LockMode,
    ) -> Result<(), RecipeError> {
        self.handle.command(Command::Convert(mode));
        let converted = self.handle.status.wait(converted).await;
        let converted = converted.flatten().unwrap_or_else(|| Err(self.lost_error()));
        self.node = converted.map_err(|error| self.call(operation).failed(error))?;
        Ok(())
    }

    async fn validated(&self) -> Result<(), RecipeError> {
        let validated = match unless(self.losing(), C::commit(self.transaction())).await {
            Ok(checked) => checked.map(drop).map_err(not_validated),
            Err(loss) => Err(LockError::Lost(loss)),
        };
        validated.map_err(|error| self.call("validate").failed(error))
    }

    fn lost_error(&self) -> LockError {
        match self.state() {
            Holding::Lost(loss) => LockError::Lost(loss),
            // The runtime was shut down.
            Holding::Held | Holding::Suspended => LockError::Ended(End::Closed),
        }
    }
}

methods! { HeldLock:
    /// Asks a quorum of the ensemble whether the lock is still held. If this succeeds, it was held
    /// when the server answered. A connection, or a read, proves less.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] if the lock is no longer held. Without a server, it is returned when the
    /// lease ends, unless the policy is
    /// [`UntilServerReports`](crate::DisconnectPolicy::UntilServerReports). After any other error
    /// it is unknown whether the lock is held.
    request fn validate [] (&self) -> Result<(), RecipeError> {
        self.validated()
    }
}

/// Waits until a lock is lost.
pub(crate) struct Losing {
    lost: WaitFor<fn(&mut Report) -> Option<Loss>>,
    attachment: Attachment,
}

impl Future for Losing {
    type Output = Loss;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Loss> {
        if !self.attachment.command(&mut Command::CheckLease) && self.attachment.is_forked() {
            return Poll::Ready(Loss::Ended(End::Forked));
        }
        Pin::new(&mut self.lost).poll(cx).map(|loss| loss.unwrap_or(CLOSED))
    }
}

/// Waits until the lock is no longer held, or until `end`.
async fn confirmed<C: SessionClient>(
    end: Option<Instant>,
    status: &Arc<SharedStatus>,
) -> Result<(), LockError> {
    match before::<C, _>(end, status.wait(over)).await {
        Some(over) => released(over),
        None => Err(LockError::NotConfirmed(Unconfirmed::TimedOut)),
    }
}

/// The result of a conversion. `None` if the lock was lost instead.
type Converted = Option<Result<HeldNode, LockError>>;

/// Returns the result of a conversion, once it is reported.
fn converted(report: &mut Report) -> Option<Converted> {
    match report.acquired.take() {
        // Then the conversion cannot succeed.
        None if !report.status.is_open() => Some(None),
        result => result.map(Some),
    }
}

/// Returns why the lock was lost, once it is.
pub(super) fn loss(report: &mut Report) -> Option<Loss> {
    match holding(report) {
        Holding::Lost(loss) => Some(loss),
        Holding::Held | Holding::Suspended => None,
    }
}

/// Returns the last status, once it is known.
fn over(report: &mut Report) -> Option<Status> {
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
pub(super) fn not_validated(error: RequestError) -> LockError {
    match error.reason {
        Error::Transaction { code: ErrorCode::NO_NODE, .. } => LockError::Lost(Loss::NodeDeleted),
        error => error.into(),
    }
}

const fn holding(report: &Report) -> Holding {
    match &report.status {
        Status::Held | Status::Suspended if report.is_final => Holding::Lost(CLOSED),
        Status::Held => Holding::Held,
        Status::Suspended => Holding::Suspended,
        Status::Lost(loss) => Holding::Lost(*loss),
        // Only after the guard has been released.
        Status::Releasing | Status::Released | Status::Failed(_) => Holding::Lost(Loss::Released),
    }
}
