//! One attempt to acquire a lock: the queue machine.
//!
//! A contender creates an ephemeral sequential node below the lock path and lists the children. A
//! contender that no earlier node blocks holds the lock. The others watch the nearest node that
//! blocks them.
//!
//! The attempt survives lost connections. Every step can be repeated, except the creation. The name
//! of the new node contains a GUID, by which the contender finds it again.

mod converting;
mod entering;
mod holding;
mod leaving;
mod queueing;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use zk_session::proto::{EventType, path};
use zk_session::session::Reply;
use zk_session::{End, Error};

use super::connection::Connection;
use super::parents::Parents;
use super::phase::{Conversion, Node, Phase, SelfWatch};
use super::queue::QueueReader;
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::{
    AttemptConfig, DisconnectPolicy, Event, FastPathHint, Input, LockMode, Machine, Name, OpId,
    Operation, Output, WaitPolicy,
};
use crate::error::{LockError, Loss};

/// A state machine that acquires one lock once, holds it, and releases it.
///
/// The [module](super) describes how to drive it.
#[derive(Clone, Debug)]
pub struct Contender {
    config: AttemptConfig,
    /// Whether it watches the lock path, so that every change wakes all waiters.
    is_herd: bool,
    phase: Phase,
    /// Our node, once its creation is confirmed.
    node: Option<Node>,
    /// Boxed, since few locks are converted.
    conversion: Option<Box<Conversion>>,
    /// Whether the caller has released the lock while it is unknown what must be deleted.
    is_releasing: bool,
    connection: Connection,
    /// Whether the lease has ended while there was no connection.
    lease_ended: bool,
    self_watch: Option<SelfWatch>,
    /// Whether another client has asked for the lock.
    revoked: bool,
    /// Whether the caller has received [`Event::UnknownNode`].
    warned: bool,
    /// Nodes to be deleted, and the pending request for each. `None`: refused, to be repeated.
    deletions: Vec<(Option<OpId>, Arc<str>)>,
    /// How many contenders in a row have found the lock free, including this one.
    followed: u32,
    /// Whether the next contender may rely on our node, since we have acquired the lock.
    leaves_hint: bool,
    parents: Parents,
    /// Whether the caller has received the result of the attempt.
    concluded: bool,
    last_op: OpId,
    outputs: VecDeque<Output>,
    #[cfg(test)]
    pub(super) mistake: Option<Mistake>,
}

/// Bugs to inject, which the tests must detect.
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
            Input::Convert(mode) => self.convert(mode),
            Input::Settled => self.settled(),
            Input::BehindAbandoned => self.behind_abandoned(),
            Input::Leave | Input::Release => self.release(),
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.outputs.pop_front();
        if output.is_none() && self.is_at_rest() {
            // A process may hold thousands of locks, so an idle one keeps no buffer.
            self.outputs = VecDeque::new();
        }
        output
    }

    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    fn hint(&self) -> Option<FastPathHint> {
        let node = self.node.as_ref().filter(|_| self.is_done() && self.leaves_hint)?;
        let AttemptConfig { scheme, unknown_nodes, .. } = self.config;
        let Name { mode, sequence: number, .. } = scheme.parse(node.name())?;
        let (czxid, followed) = (node.czxid, self.followed);
        Some(FastPathHint { unknown_nodes, mode, number, czxid, followed })
    }
}

impl Contender {
    /// Creates an attempt.
    ///
    /// With [`WaitPolicy::Queue`] it begins now. Otherwise it begins with the first
    /// [`Input::Session`] and fails if that is no connection to a quorum.
    pub fn new(config: AttemptConfig) -> Self {
        match config.wait_policy.waits_for_connection() {
            true => Self::begun(config),
            false => Self::before(config),
        }
    }

    /// Creates an attempt that waits for any change below the lock path, instead of the end of its
    /// predecessor. Textbook locks do so. Every change wakes all waiters, which is the herd effect.
    #[cfg(feature = "study")]
    #[must_use]
    pub fn herd(config: AttemptConfig) -> Self {
        Self { is_herd: true, ..Self::new(config) }
    }

    /// Creates an attempt that begins now. The session is connected, or waits for a connection by
    /// [`WaitPolicy::Queue`].
    pub(super) fn begun(config: AttemptConfig) -> Self {
        let mut contender = Self::before(config);
        contender.begin();
        contender
    }

    fn begin(&mut self) {
        match self.config.wait_policy {
            WaitPolicy::Queue | WaitPolicy::OnlyIfFirst => self.create(),
            WaitPolicy::OnlyIfFree => self.look(),
        }
    }

    /// Creates a contender that holds this node already. It has no queue.
    pub(super) fn holding(config: AttemptConfig, node: Node, connection: Connection) -> Self {
        let mut contender = Self { node: Some(node), connection, ..Self::before(config) };
        contender.acquired();
        contender
    }

    fn before(mut config: AttemptConfig) -> Self {
        if !config.scheme.has_readers() {
            config.mode = LockMode::Exclusive;
        }
        Self {
            config,
            is_herd: false,
            phase: Phase::Beginning,
            node: None,
            conversion: None,
            is_releasing: false,
            connection: Connection::Up,
            lease_ended: false,
            self_watch: None,
            revoked: false,
            warned: false,
            deletions: Vec::new(),
            followed: 0,
            leaves_hint: false,
            parents: Parents::new(),
            concluded: false,
            last_op: OpId(0),
            outputs: VecDeque::new(),
            #[cfg(test)]
            mistake: None,
        }
    }

    pub(super) const fn disconnect_policy(&mut self, disconnect_policy: DisconnectPolicy) {
        self.config.disconnect_policy = disconnect_policy;
    }

    // ---- Inputs --------------------------------------------------------------------------------

    /// Handles a reply. Replies to requests of an earlier step are ignored.
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
            // A list that is answered before the creation was refused before it was sent.
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
            // A list that is answered before the sync was refused before it was sent.
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

    fn release(&mut self) {
        match self.phase {
            Phase::Beginning
            | Phase::Looking { .. }
            | Phase::Deciding { .. }
            | Phase::Ranking { .. }
            | Phase::Waiting { .. }
            | Phase::TakingOver
            | Phase::Held { .. } => self.leave(),
            Phase::Leaving | Phase::Done => {}
            // The reply will show whether there is a node to delete.
            Phase::Creating { .. }
            | Phase::MakingParents { .. }
            | Phase::Resolving { .. }
            | Phase::Adopting { .. } => self.is_releasing = true,
        }
    }

    fn session_ended(&mut self, end: End) {
        let event = match self.phase {
            Phase::Held { .. } => Event::Lost(Loss::Ended(end)),
            // The session's end deletes the node, so the release is complete.
            Phase::Leaving => Event::gone_with(end),
            _ if self.is_releasing => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event);
        self.leaves_hint = false;
        self.phase = Phase::Done;
    }

    // ---- Failures ------------------------------------------------------------------------------

    fn vanished(&mut self) {
        self.node = None;
        self.fail(LockError::NodeVanished);
    }

    fn fail(&mut self, error: LockError) {
        if !self.is_releasing {
            self.conclude(Event::Failed(error));
        }
        self.leave();
    }

    fn retry_or_fail(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.repeat(),
            RetryPolicy::Later => self.set_timer(RETRY_AFTER),
            RetryPolicy::Never => self.fail(error.into()),
        }
    }

    /// Repeats the current step. Repeating is always safe, so a timer of an earlier step does no
    /// harm.
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
        self.submit(Operation::list(self.config.lock_path.clone()))
    }

    fn sync(&mut self) -> OpId {
        self.submit(Operation::sync(self.config.lock_path.clone()))
    }

    fn delete(&mut self, path: impl Into<Arc<str>>) {
        let path = path.into();
        let op = self.submit(Operation::delete(path.clone()));
        self.deletions.push((Some(op), path));
    }

    fn set_timer(&mut self, after: Duration) {
        self.outputs.push_back(Output::SetTimer(after));
    }

    fn tell(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }

    /// Reports the result of the attempt, once.
    fn conclude(&mut self, event: Event) {
        if !core::mem::replace(&mut self.concluded, true) {
            self.tell(event);
        }
    }

    const fn queue_reader(&self) -> QueueReader {
        let AttemptConfig { scheme, unknown_nodes, mode, guid, .. } = self.config;
        QueueReader { scheme, unknown_nodes, mode, guid }
    }

    /// Returns whether no input is expected soon.
    const fn is_at_rest(&self) -> bool {
        matches!(self.self_watch, Some(SelfWatch { armed: true, .. }))
    }

    fn path_of(&self, name: &str) -> String {
        path::child(&self.config.lock_path, name)
    }
}
