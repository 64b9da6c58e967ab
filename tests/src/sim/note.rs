//! What clients tell, and what can be wrong with them.

use alloc::sync::Arc;
use core::time::Duration;

use zk_recipes::machine::Event as LockEvent;
use zk_session::session::{Reply, WatchedEvent};
use zk_session::{Error, State};

use super::Call;

/// A fault of a client that the simulator must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quirk {
    /// Requests that were lost with their connection are made again, whatever they may have done.
    RepeatsWhatWasLost,
    /// Members are not told what was seen, so that one that is behind does not refuse.
    ForgetsWhatWasSeen,
    /// A lock whose creation was lost looks for its node without a sync before.
    LooksWithoutSync,
    /// Locks take the loss of the connection for the event that they wait for.
    TakesLossForEvent,
    /// Events are received and told to nobody.
    DropsEvents,
    /// Locks watch the directory rather than one node in it.
    WatchesTheDirectory,
    /// Locks overlook everybody else in the directory.
    SeesOnlyItself,
    /// It is told to nobody that persistent watches may have missed something.
    ConcealsGaps,
    /// Requests with a deadline wait for ever.
    ForgetsDeadlines,
    /// A request whose deadline has passed counts as not applied, even if it was sent.
    TakesDeadlineForRefusal,
    /// Read-only members are accepted although that was not wanted.
    AcceptsReadOnlyUnasked,
    /// Locks do not renew watches that stay silent.
    NeverRenews,
    /// A member that can write is not turned to while a read-only one serves.
    StaysReadOnly,
    /// Between rounds of attempts to connect it sleeps ever longer, up to 5 s, whatever the session
    /// timeout.
    SleepsThroughOutages,
}

/// What an attempt is to get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Demand {
    /// A mutex.
    Mutex,
    /// A read/write lock, for reading.
    Read,
    /// A read/write lock, for writing.
    Write,
    /// Permits of a semaphore.
    Permits {
        /// How many.
        count: u32,
        /// How many it has.
        of: u32,
    },
}

/// Names a request of one client.
pub type CallId = u64;
/// Names an attempt to get a lock, of one client.
pub type AttemptId = u64;

/// What a client tells: everything that matters to a judge, in order.
#[derive(Clone, Debug, PartialEq)]
pub enum Note {
    /// A request was made, perhaps with a time by which it is to be answered.
    Called(CallId, Arc<Call>, Option<Duration>),
    /// It was answered.
    Answered(CallId, Result<Reply, Error>),
    /// The watch that it asked for has fired.
    Fired(CallId, WatchedEvent),
    /// The watch that it asked for, which stays, may have missed something.
    Gap(CallId),
    /// That watch is not wanted any more.
    Unwatched(CallId),
    /// The state of the session has changed.
    State(State),
    /// An attempt to get the lock in this directory has begun.
    Contends(AttemptId, String, Demand),
    /// Something has happened to it.
    Lock(AttemptId, LockEvent),
    /// It gets its lock without having asked who else is there.
    Unlisted(AttemptId),
    /// It heard that another node is gone.
    Woken(AttemptId, String),
    /// It is not wanted any more.
    LetGo(AttemptId),
    /// It has nothing left to do.
    Done(AttemptId),
}
