//! What runs should reach: paths of recovery, and the results of recipes.
//!
//! They are observed from outside: from the events of a session, and from the inputs and outputs of
//! a machine. So they cost nothing in production.

use alloc::collections::BTreeSet;

use zk_proto::{ErrorCode, Request};
use zk_recipes::machine::{Command, Event as LockEvent, LockMode, OpId};
use zk_recipes::{LockError, Loss, ModeError};
use zk_session::dispatch::{Input, Submission};
use zk_session::session::{Cause, Event};
use zk_session::{End, Error, State};

use super::LockKind;

/// Every rare event of a session.
pub const OF_SESSIONS: [&str; 21] = [
    "session: closed by its server",
    "session: connect timeout",
    "session: read timeout",
    "session: reply before its request was sent",
    "session: left a read-only server",
    "session: resumed",
    "session: resumed read-only",
    "session: suspended read-only",
    "session: read-write again",
    "session: expired",
    "session: renewing",
    "session: renewed",
    "session: renewed read-only",
    "session: ended while read-only",
    "session: lease ended",
    "session: lease ended while connected",
    "session: gap",
    "session: authenticates",
    "session: request lost",
    "session: request too late, unsent",
    "session: request too late, sent",
];

/// Every rare event of a machine.
pub const OF_MACHINES: [&str; 39] = [
    "lock: reply of the create lost",
    "lock: looks for a lost create",
    "lock: looks for a lost create again",
    "lock: finds a lost create",
    "lock: creates again",
    "lock: looks among its own nodes",
    "lock: creates the parents",
    "lock: reads a list in pieces",
    "lock: reply of a list lost",
    "lock: reply of a watch lost",
    "lock: reply of a deletion lost",
    "lock: deletes again",
    "lock: predecessor gone before its watch",
    "lock: takes over by an event",
    "lock: gives up a takeover",
    "lock: renews a watch",
    "lock: verifies its node",
    "lock: verifies its node in vain",
    "lock: refused temporarily",
    "lock: refused by a full queue",
    "lock: refused by an access control list",
    "lock: tries again later",
    "lock: suspended",
    "lock: resumed",
    "lock: lost with the session",
    "lock: lost with its node",
    "lock: lost with the lease",
    "lock: fails because of a request",
    "lock: fails with the session",
    "lock: fails without its node",
    "lock: fails behind an unreadable node",
    "lock: release not confirmed",
    "lock: abandons a node",
    "lock: queues again",
    "lock: released before it was enqueued",
    "lock: released while it waits",
    "lock: session read-only",
    "lock: session renewing",
    "lock: lease ends while it waits",
];

/// What 50 runs of [`Targets::Recipes`](super::Targets::Recipes) reach.
pub const OF_RECIPES: [&str; 12] = [
    "barrier: open",
    "conversion: downgraded",
    "conversion: upgraded",
    "conversion: refused",
    "double barrier: entered",
    "double barrier: left",
    "fenced writes judged",
    "several locks: acquired",
    "several locks: failed",
    "textbook: acquired",
    "textbook: resumed",
    "textbook: waits",
];

/// What runs of [`Targets::Tasks`](super::Targets::Tasks) reach.
pub const OF_TASKS: [&str; 7] = [
    "conversion: downgraded",
    "conversion: upgraded",
    "conversion: refused",
    "kept locks contended",
    "kept locks late",
    "turns passed on",
    "turns with a node",
];

/// What only thousands of them reach for sure.
pub const RARE_OF_RECIPES: [&str; 4] = [
    "conversion: failed",
    "double barrier: lost before all were there",
    "double barrier: lost inside",
    "textbook: lost",
];

/// What elections and nodes that are kept alive report.
pub const OF_LASTING: [&str; 11] = [
    "election: queues",
    "election: leads",
    "election: suspended",
    "election: resumed",
    "election: lost with its node",
    "election: lost with the session",
    "election: lost with the lease",
    "kept node: made",
    "kept node: lost with its node",
    "kept node: lost with the session",
    "release not confirmed",
];

/// The outages that cost nothing, by their kind.
pub const OF_OUTAGES: [&str; 3] = ["outage: dead", "outage: silent", "outage: cut"];

/// What caches report.
pub const OF_CACHES: [&str; 7] = [
    "cache: added",
    "cache: changed",
    "cache: compared",
    "cache: ended",
    "cache: ready",
    "cache: removed",
    "cache: reset",
];

/// Returns which of [`OF_LASTING`] an event of a machine is.
pub(super) fn of_lasting(is_election: bool, event: &LockEvent) -> Option<&'static str> {
    Some(match (is_election, event) {
        (true, LockEvent::Enqueued { .. }) => "election: queues",
        (true, LockEvent::Acquired { .. }) => "election: leads",
        (true, LockEvent::Suspended) => "election: suspended",
        (true, LockEvent::Resumed) => "election: resumed",
        (true, LockEvent::Lost(Loss::NodeDeleted)) => "election: lost with its node",
        (true, LockEvent::Lost(Loss::LeaseEnded)) => "election: lost with the lease",
        (true, LockEvent::Lost(_)) => "election: lost with the session",
        (false, LockEvent::Acquired { .. }) => "kept node: made",
        (false, LockEvent::Lost(Loss::NodeDeleted)) => "kept node: lost with its node",
        (false, LockEvent::Lost(_)) => "kept node: lost with the session",
        (_, LockEvent::Failed(LockError::NotConfirmed(_))) => "release not confirmed",
        _ => return None,
    })
}

/// Returns which of [`OF_RECIPES`] or [`RARE_OF_RECIPES`] an event of a machine is.
pub(super) fn of_recipe(kind: LockKind, event: &LockEvent) -> Option<&'static str> {
    Some(match (kind, event) {
        (_, LockEvent::Converted { mode: LockMode::Shared, .. }) => "conversion: downgraded",
        (_, LockEvent::Converted { .. }) => "conversion: upgraded",
        (_, LockEvent::NotConverted(ModeError::NotAlone)) => "conversion: refused",
        (_, LockEvent::NotConverted(_)) => "conversion: failed",
        (LockKind::DoubleBarrier { .. }, LockEvent::Failed(LockError::Lost(_))) => {
            "double barrier: lost before all were there"
        }
        (LockKind::DoubleBarrier { .. }, LockEvent::Lost(_)) => "double barrier: lost inside",
        (LockKind::Textbook, LockEvent::Acquired { .. }) => "textbook: acquired",
        (LockKind::Textbook, LockEvent::Lost(_)) => "textbook: lost",
        (LockKind::Textbook, LockEvent::Resumed) => "textbook: resumed",
        (LockKind::Textbook, LockEvent::Waiting { .. }) => "textbook: waits",
        _ => return None,
    })
}

/// Returns the rare event that an event of a session is.
pub(super) fn of_session<T>(before: State, event: &Event<T>) -> Option<&'static str> {
    Some(match event {
        Event::Disconnected { cause, .. } => match cause {
            Cause::Transport => "session: closed by its server",
            Cause::ConnectTimeout => "session: connect timeout",
            Cause::ReadTimeout => "session: read timeout",
            Cause::Unasked => "session: reply before its request was sent",
            Cause::ReadWriteFound => "session: left a read-only server",
            _ => "session: disconnected for another reason",
        },
        Event::State(after) => match (before, after) {
            (State::Suspended, State::Connected { .. }) => "session: resumed",
            (State::Suspended, State::ReadOnly { .. }) => "session: resumed read-only",
            (State::ReadOnly { .. }, State::Suspended) => "session: suspended read-only",
            (State::ReadOnly { .. }, State::Connected { .. }) => "session: read-write again",
            (State::ReadOnly { .. }, State::Ended(_)) => "session: ended while read-only",
            (State::Renewing, State::Connected { .. }) => "session: renewed",
            (State::Renewing, State::ReadOnly { .. }) => "session: renewed read-only",
            (_, State::Ended(End::Expired)) => "session: expired",
            (_, State::Renewing) => "session: renewing",
            _ => return None,
        },
        Event::LeaseEnded if matches!(before, State::Connected { .. }) => {
            "session: lease ended while connected"
        }
        Event::LeaseEnded => "session: lease ended",
        Event::Gap { .. } => "session: gap",
        Event::Authenticate { .. } => "session: authenticates",
        Event::Reply { result: Err(Error::ConnectionLost), .. } => "session: request lost",
        Event::Reply { result: Err(error @ Error::DeadlinePassed { .. }), .. } => {
            match error.outcome() {
                zk_session::Outcome::NotApplied => "session: request too late, unsent",
                _ => "session: request too late, sent",
            }
        }
        _ => return None,
    })
}

/// The kind of a machine's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Create,
    Parent,
    Delete,
    List,
    ListOwn,
    Sync,
    Look,
    Watch,
    Other,
}

impl Kind {
    fn of(request: &Request<'_>, submission: Submission) -> Self {
        match request {
            _ if submission == Submission::Watch => Self::Watch,
            Request::Create2(_) | Request::Multi(_) => Self::Create,
            Request::Create(_) | Request::CreateContainer(_) => Self::Parent,
            Request::Delete(_) => Self::Delete,
            Request::GetChildren(_) => Self::List,
            Request::GetEphemerals(_) => Self::ListOwn,
            Request::Sync(_) => Self::Sync,
            Request::Exists(_) => Self::Look,
            _ => Self::Other,
        }
    }
}

/// Finds the rare events of one machine.
#[derive(Debug, Default)]
pub(super) struct Watcher {
    /// Pending requests, and watches that are answered.
    requests: Vec<(OpId, Kind)>,
    /// Watches whose request was answered.
    set: BTreeSet<OpId>,
    deleted: BTreeSet<String>,
    creates: u32,
    searches: u32,
    is_settling: bool,
    is_enqueued: bool,
    is_held: bool,
}

impl Watcher {
    /// Returns the rare event that an input is.
    pub(super) fn input(&mut self, input: &Input) -> Option<&'static str> {
        Some(match input {
            Input::Reply { tag, result } => return self.reply(OpId::of_tag(*tag), result),
            Input::Watch { tag, .. } => {
                self.requests.retain(|(op, _)| op.tag() != *tag);
                return None;
            }
            Input::Timer => "lock: tries again later",
            Input::State(State::ReadOnly { .. }) => "lock: session read-only",
            Input::State(State::Renewing) => "lock: session renewing",
            Input::LeaseEnded if !self.is_held => "lock: lease ends while it waits",
            _ => return None,
        })
    }

    /// Returns the rare event that a command is.
    pub(super) fn command(&self, command: Command) -> Option<&'static str> {
        (command == Command::Release && !self.is_held).then_some(match self.is_enqueued {
            true => "lock: released while it waits",
            false => "lock: released before it was enqueued",
        })
    }

    fn reply(
        &mut self,
        op: OpId,
        result: &Result<zk_session::session::Reply, Error>,
    ) -> Option<&'static str> {
        let place = self.requests.iter().position(|(other, _)| *other == op)?;
        let (_, kind) = self.requests[place];
        if result.as_ref().is_ok_and(|reply| reply.has_more) {
            return Some("lock: reads a list in pieces");
        }
        if kind == Kind::Watch && result.is_ok() && !self.set.insert(op) {
            return Some("lock: renews a watch");
        }
        if kind != Kind::Watch {
            self.requests.swap_remove(place);
        }
        Some(match (kind, result) {
            (Kind::Look, Ok(_)) if self.is_enqueued => "lock: verifies its node",
            (Kind::Look, Ok(_)) => "lock: finds a lost create",
            (Kind::Look, Err(Error::Server(ErrorCode::NO_NODE))) => {
                "lock: verifies its node in vain"
            }
            (Kind::Watch, Err(Error::Server(ErrorCode::NO_NODE))) => {
                "lock: predecessor gone before its watch"
            }
            (Kind::Create, Err(Error::ConnectionLost)) => "lock: reply of the create lost",
            (Kind::List, Err(Error::ConnectionLost)) => "lock: reply of a list lost",
            (Kind::Watch, Err(Error::ConnectionLost)) => "lock: reply of a watch lost",
            (Kind::Delete, Err(Error::ConnectionLost)) => "lock: reply of a deletion lost",
            (_, Err(error)) if error.is_full() => "lock: refused by a full queue",
            (_, Err(Error::Server(ErrorCode::NO_AUTH))) => {
                "lock: refused by an access control list"
            }
            (_, Err(Error::Server(code)))
                if !matches!(*code, ErrorCode::NO_NODE | ErrorCode::NODE_EXISTS) =>
            {
                "lock: refused temporarily"
            }
            _ => return None,
        })
    }

    /// Returns the rare event that a request is.
    pub(super) fn submitted(
        &mut self,
        op: OpId,
        request: &Request<'_>,
        submission: Submission,
    ) -> Option<&'static str> {
        let kind = Kind::of(request, submission);
        self.requests.push((op, kind));
        self.submits(kind, request.paths().next().unwrap_or_default())
    }

    /// The machine asks to settle.
    pub(super) const fn settles(&mut self) {
        self.is_settling = true;
    }

    fn submits(&mut self, kind: Kind, path: &str) -> Option<&'static str> {
        Some(match kind {
            Kind::List if core::mem::take(&mut self.is_settling) => "lock: gives up a takeover",
            Kind::Create => {
                self.creates += 1;
                match self.creates {
                    1 => return None,
                    _ => "lock: creates again",
                }
            }
            Kind::Parent => "lock: creates the parents",
            Kind::Delete if !self.deleted.insert(path.to_owned()) => "lock: deletes again",
            Kind::ListOwn => "lock: looks among its own nodes",
            Kind::Sync => {
                self.searches += 1;
                match self.searches {
                    1 => "lock: looks for a lost create",
                    _ => "lock: looks for a lost create again",
                }
            }
            _ => return None,
        })
    }

    pub(super) fn event(&mut self, event: &LockEvent) -> Option<&'static str> {
        Some(match event {
            LockEvent::Enqueued { .. } if core::mem::replace(&mut self.is_enqueued, true) => {
                "lock: queues again"
            }
            LockEvent::Enqueued { .. } => return None,
            LockEvent::Acquired { .. } => {
                self.is_held = true;
                match core::mem::take(&mut self.is_settling) {
                    true => "lock: takes over by an event",
                    false => return None,
                }
            }
            LockEvent::Suspended => "lock: suspended",
            LockEvent::Resumed => "lock: resumed",
            LockEvent::Lost(Loss::NodeDeleted) => "lock: lost with its node",
            LockEvent::Lost(Loss::LeaseEnded) => "lock: lost with the lease",
            LockEvent::Lost(_) => "lock: lost with the session",
            LockEvent::Failed(LockError::NodeVanished) => "lock: fails without its node",
            LockEvent::Failed(LockError::Unreadable { .. }) => {
                "lock: fails behind an unreadable node"
            }
            LockEvent::Failed(LockError::NotConfirmed(_)) => "lock: release not confirmed",
            LockEvent::Failed(LockError::Ended(_)) => "lock: fails with the session",
            LockEvent::Failed(_) => "lock: fails because of a request",
            LockEvent::Abandoned { .. } => "lock: abandons a node",
            _ => return None,
        })
    }
}
