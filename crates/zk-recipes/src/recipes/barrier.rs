//! A barrier that clients close and open.

use zk_session::proto::ErrorCode;
use zk_session::{End, Error};

use super::client::{Limit, before};
use super::macros::{methods, new};
use super::queue::Queue;
use super::status::{Report, Status};
use super::{Options, SessionClient};
use crate::error::{LockError, RecipeError};
use crate::machine::{BarrierWait, Scheme};

/// A barrier that is closed while its node exists, as Apache Curator's `DistributedBarrier`.
///
/// # Guarantee
///
/// When `wait` returns, the barrier was open at some moment after the call. It may be closed again
/// by then. The node is persistent: the end of a session does not open the barrier.
///
/// After a session has closed a barrier, it finds it closed. To see changes by another session,
/// `sync` the path first.
///
/// # Cost
///
/// One round trip to close the barrier, one to open it, and one to pass when it is open: two with a
/// chroot, which must exist. Each waiter has one watch, and all of them are woken when the barrier
/// opens.
#[doc(alias = "DistributedBarrier")]
#[derive(Clone, Debug)]
pub struct Barrier<C>(Queue<C>);

new!(Barrier);

impl<C: SessionClient> Barrier<C> {
    /// Returns the barrier at `path`. Its node is created with the data and the access control
    /// lists of these options; the other options have no effect. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "barrier", path, Scheme::CURATOR_MUTEX, options).map(Self)
    }

    /// Returns the path of the barrier's node.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    #[cfg(feature = "blocking")]
    fn client(&self) -> &C {
        &self.0.client
    }

    async fn create(&self) -> Result<(), RecipeError> {
        let Queue { path, options, .. } = &self.0;
        match self.0.create_persistent(path, &options.data, &options.acl).await {
            Ok(()) | Err(LockError::Request(Error::Server(ErrorCode::NODE_EXISTS))) => Ok(()),
            Err(error) => Err(self.0.call("close").failed(error)),
        }
    }

    async fn delete(&self) -> Result<(), RecipeError> {
        match self.0.client.delete(&self.0.path, None).await {
            Err(error) if error.code() != Some(ErrorCode::NO_NODE) => {
                Err(self.0.call("open").failed(error))
            }
            _ => Ok(()),
        }
    }

    async fn exists(&self) -> Result<bool, RecipeError> {
        let failed = |error| self.0.call("is_closed").failed(error);
        let stat = self.0.client.exists(&self.0.path).await;
        let is_closed = stat.map_err(|error| failed(error.into()))?.is_some();
        if !is_closed {
            self.0.check_chroot().await.map_err(failed)?;
        }
        Ok(is_closed)
    }

    fn wait_within(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        let path = self.0.client.chroot().apply(&self.0.path).into_owned();
        let handle = self.0.attach(BarrierWait::new(path, limit.wait_policy), None, None);
        let (call, queue) = (self.0.call("wait"), self.0.clone());
        async move {
            let passed = handle.status.wait(|report: &mut Report| match &report.status {
                Status::Released => Some(Ok(())),
                _ => report.acquired.take().map(|result| result.map(drop)),
            });
            // Below a chroot that is missing, any barrier seems to be open.
            let passed = async {
                let passed = passed.await.unwrap_or(Err(LockError::Ended(End::Closed)));
                passed?;
                queue.check_chroot().await
            };
            let passed = before::<C, _>(limit.end, passed).await;
            passed.unwrap_or(Err(LockError::TimedOut)).map_err(|error| call.failed(error))
        }
    }
}

methods! { Barrier:
    /// Waits until the barrier is open, also across lost connections.
    ///
    /// The request timeout of the client does not limit it. It ignores a read-only server's reply
    /// that the barrier is open, and repeats the request until a server with a quorum answers.
    ///
    /// # Errors
    ///
    /// [`LockError::Ended`], or [`LockError::Request`] if the node cannot be read.
    enter fn wait [wait_until, wait_timeout] (&self; limit) -> Result<(), RecipeError> {
        self.wait_within(limit)
    }

    /// Closes the barrier, if it is open. Parent nodes that are missing are created as containers.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If its outcome is unknown, close the barrier again.
    request fn close [] (&self) -> Result<(), RecipeError> {
        self.create()
    }

    /// Opens the barrier, if it is closed. All waiters pass.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If its outcome is unknown, open the barrier again.
    request fn open [] (&self) -> Result<(), RecipeError> {
        self.delete()
    }

    /// Returns whether the barrier is closed.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    request fn is_closed [] (&self) -> Result<bool, RecipeError> {
        self.exists()
    }
}
