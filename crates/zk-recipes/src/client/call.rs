//! The operation of a caller, as its errors name it.

use alloc::sync::Arc;

use zk_session::State;

use crate::client::SessionClient;
use crate::error::{LockError, Reason, RecipeError};

/// An operation on the lock at a path.
#[derive(Clone, Debug)]
pub(crate) struct Call<C> {
    pub(crate) operation: &'static str,
    pub(crate) path: Arc<str>,
    pub(crate) client: C,
}

impl<C: SessionClient> Call<C> {
    /// Makes its error. Where time has run out without a connection, it says so.
    pub(crate) fn failed<R: Reason>(&self, reason: R) -> RecipeError<R> {
        let reason = match (reason.lock_error(), self.client.state()) {
            (_, State::Connected { .. }) => reason,
            (Ok(LockError::TimedOut | LockError::NoAnswer), _) => LockError::NoConnection.into(),
            _ => reason,
        };
        RecipeError::new(self.operation, &self.path, reason)
    }
}
