//! The election of a leader.

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt;
use std::sync::PoisonError;
use std::time::Instant;

use zk_session::threads::{Mutex as StdMutex, MutexGuard as StdMutexGuard};
use zk_session::{End, Transaction};

use super::call::Call;
use super::client::{Limit, before};
use super::contenders::{self, QueueEntry};
use super::macros::{methods, new, queue_methods};
use super::queue::Queue;
use super::reporter::Note;
use super::status::Handle;
use super::{Options, SessionClient};
use crate::error::{LockError, RecipeError, Unconfirmed};
use crate::machine::{
    Command, ElectionMachine, Event, Leadership, LockMode, Scheme, Term, WaitPolicy,
};

/// Publishes the current leadership of a candidate, which may wake tasks.
pub(crate) type Publish = Arc<dyn Fn() + Send + Sync>;

/// The current leadership of a candidate, written while the session is locked.
#[derive(Clone, Debug)]
pub struct SharedLeadership(Arc<StdMutex<Leadership>>);

impl SharedLeadership {
    pub(crate) fn read(&self) -> Leadership {
        self.lock().clone()
    }

    fn lock(&self) -> StdMutexGuard<'_, Leadership> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The election of one leader among candidates, repeated whenever the leader leaves.
///
/// Candidates queue as for a [`Mutex`](super::Mutex). The first leads until it resigns or is cut
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
pub struct LeaderElection<C>(Queue<C>);

new!(LeaderElection);
queue_methods!(LeaderElection, 0);

impl<C: SessionClient> LeaderElection<C> {
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
        let leadership = SharedLeadership(Arc::new(StdMutex::new(Leadership::Follower)));
        let (ours, parent) = (leadership.clone(), self.0.path.clone());
        let hook = move |event: &Event| {
            let mut leadership = ours.lock();
            *leadership = leadership.after(event, &parent);
        };
        let (publish, leaderships) = C::leaderships(leadership.clone());
        let observer = self.0.note();
        let is_heard = publish.is_some() || observer.is_some();
        let publisher = publish.as_ref().map(Arc::downgrade);
        let note = move |event: &Event| {
            publish.iter().for_each(|publish| publish());
            // Last: it is the user's, and may panic.
            observer.iter().for_each(|observer| observer(event));
        };
        let election = ElectionMachine::new(self.0.config(LockMode::Exclusive, WaitPolicy::Queue));
        let note = is_heard.then(|| Arc::new(note) as Note);
        let handle = self.0.attach(election, note, Some(Arc::new(hook)));
        Candidate { call: self.0.call("stand"), leadership, publisher, leaderships, handle }
    }
}

methods! { LeaderElection:
    /// Returns the candidates in the order in which they lead; the first one leads. The list may be
    /// out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    request fn participants [] (&self) -> Result<Vec<QueueEntry>, RecipeError> {
        contenders::list(&self.0, "participants")
    }

    /// Returns the candidate that leads, if there is one. It may be out of date when it arrives.
    ///
    /// # Errors
    ///
    /// [`LockError::Request`].
    request fn leader [] (&self) -> Result<Option<QueueEntry>, RecipeError> {
        async {
            let participants = contenders::list(&self.0, "leader").await?;
            Ok(participants.into_iter().find(QueueEntry::is_holder))
        }
    }
}

/// A candidate that stands for election. Dropped, it resigns in the background.
#[must_use = "a candidate that is dropped resigns"]
pub struct Candidate<C: SessionClient> {
    call: Call<C>,
    leadership: SharedLeadership,
    /// Weak, so that the channel closes with the machine.
    publisher: Option<Weak<dyn Fn() + Send + Sync>>,
    #[allow(dead_code, reason = "only the async client uses it")]
    pub(crate) leaderships: C::Leaderships,
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
    /// [`HeldLock::state`](super::HeldLock::state) does. A term that it has reported as over stays
    /// over.
    pub fn leadership(&self) -> Leadership {
        self.handle.command(Command::CheckLease);
        self.leadership.read()
    }

    /// Begins a transaction that is applied only if this candidate still leads; see
    /// [`HeldLock::transaction`](super::HeldLock::transaction). Returns `None` if it does not lead,
    /// as far as is known here.
    pub fn transaction(&self) -> Option<Transaction<'_, C>> {
        match self.leadership() {
            Leadership::Leader(Term { node, .. }) | Leadership::Suspended(Term { node, .. }) => {
                Some(self.call.client.transaction().check(&node, None))
            }
            _ => None,
        }
    }

    #[cfg(feature = "blocking")]
    pub(crate) fn client(&self) -> &C {
        &self.call.client
    }

    /// Waits until `find` returns a value. `None` at `end`; `Some(None)` if the machine ends
    /// before.
    pub(crate) fn wait<T: Send, F: Fn(Leadership) -> Option<T> + Send + Unpin>(
        &self,
        end: Option<Instant>,
        find: F,
    ) -> impl Future<Output = Option<Option<T>>> + Send + use<C, T, F> {
        // A term whose lease has ended is over.
        self.handle.command(Command::CheckLease);
        let leadership = self.leadership.clone();
        before::<C, _>(end, self.handle.status.wait(move |_| find(leadership.read())))
    }

    fn elected_within(
        &self,
        limit: Limit,
    ) -> impl Future<Output = Result<Term, RecipeError>> + Send + use<C> {
        let end = limit.wait_policy.refusal().map(|_| C::now()).or(limit.end);
        let decided = self.wait(end, |leadership| match leadership {
            Leadership::Follower | Leadership::Suspended(_) => None,
            decided => Some(decided),
        });
        let (call, publisher) = (self.call.clone(), self.publisher.clone());
        async move {
            let decided = decided.await;
            publish(publisher);
            match decided {
                Some(Some(Leadership::Leader(term))) => Ok(term),
                Some(Some(Leadership::Failed(error))) => Err(call.failed(error)),
                Some(_) => Err(call.failed(LockError::Ended(End::Closed))),
                None => Err(call.failed(LockError::TimedOut)),
            }
        }
    }

    fn resign(
        self,
        end: Option<Instant>,
    ) -> impl Future<Output = Result<(), RecipeError>> + Send + use<C> {
        let Self { call, leadership, publisher, handle, .. } = self;
        let call = Call { operation: "resign", ..call };
        let status = handle.status.clone();
        drop(handle);
        async move {
            let over = status.wait(|_| match leadership.read() {
                Leadership::Resigned => Some(Ok(())),
                Leadership::Failed(error) => Some(Err(error)),
                _ => None,
            });
            let unconfirmed = |why| Err(LockError::NotConfirmed(why));
            let over = before::<C, _>(end, over).await;
            publish(publisher);
            let over = match over {
                Some(Some(over)) => over,
                // The runtime was shut down.
                Some(None) => unconfirmed(Unconfirmed::Ended(End::Closed)),
                None => unconfirmed(Unconfirmed::TimedOut),
            };
            over.map_err(|error| call.failed(error))
        }
    }
}

methods! { Candidate:
    /// Waits until the candidate leads. Dropping the future, or its time limit, does not end the
    /// candidacy. It sends nothing: after its time limit it only reads the known state.
    ///
    /// # Errors
    ///
    /// The error that the candidate [failed](Leadership::Failed) with, or [`End::Closed`] if it was
    /// closed.
    enter fn elected [elected_until, elected_timeout] (&self; limit) -> Result<Term, RecipeError> {
        self.elected_within(limit)
    }

    /// Resigns, and waits until its node is deleted. Without a server it waits until the end of the
    /// session's lease at most.
    ///
    /// # Errors
    ///
    /// The error that the candidate [failed](Leadership::Failed) with before, or that refused the
    /// deletion. [`LockError::NotConfirmed`] if no server has confirmed the deletion: it continues
    /// in the background, or the session's end deletes the node.
    release fn close [close_until, close_timeout] (self; end) -> Result<(), RecipeError> {
        self.resign(end)
    }
}

/// Publishes the state that the caller is about to return, unless an event did so already.
fn publish(publisher: Option<Weak<dyn Fn() + Send + Sync>>) {
    if let Some(publish) = publisher.and_then(|publisher| publisher.upgrade()) {
        publish();
    }
}
