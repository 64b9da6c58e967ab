//! The election of a leader.

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::future::Future;
use core::sync::atomic::{AtomicI64, Ordering};

use tokio::sync::watch;
use zk_session::proto::Zxid;
use zk_session::{Client, End, Transaction};

use crate::error::{LockError, RecipeError, Unconfirmed};
use crate::face::Call;
use crate::face::Queue;
use crate::face::contenders::Entrant;
use crate::face::limited::{limited, limited_release};
use crate::face::listing;
use crate::face::options::Options;
use crate::face::reporter::Note;
use crate::face::status::Handle;
use crate::machine::{Candidacy, Claim, Command, Entry, Event, Leadership, Scheme, Term, Trust};

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
    pub fn new(client: &Client, path: &str) -> Result<Self, RecipeError> {
        Self::with(client, path, Options::new())
    }

    /// The election at `path`, with candidates of this kind. Trust in a leader that is cut off can
    /// be limited: see [`Options::trust`].
    ///
    /// # Errors
    ///
    /// As [`new`](Self::new).
    pub fn with(client: &Client, path: &str, options: Options) -> Result<Self, RecipeError> {
        Queue::new(client, path, Scheme::CURATOR_LEADER, options).map(Self)
    }

    /// The path of the election.
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// Stands for election, until the candidate is closed or dropped, or the session ends.
    pub fn stand(&self) -> Candidate {
        let (state, states) = watch::channel(Leadership::Follower);
        let (directory, told) = (self.0.path.to_string(), self.0.note());
        let note: Note = Arc::new(move |event: &Event| {
            let next = state.borrow().after(event, &directory);
            state.send_if_modified(|state| core::mem::replace(state, next.clone()) != next);
            // Last: it is the user's, and may panic.
            if let Some(tell) = &told {
                tell(event);
            }
        });
        let candidacy = Candidacy::new(self.0.contest(Claim::Exclusive, Entry::Queue));
        let closing = self.0.start_noted(candidacy, Some(note));
        let (client, trust) = (self.0.client.clone(), self.0.options.trust);
        let path = self.0.path.clone();
        Candidate {
            client,
            path,
            states,
            trust,
            over: Arc::new(AtomicI64::new(Zxid::ZERO.0)),
            closing,
        }
    }

    /// Who stands, in the order in which they are to lead; the first one leads. It may be out of
    /// date when it arrives.
    ///
    /// # Errors
    ///
    /// As for [`Mutex::contenders`](crate::Mutex::contenders).
    pub async fn participants(&self) -> Result<Vec<Entrant>, RecipeError> {
        listing::list(&self.0, "participants").await
    }

    /// Who leads, if anybody does. It may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// As for [`participants`](Self::participants).
    pub async fn leader(&self) -> Result<Option<Entrant>, RecipeError> {
        let participants = listing::list(&self.0, "leader").await?;
        Ok(participants.into_iter().find(Entrant::is_holder))
    }

    /// As [`Mutex::pending_cleanups`](crate::Mutex::pending_cleanups).
    pub fn pending_cleanups(&self) -> usize {
        self.0.pending_cleanups()
    }

    /// How many nodes were abandoned; see [`Mutex::abandoned_nodes`](crate::Mutex::abandoned_nodes).
    pub fn abandoned_nodes(&self) -> usize {
        self.0.abandoned_nodes()
    }
}

/// Somebody who stands for election. Dropped, it resigns in the background.
#[derive(Debug)]
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate {
    client: Client,
    path: Arc<str>,
    states: watch::Receiver<Leadership>,
    trust: Trust,
    /// The token of the term that was told to be over when its lease had ended.
    over: Arc<AtomicI64>,
    /// Its end is the message.
    closing: Handle,
}

impl Candidate {
    /// How things stand now, as far as is known here.
    ///
    /// It compares the session's [lease](Client::lease) with the clock, as
    /// [`Held::state`](crate::Held::state) does. A term that it has reported as over stays over.
    pub fn leadership(&self) -> Leadership {
        let state = self.states.borrow().clone();
        let (Leadership::Leader(term) | Leadership::Suspended(term)) = &state else { return state };
        let token = term.token.0;
        if self.over.load(Ordering::Relaxed) == token {
            return Leadership::Follower;
        }
        if !self.client.lease_has_ended() {
            return state;
        }
        self.closing.command(Command::LookAtLease);
        match self.trust.loss_after_lease() {
            Some(_) => {
                self.over.store(token, Ordering::Relaxed);
                Leadership::Follower
            }
            None => Leadership::Suspended(term.clone()),
        }
    }

    /// How things stand, and every change of it: the newest, if several come before anybody looks.
    /// It ends when the candidate does. A leader that resigns is told to lead until it has.
    ///
    /// So who looks seldom may see the candidate lead, and lead again, and miss that it did not in
    /// between. Compare [`Term::token`]: another one is another term. The end of the lease is
    /// reported when the session's runtime notices it; [`leadership`](Self::leadership) looks at
    /// the clock.
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
    pub fn elected(&self) -> impl Future<Output = Result<Term, RecipeError>> + Send + use<> {
        self.elected_by("stand", Entry::Queue)
    }

    fn elected_by(
        &self,
        operation: &'static str,
        entry: Entry,
    ) -> impl Future<Output = Result<Term, RecipeError>> + Send + use<> {
        // A term whose lease has ended is over, whether or not the runtime has noticed.
        self.leadership();
        let (mut states, over) = (self.states.clone(), self.over.clone());
        let call = self.call(operation);
        async move {
            let is_decided = |state: &Leadership| match state {
                Leadership::Follower | Leadership::Suspended(_) => false,
                Leadership::Leader(term) => term.token.0 != over.load(Ordering::Relaxed),
                Leadership::Resigned | Leadership::Failed(_) => true,
            };
            let state = match entry.refusal() {
                None => states.wait_for(is_decided).await.ok().map(|state| state.clone()),
                Some(refusal) => {
                    let state = states.borrow().clone();
                    let decided = is_decided(&state).then_some(state);
                    Some(decided.ok_or_else(|| call.failed(refusal))?)
                }
            };
            match state {
                Some(Leadership::Leader(term)) => Ok(term),
                Some(Leadership::Failed(error)) => Err(call.failed(error)),
                _ => Err(call.failed(LockError::Ended(End::Closed))),
            }
        }
    }

    limited!("stand": elected_until, elected_timeout: elected() by elected_by() -> Term);

    /// Several writes that are applied only if this candidate still leads; see
    /// [`Held::transaction`](crate::Held::transaction). Nothing if it does not, as far as is known here.
    pub fn transaction(&self) -> Option<Transaction<'_, Client>> {
        match self.leadership() {
            Leadership::Leader(Term { node, .. }) | Leadership::Suspended(Term { node, .. }) => {
                Some(self.client.transaction().check(&node, None))
            }
            _ => None,
        }
    }

    /// Resigns, and waits until nothing is left of it; without a server, no longer than to the end of
    /// the session's [lease](Client::lease).
    ///
    /// # Errors
    ///
    /// What it had [failed](Leadership::Failed) with before, or could not be deleted for.
    /// [`LockError::NotConfirmed`] when no server has confirmed its end: it does not lead any more, and
    /// its node is deleted in the background, or goes with the session.
    ///
    /// # Cancellation
    ///
    /// It resigns when this method is called; dropping its future changes nothing.
    pub fn close(self) -> impl Future<Output = Result<(), RecipeError>> + Send + use<> {
        let call = self.call("resign");
        let Self { mut states, closing, .. } = self;
        drop(closing);
        async move {
            let is_over =
                |state: &Leadership| matches!(state, Leadership::Resigned | Leadership::Failed(_));
            match states.wait_for(is_over).await.as_deref() {
                Ok(Leadership::Failed(error)) => Err(call.failed(error.clone())),
                Ok(_) => Ok(()),
                // The runtime was shut down.
                Err(_) => {
                    let closed = Unconfirmed::Ended(End::Closed);
                    Err(call.failed(LockError::NotConfirmed(closed)))
                }
            }
        }
    }

    limited_release!("resign": close_until, close_timeout: close);

    fn call(&self, operation: &'static str) -> Call {
        Call { operation, path: self.path.clone(), client: self.client.clone() }
    }
}
