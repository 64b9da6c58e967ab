//! An ephemeral node that is kept alive.

use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use zk_session::proto::{
    Create2Response, ErrorCode, EventType, ExistsResponse, SessionId, Zxid, path,
};
use zk_session::session::{Reply, State};
use zk_session::{Error, Outcome};

use super::connection::Connection;
use super::outputs::Outputs;
use super::parents::{ParentCreation, ParentOutcome};
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::synced_read::{Synced, SyncedRead};
use super::{AttemptConfig, Event, Input, Machine, OpId, Operation, Output};
use crate::error::{LockError, Loss};

/// The owner in the stat of a persistent node, and of a container.
pub(super) const NOBODY: SessionId = SessionId(0);
pub(super) const OF_CONTAINER: SessionId = SessionId(i64::MIN);

/// Keeps an ephemeral node alive: creates it again when somebody has deleted it, and when the
/// session was [renewed](State::Renewing). Drive it as a [`Contender`](super::Contender).
///
/// The node is at [`AttemptConfig::lock_path`], without a sequence number. Missing ancestors are
/// created. The machine uses the data, the access control lists and the session of its
/// configuration, and nothing else.
///
/// It reports [`Event::Enqueued`] and [`Event::Acquired`] once for each node that it has created,
/// and [`Event::Lost`] when that node is gone. If another session owns a node at the path, it reports
/// [`Event::Waiting`], and creates its own when that one is deleted: a service that restarts finds
/// the node of its last session until that expires. A node that no session owns may stay for ever, so
/// it fails with [`LockError::UnknownNode`].
///
/// It watches the node, and so notices a deletion after one notification. Data that somebody else
/// has written stays until the node is created again. Without the permission to read the node, it
/// notices no deletion, and fails if the reply to a creation or deletion is lost.
#[derive(Clone, Debug)]
pub struct EphemeralMachine {
    config: AttemptConfig,
    step: Step,
    /// The transaction that created the node, while it exists.
    czxid: Option<Zxid>,
    /// The transaction that created the node that was lost last.
    lost: Option<Zxid>,
    /// Whether a creation has an unknown outcome.
    may_exist: bool,
    /// Whether another owner of the node was reported since ours was there.
    has_reported_other: bool,
    parents: ParentCreation,
    connection: Connection,
    is_releasing: bool,
    outputs: Outputs,
}

/// The step of the machine, with the requests that it waits for.
#[derive(Clone, Debug)]
enum Step {
    /// Waits for a connection of a session that has no node yet.
    Beginning,
    Creating(OpId),
    /// Creates the ancestors of the node, which are missing.
    MakingParents(RangeInclusive<OpId>),
    /// Reads the node, to learn whose it is, and watches it.
    Watching(OpId),
    /// A server refused a request for now.
    Pausing,
    /// Deletes the node.
    Deleting(OpId),
    /// Checks whether there is a node to delete.
    FindingOut(SyncedRead),
    Done,
}

impl Machine for EphemeralMachine {
    fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { result: Err(Error::Ended { end, .. }), .. } => {
                self.session_changed(State::Ended(end));
            }
            Input::Reply { op, result } => {
                self.handle_reply(op, self.connection.check_reply(result));
            }
            Input::Watch { op, event_type } => self.watch_fired(op, event_type),
            Input::Session(state) => self.session_changed(state),
            Input::Timer if matches!(self.step, Step::Pausing) => self.resume(),
            Input::LeaseEnded if self.is_releasing => self.outputs.conclude(Event::NOT_CONFIRMED),
            #[cfg(feature = "full")]
            Input::Convert(_) => self.outputs.report(Event::NO_READERS),
            Input::Leave | Input::Release => self.release(),
            Input::Timer | Input::LeaseEnded | Input::Settled | Input::BehindAbandoned => {}
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }

    fn outlives_session(&self) -> bool {
        true
    }
}

impl EphemeralMachine {
    /// Creates a machine that begins with the first connection to a quorum.
    pub fn new(config: AttemptConfig) -> Self {
        let mut machine = Self {
            config,
            step: Step::Beginning,
            czxid: None,
            lost: None,
            may_exist: false,
            has_reported_other: false,
            parents: ParentCreation::new(),
            connection: Connection::Down,
            is_releasing: false,
            outputs: Outputs::default(),
        };
        if let Err(error) = path::validate(&machine.config.lock_path) {
            machine.conclude(Event::Failed(error.into()));
        }
        machine
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        match &mut self.step {
            Step::Creating(create) if *create == op => self.created(result),
            Step::MakingParents(requests) if requests.contains(&op) => {
                let is_last = op == *requests.end();
                self.made_parent(is_last, result);
            }
            Step::Watching(look) if *look == op => self.looked(result),
            Step::Deleting(delete) if *delete == op => self.deleted(result),
            Step::FindingOut(read) => match read.handle_reply(op, result) {
                Synced::Pending => {}
                Synced::Read(result) => self.found_out(result),
                Synced::Failed(error) => self.retry(error),
            },
            _ => {}
        }
    }

    fn session_changed(&mut self, state: State) {
        self.connection.change(state);
        self.config.follow(state);
        match state {
            State::Ended(end) if self.is_releasing => self.conclude(Event::gone_with(end)),
            State::Ended(end) if self.czxid.is_some() => self.conclude(Event::Lost(end.into())),
            State::Ended(end) => self.conclude(Event::Failed(LockError::Ended(end))),
            State::Renewing if self.is_releasing => self.conclude(Event::Released),
            State::Renewing => {
                (self.step, self.may_exist) = (Step::Beginning, false);
                self.lose(Loss::Renewed);
            }
            State::Connected { .. } if matches!(self.step, Step::Beginning) => self.create(),
            _ => {}
        }
    }

    // ---- The node is missing -------------------------------------------------------------------

    fn create(&mut self) {
        let AttemptConfig { lock_path, data, acl, .. } = &self.config;
        let create = Operation::create_alone(lock_path.clone(), data.clone(), acl.clone());
        self.step = Step::Creating(self.outputs.submit(create));
    }

    fn created(&mut self, result: Result<Reply, Error>) {
        let czxid = result.and_then(|reply| Ok(reply.decode::<Create2Response<'_>>()?.stat.czxid));
        match czxid {
            Ok(czxid) => self.hold(czxid),
            Err(Error::Server(ErrorCode::NO_NODE)) if self.is_releasing => {
                return self.conclude(Event::Released);
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.make_parents(),
            Err(Error::Server(ErrorCode::NODE_EXISTS)) => {}
            // After a lost reply, the node may exist. The next step finds out.
            Err(error) => {
                self.may_exist |= error.outcome() != Outcome::NotApplied;
                return self.retry(error);
            }
        }
        self.resume();
    }

    fn make_parents(&mut self) {
        let parent = path::parent(&self.config.lock_path).unwrap_or("/");
        match self.parents.attempt(parent, &self.config) {
            Err(error) => self.fail(error),
            Ok(operations) => {
                self.step = Step::MakingParents(self.outputs.submit_all(operations));
            }
        }
    }

    fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>) {
        match self.parents.answered(is_last, result) {
            ParentOutcome::Wait => {}
            ParentOutcome::Made | ParentOutcome::Again if self.is_releasing => {
                self.conclude(Event::Released);
            }
            ParentOutcome::Made => self.create(),
            ParentOutcome::Again => self.make_parents(),
            ParentOutcome::NoChroot => self.fail(self.config.no_chroot()),
            ParentOutcome::Failed(error) => self.retry(error),
        }
    }

    // ---- The node exists -----------------------------------------------------------------------

    fn look(&mut self) {
        let look = Operation::watch_presence(self.config.lock_path.clone());
        self.step = Step::Watching(self.outputs.submit(look));
    }

    fn looked(&mut self, result: Result<Reply, Error>) {
        let stat = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat));
        match stat {
            Ok(stat) if stat.ephemeral_owner == self.config.session => {
                // This server has not applied the deletion of a lost node yet. When it does, the
                // watch fires.
                if self.lost != Some(stat.czxid) {
                    self.hold(stat.czxid);
                }
            }
            // No session owns it, so it may stay for ever. A container has an owner that is no session.
            Ok(stat) if matches!(stat.ephemeral_owner, NOBODY | OF_CONTAINER) => {
                self.unwatch();
                self.lose(Loss::NodeDeleted);
                self.fail(LockError::UnknownNode { node: self.name() });
            }
            Ok(_) => {
                self.lose(Loss::NodeDeleted);
                if !core::mem::replace(&mut self.has_reported_other, true) {
                    self.outputs.report(Event::Waiting { behind: self.name(), ahead: 1 });
                }
            }
            // The watch for its creation is not needed.
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.unwatch();
                self.lose(Loss::NodeDeleted);
                self.create();
            }
            // The node exists, but may not be watched.
            Err(Error::Server(ErrorCode::NO_AUTH)) if self.czxid.is_some() => self.unwatch(),
            Err(error) => {
                self.unwatch();
                self.retry(error);
            }
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType) {
        match self.step {
            Step::Watching(look) if look == op && event_type == EventType::NODE_DELETED => {
                self.lose(Loss::NodeDeleted);
                self.create();
            }
            Step::Watching(look) if look == op => self.look(),
            _ => {}
        }
    }

    fn unwatch(&mut self) {
        if let Step::Watching(look) = self.step {
            self.outputs.unwatch(look);
        }
    }

    fn hold(&mut self, czxid: Zxid) {
        if self.czxid == Some(czxid) {
            return;
        }
        self.lose(Loss::NodeDeleted);
        (self.czxid, self.may_exist) = (Some(czxid), false);
        self.has_reported_other = false;
        self.parents = ParentCreation::new();
        if !self.is_releasing {
            let (node, token) = (self.name(), czxid);
            self.outputs.report(Event::Enqueued { node: node.clone(), token });
            self.outputs.report(Event::Acquired { node, token });
        }
    }

    fn lose(&mut self, loss: Loss) {
        if let Some(czxid) = self.czxid.take() {
            self.lost = Some(czxid);
            if !self.is_releasing {
                self.outputs.report(Event::Lost(loss));
            }
        }
    }

    // ---- The node is not wanted any more -------------------------------------------------------

    fn release(&mut self) {
        if core::mem::replace(&mut self.is_releasing, true) {
            return;
        }
        match self.step {
            Step::Beginning => self.conclude(Event::Released),
            Step::Watching(_) | Step::Pausing => {
                self.unwatch();
                self.resume();
            }
            // The reply shows whether there is a node to delete.
            _ => {}
        }
    }

    fn deleted(&mut self, result: Result<Reply, Error>) {
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => self.conclude(Event::Released),
            // Another deletion could hit the node of the next owner.
            Err(error) => {
                self.czxid = None;
                self.retry(error);
            }
        }
    }

    fn found_out(&mut self, result: Result<Reply, Error>) {
        let stat = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat));
        match stat {
            Ok(stat) if stat.ephemeral_owner == self.config.session => {
                self.czxid = Some(stat.czxid);
                self.resume();
            }
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => self.conclude(Event::Released),
            Err(error) => self.retry(error),
        }
    }

    // ---- Steps ---------------------------------------------------------------------------------

    /// Takes the next step, by what is known of the node.
    fn resume(&mut self) {
        match (self.is_releasing, self.czxid) {
            (false, _) => self.look(),
            (true, Some(_)) => {
                let delete = Operation::delete(self.config.lock_path.clone());
                self.step = Step::Deleting(self.outputs.submit(delete));
            }
            (true, None) => {
                let path = &self.config.lock_path;
                let (sync, stat) = (Operation::sync(path.clone()), Operation::stat(path.clone()));
                self.step = Step::FindingOut(SyncedRead::submit(sync, stat, &mut self.outputs));
            }
        }
    }

    fn retry(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.resume(),
            RetryPolicy::Later => {
                self.step = Step::Pausing;
                self.outputs.set_timer(RETRY_AFTER);
            }
            RetryPolicy::Never => self.fail(error.into()),
        }
    }

    fn fail(&mut self, error: LockError) {
        let has_node = self.czxid.is_some() || self.may_exist;
        if self.is_releasing || !has_node {
            return self.conclude(Event::Failed(error));
        }
        self.outputs.conclude(Event::Failed(error));
        self.is_releasing = true;
        self.resume();
    }

    fn conclude(&mut self, event: Event) {
        self.step = Step::Done;
        self.outputs.conclude(event);
    }

    fn name(&self) -> String {
        path::name(&self.config.lock_path).to_string()
    }
}

/// Whether a node that is kept alive exists, as far as its client knows.
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Presence {
    /// The node does not exist yet, or not any more, or belongs to another session. It is created
    /// as soon as possible.
    #[default]
    Missing,
    /// The node exists: the transaction that created it (its `czxid`). Without a connection, the
    /// ensemble may have deleted it with the session.
    Created(Zxid),
    /// The node is being deleted, as requested.
    Closing,
    /// The node is deleted, as requested.
    Closed,
    /// The node can no longer be kept alive: the session has ended, or the ensemble refuses it.
    Failed(LockError),
}

impl Presence {
    /// Returns the state after an [`EphemeralMachine`] has reported `event`.
    #[must_use]
    pub fn after(&self, event: &Event) -> Self {
        match event {
            Event::Acquired { token, .. } => Self::Created(*token),
            Event::Lost(Loss::Ended(end)) => Self::Failed(LockError::Ended(*end)),
            Event::Lost(_) => Self::Missing,
            Event::Releasing => Self::Closing,
            Event::Released => Self::Closed,
            Event::Failed(error) => Self::Failed(error.clone()),
            _ => self.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
