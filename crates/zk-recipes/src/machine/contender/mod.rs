//! One attempt to get a lock: the queue machine.
//!
//! The queue is a directory. A contender creates an ephemeral sequential node in it and lists the
//! directory; whoever is blocked by nobody before it holds the lock, everybody else watches the
//! last one that blocks it. All of this survives lost connections, since every step can be
//! repeated: the one that cannot, the creation, carries a guid by which its result is found again.

mod converting;
mod entering;
mod holding;
mod leaving;
mod queueing;

use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use zk_session::proto::{EventType, path};
use zk_session::session::Reply;
use zk_session::{End, Error};

use super::connection::Connection;
use super::parents::Parents;
use super::phase::{Conversion, Node, Phase, SelfWatch};
use super::remedy::{RETRY_AFTER, Remedy};
use super::view::Eyes;
use super::{
    Claim, Contest, Entry, Event, Input, Machine, Name, OpId, Operation, Output, Precedent, Trust,
};
use crate::error::{LockError, Loss};

/// One attempt to get one lock. See the [module](super) for how to drive it.
#[derive(Clone, Debug)]
pub struct Contender {
    contest: Contest,
    /// Whether it waits for any change below the lock's path, so that every change wakes all waiters.
    is_herd: bool,
    phase: Phase,
    /// Our node, once we know that it exists.
    node: Option<Node>,
    conversion: Option<Conversion>,
    /// The caller has lost interest while it could not be told yet what there is to clean up.
    letting_go: bool,
    connection: Connection,
    /// Whether there has been no connection for so long that the session need not be kept.
    lease_ended: bool,
    self_watch: Option<SelfWatch>,
    /// Whether somebody has asked for the lock.
    revoked: bool,
    /// Whether the caller was told of a foreign node.
    warned: bool,
    /// Nodes that must go, with the request that is to delete each, unless it was refused for now.
    deletions: Vec<(Option<OpId>, String)>,
    /// How many contenders in a row have found nobody, us included.
    followed: u32,
    /// Whether we leave something to the next, since we hold the lock.
    leaves_precedent: bool,
    parents: Parents,
    /// Whether the caller was told how it ended.
    concluded: bool,
    last_op: OpId,
    outputs: VecDeque<Output>,
    #[cfg(test)]
    pub(super) mistake: Option<Mistake>,
}

/// What could be wrong, to see that it would be noticed.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mistake {
    ShortcutAmongReaders,
    PrecedentForAnyNumber,
    PrecedentForEver,
}

impl Machine for Contender {
    fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { op, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end),
                None => {
                    if let Err(Error::ConnectionLost) = result {
                        self.not_connected();
                    }
                    self.handle_reply(op, self.connection.hear(result));
                }
            },
            Input::Watch { op, event_type } => self.handle_watch(op, event_type),
            Input::Session(state) => self.handle_session(state),
            Input::LeaseEnded => self.handle_end_of_lease(),
            Input::Timer => self.handle_timer(),
            Input::Convert(claim) => self.convert(claim),
            Input::Settled => self.settled(),
            Input::BehindAbandoned => self.behind_abandoned(),
            Input::Leave | Input::LetGo => self.let_go(),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() && self.is_at_rest() {
            // A process can hold thousands of locks, and each would keep its room.
            self.outputs = VecDeque::new();
        }
        output
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    fn precedent(&self) -> Option<Precedent> {
        let node = self.node.as_ref().filter(|_| self.is_done() && self.leaves_precedent)?;
        let Contest { scheme, foreign, .. } = self.contest;
        let Name { claim, sequence: number, .. } = scheme.parse(node.name())?;
        let (czxid, followed) = (node.czxid, self.followed);
        Some(Precedent { scheme, foreign, claim, number, czxid, followed })
    }
}

impl Contender {
    /// An attempt. By [`Entry::Queue`] it begins now, and otherwise with the first
    /// [`Input::Session`], if that is a connection.
    pub fn new(contest: Contest) -> Self {
        match contest.entry.waits_for_connection() {
            true => Self::begun(contest),
            false => Self::before(contest),
        }
    }

    /// An attempt that waits for any change below the lock's path, as locks are taught at first, rather
    /// than for the end of its predecessor: a herd, since every change wakes all waiters.
    #[cfg(feature = "study")]
    #[must_use]
    pub fn herd(contest: Contest) -> Self {
        Self { is_herd: true, ..Self::new(contest) }
    }

    /// An attempt that begins now, with a session that is connected or, by [`Entry::Queue`], will be.
    pub(super) fn begun(contest: Contest) -> Self {
        let mut contender = Self::before(contest);
        contender.begin();
        contender
    }

    fn begin(&mut self) {
        match self.contest.entry {
            Entry::Queue | Entry::OnlyIfFirst => self.create(),
            Entry::OnlyIfFree => self.look(),
        }
    }

    /// One that stands in no queue: what it wants it has got, with this node.
    pub(super) fn holding(contest: Contest, node: Node, connection: Connection) -> Self {
        let mut contender = Self { node: Some(node), connection, ..Self::before(contest) };
        contender.acquired();
        contender
    }

    fn before(mut contest: Contest) -> Self {
        if !contest.scheme.has_readers() {
            contest.claim = Claim::Exclusive;
        }
        Self {
            contest,
            is_herd: false,
            phase: Phase::Beginning,
            node: None,
            conversion: None,
            letting_go: false,
            connection: Connection::Up,
            lease_ended: false,
            self_watch: None,
            revoked: false,
            warned: false,
            deletions: Vec::new(),
            followed: 0,
            leaves_precedent: false,
            parents: Parents::new(),
            concluded: false,
            last_op: OpId(0),
            outputs: VecDeque::new(),
            #[cfg(test)]
            mistake: None,
        }
    }

    pub(super) const fn trust(&mut self, trust: Trust) {
        self.contest.trust = trust;
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// Answers to requests that a later step has made pointless are ignored.
    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        if self.handle_deletion(op, &result) || self.handle_self_watch(op, &result) {
            return;
        }
        if self.conversion.is_some() {
            return self.handle_conversion(op, result);
        }
        match &mut self.phase {
            Phase::Looking { list } if *list == op => self.looked(result),
            Phase::Creating { create, list } if *create == op => {
                let list = *list;
                self.created(list, result);
            }
            // Told before the creation is, so it was refused before it was sent.
            Phase::Creating { list, .. } if *list == Some(op) => *list = None,
            Phase::MakingParents { first, last } if (*first..=*last).contains(&op) => {
                let is_last = op == *last;
                self.made_parent(is_last, result);
            }
            Phase::Resolving { sync, synced, .. } if *sync == op => match result {
                Ok(_) => *synced = true,
                Err(error) => self.retry_or_fail(error),
            },
            Phase::Resolving { list, synced: true, .. } if *list == op => self.resolved(result),
            // Told before the sync is, so it was refused before it was sent.
            Phase::Resolving { list, .. } if *list == op => self.set_timer(RETRY_AFTER),
            Phase::Adopting { stat, path } if *stat == op => {
                let path = core::mem::take(path);
                self.adopted(path, result);
            }
            Phase::Deciding { list } if *list == op => self.listed(result),
            Phase::Ranking { ranks, .. } => {
                if let Some(rank) = ranks.iter().position(|rank| rank.stat == op) {
                    self.ranked(rank, result);
                }
            }
            Phase::Waiting { watch, .. } if *watch == op => self.watched(result),
            _ => {}
        }
    }

    fn handle_watch(&mut self, op: OpId, event_type: EventType) {
        let deleted = event_type == EventType::NODE_DELETED;
        if self.self_watch.is_some_and(|watch| watch.op == op) {
            self.self_watch_fired(deleted);
        } else {
            self.predecessor_watch_fired(op, deleted);
        }
    }

    fn handle_timer(&mut self) {
        let refused = self.deletions.extract_if(.., |(op, _)| op.is_none());
        for (_, path) in refused.collect::<Vec<_>>() {
            self.delete(path);
        }
        self.repeat();
    }

    fn let_go(&mut self) {
        match self.phase {
            Phase::Beginning
            | Phase::Looking { .. }
            | Phase::Deciding { .. }
            | Phase::Ranking { .. }
            | Phase::Waiting { .. }
            | Phase::TakingOver
            | Phase::Held { .. } => self.leave(),
            Phase::Leaving | Phase::Done => {}
            // Whether there is a node to delete will turn out.
            Phase::Creating { .. }
            | Phase::MakingParents { .. }
            | Phase::Resolving { .. }
            | Phase::Adopting { .. } => self.letting_go = true,
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.phase {
            Phase::Held { .. } => Event::Lost(Loss::Ended(end)),
            // The node goes with the session, which is all that was wanted.
            Phase::Leaving => Event::gone_with(end),
            _ if self.letting_go => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.leaves_precedent = false;
        self.phase = Phase::Done;
    }

    // ---- Failures ------------------------------------------------------------------------------

    fn vanished(&mut self) {
        self.node = None;
        self.fail(LockError::NodeVanished);
    }

    fn fail(&mut self, error: LockError) {
        if !self.letting_go {
            self.conclude(Event::Failed(error));
        }
        self.leave();
    }

    fn retry_or_fail(&mut self, error: Error) {
        match Remedy::of(&error) {
            Remedy::Now => self.repeat(),
            Remedy::Later => self.set_timer(RETRY_AFTER),
            Remedy::None => self.fail(error.into()),
        }
    }

    /// Takes the present step again. That is never wrong, so a timer that was set for a step
    /// before this one does no harm.
    fn repeat(&mut self) {
        match self.phase {
            _ if self.conversion.is_some() => self.repeat_conversion(),
            Phase::Looking { .. } => self.look(),
            Phase::Creating { .. } | Phase::Resolving { .. } | Phase::Adopting { .. } => {
                self.resolve();
            }
            Phase::Deciding { .. } | Phase::Ranking { .. } | Phase::Waiting { .. } => self.decide(),
            Phase::Held { .. } if self.connection.is_up() && self.self_watch.is_none() => {
                self.watch_self();
            }
            _ => {}
        }
    }

    // ---- Outputs -------------------------------------------------------------------------------

    fn submit(&mut self, operation: Operation) -> OpId {
        self.last_op.0 += 1;
        self.outputs.push_back(Output::Submit { op: self.last_op, operation });
        self.last_op
    }

    fn list(&mut self) -> OpId {
        self.submit(Operation::list(self.contest.directory.clone()))
    }

    fn sync(&mut self) -> OpId {
        self.submit(Operation::sync(self.contest.directory.clone()))
    }

    fn delete(&mut self, path: String) {
        let op = self.submit(Operation::delete(path.clone()));
        self.deletions.push((Some(op), path));
    }

    fn set_timer(&mut self, after: Duration) {
        self.outputs.push_back(Output::SetTimer(after));
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Tells how it ended, once.
    fn conclude(&mut self, event: Event) {
        if !core::mem::replace(&mut self.concluded, true) {
            self.tell(event);
        }
    }

    const fn eyes(&self) -> Eyes {
        let Contest { scheme, foreign, claim, guid, .. } = self.contest;
        Eyes { scheme, foreign, claim, guid }
    }

    /// Whether nothing is expected to happen soon.
    const fn is_at_rest(&self) -> bool {
        matches!(self.self_watch, Some(SelfWatch { armed: true, .. }))
    }

    fn path_of(&self, name: &str) -> String {
        path::child(&self.contest.directory, name)
    }
}
