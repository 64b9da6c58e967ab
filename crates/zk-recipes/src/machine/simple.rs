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

use bytes::Bytes;
use uuid::Uuid;
use zk_session::proto::{
    Create2Response, ErrorCode, EventType, ExistsResponse, GetDataResponse, OpCode, SessionId,
    Zxid, path,
};
use zk_session::session::{Reply, State};
use zk_session::{End, Error, Outcome};

use super::connection::Connection;
use super::ephemeral::{NOBODY, OF_CONTAINER};
use super::outputs::Outputs;
use super::parents::{ParentCreation, ParentOutcome};
use super::phase::Node;
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::synced_read::{Synced, SyncedRead};
use super::{
    AttemptConfig, Contender, Event, Input, Machine, OpId, Operation, Output, UnknownNodePolicy,
};
use crate::error::LockError;

/// A bit in the numbers of the holder's requests.
const OF_HOLDER: u64 = 1 << 32;

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
    step: Step,
    /// Watches and deletes the node while we hold the lock.
    holder: Option<Contender>,
    /// The holder's latest deletion of the node.
    deletion: Option<OpId>,
    /// The transaction that created our node.
    czxid: Zxid,
    /// Whether a creation has an unknown outcome.
    may_exist: bool,
    parents: ParentCreation,
    connection: Connection,
    /// Whether the caller has released the lock while it is unknown what must be deleted.
    is_releasing: bool,
    /// Whether the holder's `Acquired` is withheld because the lock is not wanted any more.
    is_unwanted: bool,
    /// Whether the failure was reported while there may be a node to delete.
    has_failed: bool,
    outputs: Outputs,
}

/// The step of an attempt, with the requests that it waits for.
#[derive(Clone, Debug)]
enum Step {
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
    fn handle(&mut self, input: Input) {
        match input {
            _ if self.is_done() => {}
            Input::Reply { op, result } => match result.as_ref().err().and_then(Error::end) {
                Some(end) => self.session_ended(end),
                None => {
                    if let Err(Error::ConnectionLost) = result {
                        self.not_connected();
                    }
                    self.handle_reply(op, self.connection.check_reply(result));
                }
            },
            Input::Watch { op: OpId(op), event_type } if op & OF_HOLDER != 0 => {
                self.tell_holder(Input::Watch { op: OpId(op & !OF_HOLDER), event_type });
            }
            Input::Watch { op, event_type } => self.watch_fired(op, event_type),
            Input::Session(State::Ended(end)) => self.session_ended(end),
            Input::Session(state) => {
                self.connection.change(state);
                self.config.follow(state);
                match (&self.step, state) {
                    (Step::Beginning, State::Connected { .. }) => self.create(),
                    (_, State::Connected { .. }) => {}
                    _ => self.not_connected(),
                }
                self.tell_holder(input);
            }
            Input::Timer => {
                self.tell_holder(input);
                self.repeat();
            }
            Input::LeaseEnded | Input::Settled => self.tell_holder(input),
            #[cfg(feature = "full")]
            Input::Convert(_) => self.tell_holder(input),
            // One name serves all owners, so the name does not show who abandoned the node.
            Input::BehindAbandoned => {}
            Input::Leave | Input::Release => self.release(),
        }
        self.settle();
    }

    fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop()
    }

    fn is_done(&self) -> bool {
        matches!(self.step, Step::Done)
    }
}

impl SimpleContender {
    /// Creates an attempt.
    ///
    /// With [`WaitPolicy::Queue`](super::WaitPolicy::Queue) it begins with the first
    /// [`State::Connected`]. Otherwise it begins with the first [`Input::Session`] and fails if that
    /// is no connection to a quorum.
    pub fn new(config: AttemptConfig) -> Self {
        let mut contender = Self {
            config,
            step: Step::Beginning,
            holder: None,
            deletion: None,
            czxid: Zxid::ZERO,
            may_exist: false,
            parents: ParentCreation::new(),
            connection: Connection::Up,
            is_releasing: false,
            is_unwanted: false,
            has_failed: false,
            outputs: Outputs::default(),
        };
        match path::validate(&contender.config.lock_path) {
            Err(error) => contender.fail(error.into()),
            Ok(()) if contender.config.begins_at_once() => contender.create(),
            Ok(()) => {}
        }
        contender
    }

    fn handle_reply(&mut self, op: OpId, result: Result<Reply, Error>) {
        match &mut self.step {
            _ if op.0 & OF_HOLDER != 0 => self.holder_heard(OpId(op.0 & !OF_HOLDER), result),
            Step::Creating { create } if *create == op => self.created(result),
            Step::MakingParents { requests } if requests.contains(&op) => {
                let is_last = op == *requests.end();
                self.made_parent(is_last, result);
            }
            Step::Watching { look, .. } if *look == op => self.looked(result),
            Step::FindingOut(Some(stat)) => match stat.handle_reply(op, result) {
                Synced::Pending => {}
                Synced::Read(result) => self.found_out(result),
                Synced::Failed(error) => self.retry_finding_out(error),
            },
            Step::FindingOwn(Some(data)) => {
                let (read, synced) = (data.read(), data.handle_reply(op, result));
                if !matches!(synced, Synced::Pending) {
                    self.outputs.unwatch(read);
                }
                match synced {
                    Synced::Pending => {}
                    Synced::Read(result) => self.found_own(result),
                    Synced::Failed(error) => self.retry_finding_own(error),
                }
            }
            _ => {}
        }
    }

    // ---- Creating the node ---------------------------------------------------------------------

    fn create(&mut self) {
        let AttemptConfig { lock_path, data, acl, .. } = &self.config;
        let data = [mark(self.guid()).as_bytes(), data.as_ref()].concat();
        let (path, acl) = (lock_path.clone(), acl.clone());
        let create = self.outputs.submit(Operation::create_alone(path, Bytes::from(data), acl));
        self.step = Step::Creating { create };
    }

    fn created(&mut self, result: Result<Reply, Error>) {
        let czxid = result.and_then(|reply| Ok(reply.decode::<Create2Response<'_>>()?.stat.czxid));
        match czxid {
            Ok(czxid) => self.hold(czxid),
            Err(Error::Server(ErrorCode::NODE_EXISTS)) => self.look(),
            Err(Error::Server(ErrorCode::NO_NODE)) => self.make_parents(),
            Err(error) => {
                self.may_exist |= error.outcome() != Outcome::NotApplied;
                self.retry_or_fail(error);
            }
        }
    }

    fn make_parents(&mut self) {
        if self.is_releasing {
            return self.conclude(Event::Released);
        }
        let lock_path = path::parent(&self.config.lock_path).unwrap_or("/");
        match self.parents.attempt(lock_path, &self.config) {
            Err(error) => self.fail(error),
            Ok(operations) => {
                let requests = self.outputs.submit_all(operations);
                self.step = Step::MakingParents { requests };
            }
        }
    }

    fn made_parent(&mut self, is_last: bool, result: Result<Reply, Error>) {
        match self.parents.answered(is_last, result) {
            ParentOutcome::Wait => {}
            ParentOutcome::Made if self.is_releasing => self.conclude(Event::Released),
            ParentOutcome::Made => self.create(),
            ParentOutcome::Again => self.make_parents(),
            ParentOutcome::NoChroot => self.fail(self.config.no_chroot()),
            ParentOutcome::Failed(error) => self.retry_or_fail(error),
        }
    }

    // ---- Waiting -------------------------------------------------------------------------------

    fn look(&mut self) {
        self.unwatch();
        let look = self.outputs.submit(Operation::watch_data(self.config.lock_path.clone()));
        self.step = Step::Watching { look, answered: false };
    }

    fn looked(&mut self, result: Result<Reply, Error>) {
        match self.read(result) {
            Ok((Some(czxid), _)) => {
                self.unwatch();
                self.hold(czxid);
            }
            Ok((None, _)) | Err(Error::Server(ErrorCode::NO_NODE)) if self.is_releasing => {
                self.unwatch();
                self.conclude(Event::Released);
            }
            // No session owns the node. It is no lock of this kind, and may never be deleted.
            Ok((None, NOBODY | OF_CONTAINER)) if self.refuses_others() => {
                self.fail(LockError::UnknownNode { node: self.name() });
            }
            Ok((None, _)) => {
                if let Some(error) = self.config.wait_policy.refusal() {
                    return self.fail(error);
                }
                if let Step::Watching { answered, .. } = &mut self.step
                    && !core::mem::replace(answered, true)
                {
                    self.outputs.report(Event::Waiting { behind: self.name(), ahead: 1 });
                }
            }
            Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.unwatch();
                self.create();
            }
            Err(Error::Server(ErrorCode::NO_AUTH)) => {
                self.fail(LockError::Unreadable { node: self.name() });
            }
            Err(error) => self.retry_or_fail(error),
        }
    }

    /// Returns the transaction that created the node, if it is ours, and its owner.
    fn read(&self, result: Result<Reply, Error>) -> Result<(Option<Zxid>, SessionId), Error> {
        let reply = result?;
        let GetDataResponse { data, stat } = reply.decode()?;
        let is_marked = data.is_some_and(|data| data.starts_with(mark(self.guid()).as_bytes()));
        let is_ours = is_marked && stat.ephemeral_owner == self.session();
        Ok((is_ours.then_some(stat.czxid), stat.ephemeral_owner))
    }

    const fn refuses_others(&self) -> bool {
        matches!(
            self.config.unknown_nodes,
            UnknownNodePolicy::RefuseOtherLocks | UnknownNodePolicy::Refuse
        )
    }

    fn watch_fired(&mut self, op: OpId, event_type: EventType) {
        match self.step {
            Step::Watching { look, .. } if look == op && event_type == EventType::NODE_DELETED => {
                self.create();
            }
            Step::Watching { look, .. } if look == op => self.look(),
            _ => {}
        }
    }

    fn unwatch(&mut self) {
        if let Step::Watching { look, .. } = self.step {
            self.outputs.unwatch(look);
        }
    }

    // ---- Holding -------------------------------------------------------------------------------

    fn hold(&mut self, czxid: Zxid) {
        let node = Node::new(self.config.lock_path.clone(), czxid);
        self.holder = Some(Contender::holding(self.config.clone(), node, self.connection));
        self.czxid = czxid;
        self.step = Step::Held;
        self.is_unwanted = self.is_releasing;
        if self.is_releasing {
            self.tell_holder(Input::Release);
        }
    }

    fn tell_holder(&mut self, input: Input) {
        if let Some(holder) = &mut self.holder {
            holder.handle(input);
        }
    }

    fn holder_heard(&mut self, op: OpId, result: Result<Reply, Error>) {
        match result {
            // Repeating the deletion could delete the next owner's node.
            Err(error) if self.deletion == Some(op) && error.outcome() != Outcome::NotApplied => {
                self.find_out();
            }
            Ok(reply) if self.shows_another(&reply) => {
                let result = Err(Error::Server(ErrorCode::NO_NODE));
                self.tell_holder(Input::Reply { op, result });
            }
            result => self.tell_holder(Input::Reply { op, result }),
        }
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

    fn find_out(&mut self) {
        let path = self.config.lock_path.clone();
        let (sync, stat) = (Operation::sync(path.clone()), Operation::stat(path));
        self.step = Step::FindingOut(Some(SyncedRead::submit(sync, stat, &mut self.outputs)));
    }

    fn found_out(&mut self, result: Result<Reply, Error>) {
        let Some(op) = self.deletion else { return };
        let czxid = result.and_then(|reply| Ok(reply.decode::<ExistsResponse>()?.stat.czxid));
        let error = match czxid {
            // The node exists, and a deletion sent on an earlier connection can no longer be
            // applied.
            Ok(czxid) if czxid == self.czxid => Error::ConnectionLost,
            Ok(_) => Error::Server(ErrorCode::NO_NODE),
            Err(error @ Error::Server(ErrorCode::NO_NODE)) => error,
            Err(error) => return self.retry_finding_out(error),
        };
        self.step = Step::Held;
        self.tell_holder(Input::Reply { op, result: Err(error) });
    }

    fn retry_finding_out(&mut self, error: Error) {
        match (RetryPolicy::of(&error), self.deletion) {
            (RetryPolicy::Now, _) => self.find_out(),
            (RetryPolicy::Never, Some(op)) => {
                self.step = Step::Held;
                self.tell_holder(Input::Reply { op, result: Err(error) });
            }
            (RetryPolicy::Later | RetryPolicy::Never, _) => {
                self.step = Step::FindingOut(None);
                self.outputs.set_timer(RETRY_AFTER);
            }
        }
    }

    /// Handles the outputs of the holder.
    fn settle(&mut self) {
        let Some(holder) = &mut self.holder else { return };
        while let Some(output) = holder.poll_output() {
            let of_holder = |OpId(op)| OpId(op | OF_HOLDER);
            self.outputs.push(match output {
                Output::Submit { op, operation } => {
                    if operation.is_deletion() {
                        self.deletion = Some(op);
                    }
                    // Names do not tell owners apart, so the reply must have a stat.
                    let operation = match operation.watches() {
                        true => Operation::watch_data(self.config.lock_path.clone()),
                        false => operation,
                    };
                    Output::Submit { op: of_holder(op), operation }
                }
                Output::Unwatch(op) => Output::Unwatch(of_holder(op)),
                Output::SetTimer(_) | Output::Settle => output,
                Output::Event(event) if self.is_unwanted => match event {
                    _ if self.has_failed => continue,
                    Event::Released | Event::Lost(_) => Output::Event(Event::Released),
                    Event::Failed(_) => Output::Event(event),
                    _ => continue,
                },
                Output::Event(event) => Output::Event(event),
            });
        }
        if holder.is_done() {
            self.step = Step::Done;
        }
    }

    // ---- The end -------------------------------------------------------------------------------

    fn release(&mut self) {
        self.is_releasing = true;
        match self.step {
            Step::Watching { answered: true, .. } => {
                self.unwatch();
                self.conclude(Event::Released);
            }
            Step::Beginning => self.conclude(Event::Released),
            // Without a holder, the pending reply will show whether there is a node to delete.
            _ => self.tell_holder(Input::Release),
        }
    }

    /// Fails if the attempt does not wait for a connection.
    fn not_connected(&mut self) {
        let is_over = self.is_releasing || self.holder.is_some() || self.is_done();
        if !self.config.wait_policy.waits_for_connection() && !is_over {
            self.outputs.report(Event::Failed(LockError::NoConnection));
            self.has_failed = true;
            self.release();
        }
    }

    fn session_ended(&mut self, end: End) {
        match self.holder {
            Some(_) => self.tell_holder(Input::Session(State::Ended(end))),
            None => {
                self.unwatch();
                self.conclude(match self.is_releasing {
                    true => Event::gone_with(end),
                    false => Event::Failed(LockError::Ended(end)),
                });
            }
        }
    }

    fn retry_or_fail(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.repeat(),
            RetryPolicy::Later => self.outputs.set_timer(RETRY_AFTER),
            RetryPolicy::Never => self.fail(error.into()),
        }
    }

    /// Repeats the current step. That is always safe.
    fn repeat(&mut self) {
        match self.step {
            Step::Creating { .. } => self.create(),
            Step::MakingParents { .. } => self.make_parents(),
            Step::Watching { .. } => self.look(),
            Step::FindingOut(_) => self.find_out(),
            Step::FindingOwn(_) => self.find_own(),
            Step::Beginning | Step::Held | Step::Done => {}
        }
    }

    fn fail(&mut self, error: LockError) {
        self.unwatch();
        match (self.may_exist, self.is_releasing) {
            (false, true) => return self.conclude(Event::Released),
            (false, false) => return self.conclude(Event::Failed(error)),
            (true, true) => {}
            (true, false) => {
                self.outputs.report(Event::Failed(error));
                (self.has_failed, self.is_releasing) = (true, true);
            }
        }
        self.find_own();
    }

    fn find_own(&mut self) {
        let path = self.config.lock_path.clone();
        let (sync, data) = (Operation::sync(path.clone()), Operation::watch_data(path));
        self.step = Step::FindingOwn(Some(SyncedRead::submit(sync, data, &mut self.outputs)));
    }

    fn found_own(&mut self, result: Result<Reply, Error>) {
        match self.read(result) {
            Ok((Some(czxid), _)) => self.hold(czxid),
            Ok((None, _)) | Err(Error::Server(ErrorCode::NO_NODE)) => {
                self.conclude(Event::Released);
            }
            Err(error) => self.retry_finding_own(error),
        }
    }

    fn retry_finding_own(&mut self, error: Error) {
        match RetryPolicy::of(&error) {
            RetryPolicy::Now => self.find_own(),
            RetryPolicy::Later => {
                self.step = Step::FindingOwn(None);
                self.outputs.set_timer(RETRY_AFTER);
            }
            // Nobody can tell whose it is.
            RetryPolicy::Never => self.conclude(Event::Released),
        }
    }

    fn conclude(&mut self, event: Event) {
        if !self.has_failed {
            self.outputs.report(event);
        }
        self.step = Step::Done;
    }

    fn name(&self) -> String {
        self.config.lock_path.rsplit('/').next().unwrap_or_default().to_string()
    }

    const fn guid(&self) -> Uuid {
        self.config.own_guid()
    }

    const fn session(&self) -> SessionId {
        self.config.session
    }
}

/// Returns the beginning of our node's data.
fn mark(guid: Uuid) -> String {
    guid.as_hyphenated().to_string()
}
