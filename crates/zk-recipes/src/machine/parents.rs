//! Making the lock path of a lock, and what is above it.

use alloc::string::ToString;
use alloc::vec::Vec;

use zk_session::proto::{ErrorCode, path};
use zk_session::session::Reply;
use zk_session::{Error, Outcome};

use super::{AccessList, operation::Operation};

/// How often the lock path may turn out to be missing right after it was created.
const ATTEMPTS: u32 = 5;

/// How the making of the parents goes on.
#[derive(Clone, Debug)]
pub(super) struct Parents {
    attempts: u32,
    /// Cleared when the server knows no containers.
    containers: bool,
    error: Option<Error>,
}

/// What follows from an answer.
#[derive(Debug)]
pub(super) enum Verdict {
    /// More answers are to come.
    Wait,
    /// The directory is there.
    Made,
    /// Another attempt is called for.
    Again,
    Failed(Error),
}

impl Parents {
    pub(super) const fn new() -> Self {
        Self { attempts: 0, containers: true, error: None }
    }

    /// The next attempt at making `directory`: all that is above it first. The requests depend on
    /// each other, but need not wait for each other. None are left when there were too many.
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
        operations.reverse();
        operations
    }

    /// One of the parents was created, or was there, or could not be created, which may not
    /// matter: a directory that exists answers so only to those who may create it.
    pub(super) fn answered(&mut self, is_last: bool, result: Result<Reply, Error>) -> Verdict {
        let error = match result {
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) if is_last => return Verdict::Made,
            Ok(_) | Err(Error::Server(ErrorCode::NODE_EXISTS)) => return Verdict::Wait,
            Err(error) if error.code() == Some(ErrorCode::UNIMPLEMENTED) && self.containers => {
                self.containers = false;
                return Verdict::Again;
            }
            Err(error) if error.outcome() != Outcome::NotApplied && is_last => {
                return Verdict::Again;
            }
            Err(error) if error.outcome() != Outcome::NotApplied => return Verdict::Wait,
            Err(error) => error,
        };
        let first = self.error.take().unwrap_or(error.clone());
        if !is_last {
            self.error = Some(first);
            Verdict::Wait
        } else if error == Error::Server(ErrorCode::NO_NODE) && first == error {
            Verdict::Again
        } else {
            Verdict::Failed(first)
        }
    }
}
