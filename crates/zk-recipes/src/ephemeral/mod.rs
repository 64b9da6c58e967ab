//! An ephemeral node that is kept alive.

#[cfg(feature = "blocking")]
pub(crate) mod recipe;

use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use zk_session::proto::recording::Description;
use zk_session::proto::{ErrorCode, EventType, ExistsResponse, SessionId, Zxid, path};
use zk_session::session::{Reply, State};
use zk_session::{End, Error, Outcome};

use crate::attempt::creation::created_node;
use crate::attempt::parents::{ParentCreation, ParentOutcome};
use crate::attempt::retry_policy::RetryPolicy;
use crate::attempt::synced_read::{Synced, SyncedRead};
use crate::attempt::{AttemptConfig, Event, Machine, NodeName, OpId, Turn};
use crate::error::{LockError, Loss};

/// The owner in the stat of a persistent node, and of a container.
pub(crate) const NOBODY: SessionId = SessionId(0);
pub(crate) const OF_CONTAINER: SessionId = SessionId(i64::MIN);

/// Keeps an ephemeral node alive: creates it again when somebody has deleted it, and when the
/// session was [renewed](State::Renewing). Drive it as a [`Contender`](crate::machine::Contender).
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
    step: EphemeralStep,
    /// The transaction that created the node, while it exists.
    czxid: Option<Zxid>,
    /// The transaction that created the node that was lost last.
    lost: Option<Zxid>,
    /// Whether a creation has an unknown outcome.
    may_exist: bool,
    /// Whether another owner of the node was reported since ours was there.
    has_reported_other: bool,
    parents: ParentCreation,
    is_releasing: bool,
    is_concluded: bool,
}

/// The step of the machine, with the requests that it waits for.
#[derive(Clone, Debug)]
enum EphemeralStep {
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
    fn is_done(&self) -> bool {
        matches!(self.step, EphemeralStep::Done)
    }

    fn outlives_session(&self) -> bool {
        true
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.config.describe("ephemeral", description);
    }

    fn before_input(&mut self, turn: &mut Turn<'_>) {
        if let EphemeralStep::Beginning = self.step
            && let Err(error) = path::validate(&self.config.lock_path)
        {
            self.conclude(Event::Failed(error.into()), turn);
        }
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match &mut self.step {
            EphemeralStep::Creating(create) if *create == op => self.created(result, turn),
            EphemeralStep::MakingParents(requests) if requests.contains(&op) => {
                let is_last = op == *requests.end();
                self.made_parent(is_last, result, turn);
            }
            EphemeralStep::Watching(look) if *look == op => self.looked(result, turn),
            EphemeralStep::Deleting(delete) if *delete == op => self.deleted(result, turn),
            EphemeralStep::FindingOut(read) => match read.handle_reply(op, result) {
                Synced::Pending => {}
                Synced::Read(result) => self.found_out(result, turn),
                Synced::Failed(error) => self.retry(error, turn),
            },
            _ => {}
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType, turn: &mut Turn<'_>) {
        match self.step {
            EphemeralStep::Watching(look)
                if look == op && event_type == EventType::NODE_DELETED =>
            {
                self.lose(Loss::NodeDeleted, turn);
                self.create(turn);
            }
            EphemeralStep::Watching(look) if look == op => self.look(turn),
            _ => {}
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        self.config.follow(state);
        match state {
            State::Renewing if self.is_releasing => self.conclude(Event::Released, turn),
            State::Renewing => {
                (self.step, self.may_exist) = (EphemeralStep::Beginning, false);
                self.lose(Loss::Renewed, turn);
            }
            State::Connected { .. } if matches!(self.step, EphemeralStep::Beginning) => {
                self.create(turn);
            }
            _ => {}
        }
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        let event = match self.czxid {
            _ if self.is_releasing => Event::gone_with(end),
            Some(_) => Event::Lost(end.into()),
            None => Event::Failed(LockError::Ended(end)),
        };
        self.conclude(event, turn);
    }

    fn lease_ended(&mut self, turn: &mut Turn<'_>) {
        if self.is_releasing {
            turn.conclude(&mut self.is_concluded, Event::NOT_CONFIRMED);
        }
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        if matches!(self.step, EphemeralStep::Pausing) {
            self.resume(turn);
        }
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        if core::mem::replace(&mut self.is_releasing, true) {
            return;
        }
        match self.step {
            EphemeralStep::Beginning => self.conclude(Event::Released, turn),
            EphemeralStep::Watching(_) | EphemeralStep::Pausing => {
                self.unwatch(turn);
                self.resume(turn);
            }
            // The reply shows whether there is a node to delete.
            _ => {}
        }
    }
}

impl EphemeralMachine {
    /// Creates a machine that begins with the first connection to a quorum.
    pub fn new(config: AttemptConfig) -> Self {
        Self {
            config,
            step: EphemeralStep::Beginning,
            czxid: None,
            lost: None,
            may_exist: false,
            has_reported_other: false,
            parents: ParentCreation::new(),
            is_releasing: false,
            is_concluded: false,
        }
    }

    // ---- The node is missing -------------------------------------------------------------------

    fn create(&mut self, turn: &mut Turn<'_>) {
        let AttemptConfig { lock_path, data, acl, .. } = &self.config;
        self.step = EphemeralStep::Creating(turn.create_alone(lock_path, data, acl));
    }

    fn created(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let czxid = created_node(result).map(|node| node.czxid);
        match czxid {
            Ok(czxid) => self.hold(czxid, turn),
            Err(Error::Server(ErrorCode::NO_NODE)) if self.is_releasing => {
                return self.conclude(Event::Released, turn);
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => return self.make_parents(turn),
            Err(Error::Server(ErrorCode::NODE_EXISTS)) => {}
            // After a lost reply, the node may exist. The next step finds out.
            Err(error) => {
                self.may_exist |= error.outcome() != Outcome::NotApplied;
                return self.retry(error, turn);
            }
        }
        self.resume(turn);
    }

    fn make_parents(&mut self, turn: &mut Turn<'_>) {
        let parent = path::parent(&self.config.lock_path).unwrap_or("/");
        match self.parents.attempt(parent, &self.config, turn) {
            Err(error) => self.fail(error, turn),
            Ok(requests) => self.step = EphemeralStep::MakingParents(requests),
        }
    }

    fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match self.parents.answered(is_last, result) {
            ParentOutcome::Wait => {}
            ParentOutcome::Made | ParentOutcome::Again if self.is_releasing => {
                self.conclude(Event::Released, turn);
            }
            ParentOutcome::Made => self.create(turn),
            ParentOutcome::Again => self.make_parents(turn),
            ParentOutcome::NoChroot => self.fail(self.config.no_chroot(), turn),
            ParentOutcome::Failed(error) => self.retry(error, turn),
        }
    }

    // ---- The node exists -----------------------------------------------------------------------

    fn look(&mut self, turn: &mut Turn<'_>) {
        self.step = EphemeralStep::Watching(turn.watch_presence(self.config.lock_path.clone()));
    }

    fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let stat = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat));
        match stat {
            Ok(stat) if stat.ephemeral_owner == self.config.session => {
                // This server has not applied the deletion of a lost node yet. When it does, the
                // watch fires.
                if self.lost != Some(stat.czxid) {
                    self.hold(stat.czxid, turn);
                }
            }
            // No session owns it, so it may stay for ever. A container has an owner that is no session.
            Ok(stat) if matches!(stat.ephemeral_owner, NOBODY | OF_CONTAINER) => {
                self.unwatch(turn);
                self.lose(Loss::NodeDeleted, turn);
                self.fail(LockError::UnknownNode { node: self.name() }, turn);
            }
            Ok(_) => {
                self.lose(Loss::NodeDeleted, turn);
                if !core::mem::replace(&mut self.has_reported_other, true) {
                    turn.report(Event::Waiting { behind: self.name(), ahead: 1 });
                }
            }
            // The watch for its creation is not needed.
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.unwatch(turn);
                self.lose(Loss::NodeDeleted, turn);
                self.create(turn);
            }
            // The node exists, but may not be watched.
            Err(Error::Server(ErrorCode::NO_AUTH)) if self.czxid.is_some() => self.unwatch(turn),
            Err(error) => {
                self.unwatch(turn);
                self.retry(error, turn);
            }
        }
    }

    fn unwatch(&mut self, turn: &mut Turn<'_>) {
        if let EphemeralStep::Watching(look) = self.step {
            turn.unwatch(look);
        }
    }

    fn hold(&mut self, czxid: Zxid, turn: &mut Turn<'_>) {
        if self.czxid == Some(czxid) {
            return;
        }
        self.lose(Loss::NodeDeleted, turn);
        (self.czxid, self.may_exist) = (Some(czxid), false);
        self.has_reported_other = false;
        self.parents = ParentCreation::new();
        if !self.is_releasing {
            let (node, token) = (NodeName::from(&*self.name()), czxid);
            turn.report(Event::Enqueued { node: node.clone(), token });
            turn.report(Event::Acquired { node, token });
        }
    }

    fn lose(&mut self, loss: Loss, turn: &mut Turn<'_>) {
        if let Some(czxid) = self.czxid.take() {
            self.lost = Some(czxid);
            if !self.is_releasing {
                turn.report(Event::Lost(loss));
            }
        }
    }

    // ---- The node is not wanted any more -------------------------------------------------------

    fn deleted(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => self.conclude(Event::Released, turn),
            // Another deletion could hit the node of the next owner.
            Err(error) => {
                self.czxid = None;
                self.retry(error, turn);
            }
        }
    }

    fn found_out(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let stat = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat));
        match stat {
            Ok(stat) if stat.ephemeral_owner == self.config.session => {
                self.czxid = Some(stat.czxid);
                self.resume(turn);
            }
            Ok(_) | Err(Error::Server(ErrorCode::NO_NODE)) => self.conclude(Event::Released, turn),
            Err(error) => self.retry(error, turn),
        }
    }

    // ---- Steps ---------------------------------------------------------------------------------

    /// Takes the next step, by what is known of the node.
    fn resume(&mut self, turn: &mut Turn<'_>) {
        match (self.is_releasing, self.czxid) {
            (false, _) => self.look(turn),
            (true, Some(_)) => {
                self.step = EphemeralStep::Deleting(turn.delete(&self.config.lock_path));
            }
            (true, None) => {
                let path = &self.config.lock_path;
                let read = SyncedRead::submit(path, |turn| turn.stat(path), turn);
                self.step = EphemeralStep::FindingOut(read);
            }
        }
    }

    fn retry(&mut self, error: Error, turn: &mut Turn<'_>) {
        match turn.retry(&error) {
            RetryPolicy::Now => self.resume(turn),
            RetryPolicy::Later => self.step = EphemeralStep::Pausing,
            RetryPolicy::Never => self.fail(error.into(), turn),
        }
    }

    fn fail(&mut self, error: LockError, turn: &mut Turn<'_>) {
        let has_node = self.czxid.is_some() || self.may_exist;
        if self.is_releasing || !has_node {
            return self.conclude(Event::Failed(error), turn);
        }
        turn.conclude(&mut self.is_concluded, Event::Failed(error));
        self.is_releasing = true;
        self.resume(turn);
    }

    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        self.step = EphemeralStep::Done;
        turn.conclude(&mut self.is_concluded, event);
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

zk_session::proto::formatted_by_debug! {
    [] EphemeralMachine;
}

#[cfg(test)]
mod tests;
