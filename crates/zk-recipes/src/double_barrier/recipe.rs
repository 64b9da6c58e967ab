//! A barrier that a number of members enter together and leave together.

use core::fmt;
use core::ops::Deref;

use crate::Client;
use crate::attempt::{LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::guard::Guard;
use crate::client::pending::Pending;
use crate::client::queue::Queue;
use crate::double_barrier::Participant;
use crate::error::{LeaveError, RecipeError};
use crate::options::Options;

/// A barrier that a number of members enter together and leave together.
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
/// Its nodes are those of Apache Curator's `DistributedDoubleBarrier`: one for each participant,
/// and `ready` once all have entered.
///
/// # Guarantee
///
/// When `enter` succeeds, the requested number of participants was present at some moment. This one
/// was among them, or came later and joined one of them that was still inside. When `leave` succeeds,
/// all participants that were let in together with this one, or before it, have left.
///
/// A participant's node belongs to its session. One that gives up or dies is neither counted nor
/// waited for. The state of the guard is that of this node.
///
/// Each participant can use the barrier again as soon as it has left. Additional participants, and
/// those that gave up and come again, enter with the others. If they come while others leave, they
/// join the one that came first, which stays until all have left. One that comes after that waits
/// for the next meeting.
///
/// # Cost
///
/// To enter, two round trips and a watch. The last participant wakes all others and needs one more
/// round trip, as does each participant that it wakes. To leave, a watch on one participant, and a
/// round trip before and after. The participant that came first waits for the others one after
/// another, and wakes all of them when it leaves. One that comes while others leave needs a round
/// trip more.
///
/// The request that lets all in has 17 bytes and the path of the node for each participant, so with
/// short paths it reaches the request limit of the servers (`jute.maxbuffer`, 1 MiB by default) near
/// 13,800 participants.
#[doc(alias = "DistributedDoubleBarrier")]
#[derive(Clone, Debug)]
pub struct DoubleBarrier<C = Client> {
    queue: Queue<C>,
    members: usize,
}

impl<C: SessionClient> DoubleBarrier<C> {
    /// Returns the barrier at `path`, for this number of participants. Sends nothing yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`](crate::LockError::Path) when the path is invalid.
    pub fn new(client: &C, path: &str, members: usize) -> Result<Self, RecipeError> {
        Self::with(client, path, members, Options::new())
    }

    /// Returns the barrier at `path`, with options. Sends nothing yet.
    ///
    /// The scheme has no effect: every node but `ready` counts as a participant.
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
        let queue = Queue::new(client, "double_barrier", path, Scheme::CURATOR_MUTEX, options)?;
        Ok(Self { queue, members })
    }

    /// Waits until all participants have entered.
    ///
    /// It does not continue on the next session, even if the client
    /// [renews](zk_session::ClientBuilder::renew) its session: the others may have counted this
    /// participant, and work already. Call it again to join them. That succeeds at once if all the
    /// others are still present, and otherwise waits for those that have left.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) if our node was lost meanwhile, and
    /// [`Ended`](crate::LockError::Ended) if the session has ended. A session that expires causes
    /// either. No node is left then. [`Request`](crate::LockError::Request) with `NO_AUTH` if this
    /// participant is the last and may not read the nodes of the others, which then keep waiting.
    /// [`HeldByOwnSession`](crate::LockError::HeldByOwnSession) if an earlier client of a resumed
    /// session has left a participant behind. See [`LockError`](crate::LockError) for others.
    pub fn enter(&self) -> Pending<BarrierGuard<C>, C> {
        let members = self.members;
        let enter = move |queue: &Queue<C>| {
            let config = queue.config(LockMode::Shared, WaitPolicy::Queue);
            let participant = || Participant::new(config, members);
            let entering = queue.start("enter", participant, queue.path.clone());
            entering.refusing_leftovers(Participant::SCHEME)
        };
        Pending::attempt(&self.queue, enter, |held| BarrierGuard(Guard::new(held)))
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.queue.path
    }

    /// Returns how many nodes of this value and its clones are no longer wanted and not yet known
    /// to be deleted. A deletion that the ensemble refuses is not pending any more:
    /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.queue.pending_cleanups()
    }

    /// Returns how many nodes of this value and its clones the ensemble has refused to delete; see
    /// [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.queue.abandoned_nodes()
    }
}

/// A participant that has entered a [`DoubleBarrier`]. Dropping it leaves without waiting for the
/// others.
#[must_use = "a member that is dropped is out"]
pub struct BarrierGuard<C = Client>(Guard<C>);

impl<C: SessionClient> fmt::Debug for BarrierGuard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("BarrierGuard").field(&self.0).finish()
    }
}

impl<C> Deref for BarrierGuard<C> {
    type Target = Guard<C>;

    fn deref(&self) -> &Guard<C> {
        &self.0
    }
}

impl<C: SessionClient> BarrierGuard<C> {
    /// Leaves, and waits until all participants present now have left or begun to leave. Without a
    /// server it waits until the end of the session's lease at most.
    ///
    /// This participant begins to leave at the call. Dropping the returned value leaves without
    /// waiting for the others.
    ///
    /// # Errors
    ///
    /// [`Lost`](crate::LockError::Lost) if our node was lost before.
    /// [`OthersInside`](LeaveError::OthersInside) if others have not left in time.
    /// [`NotConfirmed`](crate::LockError::NotConfirmed) if no server has confirmed that all have
    /// left. This participant leaves in any case.
    pub fn leave(self) -> Pending<(), C, RecipeError<LeaveError>> {
        self.0.leave()
    }
}
