//! The core: what a contender for a lock does, without sockets, clocks, tasks or randomness.
//!
//! A [`Contender`] is one attempt to get one lock. Feed it an [`Input`], then take every
//! [`Output`] until there is none, then wait for the next input:
//!
//! * [`Output::Submit`]: make this request. Requests go to the server in this order, on one
//!   session. Its answer is [`Input::Reply`]; if it [watches](Operation::watches), the event is
//!   [`Input::Watch`].
//! * [`Output::Unwatch`]: this watch is not wanted any more.
//! * [`Output::SetTimer`]: after this time, input [`Input::Timer`].
//! * [`Output::Event`]: tell the caller.
//!
//! Answers, events and changes of the session's state must be given in the order in which the
//! session reported them. A machine that [`is_done`](Contender::is_done) has left nothing behind
//! on the server.

mod contender;
mod name;
mod operation;
mod parents;
mod phase;
mod remedy;
mod view;

#[cfg(test)]
mod tests;

use alloc::string::String;
use core::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{EventType, SessionId, Zxid};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

pub use self::contender::Contender;
pub use self::name::{Name, Scheme};
pub use self::operation::{OpId, Operation};
use crate::error::{LockError, Loss};

/// What one attempt is about.
#[derive(Clone, Debug)]
pub struct Contest {
    /// The directory of the lock, as a path of the server.
    pub directory: String,
    /// How lock nodes are named there.
    pub scheme: Scheme,
    /// Marks the node of this attempt. It must never have been used before.
    pub guid: Uuid,
    /// The session that the node will belong to.
    pub session: SessionId,
    /// What the node is to hold, for people who look.
    pub data: Bytes,
}

/// What has happened to a contender.
#[derive(Debug)]
pub enum Input {
    /// A request was answered, or never will be.
    Reply {
        /// The request.
        op: OpId,
        /// Its answer.
        result: Result<Reply, Error>,
    },
    /// A watch has fired.
    Watch {
        /// The request that had asked for it.
        op: OpId,
        /// What happened to the node.
        event_type: EventType,
    },
    /// The state of the session has changed. If it was lost and is back before anybody looked,
    /// the second half is enough.
    Session(State),
    /// The time that was last set is over.
    Timer,
    /// The caller wants the lock no more: gives up waiting, or releases it.
    LetGo,
}

/// What a contender wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a request.
    Submit {
        /// How its answer is to be named.
        op: OpId,
        /// The request.
        operation: Operation,
    },
    /// Drop the watch that this request had asked for.
    Unwatch(OpId),
    /// Input [`Input::Timer`] after this time; replaces what was set before.
    SetTimer(Duration),
    /// Tell the caller.
    Event(Event),
}

/// What a contender tells its caller. After [`Acquired`](Self::Acquired) comes exactly one of
/// `Released`, `Lost` and `Failed`, and nothing comes after those.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// Our node stands in the queue.
    Enqueued {
        /// Its name.
        node: String,
        /// The fencing token that it will give: the transaction that created it.
        token: Zxid,
    },
    /// Others are before us.
    Waiting {
        /// The name of the node immediately before ours.
        behind: String,
        /// How many are before us.
        ahead: usize,
    },
    /// The lock is ours.
    Acquired {
        /// The name of our node.
        node: String,
        /// Greater than the token of anybody who held the lock before, on this ensemble.
        token: Zxid,
    },
    /// The connection is lost; whether the lock is still ours cannot be told.
    Suspended,
    /// The connection is back, and the lock is still ours.
    Resumed,
    /// The lock is not ours any more.
    Lost(Loss),
    /// Our node is gone, as we wanted; or it never came to be.
    Released,
    /// It did not work. If our node is still there it is being deleted.
    Failed(LockError),
}

impl From<End> for Loss {
    fn from(end: End) -> Self {
        Self::Ended(end)
    }
}
