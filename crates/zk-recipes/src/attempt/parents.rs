//! Creating the lock path and its ancestors.

use alloc::vec::Vec;
use core::ops::RangeInclusive;

use zk_session::proto::{ErrorCode, path};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::config::{AttemptConfig, Parents};
use super::retry_policy::RetryPolicy;
use super::turn::Turn;
use super::watches::OpId;
use crate::error::LockError;

/// The number of attempts to create a lock path that is missing again right after its creation.
/// Attempts whose last request was lost, or refused for now, do not count.
const ATTEMPTS: u32 = 5;

/// The progress of creating the parents.
#[derive(Clone, Debug)]
pub(crate) struct ParentCreation {
    attempts: u32,
    /// Whether to create containers. Cleared if the server does not support them, or may not.
    containers: bool,
    /// Whether the parent of the topmost ancestor is missing, once that is known.
    has_no_chroot: Option<bool>,
    error: Option<Error>,
}

/// The consequence of a reply.
#[derive(Debug)]
pub(crate) enum ParentOutcome {
    /// More replies are expected.
    Wait,
    /// The lock path exists.
    Made,
    /// The parents must be created again, at once.
    Again,
    /// The [chroot](AttemptConfig::chroot_length) does not exist.
    NoChroot,
    /// They were refused, perhaps only [for now](RetryPolicy).
    Failed(Error),
}

impl ParentCreation {
    pub(crate) const fn new() -> Self {
        Self { attempts: 0, containers: true, has_no_chroot: None, error: None }
    }

    /// Submits the requests of the next attempt, and returns their numbers: the topmost ancestor
    /// below the chroot first, `path` last.
    ///
    /// They depend on each other, but all can be sent at once.
    pub(crate) fn attempt(
        &mut self,
        path: &str,
        config: &AttemptConfig,
        turn: &mut Turn<'_>,
    ) -> Result<RangeInclusive<OpId>, LockError> {
        self.attempts += 1;
        (self.has_no_chroot, self.error) = (None, None);
        if config.parents == Parents::None || self.attempts > ATTEMPTS {
            return Err(Error::Server(ErrorCode::NO_NODE).into());
        }
        self.containers &= config.parents.are_containers(turn.server_kind());
        let is_ours = |path: &&str| path.len() > config.chroot_length && *path != "/";
        let mut next = Some(path).filter(is_ours);
        let mut missing = Vec::new();
        while let Some(path) = next {
            missing.push(path);
            next = path::parent(path).filter(is_ours);
        }
        match missing.is_empty() {
            true => Err(config.no_chroot()),
            false => Ok(turn.submit_all(|turn| {
                for path in missing.into_iter().rev() {
                    turn.create_parent(path, self.containers, &config.parent_acl);
                }
            })),
        }
    }

    /// Handles the reply for one of the parents. A refusal may not matter: the server checks the
    /// permission to create a node first, even if the node exists.
    pub(crate) fn answered(
        &mut self,
        is_last: bool,
        result: Result<Reply, Error>,
    ) -> ParentOutcome {
        let is_missing = |error: &Error| matches!(error, Error::Server(ErrorCode::NO_NODE));
        // The first reply is that of the topmost ancestor.
        let has_no_chroot =
            *self.has_no_chroot.get_or_insert(result.as_ref().is_err_and(is_missing));
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
        let again = is_missing(&error);
        let first = self.error.take().unwrap_or(error);
        if !is_last {
            self.error = Some(first);
            ParentOutcome::Wait
        } else if again && has_no_chroot {
            ParentOutcome::NoChroot
        } else if again && is_missing(&first) {
            ParentOutcome::Again
        } else {
            ParentOutcome::Failed(first)
        }
    }
}
