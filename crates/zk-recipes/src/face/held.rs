//! A lock that is held.

use alloc::string::String;
use alloc::sync::Arc;
use core::fmt;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use tokio::time::Instant;
use zk_session::proto::{ErrorCode, Zxid, path};
use zk_session::{Client, End, Error, RequestError, Transaction};

use crate::error::{LockError, Loss, RecipeError, Unconfirmed};
use crate::face::call::Call;
use crate::face::status::{Handle, Place, SharedStatus, Status};
use crate::machine::{Claim, Command};

/// How things stand with a lock that was acquired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// It is held, as far as is known.
    Held,
    /// The connection is lost. The lock is probably still held, until the
    /// [lease](Held::lease) ends; after that, nothing is sure.
    Suspended,
    /// It is not held any more.
    Lost(Loss),
}

/// What every guard tells of the lock that it holds.
pub struct Held {
    client: Client,
    /// The path of the lock.
    path: Arc<str>,
    directory: Arc<str>,
    place: Place,
    handle: Handle,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("node", &self.node_path())
            .field("token", &self.fencing_token())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

impl Held {
    pub(crate) const fn new(
        client: Client,
        path: Arc<str>,
        directory: Arc<str>,
        place: Place,
        handle: Handle,
    ) -> Self {
        Self { client, path, directory, place, handle }
    }

    /// What is asked for, as its errors name it.
    pub(crate) fn call(&self, operation: &'static str) -> Call {
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
    /// It compares the [lease](Self::lease) with the session's clock, so a lock that is trusted
    /// [until the lease ends](crate::machine::Trust) is reported lost from that instant on, even
    /// while the runtime is blocked or right after the process was stopped. Once reported lost, it
    /// stays lost.
    pub fn state(&self) -> Holding {
        self.handle.command(Command::LookAtLease);
        self.handle.status.read(|report| match holding(&report.status) {
            // The runtime was shut down.
            Holding::Held | Holding::Suspended if report.is_final => Holding::Lost(CLOSED),
            state => state,
        })
    }

    /// Waits until the lock is lost: its session has ended, or somebody has deleted its node, or
    /// it is [not to be trusted](crate::Options::trust) any longer. Never returns while it is
    /// held, or may be: with [`Trust::UntilTold`](crate::machine::Trust::UntilTold) that is as long
    /// as there is no connection. When it is released, it tells [`Loss::Released`].
    ///
    /// The runtime of the session wakes it, so while that runtime is blocked,
    /// [`state`](Self::state) reports the loss sooner.
    pub fn lost(&self) -> impl Future<Output = Loss> + Send + use<> {
        let (status, attachment) = (self.handle.status.clone(), self.handle.attachment.clone());
        async move {
            let mut lost = status.wait(|report| match holding(&report.status) {
                Holding::Lost(loss) => Some(loss),
                Holding::Held | Holding::Suspended => None,
            });
            let lost = poll_fn(|cx| {
                attachment.command(&mut Command::LookAtLease);
                Pin::new(&mut lost).poll(cx)
            });
            lost.await.unwrap_or(CLOSED)
        }
    }

    /// Waits until somebody asks for the lock. Never returns for locks that are not
    /// [revocable](crate::Options::revocable).
    pub fn revoked(&self) -> impl Future<Output = ()> + Send + use<> {
        let status = self.handle.status.clone();
        async move {
            if status.wait(|report| report.revoked.then_some(())).await.is_none() {
                core::future::pending::<()>().await;
            }
        }
    }

    /// Until when the ensemble is bound to keep the session, and with it the lock, as far as can
    /// be known here; see [`Client::lease`]. Where the machine can be suspended, the client needs a
    /// [clock](zk_session::ClientBuilder::clock) that goes on meanwhile, or the lease seems to last
    /// longer than it does.
    pub fn lease(&self) -> Option<Instant> {
        self.client.lease()
    }

    /// Several writes that are applied only if the lock node is still there, so that none can be
    /// applied once the ensemble has given the lock to somebody else.
    ///
    /// The first operation of the transaction, number 0, is that check: if it fails, with
    /// [`NO_NODE`](ErrorCode::NO_NODE), the lock is lost. Of several permits there is one for each.
    pub fn transaction(&self) -> Transaction<'_, Client> {
        self.check(self.client.transaction())
    }

    /// Adds the check that the lock is still held.
    pub(crate) fn check<'a>(
        &self,
        transaction: Transaction<'a, Client>,
    ) -> Transaction<'a, Client> {
        let transaction = transaction.check(&self.node_path(), None);
        let others = self.place.leases.iter().skip(1);
        others.fold(transaction, |checks, lease| checks.check(&self.path_of(lease), None))
    }

    /// How many those checks are.
    pub(crate) fn checks(&self) -> usize {
        self.place.leases.len().max(1)
    }

    /// Asks the ensemble, that is a majority of its members, whether the lock is still held. It
    /// was, when the answer was given; being connected proves less, and so does reading.
    ///
    /// # Errors
    ///
    /// [`LockError::Lost`] when it is not, or is not to be trusted any more: without a server that
    /// is at the end of the lease, unless the lock is held [until
    /// told](crate::machine::Trust::UntilTold) otherwise. After any other error it is unknown
    /// whether the lock is held.
    ///
    /// # Cancellation
    ///
    /// Nothing happens.
    pub async fn validate(&self) -> Result<(), RecipeError> {
        let mut lost = pin!(self.lost());
        let mut checked = pin!(self.transaction().commit());
        let checked = poll_fn(|cx| match checked.as_mut().poll(cx) {
            Poll::Ready(checked) => Poll::Ready(checked.map(drop).map_err(not_validated)),
            Poll::Pending => lost.as_mut().poll(cx).map(|loss| Err(LockError::Lost(loss))),
        });
        checked.await.map_err(|error| self.call("validate").failed(error))
    }

    pub(crate) fn release(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        // If the lease has ended, it was lost before.
        self.state();
        let Self { path, handle, .. } = self;
        let status = handle.status.clone();
        drop(handle);
        async move { over(status).await.map_err(|error| RecipeError::new("release", &path, error)) }
    }

    /// Lets go as soon as others allow. Dropping the future releases it at once.
    pub(crate) async fn leave(self) -> Result<(), RecipeError> {
        self.handle.command(Command::Leave);
        let left = over(self.handle.status.clone()).await;
        left.map_err(|error| self.call("leave").failed(error))
    }

    /// Holds the lock with another claim. On failure it is held as before, or lost.
    pub(crate) async fn convert(
        &mut self,
        operation: &'static str,
        claim: Claim,
    ) -> Result<(), RecipeError> {
        self.handle.command(Command::Convert(claim));
        let converted = self.handle.status.wait(|report| match report.place.take() {
            // Then nothing is converted any more.
            None if !report.status.is_open() => Some(None),
            place => place.map(Some),
        });
        let converted = converted.await.flatten().unwrap_or_else(|| Err(self.lost_error()));
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

const CLOSED: Loss = Loss::Ended(End::Closed);

/// A type of guard: a held lock, which tells what every held lock tells, and can be released.
macro_rules! guard {
    ($(#[$attribute:meta])* $name:ident) => {
        $(#[$attribute])*
        #[derive(Debug)]
        #[must_use = "a guard that is dropped releases its lock"]
        pub struct $name(Held);

        impl core::ops::Deref for $name {
            type Target = Held;

            fn deref(&self) -> &Held {
                &self.0
            }
        }

        impl $name {
            /// Releases the lock and waits until the next in line can have it; without a server, no
            /// longer than to the end of the [lease](Held::lease).
            ///
            /// # Errors
            ///
            /// [`Lost`](crate::LockError::Lost) when it had been lost before.
            /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no
            /// server has confirmed its end: the lock is not held here any more, its node is
            /// deleted in the background, or goes with the session.
            ///
            /// # Cancellation
            ///
            /// The lock is released when this method is called; dropping its future changes
            /// nothing.
            pub fn release(
                self,
            ) -> impl Future<Output = Result<(), $crate::RecipeError>> + Send + use<> {
                self.0.release()
            }

            $crate::face::limited::limited_release!(
                "release": release_until, release_timeout: release
            );
        }
    };
}

pub(crate) use guard;

/// Waits until nothing is held any more.
async fn over(status: Arc<SharedStatus>) -> Result<(), LockError> {
    let over = status.wait(|report| (!report.status.is_open()).then(|| report.status.clone()));
    match over.await {
        Some(Status::Failed(error)) => Err(error),
        Some(Status::Lost(loss)) => Err(LockError::Lost(loss)),
        Some(_) => Ok(()),
        // The runtime was shut down.
        None => Err(LockError::NotConfirmed(Unconfirmed::Ended(End::Closed))),
    }
}

/// What it means that a transaction of nothing but checks has failed.
pub(crate) fn not_validated(error: RequestError) -> LockError {
    match error.reason {
        Error::Transaction { code: ErrorCode::NO_NODE, .. } => LockError::Lost(Loss::NodeDeleted),
        error => error.into(),
    }
}

const fn holding(status: &Status) -> Holding {
    match status {
        Status::Held => Holding::Held,
        Status::Suspended => Holding::Suspended,
        Status::Lost(loss) => Holding::Lost(*loss),
        // Only once the guard is gone.
        Status::Released | Status::Failed(_) => Holding::Lost(Loss::Released),
    }
}
