//! One attempt to acquire a lock: the queue machine.
//!
//! A contender creates an ephemeral sequential node below the lock path and lists the children. A
//! contender that no earlier node blocks holds the lock. The others watch the nearest node that
//! blocks them.
//!
//! The attempt survives lost connections. Every step can be repeated, except the creation. The name
//! of the new node contains a GUID, by which the contender finds it again.

#[cfg_attr(not(feature = "full"), path = "not_converting.rs")]
mod converting;
mod entering;
mod holding;
mod leaving;
mod looking;
mod queueing;
mod ranking;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use zk_session::sync::Arc;

use zk_session::proto::recording::Description;
use zk_session::proto::{EventType, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error};

use self::converting::Conversion;
use crate::attempt::phase::{Node, Phase, SelfWatch};
use crate::attempt::queue::QueueReader;
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
use crate::attempt::{AttemptConfig, Event, LockMode, Machine, OpId, Restart, Turn};
use crate::error::{LockError, Loss};
use crate::lock::hint::Hint;

/// A state machine that acquires one lock once, holds it, and releases it.
///
/// The [module](crate::machine) describes how to drive it.
#[derive(Clone, Debug)]
pub struct Contender {
    config: AttemptConfig,
    phase: Phase,
    /// Our node, once its creation is confirmed.
    node: Option<Node>,
    /// Boxed, since few locks are converted.
    conversion: Option<Box<Conversion>>,
    /// Whether the caller has released the lock while it is unknown what must be deleted.
    is_releasing: bool,
    /// Whether the lease has ended while there was no connection.
    lease_ended: bool,
    self_watch: Option<SelfWatch>,
    /// Whether to look in the data of our node for a request to release the lock.
    reads_own_data: bool,
    /// Whether another client has asked for the lock.
    revoked: bool,
    /// Whether the caller has received [`Event::UnknownNode`].
    warned: bool,
    /// Nodes to be deleted, and the pending request for each. `None`: refused, to be repeated.
    deletions: Vec<(Option<OpId>, Arc<str>)>,
    /// Left when we release the lock, so that the next contender can begin, and completed when our
    /// node is gone. Any other end clears it.
    hint: Hint,
    is_concluded: bool,
}

impl Machine for Contender {
    fn is_done(&self) -> bool {
        matches!(self.phase, Phase::Done)
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.config.describe("contender", description);
    }

    fn before_input(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.phase, Phase::Beginning) && self.config.begins_at_once() {
            self.begin(turn);
        }
    }

    /// Handles a reply. Replies to requests of an earlier step are ignored.
    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        if self.handle_deletion(op, &result, turn) || self.handle_self_watch(op, &result, turn) {
            return;
        }
        if self.conversion.is_some() {
            return self.handle_conversion(op, result, turn);
        }
        match &mut self.phase {
            Phase::Looking(looking) if looking.get().list == op => self.looked(result, turn),
            // A list that is answered while the creation is undecided need not show the node.
            Phase::Creating { list, .. } if *list == Some(op) => *list = None,
            Phase::Creating { .. } => self.handle_creation(op, result, turn),
            Phase::Deciding { list, .. } if *list == op => self.listed(result, turn),
            Phase::Ranking(ranks) => {
                if let Some(rank) = ranks.get().all.iter().position(|rank| rank.stat == op) {
                    self.ranked(rank, result, turn);
                }
            }
            Phase::Waiting { watch, .. } if *watch == op => self.watched(result, turn),
            _ => {}
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType, turn: &mut Turn<'_>) {
        let deleted = event_type == EventType::NODE_DELETED;
        if self.self_watch.is_some_and(|watch| watch.op == op) {
            self.self_watch_fired(deleted, turn);
        } else {
            self.predecessor_watch_fired(op, deleted, turn);
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        self.follow(state, turn);
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        let event = match self.phase {
            Phase::Held { .. } => Event::Lost(Loss::Ended(end)),
            // The session's end deletes the node, so the release is complete.
            Phase::Leaving => Event::gone_with(end),
            _ if self.is_releasing => Event::gone_with(end),
            _ => Event::Failed(LockError::Ended(end)),
        };
        turn.conclude(&mut self.is_concluded, event);
        self.hint.set_valid(false);
        self.hint.leave(false, &self.config, turn);
        self.phase = Phase::Done;
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self, turn: &mut Turn<'_>) {
        let is_over = self.is_releasing || self.is_held() || matches!(self.phase, Phase::Leaving);
        if !self.config.wait_policy.waits_for_connection() && !is_over {
            turn.conclude(&mut self.is_concluded, Event::Failed(LockError::NoConnection));
            self.release(turn);
        }
    }

    fn lease_ended(&mut self, turn: &mut Turn<'_>) {
        self.end_lease(turn);
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        for (op, path) in &mut self.deletions {
            op.get_or_insert_with(|| turn.delete(path));
        }
        self.repeat(turn);
    }

    /// Takes over the lock: no event that has arrived reports the end of our own node.
    fn settled(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.phase, Phase::TakingOver) {
            self.acquired(turn);
        }
    }

    fn convert(&mut self, mode: LockMode, turn: &mut Turn<'_>) {
        self.begin_conversion(mode, turn);
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        match &mut self.phase {
            Phase::Beginning
            | Phase::Looking(_)
            | Phase::Deciding { .. }
            | Phase::Ranking(_)
            | Phase::Waiting { .. }
            | Phase::TakingOver => self.withdraw(turn),
            Phase::Held { .. } => {
                self.hint.leave(false, &self.config, turn);
                self.withdraw(turn);
            }
            Phase::Leaving | Phase::Done => {}
            // The reply will show whether there is a node to delete.
            Phase::Creating { creation, .. } => {
                creation.cancel();
                self.is_releasing = true;
            }
        }
    }

    /// Fails because this client could not delete the node before ours. That node stays as long as
    /// our own session.
    fn behind_abandoned(&mut self, turn: &mut Turn<'_>) {
        if let Phase::Waiting { predecessor, .. } = &self.phase {
            let node = predecessor.clone();
            self.fail(LockError::Abandoned { node }, turn);
        }
    }
}

impl Restart for Contender {
    fn restart(&self, state: Option<State>) -> Self {
        Self::new(self.config.restart(state))
    }
}

// For machines made of contenders.
#[cfg(feature = "full")]
impl Contender {
    /// Creates an attempt that begins now. The session is connected, or waits for a connection by
    /// its wait policy.
    pub(crate) fn begun(mut self, turn: &mut Turn<'_>) -> Self {
        self.begin(turn);
        self
    }

    pub(crate) const fn set_disconnect_policy(
        &mut self,
        disconnect_policy: crate::machine::DisconnectPolicy,
    ) {
        self.config.disconnect_policy = disconnect_policy;
    }
}

impl Contender {
    fn begin(&mut self, turn: &mut Turn<'_>) {
        if let Err(error) = path::validate(&self.config.lock_path) {
            return self.fail(error.into(), turn);
        }
        match self.config.wait_policy.looks_first() {
            Some(full) => self.look(full, turn),
            None => self.create(turn),
        }
    }

    /// Creates a contender that holds this node already. It has no queue.
    pub(crate) fn holding(config: AttemptConfig, node: Node, turn: &mut Turn<'_>) -> Self {
        let mut contender = Self { node: Some(node), ..Self::new(config) };
        contender.acquired(turn);
        contender
    }

    /// Creates an attempt.
    ///
    /// With [`WaitPolicy::Queue`] it begins with the first [`State::Connected`]. Otherwise it begins
    /// with the first state and fails if that is no connection to a quorum.
    ///
    /// [`WaitPolicy::Queue`]: crate::machine::WaitPolicy::Queue
    pub fn new(mut config: AttemptConfig) -> Self {
        let reads_own_data = config.revocable;
        if !config.scheme.has_readers() {
            config.mode = LockMode::Exclusive;
        }
        Self {
            config,
            phase: Phase::Beginning,
            node: None,
            conversion: None,
            is_releasing: false,
            lease_ended: false,
            self_watch: None,
            reads_own_data,
            revoked: false,
            warned: false,
            deletions: Vec::new(),
            hint: Hint::default(),
            is_concluded: false,
        }
    }

    // ---- Failures ------------------------------------------------------------------------------

    fn vanished(&mut self, turn: &mut Turn<'_>) {
        self.node = None;
        self.fail(LockError::NodeVanished, turn);
    }

    fn fail(&mut self, error: LockError, turn: &mut Turn<'_>) {
        if !self.is_releasing {
            turn.conclude(&mut self.is_concluded, Event::Failed(error));
        }
        self.withdraw(turn);
    }

    fn retry_or_fail(&mut self, error: Error, turn: &mut Turn<'_>) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.repeat(turn),
            RetryPolicy::Later => turn.set_timer(RETRY_AFTER),
            RetryPolicy::Never => self.fail(error.into(), turn),
        }
    }

    /// Repeats the current step. Repeating is always safe, so a timer of an earlier step does no
    /// harm.
    fn repeat(&mut self, turn: &mut Turn<'_>) {
        match &mut self.phase {
            _ if self.conversion.is_some() => self.repeat_conversion(turn),
            Phase::Looking(_) => self.begin(turn),
            Phase::Creating { creation, .. } => {
                creation.handle_timer(&self.config, turn);
            }
            Phase::Deciding { .. } | Phase::Ranking(_) | Phase::Waiting { .. } => {
                self.decide(turn);
            }
            Phase::Held { .. } => self.verify_if_needed(turn),
            _ => {}
        }
    }

    // ---- Outputs -------------------------------------------------------------------------------

    fn delete(&mut self, path: impl Into<Arc<str>>, turn: &mut Turn<'_>) {
        let path = path.into();
        let op = turn.delete(&path);
        self.deletions.push((Some(op), path));
    }

    const fn queue_reader(&self) -> QueueReader {
        QueueReader::new(&self.config)
    }

    fn path_of(&self, name: &str) -> String {
        path::child(&self.config.lock_path, name)
    }
}
