//! What the caller has asked for, as its errors name it.

use alloc::sync::Arc;
use core::future::Future;
use core::time::Duration;

use tokio::time::Instant;
use zk_session::{Client, State};

use crate::error::{LockError, RecipeError};

/// An operation on the lock at a path.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) operation: &'static str,
    pub(crate) path: Arc<str>,
    pub(crate) client: Client,
}

impl Call {
    /// The error. Where time has run out without a connection, it says so.
    pub(crate) fn failed(&self, reason: impl Into<LockError>) -> RecipeError {
        let reason = match (reason.into(), self.client.state()) {
            (reason, State::Connected { .. }) => reason,
            (LockError::TimedOut, _) => LockError::NoConnection,
            (reason, _) => reason,
        };
        RecipeError::new(self.operation, &self.path, reason)
    }

    /// What comes of `work`, if it comes in time; otherwise it fails because it is `late`. The time
    /// counts whatever the network does.
    pub(crate) async fn before<T>(
        self,
        deadline: impl Into<Option<Instant>>,
        late: LockError,
        work: impl Future<Output = Result<T, RecipeError>>,
    ) -> Result<T, RecipeError> {
        let Some(deadline) = deadline.into() else { return work.await };
        let in_time = tokio::time::timeout_at(deadline, work).await;
        in_time.unwrap_or_else(|_| Err(self.failed(late)))
    }
}

/// When `timeout` from now is; never, if that is later than a clock can tell.
pub(crate) fn after(timeout: Duration) -> Option<Instant> {
    Instant::now().checked_add(timeout)
}
