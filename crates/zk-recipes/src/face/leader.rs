//! The election of a leader.

use alloc::string::String;
use alloc::vec::Vec;
use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::Poll;

use tokio::sync::{oneshot, watch};
use zk_session::proto::Zxid;
use zk_session::{Client, End, Transaction};

use crate::error::{LockError, Loss};
use crate::face::contenders::{self, Entrant};
use crate::face::held::{Held, Holding};
use crate::face::options::Options;
use crate::face::queue::Queue;
use crate::face::runner::{self, Status};
use crate::machine::{Claim, Entry, Scheme};

/// The election of one leader among those who stand for it, again and again, for as long as
/// anybody stands.
///
/// Candidates queue as for a [`Mutex`](crate::Mutex); the first leads until it resigns or is cut
/// off, then the next. One that loses its node while its session lives queues again, at the end.
/// Names follow Apache Curator's `LeaderLatch`; as there, what a candidate wants to be called goes
/// into [`Options::data`].
///
/// ```no_run
/// use zk_recipes::{LeaderElection, Leadership, Options, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let election = LeaderElection::with(&client, "/leader", Options::new().data("host-7"))?;
/// let candidate = election.stand();
/// let mut states = candidate.states();
/// while states.changed().await.is_ok() {
///     match &*states.borrow_and_update() {
///         Leadership::Leader(term) => println!("we lead, with token {}", term.token),
///         Leadership::Suspended(_) => println!("nobody can tell whether we lead"),
///         Leadership::Follower => println!("somebody else leads, or nobody"),
///         ended => println!("{ended:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Guarantee
///
/// As the ensemble sees it, there is at most one leader. One that is cut off cannot know at once
/// that another was elected: it is [suspended](Leadership::Suspended) first. What it writes can be
/// refused by its [token](Term::token), and by [`Candidate::transaction`] in ZooKeeper itself. The
/// end of the session ends the candidacy: a new session has to stand anew.
///
/// # Cost
///
/// As for [`Mutex`](crate::Mutex): one round trip to stand, one to resign, one watch for each
/// candidate, and one notification when a leader goes.
#[derive(Clone, Debug)]
pub struct LeaderElection(Queue);

impl LeaderElection {
    /// The election at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, LockError> {
        Self::with(client, path, Options::new())
    }

    /// The election at `path`, with candidates of this kind. Trust in a leader that is cut off can
    /// be limited: see [`Options::trust`].
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, LockError> {
        Queue::new(client, path, Scheme::CURATOR_LEADER, options).map(Self)
    }

    /// The path of the election.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Stands for election, until the candidate is closed or dropped, or the session ends.
    ///
    /// # Panics
    ///
    /// When called outside of a tokio runtime, on which a task is spawned.
    pub fn stand(&self) -> Candidate {
        let (state, states) = watch::channel(Leadership::Follower);
        let (closing, closed) = oneshot::channel();
        tokio::spawn(Standing { queue: self.0.clone(), state, closed }.run());
        Candidate { client: self.0.client.clone(), states, closing }
    }

    /// Who stands, in the order in which they are to lead; the first one leads. It may be out of
    /// date when it arrives.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::contenders`](crate::Mutex::contenders).
    pub async fn participants(&self) -> Result<Vec<Entrant>, LockError> {
        contenders::list(&self.0).await
    }

    /// Who leads, if anybody does. It may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// As for [`participants`](Self::participants).
    pub async fn leader(&self) -> Result<Option<Entrant>, LockError> {
        Ok(self.participants().await?.into_iter().find(Entrant::is_holder))
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }
}

/// How things stand with a candidate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Leadership {
    /// It does not lead: it waits for its turn, or is about to queue again.
    Follower,
    /// It leads.
    Leader(Term),
    /// It led when it lost its connection. Another may be elected once the session has expired.
    Suspended(Term),
    /// It was closed, and nothing is left of it.
    Resigned,
    /// It cannot stand any more: the session has ended, or the ensemble refuses it.
    Failed(LockError),
}

/// From when somebody was elected until it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Term {
    /// Greater than that of any leader before, and of this one in an earlier term: if it is not the
    /// one seen last, leadership was lost in between. See [`Held::fencing_token`].
    pub token: Zxid,
    /// The path of the leader's node.
    pub node: String,
}

/// Somebody who stands for election. Dropped, it resigns in the background.
#[derive(Debug)]
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate {
    client: Client,
    states: watch::Receiver<Leadership>,
    /// Its end is the message.
    closing: oneshot::Sender<()>,
}

impl Candidate {
    /// How things stand now, as far as is known here.
    pub fn leadership(&self) -> Leadership {
        self.states.borrow().clone()
    }

    /// How things stand, and every change of it: the newest, if several come before anybody looks.
    /// It ends when the candidate does.
    ///
    /// So who looks seldom may see the candidate lead, and lead again, and miss that it did not in
    /// between. Compare [`Term::token`]: another one is another term.
    pub fn states(&self) -> watch::Receiver<Leadership> {
        self.states.clone()
    }

    /// Waits until the candidate leads.
    ///
    /// # Errors
    ///
    /// What it [failed](Leadership::Failed) with; [`End::Closed`] when it was closed.
    ///
    /// # Cancellation
    ///
    /// Nothing happens; it stands all the same.
    pub fn elected(&self) -> impl Future<Output = Result<Term, LockError>> + Send + use<> {
        let mut states = self.states.clone();
        async move {
            let waits = |state: &Leadership| {
                !matches!(state, Leadership::Follower | Leadership::Suspended(_))
            };
            match states.wait_for(waits).await.as_deref() {
                Ok(Leadership::Leader(term)) => Ok(term.clone()),
                Ok(Leadership::Failed(error)) => Err(error.clone()),
                _ => Err(LockError::Ended(End::Closed)),
            }
        }
    }

    /// Several writes that are applied only if this candidate still leads; see
    /// [`Held::transaction`]. Nothing if it does not, as far as is known here.
    pub fn transaction(&self) -> Option<Transaction<'_, Client>> {
        match &*self.states.borrow() {
            Leadership::Leader(Term { node, .. }) | Leadership::Suspended(Term { node, .. }) => {
                Some(self.client.transaction().check(node, None))
            }
            _ => None,
        }
    }

    /// Resigns, and waits until nothing is left of it. Without a connection that takes until there
    /// is one again, or the session ends.
    ///
    /// # Errors
    ///
    /// What it had [failed](Leadership::Failed) with before, or could not be deleted for.
    ///
    /// # Cancellation
    ///
    /// It resigns when this method is called; dropping its future changes nothing.
    pub fn close(self) -> impl Future<Output = Result<(), LockError>> + Send + use<> {
        let Self { mut states, closing, .. } = self;
        drop(closing);
        async move {
            while states.changed().await.is_ok() {}
            match &*states.borrow() {
                Leadership::Failed(error) => Err(error.clone()),
                _ => Ok(()),
            }
        }
    }
}

/// The task of a candidate.
struct Standing {
    queue: Queue,
    state: watch::Sender<Leadership>,
    closed: oneshot::Receiver<()>,
}

/// Why a candidate does not go on.
enum Stop {
    Closed,
    Failed(LockError),
}

impl Standing {
    async fn run(mut self) {
        let end = loop {
            match self.stand_once().await {
                Ok(()) => {}
                Err(Stop::Closed) => break Leadership::Resigned,
                Err(Stop::Failed(error)) => break Leadership::Failed(error),
            }
        };
        self.state.send_replace(end);
    }

    /// From when it enters the queue until its node is gone.
    async fn stand_once(&mut self) -> Result<(), Stop> {
        let entrance = self.queue.begin(Claim::Exclusive, Entry::Queue);
        let contender = entrance.handle.status.clone();
        let stopped = match self.unless_closed(entrance.held()).await {
            Some(Ok(held)) => self.lead(held, contender.clone()).await,
            Some(Err(LockError::NodeVanished)) => Ok(()),
            Some(Err(error)) => Err(Stop::Failed(error)),
            None => Err(Stop::Closed),
        };
        match stopped {
            Ok(()) => {
                let gone = runner::gone(contender);
                self.unless_closed(gone).await.ok_or(Stop::Closed)
            }
            Err(stop) => {
                runner::gone(contender).await;
                Err(stop)
            }
        }
    }

    async fn lead(
        &mut self,
        held: Held,
        mut contender: watch::Receiver<Status>,
    ) -> Result<(), Stop> {
        let term = Term { token: held.fencing_token(), node: held.node_path() };
        loop {
            let state = match held.state() {
                Holding::Held => Leadership::Leader(term.clone()),
                Holding::Suspended => Leadership::Suspended(term.clone()),
                Holding::Lost(loss) => return self.lost(loss),
            };
            self.state.send_replace(state);
            // The end of the runtime comes to the same as being closed.
            if !matches!(self.unless_closed(contender.changed()).await, Some(Ok(()))) {
                let released = held.release().await;
                return Err(released.map_or_else(Stop::Failed, |()| Stop::Closed));
            }
        }
    }

    fn lost(&self, loss: Loss) -> Result<(), Stop> {
        self.state.send_replace(Leadership::Follower);
        match loss {
            Loss::Ended(end) => Err(Stop::Failed(LockError::Ended(end))),
            _ => Ok(()),
        }
    }

    /// What comes of `future`, unless the candidate is closed before.
    async fn unless_closed<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = pin!(future);
        poll_fn(|cx| match Pin::new(&mut self.closed).poll(cx) {
            Poll::Ready(_) => Poll::Ready(None),
            Poll::Pending => future.as_mut().poll(cx).map(Some),
        })
        .await
    }
}
