//! The election of a leader.

use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use std::sync::{Mutex as StdMutex, PoisonError};
use std::time::Instant;

use zk_session::blocking::Client;
use zk_session::{End, Transaction};

use super::waiting::{after, limited, wait};
use super::{Call, Queue, listing};
use crate::error::{LockError, RecipeError, Unconfirmed};
use crate::face::status::Handle;
use crate::face::{Entrant, Options};
use crate::machine::{Candidacy, Claim, Command, Entry, Event, Leadership, Scheme, Term};

/// The election of one leader among candidates, again whenever the leader goes.
///
/// Candidates queue as for a [`Mutex`](super::Mutex). The first leads until it resigns or is cut
/// off, then the next. A candidate that loses its node while its session lives queues again, at the
/// end, after a tenth of a second. Names follow Apache Curator's `LeaderLatch`; as there, a
/// candidate's id goes into [`Options::data`].
///
/// ```no_run
/// use core::time::Duration;
/// use zk_recipes::blocking::LeaderElection;
/// use zk_recipes::session::blocking::Client;
/// use zk_recipes::{Leadership, Options};
///
/// # fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::connect("127.0.0.1:2181")?;
/// let election = LeaderElection::with(&client, "/leader", Options::new().data("host-7"))?;
/// let candidate = election.stand();
/// let mut seen = candidate.leadership();
/// loop {
///     match &seen {
///         Leadership::Leader(term) => println!("we lead, with token {}", term.token),
///         Leadership::Suspended(_) => println!("the connection is lost, so nobody knows who leads"),
///         Leadership::Follower => println!("we do not lead"),
///         ended => return Err(format!("{ended:?}").into()),
///     }
///     if let Some(now) = candidate.wait_changed(&seen, Duration::MAX) {
///         seen = now;
///     }
/// }
/// # }
/// ```
///
/// # Guarantee
///
/// As the ensemble sees it, there is at most one leader. A leader that is cut off cannot know at
/// once that another was elected: it is [suspended](Leadership::Suspended) first. A resource can
/// refuse its late writes by its [token](Term::token), and ZooKeeper by [`Candidate::transaction`].
/// The end of the session ends the candidacy: stand again with a new client.
///
/// # Cost
///
/// One round trip to stand, one to resign, one watch for each candidate, and one notification when
/// a leader goes.
#[derive(Clone, Debug)]
pub struct LeaderElection(Queue);

impl LeaderElection {
    /// Returns the election at `path`. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// Returns the election at `path`, with these options. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`LockError::Path`] when the path is invalid.
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_LEADER, options).map(Self)
    }

    /// The path of the election.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Stands for election, until the candidate is closed or dropped, or the session ends.
    pub fn stand(&self) -> Candidate {
        let leadership = Arc::new(StdMutex::new(Leadership::Follower));
        let (ours, parent) = (leadership.clone(), self.0.path.to_string());
        let hook = move |event: &Event| {
            let mut leadership = ours.lock().unwrap_or_else(PoisonError::into_inner);
            *leadership = leadership.after(event, &parent);
        };
        let candidacy = Candidacy::new(self.0.contest(Claim::Exclusive, Entry::Queue));
        let handle = self.0.start_hooked(candidacy, Arc::new(hook));
        Candidate { call: self.0.call("stand"), leadership, handle }
    }

    /// Returns the candidates, in the order in which they are to lead; the first one leads. The
    /// list may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn participants(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "participants")
    }

    /// Returns the candidate that leads, if there is one. It may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    pub fn leader(&self) -> Result<Option<Entrant>, RecipeError> {
        let participants = listing::list(&self.0, "leader")?;
        Ok(participants.into_iter().find(Entrant::is_holder))
    }

    /// Returns how many candidates are still to be cleaned up; see
    /// [`Mutex::pending_cleanups`](super::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// Returns how many nodes were abandoned; see
    /// [`Mutex::abandoned_nodes`](super::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

/// A candidate in a [`LeaderElection`]. Dropped, it resigns in the background.
#[derive(Debug)]
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate {
    call: Call,
    leadership: Arc<StdMutex<Leadership>>,
    handle: Handle,
}

impl Candidate {
    /// Returns whether the candidate leads now, as far as is known here. It compares the session's
    /// [lease](Client::lease) with the clock, as [`Held::state`](super::Held::state) does.
    pub fn leadership(&self) -> Leadership {
        self.handle.command(Command::LookAtLease);
        read(&self.leadership)
    }

    /// Waits until the candidate leads.
    ///
    /// # Errors
    ///
    /// The error that the candidacy [failed](Leadership::Failed) with, such as [`LockError::Ended`]
    /// when the session has ended.
    pub fn elected(&self) -> Result<Term, RecipeError> {
        self.elected_by("stand", Entry::Queue, None)
    }

    limited!("stand": elected_timeout: elected() by elected_by() -> Term);

    fn elected_by(
        &self,
        operation: &'static str,
        entry: Entry,
        end: Option<Instant>,
    ) -> Result<Term, RecipeError> {
        // A term whose lease has ended is over.
        self.leadership();
        let end = entry.refusal().map(|_| Instant::now()).or(end);
        let decided = self.wait(end, |leadership| match leadership {
            Leadership::Follower | Leadership::Suspended(_) => None,
            decided => Some(decided),
        });
        let call = Call { operation, ..self.call.clone() };
        match decided {
            Some(Some(Leadership::Leader(term))) => Ok(term),
            Some(Some(Leadership::Failed(error))) => Err(call.failed(error)),
            Some(_) => Err(call.failed(LockError::Ended(End::Closed))),
            None => Err(call.failed(LockError::TimedOut)),
        }
    }

    /// Waits until the leadership differs from `seen`, for no longer than `timeout`. Returns it, or
    /// `None` if it has not changed.
    ///
    /// Changes in between may be missed. A term that ended and another that began differ in
    /// [`Term::token`].
    pub fn wait_changed(&self, seen: &Leadership, timeout: Duration) -> Option<Leadership> {
        self.handle.command(Command::LookAtLease);
        let changed = |leadership: Leadership| (leadership != *seen).then_some(leadership);
        self.wait(after(timeout), changed).flatten()
    }

    fn wait<T>(
        &self,
        end: Option<Instant>,
        find: impl Fn(Leadership) -> Option<T> + Unpin,
    ) -> Option<Option<T>> {
        let Self { call, leadership, handle } = self;
        wait(&call.client, &handle.status, end, |_| find(read(leadership)))
    }

    /// Begins a transaction that is applied only if this candidate still leads; see
    /// [`Held::transaction`](super::Held::transaction). Returns `None` if it does not lead, as far
    /// as is known here.
    pub fn transaction(&self) -> Option<Transaction<'_, Client>> {
        match self.leadership() {
            Leadership::Leader(Term { node, .. }) | Leadership::Suspended(Term { node, .. }) => {
                Some(self.call.client.transaction().check(&node, None))
            }
            _ => None,
        }
    }

    /// Resigns, and waits until its node is gone. Without a server it waits until the end of the
    /// session's [lease](Client::lease) at most.
    ///
    /// # Errors
    ///
    /// The error that the candidacy had [failed](Leadership::Failed) with before, or that refused
    /// the deletion. [`LockError::NotConfirmed`] when no server has confirmed the end of the node.
    pub fn close(self) -> Result<(), RecipeError> {
        self.close_by(None)
    }

    /// Resigns like [`close`](Self::close), but waits no longer than `timeout`. The rest is done in
    /// the background.
    ///
    /// # Errors
    ///
    /// Those of [`close`](Self::close); when it is too late, [`LockError::NotConfirmed`] with
    /// [`TimedOut`](Unconfirmed::TimedOut).
    pub fn close_timeout(self, timeout: Duration) -> Result<(), RecipeError> {
        self.close_by(after(timeout))
    }

    fn close_by(self, end: Option<Instant>) -> Result<(), RecipeError> {
        let Self { call, leadership, handle } = self;
        let call = Call { operation: "resign", ..call };
        let status = handle.status.clone();
        drop(handle);
        let over = wait(&call.client, &status, end, |_| match read(&leadership) {
            Leadership::Resigned => Some(Ok(())),
            Leadership::Failed(error) => Some(Err(error)),
            _ => None,
        });
        let unconfirmed = |why| Err(LockError::NotConfirmed(why));
        let over = match over {
            Some(Some(over)) => over,
            Some(None) => unconfirmed(Unconfirmed::Ended(End::Closed)),
            None => unconfirmed(Unconfirmed::TimedOut),
        };
        over.map_err(|error| call.failed(error))
    }
}

fn read(leadership: &StdMutex<Leadership>) -> Leadership {
    leadership.lock().unwrap_or_else(PoisonError::into_inner).clone()
}
