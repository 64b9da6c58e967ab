//! Creating the lock path and its ancestors.

use alloc::string::ToString;
use alloc::vec::Vec;

use zk_session::proto::{ErrorCode, path};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::retry_policy::RetryPolicy;
use super::{AccessList, operation::Operation};

/// The number of attempts to create a lock path that is missing again right after its creation.
/// Attempts whose last request was lost, or refused for now, do not count.
const ATTEMPTS: u32 = 5;

/// The progress of creating the parents.
#[derive(Clone, Debug)]
pub(super) struct ParentCreation {
    attempts: u32,
    /// Whether to create containers. Cleared if the server does not support them.
    containers: bool,
    error: Option<Error>,
}

/// The consequence of a reply.
#[derive(Debug)]
pub(super) enum ParentOutcome {
    /// More replies are expected.
    Wait,
    /// The lock path exists.
    Made,
    /// The parents must be created again, at once.
    Again,
    /// They were refused, perhaps only [for now](RetryPolicy).
    Failed(Error),
}

impl ParentCreation {
    pub(super) const fn new() -> Self {
        Self { attempts: 0, containers: true, error: None }
    }

    /// Returns the requests of the next attempt: the lock path first, the topmost ancestor last.
    ///
    /// They depend on each other, but all can be sent at once. There are none after too many
    /// attempts.
    pub(super) fn attempt(&mut self, lock_path: &str, acl: &AccessList) -> Vec<Operation> {
        self.attempts += 1;
        self.error = None;
        let below_root = |path: &&str| *path != "/";
        let mut next = Some(lock_path).filter(|_| self.attempts <= ATTEMPTS).filter(below_root);
        let mut operations = Vec::new();
        while let Some(path) = next {
            let operation =
                Operation::create_parent(path.to_string(), self.containers, acl.clone());
            operations.push(operation);
            next = path::parent(path).filter(below_root);
        }
        operations
    }

    /// Handles the reply for one of the parents. A refusal may not matter: the server checks the
    /// permission to create a node first, even if the node exists.
    pub(super) fn answered(
        &mut self,
        is_last: bool,
        result: Result<Reply, Error>,
    ) -> ParentOutcome {
        let error = match result {
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) if is_last => {
                return ParentOutcome::Made;
            }
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => return ParentOutcome::Wait,
            Err(error)
                if self.containers
                    && (error.code() == Some(ErrorCode::UNIMPLEMENTED)
                        || matches!(error, Error::Undeliverable { .. })) =>
            {
                self.containers = false;
                return ParentOutcome::Again;
            }
            Err(error) if error.outcome() != Outcome::NotApplied && !is_last => {
                return ParentOutcome::Wait;
            }
            Err(error) => error,
        };
        let policy = RetryPolicy::of(&error);
        if is_last && policy != RetryPolicy::Never {
            self.attempts = self.attempts.saturating_sub(1);
            return match policy {
                RetryPolicy::Now => ParentOutcome::Again,
                _ => ParentOutcome::Failed(error),
            };
        }
        let is_missing = |error: &Error| matches!(error, Error::Server(ErrorCode::NO_NODE));
        let again = is_missing(&error);
        let first = self.error.take().unwrap_or(error);
        if !is_last {
            self.error = Some(first);
            ParentOutcome::Wait
        } else if again && is_missing(&first) {
            ParentOutcome::Again
        } else {
            ParentOutcome::Failed(first)
        }
    }
}
