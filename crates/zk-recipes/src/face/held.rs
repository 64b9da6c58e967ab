//! A lock that is held.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;

use zk_session::proto::{ErrorCode, Zxid, path};
use zk_session::{End, Error, RequestError, Transaction};

use crate::error::{LockError, Loss, RecipeError, Unconfirmed};
use crate::face::SessionClient;
use crate::face::call::Call;
use crate::face::status::{Handle, Place, Report, SharedStatus, Status};
use crate::machine::Command;

/// How things stand with a lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// It is held, as far as is known.
    Held,
    /// The connection is lost. The lock is probably still held, until the
    /// lease of the session ends; after that, nothing is sure.
    Suspended,
    /// It is not held any more.
    Lost(Loss),
}

/// What every guard reports of the lock that it holds, whatever the client: `Held` is that of
/// the async client, `blocking::Held` that of the blocking one.
pub struct HeldLock<C> {
    client: C,
    /// The path of the lock.
    path: Arc<str>,
    directory: Arc<str>,
    place: Place,
    handle: Handle,
}

impl<C: SessionClient> fmt::Debug for HeldLock<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("node", &self.node_path())
            .field("token", &self.fencing_token())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

#[allow(private_bounds)]
impl<C: SessionClient> HeldLock<C> {
    pub(crate) fn new(
        client: C,
        path: Arc<str>,
        directory: Arc<str>,
        place: Place,
        handle: Handle,
    ) -> Self {
        Self { client, path, directory, place, handle }
    }

    /// What is asked for, as its errors name it.
    pub(crate) fn call(&self, operation: &'static str) -> Call<C> {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }

    /// Greater than that of anybody who held this lock before, whatever happened in between. A
    /// resource that remembers the greatest token it has seen, and refuses smaller ones, is safe
    /// from holders that have lost the lock and do not know it yet.
    ///
    /// It is the transaction that created the lock node (its `czxid`). It compares with tokens
    /// of the same ensemble only. Those who hold a lock together, as readers do, are not ordered
    /// by it. It prints in hexadecimal, as zxids do; the number itself is in `.0`.
    pub fn fencing_token(&self) -> Zxid {
        self.place.token
    }

    /// The directory that the lock node is in, which is the path of most locks.
    pub fn directory(&self) -> &str {
        &self.directory
    }

    /// The name of the lock node within the lock's directory.
    pub fn node(&self) -> &str {
        &self.place.node
    }

    /// The path of the lock node.
    pub fn node_path(&self) -> String {
        self.path_of(&self.place.node)
    }

    fn path_of(&self, node: &str) -> String {
        path::child(&self.directory, node)
    }

    /// How things stand now, as far as is known here.
    ///
    /// It compares the lease of the session with the session's clock, so a lock that is trusted
    /// [until the lease ends](crate::machine::Trust) is reported lost from that instant on, even
    /// while the runtime is blocked or right after the process was stopped. Once reported lost, it
    /// stays lost.
    pub fn state(&self) -> Holding {
        self.handle.command(Command::LookAtLease);
        self.handle.status.read(holding)
    }

    /// Several writes that are applied only if the lock node is still there, so that none can be
    /// applied once the ensemble has given the lock to somebody else.
    ///
    /// The first operation of the transaction, number 0, is that check: if it fails, with
    /// [`NO_NODE`](ErrorCode::NO_NODE), the lock is lost. Of several permits there is one for each.
    pub fn transaction(&self) -> Transaction<'_, C> {
        self.check(self.client.begin_transaction())
    }

    /// Adds the check that the lock is still held.
    pub(crate) fn check<'a>(&self, transaction: Transaction<'a, C>) -> Transaction<'a, C> {
        let transaction = transaction.check(&self.node_path(), None);
        let others = self.place.leases.iter().skip(1);
        others.fold(transaction, |checks, lease| checks.check(&self.path_of(lease), None))
    }

    /// How many those checks are.
    pub(crate) fn checks(&self) -> usize {
        self.place.leases.len().max(1)
    }

    pub(crate) fn client(&self) -> &C {
        &self.client
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Begins the release. The status tells when it is over.
    pub(crate) fn begin_release(self) -> (Arc<str>, Arc<SharedStatus>) {
        // If the lease has ended, it was lost before.
        self.state();
        (self.path, self.handle.status.clone())
    }

    /// Takes the result of a conversion; none if the machine is gone without one.
    pub(crate) fn finish_conversion(
        &mut self,
        operation: &'static str,
        converted: Option<Converted>,
    ) -> Result<(), RecipeError> {
        let converted = converted.flatten().unwrap_or_else(|| Err(self.lost_error()));
        self.place = converted.map_err(|error| self.call(operation).failed(error))?;
        Ok(())
    }

    fn lost_error(&self) -> LockError {
        match self.state() {
            Holding::Lost(loss) => LockError::Lost(loss),
            // The runtime was shut down.
            Holding::Held | Holding::Suspended => LockError::Ended(End::Closed),
        }
    }
}

/// The result of a conversion; none if the lock was lost instead.
pub(crate) type Converted = Option<Result<Place, LockError>>;

/// What comes of a conversion, as soon as it is reported.
pub(crate) fn converted(report: &mut Report) -> Option<Converted> {
    match report.place.take() {
        // Then nothing is converted any more.
        None if !report.status.is_open() => Some(None),
        place => place.map(Some),
    }
}

/// How the lock was lost, as soon as it is.
pub(crate) fn loss(report: &mut Report) -> Option<Loss> {
    match holding(report) {
        Holding::Lost(loss) => Some(loss),
        Holding::Held | Holding::Suspended => None,
    }
}

/// The last status, as soon as nothing is held any more.
pub(crate) fn over(report: &mut Report) -> Option<Status> {
    (!report.status.is_open()).then(|| report.status.clone())
}

/// The result of a release; none if the machine is gone without one.
pub(crate) fn released(over: Option<Status>) -> Result<(), LockError> {
    match over {
        Some(Status::Failed(error)) => Err(error),
        Some(Status::Lost(loss)) => Err(LockError::Lost(loss)),
        Some(_) => Ok(()),
        // The runtime was shut down.
        None => Err(LockError::NotConfirmed(Unconfirmed::Ended(End::Closed))),
    }
}

/// The loss when the client has ended without reporting one, as when its runtime was shut down.
pub(crate) const CLOSED: Loss = Loss::Ended(End::Closed);

/// What it means that a transaction of nothing but checks has failed.
pub(crate) fn not_validated(error: RequestError) -> LockError {
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
        // Only once the guard is gone.
        Status::Released | Status::Failed(_) => Holding::Lost(Loss::Released),
    }
}
