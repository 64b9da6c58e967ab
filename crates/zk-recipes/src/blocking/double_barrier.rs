//! A barrier that a number of members enter together and leave together.

use core::ops::Deref;
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;

use super::waiting::{after, limited};
use super::{Held, Queue};
use crate::error::RecipeError;
use crate::face::Options;
use crate::machine::{Claim, Entry, Participant, Scheme};

/// A barrier that a number of members enter together and leave together.
///
/// Laid out as Apache Curator's `DistributedDoubleBarrier`: a node for each member, and `ready`
/// once all have come.
///
/// # Guarantee
///
/// When [`enter`](Self::enter) succeeds, at some moment as many members were there as were asked
/// for. When [`leave`](BarrierGuard::leave) succeeds, all members that were there when it was
/// called have left. A member's node belongs to its session: a member that gives up, or dies, is
/// neither counted nor waited for.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// Returns the barrier at `path`, for this number of members. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, RecipeError> {
        Self::with(client, path, members, Options::new())
    }

    /// Returns the barrier at `path`, with these options; the scheme has no effect. Nothing is sent
    /// yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(
        client: &Client,
        path: &str,
        members: usize,
        options: Options,
    ) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, path, Scheme::CURATOR_MUTEX, options)?;
        Ok(Self { queue, members })
    }

    /// The path of the barrier.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Waits until all members have come.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node was lost meanwhile; see
    /// [`LockError`](crate::LockError).
    pub fn enter(&self) -> Result<BarrierGuard, RecipeError> {
        self.enter_by("enter", Entry::Queue, None)
    }

    limited!("enter": enter_timeout: enter() by enter_by() -> BarrierGuard);

    fn enter_by(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<BarrierGuard, RecipeError> {
        let contest = self.queue.contest(Claim::Shared, entry);
        let participant = Participant::new(contest, self.members);
        let entrance = self.queue.start(operation, participant, self.queue.path.clone());
        entrance.held(end).map(BarrierGuard)
    }

    /// Returns how many members are still to be cleaned up; see
    /// [`Mutex::pending_cleanups`](super::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](super::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }
}

/// A member that has entered a [`DoubleBarrier`]. Dropped, it leaves without waiting for the
/// others.
#[derive(Debug)]
#[must_use = "a member that is dropped is out"]
pub struct BarrierGuard(Held);

impl Deref for BarrierGuard {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.0
    }
}

impl BarrierGuard {
    /// Leaves, and waits until all members that are in now have left or begun to leave. Without a
    /// server it waits until the end of the [lease](Held::lease) at most.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node had been lost before, and
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has confirmed that all have
    /// left. This member has left in any case.
    pub fn leave(self) -> Result<(), RecipeError> {
        self.0.leave(None)
    }

    /// Leaves like [`leave`](Self::leave), but waits no longer than `timeout`.
    ///
    /// # Errors
    ///
    /// Those of [`leave`](Self::leave); when it is too late,
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) with
    /// [`TimedOut`](crate::Unconfirmed::TimedOut).
    pub fn leave_timeout(self, timeout: Duration) -> Result<(), RecipeError> {
        self.0.leave(after(timeout))
    }
}
