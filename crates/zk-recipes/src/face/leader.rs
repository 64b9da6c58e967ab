//! The election of a leader.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::future::Future;

use tokio::sync::watch;
use zk_session::{Client, End, Transaction};

use crate::error::LockError;
use crate::face::contenders::{self, Entrant};
use crate::face::desk::Handle;
use crate::face::limited::limited;
use crate::face::options::Options;
use crate::face::queue::Queue;
use crate::face::runner::Note;
use crate::machine::{Candidacy, Claim, Entry, Event, Leadership, Scheme, Term};

/// The election of one leader among those who stand for it, again and again, for as long as
/// anybody stands.
///
/// Candidates queue as for a [`Mutex`](crate::Mutex); the first leads until it resigns or is cut
/// off, then the next. One that loses its node while its session lives queues again, at the end, after
/// a tenth of a second.
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
    pub fn stand(&self) -> Candidate {
        let (state, states) = watch::channel(Leadership::Follower);
        let (directory, told) = (self.0.path.clone(), self.0.note());
        let note: Note = Box::new(move |event: &Event| {
            if let Some(tell) = &told {
                tell(event);
            }
            let next = state.borrow().after(event, &directory);
            state.send_if_modified(|state| core::mem::replace(state, next.clone()) != next);
        });
        let candidacy = Candidacy::new(self.0.contest(Claim::Exclusive, Entry::Queue));
        let closing = self.0.start_noted(candidacy, Some(note));
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

/// Somebody who stands for election. Dropped, it resigns in the background.
#[derive(Debug)]
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate {
    client: Client,
    states: watch::Receiver<Leadership>,
    /// Its end is the message.
    closing: Handle,
}

impl Candidate {
    /// How things stand now, as far as is known here.
    pub fn leadership(&self) -> Leadership {
        self.states.borrow().clone()
    }

    /// How things stand, and every change of it: the newest, if several come before anybody looks.
    /// It ends when the candidate does. A leader that resigns is told to lead until it has.
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

    limited!(elected_until, elected_timeout: elected() -> Term);

    /// Several writes that are applied only if this candidate still leads; see
    /// [`Held::transaction`](crate::Held::transaction). Nothing if it does not, as far as is known here.
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
