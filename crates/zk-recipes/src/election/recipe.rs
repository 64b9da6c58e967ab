//! The election of a leader.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

use zk_session::{End, Transaction};

use crate::Client;
use crate::attempt::{Command, Event, LockMode, Scheme, WaitPolicy};
use crate::client::SessionClient;
use crate::client::call::Call;
use crate::client::contenders;
use crate::client::contenders::QueueEntry;
use crate::client::guard::Guard;
use crate::client::known::Known;
use crate::client::pending::{Pending, Signal};
use crate::client::queue::{Queue, leftover};
use crate::client::session_client::unless;
use crate::client::status::Handle;
use crate::election::{ElectionMachine, Leadership, Term};
use crate::error::{LockError, RecipeError};
use crate::options::Options;

/// The election of one leader among candidates, repeated whenever the leader leaves.
///
/// ```no_run
/// use zk_recipes::{LeaderElection, Leadership, Options, session::Client};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181").await?;
/// let election = LeaderElection::with(&client, "/leader", Options::new().data("host-7"))?;
/// let candidate = election.stand();
/// let mut seen = candidate.leadership();
/// loop {
///     match &seen {
///         Leadership::Leader(term) => println!("we lead, with token {}", term.token.0),
///         Leadership::Suspended(_) => println!("the connection is lost: the leader is unknown"),
///         Leadership::Follower => println!("we do not lead"),
///         ended => return Err(format!("{ended:?}").into()),
///     }
///     seen = candidate.changed(&seen).await;
/// }
/// # }
/// ```
///
/// Candidates queue as for a [`Mutex`](crate::Mutex). The first leads until it resigns or is cut
/// off, then the next. A candidate that loses its node while its session lives queues again at the
/// end, after 100 ms. Names follow Apache Curator's `LeaderLatch`. As there, the id of a candidate
/// is the node's data: [`Options::data`].
///
/// # Guarantee
///
/// As the ensemble sees it, there is at most one leader. A leader that is cut off cannot know at
/// once that another was elected. It is [suspended](Leadership::Suspended) first, and
/// [`Options::disconnect_policy`] limits for how long.
///
/// A resource can refuse its late writes by its [token](Term::token), and ZooKeeper by
/// [`Candidate::transaction`].
///
/// The end of the session ends the candidacy: stand again with a new client. With a client that
/// [renews](zk_session::ClientBuilder::renew) its session, the candidate queues again on the new
/// session by itself. A leader is a [follower](Leadership::Follower) first.
///
/// # Cost
///
/// One round trip to stand, one to resign, one watch for each candidate, and one notification when
/// a leader leaves.
#[doc(alias("LeaderLatch", "LeaderSelector", "latch"))]
#[derive(Clone, Debug)]
pub struct LeaderElection<C = Client>(Queue<C>);

impl<C: SessionClient> LeaderElection<C> {
    /// Returns the election at `path`, with the default options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &C, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the election at `path`, with options for the candidates. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &C, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, "leader_election", path, Scheme::CURATOR_LEADER, options).map(Self)
    }

    /// Stands for election, until the candidate is closed or dropped, or the session ends.
    pub fn stand(&self) -> Candidate<C> {
        let leadership = Known::new(Leadership::Follower);
        let (ours, parent) = (leadership.clone(), self.0.path.clone());
        let hook = move |event: &Event| ours.update(|leadership| leadership.after(event, &parent));
        let config = self.0.config(LockMode::Exclusive, WaitPolicy::Queue);
        let election = || ElectionMachine::new(config);
        let handle = self.0.attach(election, self.0.note(), Some(Arc::new(hook)));
        Candidate { call: self.0.call("stand"), scheme: self.0.scheme, leadership, handle }
    }

    /// Waits for a term, and leads until the guard is released, dropped or lost: one term, and no
    /// longer candidacy. To lead again, call this again; to follow the leadership, use
    /// [`stand`](Self::stand).
    ///
    /// ```no_run
    /// # use zk_recipes::{LeaderElection, LockError, RunError};
    /// # async fn example(election: LeaderElection) -> Result<(), Box<dyn std::error::Error>> {
    /// loop {
    ///     match election.lead().run(async |term| schedule(term.fencing_token().0).await).await {
    ///         Err(error) if error.loss().is_some() => {} // Stand again.
    ///         done => break Ok(done?),
    ///     }
    /// }
    /// # }
    /// # async fn schedule(_: i64) {}
    /// ```
    ///
    /// # Errors
    ///
    /// Those of [`Mutex::acquire`](crate::Mutex::acquire).
    pub fn lead(&self) -> Pending<Guard<C>, C> {
        Pending::enter(&self.0, "lead", LockMode::Exclusive, WaitPolicy::Queue, |held| {
            held.map(Guard::new)
        })
    }

    /// Returns the candidates in the order in which they lead; the first one leads. The list may be
    /// out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn participants(&self) -> Pending<Vec<QueueEntry>, C> {
        contenders::list(&self.0, "participants")
    }

    /// Returns the candidate that leads, if there is one. It may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn leader(&self) -> Pending<Option<QueueEntry>, C> {
        let queue = self.0.clone();
        Pending::within(self.0.call("leader"), async move {
            let participants = contenders::list_in(&queue, &queue.path, queue.scheme).await?;
            Ok(participants.into_iter().find(QueueEntry::is_holder))
        })
    }

    /// Returns the path that this was made with.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Returns how many nodes of this value and its clones are no longer wanted and not yet known
    /// to be deleted. A deletion that the ensemble refuses is not pending any more:
    /// [`abandoned_nodes`](Self::abandoned_nodes) counts it.
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// Returns how many nodes of this value and its clones the ensemble has refused to delete; see
    /// [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

/// A candidate that stands for election. Dropped, it resigns in the background.
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate<C = Client> {
    call: Call<C>,
    scheme: Scheme,
    leadership: Known<Leadership>,
    handle: Handle,
}

impl<C: SessionClient> fmt::Debug for Candidate<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut candidate = f.debug_struct("Candidate");
        candidate.field("path", &self.call.path).field("leadership", &self.leadership.read());
        candidate.finish_non_exhaustive()
    }
}

impl<C: SessionClient> Candidate<C> {
    /// Returns whether this candidate leads, as far as is known here.
    ///
    /// It compares the session's lease with the clock, as
    /// [`Guard::state`](crate::Guard::state) does. A term that it has reported as over stays
    /// over.
    pub fn leadership(&self) -> Leadership {
        self.handle.command(Command::CheckLease);
        self.leadership.read()
    }

    /// Begins a transaction that is applied only if this candidate still leads; see
    /// [`Guard::transaction`](crate::Guard::transaction). Returns `None` if it does not lead,
    /// as far as is known here.
    pub fn transaction(&self) -> Option<Transaction<'_, C>> {
        match self.leadership() {
            Leadership::Leader(Term { node, .. }) | Leadership::Suspended(Term { node, .. }) => {
                Some(self.call.client.transaction().check(&node, None))
            }
            _ => None,
        }
    }

    /// Waits until the leadership differs from `seen`, and returns it. Returns at once after the
    /// candidacy has ended.
    ///
    /// Changes in between may be missed. A term that ended and another that began differ in
    /// [`Term::token`].
    ///
    /// The end of the lease is reported when the client notices it. [`leadership`](Self::leadership)
    /// reads the clock.
    pub fn changed(&self, seen: &Leadership) -> Signal<Leadership, C> {
        let (seen, leadership) = (seen.clone(), self.leadership.clone());
        let changed = self.wait(move |leadership| (leadership != seen).then_some(leadership));
        Signal::new(
            &self.call.client,
            async move { changed.await.unwrap_or_else(|| leadership.read()) },
        )
    }

    /// Waits until the candidate leads. Dropping the returned value, or its time limit, does not
    /// end the candidacy. It sends nothing: after its time limit it only reads the known state.
    ///
    /// # Errors
    ///
    /// The error that the candidate [failed](Leadership::Failed) with, or [`End::Closed`] if it was
    /// closed. [`LockError::HeldByOwnSession`] if an earlier client of a resumed session has left a
    /// candidate behind.
    pub fn elected(&self) -> Pending<Term, C> {
        let decided = self.wait(|leadership| match leadership {
            Leadership::Follower | Leadership::Suspended(_) => None,
            decided => Some(decided),
        });
        let Call { client, path, .. } = self.call.clone();
        let leftover = leftover(client, path, self.scheme);
        let status = self.handle.status.clone();
        Pending::within_or(self.call.clone(), move || status.late(), async {
            match unless(leftover, decided).await {
                Ok(Some(Leadership::Leader(term))) => Ok(term),
                Ok(Some(Leadership::Failed(error))) => Err(error),
                Ok(_) => Err(LockError::Ended(End::Closed)),
                Err(node) => Err(LockError::HeldByOwnSession { node }),
            }
        })
    }

    /// Resigns, and waits until its node is deleted. Without a server it waits until the end of the
    /// session's lease at most.
    ///
    /// It resigns at the call. Dropping the returned value changes nothing.
    ///
    /// # Errors
    ///
    /// The error that the candidate [failed](Leadership::Failed) with before, or that refused the
    /// deletion. [`LockError::NotConfirmed`] if no server has confirmed the deletion: it continues
    /// in the background, or the session's end deletes the node.
    pub fn close(self) -> Pending<(), C> {
        let over = self.wait(|leadership| match leadership {
            Leadership::Resigned => Some(Ok(())),
            Leadership::Failed(error) => Some(Err(error)),
            _ => None,
        });
        let call = Call { operation: "resign", ..self.call };
        drop(self.handle);
        Pending::closing(call, over)
    }

    /// Waits until `find` returns a value. `None` if the machine ends before.
    fn wait<T: Send, F: Fn(Leadership) -> Option<T> + Send + Unpin>(
        &self,
        find: F,
    ) -> impl Future<Output = Option<T>> + Send + use<C, T, F> {
        // A term whose lease has ended is over.
        self.handle.command(Command::CheckLease);
        let leadership = self.leadership.clone();
        self.handle.status.wait(move |_| find(leadership.read()))
    }
}
