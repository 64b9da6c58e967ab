//! The barrier where all wait for all, before and after.

use core::ops::Deref;
use core::time::Duration;
use std::time::Instant;

use zk_session::blocking::Client;

use super::waiting::{after, limited};
use super::{Held, Queue};
use crate::error::RecipeError;
use crate::face::Options;
use crate::machine::{Claim, Entry, Participant, Scheme};

/// A barrier for a number of members: nobody gets in before all have come, nobody gets out before all
/// want to. Laid out as Apache Curator's `DistributedDoubleBarrier`: a node for each member, and `ready`
/// once all are there.
///
/// # Guarantee
///
/// A member that is in knows that at some moment as many members were there as were asked for. A member
/// that has left knows that of those who were there when it began to leave none is left. A member's node
/// belongs to its session: one that gives up, or dies, is not counted any more, and not waited for.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// Returns the barrier at `path`, for so many members. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, RecipeError> {
        Self::with(client, path, members, Options::new())
    }

    /// Returns the barrier at `path`, with these options, of which the scheme does not count. Nothing is
    /// sent yet.
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

/// A member of a [`DoubleBarrier`] that is in. Dropped, it is out, and does not wait for others.
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
    /// Waits until all members that are in now are out, or have begun to leave: the end of the first one
    /// is the end of all. Without a server it waits no longer than to the end of the
    /// [lease](Held::lease).
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node had been lost before, and
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has told that all are out. The
    /// member is out in any case.
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
