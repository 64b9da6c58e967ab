//! The state machines behind the recipes, for a loop of your own: no sockets, clocks, tasks or
//! randomness.
//!
//! Attach a machine to a session, and the [dispatcher](zk_session::dispatch) does the rest:
//!
//! ```
//! use zk_recipes::machine::{Contender, AttemptConfig, Event, Observer, OnSession, Scheme};
//! use zk_recipes::session::dispatch::{Dispatcher, Key, Port};
//! use zk_recipes::session::{proto::SessionId, time::Instant};
//!
//! /// Receives what happens to the lock.
//! struct Owner;
//!
//! impl Observer for Owner {
//!     fn observe(&mut self, event: Event, _port: &mut Port<'_>) {
//!         match event {
//!             Event::Acquired { token, .. } => println!("acquired, fencing token {}", token.0),
//!             Event::Lost(loss) => println!("lost: {loss}"),
//!             _ => {}
//!         }
//!     }
//! }
//!
//! /// Enters the queue of an exclusive lock. `random` must never have been used before.
//! fn enter_queue<T>(dispatcher: &mut Dispatcher<T>, now: Instant, random: u128) -> Key {
//!     let guid = uuid::Uuid::from_u128(random);
//!     let contest =
//!         AttemptConfig::new("/locks/printer".into(), Scheme::CURATOR_MUTEX, guid, SessionId::NONE);
//!     let machine = OnSession::new(Contender::new(contest), Owner, random as u64);
//!     dispatcher.attach(now, Box::new(machine))
//! }
//! ```
//!
//! The example `no_runtime` of this crate is a whole program of this kind, with the loop around it.
//!
//! * The machines are [`Contender`] (one place in a queue: locks), [`SemaphoreMachine`] (permits of a
//!   semaphore), [`ElectionMachine`] (leader election) and [`Participant`] (double barrier). Each is one
//!   attempt. Make another one for the next.
//! * [`OnSession`] makes a machine [`Attached`](zk_session::dispatch::Attached). It needs neither a
//!   connection nor a session to begin.
//! * [`Observer`] receives the machine's [`Event`]s. [`Event`] says which of them end an attempt.
//! * [`Command`] is what its owner can want, by
//!   [`Dispatcher::command`](zk_session::dispatch::Dispatcher::command): above all
//!   [`Release`](Command::Release), to release the lock or to stop waiting for it.
//! * After [`Release`](Command::Release), or an error, the machine stays attached until nothing of it
//!   is left on the server or the session has ended. Then [`Observer::finish`] is called, or the
//!   observer is dropped. To have the release confirmed, do not close the session before.
//!   [`Dispatcher::close_when_done`](zk_session::dispatch::Dispatcher::close_when_done) waits for
//!   all machines.
//!
//! Paths are the server's. A [chroot](zk_session::Chroot) must be in the paths that a machine is
//! made with.
//!
//! # Without a dispatcher
//!
//! A [`Machine`] can also be driven by hand, for instance by a model checker. Give it an [`Input`],
//! take every [`Output`] until there is none, and wait for the next input. All inputs must come in
//! the order in which the session reported them. [`OnSession`] is the reference:
//!
//! | output | what to do |
//! |---|---|
//! | [`Submit`](Output::Submit) | Submit the request, in this order, on one session. Its answer is [`Input::Reply`]. If it [watches](Operation::watches), the event is [`Input::Watch`]. A refusal is an answer that comes later. |
//! | [`Unwatch`](Output::Unwatch) | Drop the watch of that request. |
//! | [`SetTimer`](Output::SetTimer) | Give [`Input::Timer`] after this time. |
//! | [`Settle`](Output::Settle) | Give everything that has arrived, then [`Input::Settled`]. |
//! | [`Event`](Output::Event) | Report it to the owner. |
//!
//! Three inputs come unasked: each [state of the session](Input::Session), beginning with the
//! present one; the [end of the lease](Input::LeaseEnded); and the answers of [renewed](Renewal)
//! watches, so that a lost event does not keep a machine waiting for ever.

mod access;
mod barrier;
mod connection;
mod contender;
mod double_barrier;
mod election;
mod hint;
mod multi_lock;
mod name;
mod on_session;
mod operation;
mod parents;
mod phase;
mod queue;
mod renewal;
mod retry_policy;
mod semaphore;
#[cfg(feature = "study")]
mod simple;

#[cfg(test)]
mod tests;

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{EventType, SessionId, Zxid};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

pub use self::access::AccessList;
pub use self::barrier::BarrierWait;
pub use self::contender::Contender;
pub use self::double_barrier::Participant;
pub use self::election::{ElectionMachine, Leadership, Term};
pub use self::hint::FastPathHint;
pub use self::multi_lock::{
    Demand, Happening, Member, MultiAcquire, MultiLockError, Wanted, in_order,
};
pub use self::name::{LockMode, Name, Scheme};
pub use self::on_session::{Command, Observer, OnSession};
pub use self::operation::{OpId, Operation};
pub use self::queue::{QueuedNode, UnknownNodePolicy, standing};
pub use self::renewal::Renewal;
pub use self::semaphore::{PermitRequest, SemaphoreMachine};
#[cfg(feature = "study")]
pub use self::simple::SimpleContender;
use crate::error::{LockError, Loss, Unconfirmed};

/// One attempt: a state machine that acquires something, holds it, and gives it back.
pub trait Machine: core::fmt::Debug {
    /// Handles an input. Take all outputs afterwards.
    fn handle(&mut self, input: Input);

    /// Returns the next output, if there is one. A new machine may have some already.
    fn poll_output(&mut self) -> Option<Output>;

    /// Returns whether the attempt is over: there is no more output, and nothing of it is left on
    /// the server.
    fn is_done(&self) -> bool;

    /// Returns a [hint](AttemptConfig::hint) for the next contender of the same lock, once this one
    /// is done; something if it held the lock and has released it.
    fn hint(&self) -> Option<FastPathHint> {
        None
    }
}

/// What one attempt is about.
#[derive(Clone, Debug)]
pub struct AttemptConfig {
    /// The lock path, as a path of the server.
    pub lock_path: String,
    /// How lock nodes are named there.
    pub scheme: Scheme,
    /// Whether the lock may be shared with others.
    pub mode: LockMode,
    /// Marks the node of this attempt. It must never have been used before.
    pub guid: Uuid,
    /// The session that the node will belong to, as far as is known. [`Input::Session`] replaces
    /// it: a session that begins on a read-only server gets another id from the quorum.
    pub session: SessionId,
    /// What the node is to hold, for people who look.
    pub data: Bytes,
    /// Who may do what with the node.
    pub acl: AccessList,
    /// Who may do what with the lock path and what is above it, where that is missing. Nodes
    /// can be deleted by whoever may delete children of the lock path.
    pub parent_acl: AccessList,
    /// Whether to wait.
    pub wait_policy: WaitPolicy,
    /// How long to believe that the lock is held while nobody can be asked.
    pub disconnect_policy: DisconnectPolicy,
    /// What to do about nodes that are no contenders of this lock.
    pub unknown_nodes: UnknownNodePolicy,
    /// Whether to look out for somebody who [asks for the lock](Event::Revoked).
    pub revocable: bool,
    /// What the contender before, in the same directory of the same ensemble, has
    /// [left](Machine::hint). Where several in a row have found nobody else, the list is
    /// spared, and asked for only if somebody has come since. Only a [`Contender`] looks at it.
    pub hint: Option<FastPathHint>,
}

impl AttemptConfig {
    /// What a node holds when its owner is asked to release the lock, as Curator has it.
    pub const REVOKE: &[u8] = b"__REVOKE__";

    /// An attempt to get an exclusive lock, with everything else as most people want it.
    pub const fn new(lock_path: String, scheme: Scheme, guid: Uuid, session: SessionId) -> Self {
        Self {
            lock_path,
            scheme,
            mode: LockMode::Exclusive,
            guid,
            session,
            data: Bytes::new(),
            acl: AccessList::OPEN,
            parent_acl: AccessList::OPEN,
            wait_policy: WaitPolicy::Queue,
            disconnect_policy: DisconnectPolicy::UntilLeaseEnds,
            unknown_nodes: UnknownNodePolicy::RefuseOtherLocks,
            revocable: false,
            hint: None,
        }
    }

    /// Takes the session from the server that owns it. The id that a read-only server has given is
    /// its own, and ends with the connection to it.
    const fn follow(&mut self, state: State) {
        if let State::Connected { session, .. } = state {
            self.session = session;
        }
    }
}

/// Whether to wait for a lock.
///
/// All but [`Queue`](Self::Queue) do not wait for a connection either. The attempt begins with the
/// first [`Input::Session`]. It fails with [`LockError::NoConnection`] if that state, or a later
/// one, is no connection to a quorum ([`State::ReadOnly`] is none), or if a request is lost with
/// its connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitPolicy {
    /// Enter the queue, and wait.
    #[default]
    Queue,
    /// Enter the queue, and fail with [`LockError::TimedOut`] when somebody is to be waited for: of
    /// two that try at once, the first gets the lock.
    OnlyIfFirst,
    /// Look first, and fail with [`LockError::Busy`] when there is somebody to wait for. Two who
    /// try at once may see each other, and both fail.
    OnlyIfFree,
}

impl WaitPolicy {
    /// Why the attempt fails when somebody is to be waited for, if it does.
    pub(crate) const fn refusal(self) -> Option<LockError> {
        match self {
            Self::Queue => None,
            Self::OnlyIfFirst => Some(LockError::TimedOut),
            Self::OnlyIfFree => Some(LockError::Busy),
        }
    }

    /// Whether to wait for a connection, too.
    const fn waits_for_connection(self) -> bool {
        matches!(self, Self::Queue)
    }
}

/// How long a lock is believed to be held while no server confirms it. Where the trust ends
/// sooner than the session, the lock is given up, and told to be lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DisconnectPolicy {
    /// As long as the ensemble is bound to keep the session, as far as can be known without it.
    /// Curator's locks are lost at about that time, too.
    #[default]
    UntilLeaseEnds,
    /// Until the session turns out to have ended, or the node to be gone; which nobody can tell
    /// before there is a connection again, when somebody else may have had the lock for long. For
    /// those who check their [fencing token](Event::Acquired) with every write.
    UntilServerReports,
    /// Not at all.
    WhileConnected,
}

impl DisconnectPolicy {
    /// Why a lock that was held is lost when the lease ends; `None` if it is trusted beyond that,
    /// and only suspended.
    pub const fn loss_after_lease(self) -> Option<Loss> {
        match self {
            Self::UntilServerReports => None,
            Self::UntilLeaseEnds | Self::WhileConnected => Some(Loss::LeaseEnded),
        }
    }
}

/// What a machine receives.
#[derive(Debug)]
pub enum Input {
    /// A request was answered, or never will be; or a watch was [renewed](Renewal).
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
    /// The lease of the session [has ended](zk_session::session::Event::LeaseEnded), with or
    /// without a connection. Give it as well behind a new state, and behind what the caller wants,
    /// whenever the lease [has ended](zk_session::session::Session::lease_has_ended) by then.
    LeaseEnded,
    /// Everything that had arrived when [`Output::Settle`] asked for it has been given.
    Settled,
    /// The node that [`Event::Waiting`] has named is one that this client has
    /// [abandoned](Event::Abandoned). Waiting for it would be in vain.
    BehindAbandoned,
    /// The holder wants the lock with another mode; nothing else in between.
    /// [`Event::Converted`] or [`Event::NotConverted`] answers.
    Convert(LockMode),
    /// The caller wants to release the lock as soon as it may. Who waits for others then is a
    /// [`Participant`]; for all others it is as `Release`.
    Leave,
    /// The caller wants the lock no more: gives up waiting, or releases it.
    Release,
}

impl Input {
    /// As this part of a machine has it; nothing if it is about a request of another.
    fn of_part(self, part: u32) -> Option<Self> {
        let own = |op: OpId| Some(op.split()).filter(|(of, _)| *of == part).map(|(_, op)| op);
        Some(match self {
            Self::Reply { op, result } => Self::Reply { op: own(op)?, result },
            Self::Watch { op, event_type } => Self::Watch { op: own(op)?, event_type },
            input => input,
        })
    }
}

/// What a machine wants to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Submit a request.
    Submit {
        /// Identifies its answer and the event of its watch.
        op: OpId,
        /// The request.
        operation: Operation,
    },
    /// Drop the watch that this request had asked for.
    Unwatch(OpId),
    /// Input [`Input::Timer`] after this time; replaces what was set before.
    SetTimer(Duration),
    /// Give the machine everything that has arrived by now, then [`Input::Settled`].
    Settle,
    /// Report to the owner.
    Event(Event),
}

impl Output {
    /// As wanted by a machine of which this was wanted by one part.
    fn of_part(self, part: u32) -> Self {
        match self {
            Self::Submit { op, operation } => Self::Submit { op: op.of_part(part), operation },
            Self::Unwatch(op) => Self::Unwatch(op.of_part(part)),
            // One clock for all: each takes a call that was meant for another for its own.
            Self::SetTimer(_) | Self::Settle | Self::Event(_) => self,
        }
    }
}

/// What a machine reports to its owner.
///
/// After [`Acquired`](Self::Acquired) comes exactly one of `Released`, `Lost` and `Failed`, and
/// nothing after that, with two exceptions: `Abandoned` can follow, and a [`ElectionMachine`] that has
/// lost begins anew, unless its session has ended.
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
    /// Told right before [`Acquired`](Self::Acquired) by whoever gets several permits at once: the
    /// names of all nodes that stand for them, of which that names the first.
    Permits(Vec<String>),
    /// The lock is ours.
    Acquired {
        /// The name of our node.
        node: String,
        /// Greater than the token of anybody who held the lock before, on this ensemble.
        token: Zxid,
    },
    /// The connection is lost, or the lease has ended; it is unknown whether the lock is still
    /// ours.
    Suspended,
    /// A server has confirmed that the lock is still ours.
    Resumed,
    /// The lock is not ours any more.
    Lost(Loss),
    /// The lock is held with this mode now, by another node.
    Converted {
        /// How it is held.
        mode: LockMode,
        /// The name of our node.
        node: String,
        /// A reader keeps that of the writer it was; a writer gets a greater one.
        token: Zxid,
    },
    /// The lock is held as before.
    NotConverted(LockError),
    /// Somebody asks us to release the lock. Nothing forces us.
    Revoked,
    /// There is a child of the lock's path that is no contender, and this is its name. It is passed
    /// over, or [counts](UnknownNodePolicy::Count).
    UnknownNode(String),
    /// The ensemble permanently refuses to delete a node that we no longer need. The node stays
    /// until the session ends or another client deletes it, and keeps the contenders behind it
    /// waiting.
    Abandoned {
        /// Its name.
        node: String,
        /// Why it was refused: mostly `NO_AUTH`, where the access control list of the parent does
        /// not let us delete.
        error: Error,
    },
    /// Our node is gone, as we wanted; or it never came to be.
    Released,
    /// The operation failed. If our node still exists it is being deleted, also if a deletion was
    /// [not confirmed](LockError::NotConfirmed) in time.
    Failed(LockError),
}

impl Event {
    /// What has become of a node that was to be deleted when the session ended.
    const fn gone_with(end: End) -> Self {
        match end {
            End::Expired => Self::Released,
            // Nobody but the servers ends it now.
            end => Self::Failed(LockError::NotConfirmed(Unconfirmed::Ended(end))),
        }
    }

    /// The lease has ended before a server has confirmed that our node is gone.
    const NOT_CONFIRMED: Self = Self::Failed(LockError::NotConfirmed(Unconfirmed::LeaseEnded));
}

impl From<End> for Loss {
    fn from(end: End) -> Self {
        Self::Ended(end)
    }
}
