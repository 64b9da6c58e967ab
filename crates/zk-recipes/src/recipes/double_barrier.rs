//! A barrier that a number of members enter together and leave together.

use core::fmt;
use core::ops::Deref;

use super::client::Limit;
use super::macros::{methods, queue_methods};
use super::queue::Queue;
use super::{HeldLock, Options, SessionClient};
use crate::error::RecipeError;
use crate::machine::{LockMode, Participant, Scheme};

/// A barrier that a number of members enter together and leave together.
///
/// Laid out as Apache Curator's `DistributedDoubleBarrier`: a node for each member, and `ready`
/// once all have come.
///
/// # Guarantee
///
/// When `enter` succeeds, at some moment as many members were there as were asked for; this one
/// was among them, if no more than those come. When `leave` succeeds, all members that were there
/// when it was called have left. A member's node belongs to its session: a member that gives up, or
/// dies, is neither counted nor waited for. The state of the guard is that of this node.
///
/// With exactly as many members as were asked for, each can use the barrier again as soon as it has
/// left. More members may get in as well; they must not use it again while others leave.
///
/// # Cost
///
/// To enter, two round trips and a watch. The last member, which wakes all others, has one more
/// round trip, and so has each that is woken. To leave, a watch on one member, and a round trip
/// before and after. The first member by name waits for the others one after another, and wakes all
/// of them when it leaves.
#[doc(alias = "DistributedDoubleBarrier")]
#[derive(Clone, Debug)]
pub struct DoubleBarrier<C> {
    queue: Queue<C>,
    members: usize,
}

queue_methods!(DoubleBarrier, queue);

impl<C: SessionClient> DoubleBarrier<C> {
    /// Returns the barrier at `path`, for this number of members. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &C, path: &str, members: usize) -> Result<Self, RecipeError> {
        Self::with(client, path, members, Options::new())
    }

    /// Returns the barrier at `path`, with options; the scheme has no effect, since every node but
    /// `ready` is a member. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn with(
        client: &C,
        path: &str,
        members: usize,
        options: Options,
    ) -> Result<Self, RecipeError> {
        let queue = Queue::new(client, path, Scheme::CURATOR_MUTEX, options)?;
        Ok(Self { queue, members })
    }

    fn enter_within(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<BarrierGuard<C>, RecipeError>> + Send + use<C> {
        let config = self.queue.config(LockMode::Shared, limit.wait_policy);
        let participant = Participant::new(config, self.members);
        let pending = self.queue.start("enter", participant, self.queue.path.clone());
        async move { pending.held(limit.end).await.map(BarrierGuard) }
    }
}

methods! { DoubleBarrier:
    /// Waits until all members have come.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node was lost meanwhile; see
    /// [`LockError`](crate::LockError).
    enter fn enter [enter_until, enter_timeout] (&self; limit)
        -> Result<BarrierGuard<C>, RecipeError>
    {
        self.enter_within(limit)
    }
}

/// A member that has entered a [`DoubleBarrier`]. Dropped, it leaves without waiting for the
/// others.
#[must_use = "a member that is dropped is out"]
pub struct BarrierGuard<C>(HeldLock<C>);

impl<C: SessionClient> fmt::Debug for BarrierGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BarrierGuard").field(&self.0).finish()
    }
}

impl<C> Deref for BarrierGuard<C> {
    type Target = HeldLock<C>;

    fn deref(&self) -> &HeldLock<C> {
        &self.0
    }
}

methods! { BarrierGuard:
    /// Leaves, and waits until all members that are in now have left or begun to leave. Without a
    /// server it waits until the end of the session's lease at most.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node had been lost before, and
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has confirmed that all have
    /// left. This member has left in any case.
    release fn leave [leave_until, leave_timeout] (self; end) -> Result<(), RecipeError> {
        self.0.leave(end)
    }
}
