//! What a simulated client reports to the checker.

use alloc::sync::Arc;
use core::time::Duration;

use zk_recipes::machine::Event as LockEvent;
use zk_session::session::{Reply, WatchedEvent};
use zk_session::{Error, State};

use super::Call;

/// What an attempt acquires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockKind {
    /// A mutex.
    Mutex,
    /// A read/write lock, for reading.
    Read,
    /// A read/write lock, for writing.
    Write,
    /// Permits of a semaphore.
    Permits {
        /// The number of permits to acquire.
        count: u32,
        /// The number of permits that the semaphore has.
        of: u32,
    },
    /// The textbook lock.
    Textbook,
    /// The end of a node that closes a barrier.
    Barrier,
    /// A double barrier.
    DoubleBarrier {
        /// The number of its members.
        members: usize,
    },
}

impl LockKind {
    /// Returns whether contenders have nodes in a queue.
    pub(super) fn has_queue(self) -> bool {
        !matches!(self, Self::Textbook | Self::Barrier | Self::DoubleBarrier { .. })
    }
}

/// Identifies a request of one client.
pub type CallId = u64;
/// Identifies an attempt of one client to acquire a lock.
pub type AttemptId = u64;

/// An event of a client, in the order in which it happened.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientEvent {
    /// A request was submitted, perhaps with a deadline.
    Submitted(CallId, Arc<Call>, Option<Duration>),
    /// A request was answered.
    Answered(CallId, Result<Reply, Error>),
    /// The watch set by a request has fired.
    Fired(CallId, WatchedEvent),
    /// The persistent watch set by a request may have missed events.
    Gap(CallId),
    /// The persistent watch set by a request was removed.
    Unwatched(CallId),
    /// The state of the session has changed.
    State(State),
    /// An attempt to acquire the lock at this path has begun.
    AttemptStarted(AttemptId, String, LockKind),
    /// The machine of an attempt has reported an event.
    Lock(AttemptId, LockEvent),
    /// All of these attempts hold their locks, as far as the client knows.
    AcquiredTogether([AttemptId; 2]),
    /// An attempt acquires its lock without a list of the contenders.
    AcquiredWithoutList(AttemptId),
    /// An attempt has received a watch event about this node.
    Woken(AttemptId, String),
    /// The server has answered the watch of a holder on its own node, which has this path.
    Guarded(AttemptId, String),
    /// The machine of an attempt has submitted the deletion of this node.
    Deletes(AttemptId, String),
    /// The owner wants to convert its lock.
    Converting(AttemptId),
    /// The owner wants to leave a double barrier with the others.
    Leaving(AttemptId),
    /// The lock was released, or the attempt cancelled.
    Released(AttemptId),
    /// This task of a client holds a lock: the turn with this number of an attempt's node.
    TookTurn(AttemptId, usize, u32),
    /// Others may wait for the lock that this attempt holds.
    Contended(AttemptId),
    /// The lock of this attempt was idle for the time to keep it, or was taken meanwhile.
    Late(AttemptId),
    /// The task holds it no longer.
    EndedTurn(AttemptId, usize),
    /// A [rare event](super::rare) of the session or of a machine.
    Reached(&'static str),
    /// An attempt has nothing left to do.
    AttemptFinished(AttemptId),
}
