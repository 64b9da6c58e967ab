//! The textbook lock: one ephemeral node, owned by the client that created it.
//!
//! All others watch the node and try to create it when it is deleted. That is a herd, in no order.
//! This lock exists to be compared with the queue.
//!
//! A creation with an unknown outcome can be repeated, since the name is known: the data and the
//! session of the node that exists show its owner. A deletion cannot be repeated, since the next
//! owner's node has the same name. The machine finds out its outcome instead.

#[cfg(test)]
mod tests;

use alloc::string::{String, ToString};
use core::ops::RangeInclusive;

use uuid::Uuid;
use zk_session::dispatch::Input;
use zk_session::proto::recording::Description;
use zk_session::proto::{
    ErrorCode, EventType, ExistsResponse, GetDataResponse, OpCode, SessionId, Zxid, path,
};
use zk_session::session::{Reply, State};
use zk_session::{End, Error, Outcome};

use crate::attempt::creation::created_node;
use crate::attempt::node::Node;
use crate::attempt::parents::{ParentCreation, ParentOutcome};
use crate::attempt::retry_policy::{RETRY_AFTER, RetryPolicy};
use crate::attempt::synced_read::{Synced, SyncedRead};
use crate::attempt::turn::Sight;
use crate::attempt::{
    AttemptConfig, Command, Event, Given, Machine, OpId, Turn, UnknownNodePolicy,
};
use crate::ephemeral::{NOBODY, OF_CONTAINER};
use crate::error::LockError;
use crate::lock::Contender;

/// The sub-machine number of the holder.
const HOLDER: u32 = 1;

/// A state machine that acquires the textbook lock once, and releases it.
///
/// Drive it like a [`Contender`]. The `lock_path` of its [`AttemptConfig`] is the path of the one
/// lock node; `scheme` and `mode` are ignored. With any `wait_policy` but `Queue`, it fails if the
/// creation finds a node. The data of the node begins with the GUID, before the configured data.
///
/// It must be able to read the node. If not, it fails, and its node can stay until the session ends
/// if the reply to a creation was lost before.
#[derive(Clone, Debug)]
pub struct SimpleContender {
    config: AttemptConfig,
    step: SimpleStep,
    /// Watches and deletes the node while we hold the lock.
    holder: Option<Contender>,
    /// The holder's deletion of the node, if its outcome is unknown.
    deletion: Option<OpId>,
    /// The transaction that created our node.
    czxid: Zxid,
    /// Whether a creation has an unknown outcome.
    may_exist: bool,
    parents: ParentCreation,
    /// Whether the caller has released the lock while it is unknown what must be deleted.
    is_releasing: bool,
    /// Whether the holder's `Acquired` is withheld because the lock is not wanted any more.
    is_unwanted: bool,
    /// Whether the failure was reported while there may be a node to delete.
    has_failed: bool,
}

/// The step of an attempt, with the requests that it waits for.
#[derive(Clone, Debug)]
enum SimpleStep {
    /// Waits for the first state of the session.
    Beginning,
    /// Creates the node.
    Creating {
        create: OpId,
    },
    /// Creates the parent of the node and its ancestors, which are missing.
    MakingParents {
        requests: RangeInclusive<OpId>,
    },
    /// Reads the node, to check whether it is ours, and watches it if not.
    Watching {
        look: OpId,
        answered: bool,
    },
    /// The lock is held, or was. The holder does the rest.
    Held,
    /// Reads the node because the outcome of its deletion is unknown. A sync precedes the read: the
    /// current server may not know of the deletion yet. `None`: refused for now, to be repeated.
    FindingOut(Option<SyncedRead>),
    /// The attempt has failed, but an earlier creation may have created the node. Reads it, to
    /// delete it. `None`: refused for now, to be repeated.
    FindingOwn(Option<SyncedRead>),
    Done,
}

impl Machine for SimpleContender {
    fn is_done(&self) -> bool {
        matches!(self.step, SimpleStep::Done)
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.config.describe("simple", description);
    }

    fn before_input(&mut self, turn: &mut Turn<'_>) {
        let is_valid = || path::validate(&self.config.lock_path).is_ok();
        if matches!(self.step, SimpleStep::Beginning)
            && (self.config.begins_at_once() || !is_valid())
        {
            self.begin(turn);
        }
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match &mut self.step {
            _ if op.part() == HOLDER => self.holder_heard(op, result, turn),
            SimpleStep::Creating { create } if *create == op => self.created(result, turn),
            SimpleStep::MakingParents { requests } if requests.contains(&op) => {
                let is_last = op == *requests.end();
                self.made_parent(is_last, result, turn);
            }
            SimpleStep::Watching { look, .. } if *look == op => self.looked(result, turn),
            SimpleStep::FindingOut(Some(stat)) => match stat.handle_reply(op, result) {
                Synced::Pending => {}
                Synced::Read(result) => self.found_out(result, turn),
                Synced::Failed(error) => self.retry_finding_out(error, turn),
            },
            SimpleStep::FindingOwn(Some(data)) => {
                let (read, synced) = (data.read(), data.handle_reply(op, result));
                if !matches!(synced, Synced::Pending) {
                    turn.unwatch(read);
                }
                match synced {
                    Synced::Pending => {}
                    Synced::Read(result) => self.found_own(result, turn),
                    Synced::Failed(error) => self.retry_finding_own(error, turn),
                }
            }
            _ => {}
        }
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType, turn: &mut Turn<'_>) {
        match self.step {
            _ if op.part() == HOLDER => {
                self.tell_holder(Given::Watch(op, event_type), turn);
            }
            SimpleStep::Watching { look, .. }
                if look == op && event_type == EventType::NODE_DELETED =>
            {
                self.create(turn);
            }
            SimpleStep::Watching { look, .. } if look == op => self.look(turn),
            _ => {}
        }
    }

    fn session_changed(&mut self, state: State, turn: &mut Turn<'_>) {
        self.config.follow(state);
        match (&self.step, state) {
            (SimpleStep::Beginning, State::Connected { .. }) => self.begin(turn),
            (_, State::Connected { .. }) => {}
            _ => self.not_connected(turn),
        }
        self.tell_holder(Input::State(state).into(), turn);
    }

    fn session_ended(&mut self, end: End, turn: &mut Turn<'_>) {
        match self.holder {
            Some(_) => self.tell_holder(Input::State(State::Ended(end)).into(), turn),
            None => {
                self.unwatch(turn);
                self.conclude(
                    match self.is_releasing {
                        true => Event::gone_with(end),
                        false => Event::Failed(LockError::Ended(end)),
                    },
                    turn,
                );
            }
        }
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self, turn: &mut Turn<'_>) {
        let is_over = self.is_releasing || self.holder.is_some() || self.is_done();
        if !self.config.wait_policy.waits_for_connection() && !is_over {
            turn.report(Event::Failed(LockError::NoConnection));
            self.has_failed = true;
            self.release(turn);
        }
    }

    fn lease_ended(&mut self, turn: &mut Turn<'_>) {
        self.tell_holder(Input::LeaseEnded.into(), turn);
    }

    fn timer_fired(&mut self, turn: &mut Turn<'_>) {
        self.tell_holder(Input::Timer.into(), turn);
        self.repeat(turn);
    }

    #[cfg(feature = "full")]
    fn convert(&mut self, mode: crate::attempt::LockMode, turn: &mut Turn<'_>) {
        self.tell_holder(Command::Convert(mode).into(), turn);
    }

    fn release(&mut self, turn: &mut Turn<'_>) {
        self.is_releasing = true;
        match self.step {
            SimpleStep::Watching { answered: true, .. } => {
                self.unwatch(turn);
                self.conclude(Event::Released, turn);
            }
            SimpleStep::Beginning => self.conclude(Event::Released, turn),
            // Without a holder, the pending reply will show whether there is a node to delete.
            _ => self.tell_holder(Command::Release.into(), turn),
        }
    }
}

impl SimpleContender {
    /// Creates an attempt.
    ///
    /// With [`WaitPolicy::Queue`](crate::attempt::WaitPolicy::Queue) it begins with the first
    /// [`State::Connected`]. Otherwise it begins with the first state and fails if that
    /// is no connection to a quorum.
    pub fn new(config: AttemptConfig) -> Self {
        Self {
            config,
            step: SimpleStep::Beginning,
            holder: None,
            deletion: None,
            czxid: Zxid::ZERO,
            may_exist: false,
            parents: ParentCreation::new(),
            is_releasing: false,
            is_unwanted: false,
            has_failed: false,
        }
    }

    fn begin(&mut self, turn: &mut Turn<'_>) {
        match path::validate(&self.config.lock_path) {
            Err(error) => self.fail(error.into(), turn),
            Ok(()) => self.create(turn),
        }
    }

    // ---- Creating the node ---------------------------------------------------------------------

    fn create(&mut self, turn: &mut Turn<'_>) {
        let AttemptConfig { lock_path, data, acl, .. } = &self.config;
        let data = [mark(self.config.own_guid()).as_bytes(), data.as_ref()].concat();
        let create = turn.create_alone(lock_path, &data, acl);
        self.step = SimpleStep::Creating { create };
    }

    fn created(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let czxid = created_node(result).map(|node| node.czxid);
        match czxid {
            Ok(czxid) => self.hold(czxid, turn),
            Err(Error::Server(ErrorCode::NODE_EXISTS)) => self.look(turn),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(turn),
            Err(error) => {
                self.may_exist |= error.outcome() != Outcome::NotApplied;
                self.retry_or_fail(error, turn);
            }
        }
    }

    fn make_parents(&mut self, turn: &mut Turn<'_>) {
        if self.is_releasing {
            return self.conclude(Event::Released, turn);
        }
        let lock_path = path::parent(&self.config.lock_path).unwrap_or("/");
        match self.parents.attempt(lock_path, &self.config, turn) {
            Err(error) => self.fail(error, turn),
            Ok(requests) => self.step = SimpleStep::MakingParents { requests },
        }
    }

    fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match self.parents.answered(is_last, result) {
            ParentOutcome::Wait => {}
            ParentOutcome::Made if self.is_releasing => self.conclude(Event::Released, turn),
            ParentOutcome::Made => self.create(turn),
            ParentOutcome::Again => self.make_parents(turn),
            ParentOutcome::NoChroot => self.fail(self.config.no_chroot(), turn),
            ParentOutcome::Failed(error) => self.retry_or_fail(error, turn),
        }
    }

    // ---- Waiting -------------------------------------------------------------------------------

    fn look(&mut self, turn: &mut Turn<'_>) {
        self.unwatch(turn);
        let look = turn.watch_data(self.config.lock_path.clone());
        self.step = SimpleStep::Watching { look, answered: false };
    }

    fn looked(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match self.read(result, turn) {
            Ok((Some(czxid), _)) => {
                self.unwatch(turn);
                self.hold(czxid, turn);
            }
            Ok((None, _)) | Err(Error::Server(ErrorCode::NO_NODE)) if self.is_releasing => {
                self.unwatch(turn);
                self.conclude(Event::Released, turn);
            }
            // No session owns the node. It is no lock of this kind, and may never be deleted.
            Ok((None, NOBODY | OF_CONTAINER)) if self.refuses_others() => {
                self.fail(LockError::UnknownNode { node: self.name() }, turn);
            }
            Ok((None, _)) => {
                if let Some(error) = self.config.wait_policy.refusal() {
                    return self.fail(error, turn);
                }
                if let SimpleStep::Watching { answered, .. } = &mut self.step
                    && !core::mem::replace(answered, true)
                {
                    turn.report(Event::Waiting { behind: self.name(), ahead: 1 });
                }
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.unwatch(turn);
                self.create(turn);
            }
            Err(Error::Server(ErrorCode::NO_AUTH)) => {
                self.fail(LockError::Unreadable { node: self.name() }, turn);
            }
            Err(error) => self.retry_or_fail(error, turn),
        }
    }

    /// Returns the transaction that created the node, if it is ours, and its owner.
    fn read(
        &self,
        result: Result<Reply, Error>,
        turn: &mut Turn<'_>,
    ) -> Result<(Option<Zxid>, SessionId), Error> {
        let reply = result?;
        let GetDataResponse { data, stat } = reply.decode()?;
        let is_marked =
            data.is_some_and(|data| data.starts_with(mark(self.config.own_guid()).as_bytes()));
        let is_marked = turn.sees(Sight::Mark, is_marked);
        let is_ours = is_marked && stat.ephemeral_owner == self.config.session;
        Ok((is_ours.then_some(stat.czxid), stat.ephemeral_owner))
    }

    const fn refuses_others(&self) -> bool {
        matches!(
            self.config.unknown_nodes,
            UnknownNodePolicy::RefuseOtherLocks | UnknownNodePolicy::Refuse
        )
    }

    fn unwatch(&mut self, turn: &mut Turn<'_>) {
        if let SimpleStep::Watching { look, .. } = self.step {
            turn.unwatch(look);
        }
    }

    // ---- Holding -------------------------------------------------------------------------------

    fn hold(&mut self, czxid: Zxid, turn: &mut Turn<'_>) {
        let node = Node::new(self.config.lock_path.clone(), czxid);
        self.czxid = czxid;
        self.step = SimpleStep::Held;
        self.is_unwanted = self.is_releasing;
        let config = self.config.clone();
        self.holder = self.turn_of_holder(turn, |_, turn| {
            // One name serves all owners, so the replies must have a stat.
            Some(Contender::holding(config, node, turn).reading_its_data())
        });
        if self.is_releasing {
            self.tell_holder(Command::Release.into(), turn);
        }
    }

    fn tell_holder_reply(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        self.tell_holder(Input::Reply { tag: op.tag(), result }.into(), turn);
    }

    /// Passes an input or a command on to the holder.
    fn tell_holder(&mut self, given: Given, turn: &mut Turn<'_>) {
        self.turn_of_holder(turn, |holder, turn| {
            if let Some(holder) = holder {
                given.to(holder, turn);
            }
        });
        if self.holder.as_ref().is_some_and(Contender::is_done) {
            self.step = SimpleStep::Done;
        }
    }

    /// Lets the holder act. If the lock is not wanted any more, only its end is reported.
    fn turn_of_holder<R>(
        &mut self,
        turn: &mut Turn<'_>,
        act: impl FnOnce(&mut Option<Contender>, &mut Turn<'_>) -> R,
    ) -> R {
        let (is_unwanted, has_failed) = (self.is_unwanted, self.has_failed);
        let mut filter = |event| match event {
            event if !is_unwanted => Some(event),
            _ if has_failed => None,
            Event::Released | Event::Lost(_) => Some(Event::Released),
            Event::Failed(_) => Some(event),
            _ => None,
        };
        turn.filtered(HOLDER, &mut filter, |turn| act(&mut self.holder, turn))
    }

    fn holder_heard(&mut self, op: OpId, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match result {
            // Repeating the deletion could delete the next owner's node.
            Err(error) if self.is_deletion(op) && error.outcome() != Outcome::NotApplied => {
                self.deletion = Some(op);
                self.find_out(turn);
            }
            Ok(reply) if self.shows_another(&reply) => {
                let result = Err(Error::Server(ErrorCode::NO_NODE));
                self.tell_holder_reply(op, result, turn);
            }
            result => self.tell_holder_reply(op, result, turn),
        }
    }

    fn is_deletion(&self, op: OpId) -> bool {
        self.holder.as_ref().is_some_and(|holder| holder.is_deletion(op))
    }

    /// Returns whether a reply shows a node of the same name, which the next owner has created.
    fn shows_another(&self, reply: &Reply) -> bool {
        let czxid = match reply.opcode {
            OpCode::EXISTS => reply.decode().map(|ExistsResponse { stat }| stat.czxid),
            OpCode::GET_DATA => reply.decode().map(|GetDataResponse { stat, .. }| stat.czxid),
            _ => return false,
        };
        czxid.is_ok_and(|czxid| czxid != self.czxid)
    }

    fn find_out(&mut self, turn: &mut Turn<'_>) {
        let path = &self.config.lock_path;
        let read = SyncedRead::submit(path, |turn| turn.stat(path), turn);
        self.step = SimpleStep::FindingOut(Some(read));
    }

    fn found_out(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        let Some(op) = self.deletion else { return };
        let czxid = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat.czxid));
        let error = match czxid {
            // The node exists, and a deletion sent on an earlier connection can no longer be
            // applied.
            Ok(czxid) if czxid == self.czxid => Error::ConnectionLost,
            Ok(_) => Error::Server(ErrorCode::NO_NODE),
            Err(error @ Error::Server(ErrorCode::NO_NODE)) => error,
            Err(error) => return self.retry_finding_out(error, turn),
        };
        self.step = SimpleStep::Held;
        self.tell_holder_reply(op, Err(error), turn);
    }

    fn retry_finding_out(&mut self, error: Error, turn: &mut Turn<'_>) {
        match (RetryPolicy::of(&error), self.deletion) {
            (RetryPolicy::Now, _) => self.find_out(turn),
            (RetryPolicy::Never, Some(op)) => {
                self.step = SimpleStep::Held;
                self.tell_holder_reply(op, Err(error), turn);
            }
            (RetryPolicy::Later | RetryPolicy::Never, _) => {
                self.step = SimpleStep::FindingOut(None);
                turn.set_timer(RETRY_AFTER);
            }
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn retry_or_fail(&mut self, error: Error, turn: &mut Turn<'_>) {
        match turn.retry(&error) {
            RetryPolicy::Now => self.repeat(turn),
            RetryPolicy::Later => {}
            RetryPolicy::Never => self.fail(error.into(), turn),
        }
    }

    /// Repeats the current step. That is always safe.
    fn repeat(&mut self, turn: &mut Turn<'_>) {
        match self.step {
            SimpleStep::Creating { .. } => self.create(turn),
            SimpleStep::MakingParents { .. } => self.make_parents(turn),
            SimpleStep::Watching { .. } => self.look(turn),
            SimpleStep::FindingOut(_) => self.find_out(turn),
            SimpleStep::FindingOwn(_) => self.find_own(turn),
            SimpleStep::Beginning | SimpleStep::Held | SimpleStep::Done => {}
        }
    }

    fn fail(&mut self, error: LockError, turn: &mut Turn<'_>) {
        self.unwatch(turn);
        match (self.may_exist, self.is_releasing) {
            (false, true) => return self.conclude(Event::Released, turn),
            (false, false) => return self.conclude(Event::Failed(error), turn),
            (true, true) => {}
            (true, false) => {
                turn.report(Event::Failed(error));
                (self.has_failed, self.is_releasing) = (true, true);
            }
        }
        self.find_own(turn);
    }

    fn find_own(&mut self, turn: &mut Turn<'_>) {
        let path = &self.config.lock_path;
        let read = SyncedRead::submit(path, |turn| turn.watch_data(path.clone()), turn);
        self.step = SimpleStep::FindingOwn(Some(read));
    }

    fn found_own(&mut self, result: Result<Reply, Error>, turn: &mut Turn<'_>) {
        match self.read(result, turn) {
            Ok((Some(czxid), _)) => self.hold(czxid, turn),
            Ok((None, _)) | Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.conclude(Event::Released, turn);
            }
            Err(error) => self.retry_finding_own(error, turn),
        }
    }

    fn retry_finding_own(&mut self, error: Error, turn: &mut Turn<'_>) {
        match turn.retry(&error) {
            RetryPolicy::Now => self.find_own(turn),
            RetryPolicy::Later => self.step = SimpleStep::FindingOwn(None),
            // Nobody can tell whose it is.
            RetryPolicy::Never => self.conclude(Event::Released, turn),
        }
    }

    fn conclude(&mut self, event: Event, turn: &mut Turn<'_>) {
        if !self.has_failed {
            turn.report(event);
        }
        self.step = SimpleStep::Done;
    }

    fn name(&self) -> String {
        path::name(&self.config.lock_path).to_string()
    }
}

/// Returns the beginning of our node's data.
fn mark(guid: Uuid) -> String {
    guid.as_hyphenated().to_string()
}
