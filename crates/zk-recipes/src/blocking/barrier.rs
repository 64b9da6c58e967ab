//! A barrier that is closed and opened.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;
use zk_session::proto::{ErrorCode, NodeKind, path};
use zk_session::{Error, State};

use super::Call;
use super::waiting::limited;
use crate::error::{LockError, RecipeError};
use crate::face::Options;
use crate::machine::{Entry, Renewal};

/// A barrier that is closed while its node exists, as Apache Curator's `DistributedBarrier`.
///
/// # Guarantee
///
/// When [`wait`](Self::wait) returns, the barrier was open at some moment after the call; it may be
/// closed again by then. The node belongs to no session: the end of a session does not open the
/// barrier.
///
/// # Cost
///
/// One round trip to close the barrier, one to open it, and one to pass when it is open. Each
/// waiter has one watch, and all of them are woken when the barrier opens.
#[derive(Clone, Debug)]
pub struct Barrier {
    client: Client,
    path: Arc<str>,
    options: Options,
}

impl Barrier {
    /// Returns the barrier at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the barrier at `path`. Its node is created with the data and the access control
    /// lists of these options; the other options have no effect. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        path::validate(path).map_err(|error| RecipeError::new("new", path, error))?;
        Ok(Self { client: client.clone(), path: path.into(), options })
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Closes the barrier, if it is open. Parent nodes that are missing are created as containers.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`]. If its outcome is unknown, close the barrier again.
    pub fn close(&self) -> Result<(), RecipeError> {
        let Self { client, path, options } = self;
        let acl: Vec<_> = options.acl.list().iter().collect();
        let parent_acl: Vec<_> = options.parent_acl.list().iter().collect();
        // The parent may be deleted in between, but not for ever.
        loop {
            match client.create_with_acl(path, &options.data, NodeKind::Persistent, &acl) {
                Ok(_) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NODE_EXISTS) => return Ok(()),
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => {}
                Err(error) => return Err(self.call("close").failed(error)),
            }
            let parent = path::parent(path).unwrap_or("/");
            let made = client.ensure_path_with(parent, NodeKind::Container, &parent_acl);
            made.map_err(|error| self.call("close").failed(error))?;
        }
    }

    /// Opens the barrier, if it is closed. All waiters pass.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`], as for [`close`](Self::close).
    pub fn open(&self) -> Result<(), RecipeError> {
        match self.client.delete(&self.path, None) {
            Ok(()) => Ok(()),
            Err(error) if error.code() == Some(ErrorCode::NO_NODE) => Ok(()),
            Err(error) => Err(self.call("open").failed(error)),
        }
    }

    /// Returns whether the barrier is closed.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn is_closed(&self) -> Result<bool, RecipeError> {
        let stat = self.client.exists(&self.path);
        stat.map(|stat| stat.is_some()).map_err(|error| self.call("is_closed").failed(error))
    }

    /// Waits until the barrier is open, also across lost connections.
    ///
    /// # Errors
    ///
    /// [`LockError::Ended`], [`LockError::Request`] when the node cannot be read.
    pub fn wait(&self) -> Result<(), RecipeError> {
        self.wait_by("wait", Entry::Queue, None)
    }

    limited!("wait": wait_timeout: wait() by wait_by() -> ());

    fn wait_by(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<(), RecipeError> {
        let waited = match entry.refusal() {
            None => self.wait_for_end(end),
            Some(refusal) => self.look_for_end(refusal),
        };
        waited.map_err(|error| self.call(operation).failed(error))
    }

    /// Whether there is no such node now, as far as a server says so.
    fn look_for_end(&self, refusal: LockError) -> Result<(), LockError> {
        if !matches!(self.client.state(), State::Connected { .. } | State::Ended(_)) {
            return Err(refusal);
        }
        match self.client.exists(&self.path) {
            Ok(None) => Ok(()),
            Err(error) if error.reason != Error::ConnectionLost => Err(error.into()),
            _ => Err(refusal),
        }
    }

    fn wait_for_end(&self, end: Option<Instant>) -> Result<(), LockError> {
        let mut renewal = Renewal::new(self.client.session_id().0.cast_unsigned());
        // The old watch goes when the new one is set, so that the server need not be told.
        let mut standing = None;
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return Err(LockError::TimedOut);
            }
            let client = self.client.with_request_timeout(left);
            match client.get_data_and_watch(&self.path) {
                Ok((_, _, watch)) => {
                    let watch = standing.insert(watch);
                    let silence = renewal.wait(client.session_timeout());
                    let left = left.unwrap_or(Duration::MAX);
                    if watch.wait_timeout(silence.min(left))?.is_some() {
                        standing = None;
                    }
                }
                Err(error) if error.code() == Some(ErrorCode::NO_NODE) => return Ok(()),
                Err(error) => match error.reason {
                    Error::ConnectionLost | Error::DeadlinePassed { .. } => {}
                    _ => return Err(error.into()),
                },
            }
        }
    }

    fn call(&self, operation: &'static str) -> Call {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }
}
