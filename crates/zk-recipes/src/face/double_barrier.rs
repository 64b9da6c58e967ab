//! The barrier where all wait for all, before and after.

use core::future::Future;
use core::ops::Deref;

use zk_session::Client;

use crate::error::RecipeError;
use crate::face::Call;
use crate::face::Held;
use crate::face::Queue;
use crate::face::limited::{limited, limited_release};
use crate::face::options::Options;
use crate::machine::{Claim, Entry, Participant, Scheme};

/// A barrier for a number of members: nobody gets in before all have come, nobody gets out before
/// all want to. Laid out as Apache Curator's `DistributedDoubleBarrier`: a node for each member,
/// and `ready` once all are there.
///
/// ```no_run
/// use zk_recipes::{DoubleBarrier, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let barrier = DoubleBarrier::new(&client, "/barriers/sort", 3)?;
/// let inside = barrier.enter().await?; // all three are there
/// inside.leave().await?; // all three are done
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// Whoever is in knows that at some moment as many members were there as were asked for; with it
/// among them, if no more than those come. Whoever has left knows that of those who were there
/// when it began to leave none is left. A member's node belongs to its session: one that gives up,
/// or dies, is not counted any more, and not waited for. What [`Held`](crate::Held) says, it says of that node.
///
/// With exactly as many members as were asked for, the barrier can be used again by each as soon as
/// it has left. More of them may get in as well; they must not use it again while others leave.
///
/// # Cost
///
/// To enter, two round trips and a watch; the last one, which wakes all others, has one more, and
/// so has each that is woken. To leave, a watch on one member, and a round trip before and after:
/// whoever is first by name waits for the others one after another, and wakes all of them when it
/// goes.
#[derive(Clone, Debug)]
pub struct DoubleBarrier {
    queue: Queue,
    members: usize,
}

impl DoubleBarrier {
    /// The barrier at `path`, for so many members. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &Client, path: &str, members: usize) -> Result<Self, RecipeError> {
        Self::with(client, path, members, Options::new())
    }

    /// The barrier at `path`, with members of this kind. The names do not count: all that is there
    /// is a member, but `ready`.
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(
        client: &Client,
        path: &str,
        members: usize,
        options: Options,
    ) -> Result<Self, RecipeError> {
        // What members are called is for the machine to say.
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
    ///
    /// # Ordering
    ///
    /// The member is on its way when this method returns, before its future is awaited.
    ///
    /// # Cancellation
    ///
    /// Dropping the future takes the member back, in the background.
    pub fn enter(&self) -> impl Future<Output = Result<BarrierGuard, RecipeError>> + Send + use<> {
        self.enter_by("enter", Entry::Queue)
    }

    fn enter_by(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<BarrierGuard, RecipeError>> + Send + use<> {
        let contest = self.queue.contest(Claim::Shared, entry);
        let participant = Participant::new(contest, self.members);
        let entering = self.queue.start(operation, participant, self.queue.path.clone());
        async { entering.held().await.map(BarrierGuard) }
    }

    limited!("enter": enter_until, enter_timeout: enter() by enter_by() -> BarrierGuard);

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// How many nodes were abandoned; see [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }

    fn call(&self, operation: &'static str) -> Call {
        self.queue.call(operation)
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
    /// Waits until all members that are in now are out, or have begun to leave: the end of the
    /// first one is the end of all. Without a server it waits no longer than to the end of the
    /// [lease](crate::Held::lease).
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) when our node had been lost before, and
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) when no server has told that all are out; see
    /// [`LockError`](crate::LockError). The member is out in any case.
    ///
    /// # Cancellation
    ///
    /// The member is out all the same, in the background.
    pub fn leave(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        self.0.leave()
    }

    limited_release!("leave": leave_until, leave_timeout: leave);
}
