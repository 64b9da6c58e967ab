//! An attempt to acquire a lock. It records what the machine does, and applies the injected bug.

use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::sync::Arc;
use core::cell::RefCell;
use core::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::recording::Description;
use zk_proto::{
    Encode, ErrorCode, EventType, GetChildrenResponse, GetDataResponse, OpCode, Request, SessionId,
    Stat, Zxid,
};
use zk_recipes::machine::cohort::Standing;
use zk_recipes::machine::{
    AttemptConfig, Command, Event, FastPathHint, HintCell, Machine, Observer, OpId, Turn,
};
use zk_session::dispatch::{Input, Port, Submission};
use zk_session::session::Reply;
use zk_session::session::WatchedEvent;
use zk_session::{Error, State};

use super::super::locks::is_writer;
use crate::spied::{Spy, spied};

use super::super::{AttemptId, Bug, ClientEvent, LockKind, rare};

/// The number of names that [`Bug::ReadsShortLists`] considers.
const SHORT: usize = 100;

/// The name that [`Bug::SeesAnotherInside`] adds.
const NOBODY: &str = "_c_00000000-0000-4000-8000-000000000000-__READ__0000000000";

/// The event queue that a client shares with its attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
struct Records {
    events: VecDeque<ClientEvent>,
    /// What is known of the locks that were acquired.
    standings: BTreeMap<AttemptId, Standing>,
    /// Their nodes.
    nodes: BTreeMap<AttemptId, String>,
    /// The locks that others may wait for.
    contended: BTreeSet<AttemptId>,
    /// The locks that were idle for the time to keep them, until that is noticed.
    late: BTreeSet<AttemptId>,
    /// The last list of children.
    list: Bytes,
    /// The hint of the last attempt at each lock path.
    hints: BTreeMap<Arc<str>, FastPathHint>,
}

impl Log {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, event: ClientEvent) {
        let mut records = self.records();
        if let ClientEvent::Lock(id, event) = &event
            && let Some(standing) = standing(event)
        {
            records.standings.insert(*id, standing);
        }
        match &event {
            ClientEvent::Lock(id, Event::Acquired { node, .. }) => {
                records.nodes.insert(*id, node.to_string());
            }
            ClientEvent::Contended(id) => {
                records.contended.insert(*id);
            }
            ClientEvent::Late(id) => {
                records.late.insert(*id);
            }
            _ => {}
        }
        records.events.push_back(event);
    }

    pub(super) fn node(&self, attempt: AttemptId) -> Option<String> {
        self.records().nodes.get(&attempt).cloned()
    }

    pub(super) fn is_contended(&self, attempt: AttemptId) -> bool {
        self.records().contended.contains(&attempt)
    }

    pub(super) fn take_late(&self, attempt: AttemptId) -> bool {
        self.records().late.remove(&attempt)
    }

    /// Returns whether another attempt has received this same list before.
    fn is_shared(&self, list: &Bytes) -> bool {
        let before = mem::replace(&mut self.records().list, list.clone());
        before.as_ptr() == list.as_ptr() && !list.is_empty()
    }

    /// Returns the observer of the watch of an attempt's queue.
    pub(super) fn queue_observer(&self, attempt: AttemptId) -> QueueObserver {
        QueueObserver { attempt, log: self.clone() }
    }

    pub(super) fn standing(&self, attempt: AttemptId) -> Option<Standing> {
        self.records().standings.get(&attempt).copied()
    }

    pub(super) fn poll(&self) -> Option<ClientEvent> {
        self.records().events.pop_front()
    }

    /// Returns the cell for the hints of one lock path.
    pub(super) fn hint(&self, lock_path: Arc<str>) -> Hint {
        Hint { lock_path, log: self.clone() }
    }
}

/// Records that others queue at the lock of an attempt, or that it was idle for the time to keep
/// it.
#[derive(Debug)]
pub(super) struct QueueObserver {
    attempt: AttemptId,
    log: Log,
}

impl Observer for QueueObserver {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        match event {
            Event::Revoked => self.log.record(ClientEvent::Contended(self.attempt)),
            Event::Released => self.log.record(ClientEvent::Late(self.attempt)),
            _ => {}
        }
    }
}

/// Returns what an event says of a lock.
fn standing(event: &Event) -> Option<Standing> {
    match event {
        Event::Acquired { .. } | Event::Resumed => Some(Standing::Held),
        Event::Suspended => Some(Standing::Withheld),
        Event::Releasing
        | Event::Lost(_)
        | Event::Released
        | Event::Failed(_)
        | Event::Refused(_) => Some(Standing::Lost),
        _ => None,
    }
}

/// The hint of the last attempt at one lock path.
#[derive(Clone, Debug)]
pub(super) struct Hint {
    lock_path: Arc<str>,
    log: Log,
}

impl HintCell for Hint {
    fn get(&self) -> Option<FastPathHint> {
        self.log.records().hints.get(&self.lock_path).copied()
    }

    fn set(&self, hint: Option<FastPathHint>) {
        let hints = &mut self.log.records().hints;
        match hint {
            Some(hint) => hints.insert(self.lock_path.clone(), hint),
            None => hints.remove(&self.lock_path),
        };
    }
}

/// Records the events of a machine.
#[derive(Debug)]
pub(super) struct Reporter {
    id: AttemptId,
    log: Log,
    bug: Option<Bug>,
}

impl Observer for Reporter {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        if event != Event::Releasing || self.bug != Some(Bug::ReportsReleasesLate) {
            self.log.record(ClientEvent::Lock(self.id, event));
        }
    }

    fn finish(&mut self, _: &mut Port<'_>) {
        self.log.record(ClientEvent::AttemptFinished(self.id));
    }
}

/// A machine whose inputs, requests and events are recorded, and changed by the bug.
#[derive(Debug)]
pub(super) struct Attempt<M> {
    machine: M,
    notes: Notes,
}

/// What is known of a machine.
#[derive(Debug)]
struct Notes {
    id: AttemptId,
    kind: LockKind,
    guid: Uuid,
    /// The session, once known.
    session: SessionId,
    log: Log,
    bug: Option<Bug>,
    /// Its watches and their paths.
    watches: Vec<(OpId, String)>,
    /// Whether the last input was the reply to the create of its node.
    is_created: bool,
    /// Whether its session was renewed.
    is_renewed: bool,
    is_held: bool,
    /// A request that the bug skips, until it is answered.
    skipped: Option<OpId>,
    rare: rare::Watcher,
}

impl<M> Attempt<M> {
    pub(super) fn new(
        (id, kind, guid): (AttemptId, LockKind, Uuid),
        machine: M,
        log: Log,
        bug: Option<Bug>,
    ) -> Self {
        let notes = Notes {
            id,
            kind,
            guid,
            session: SessionId::NONE,
            log,
            bug,
            watches: Vec::new(),
            is_created: false,
            is_renewed: false,
            is_held: false,
            skipped: None,
            rare: rare::Watcher::default(),
        };
        Self { machine, notes }
    }

    pub(super) fn observer(&self) -> Reporter {
        let Notes { id, log, bug, .. } = &self.notes;
        Reporter { id: *id, log: log.clone(), bug: *bug }
    }
}

impl Notes {
    fn reached(&self, what: Option<&'static str>) {
        if let Some(what) = what
            && self.kind.has_queue()
        {
            self.log.record(ClientEvent::Reached(what));
        }
    }

    fn own_guid(&self) -> Uuid {
        AttemptConfig::node_guid(self.guid, self.session)
    }

    /// Returns whether a path is that of its own node.
    fn is_own(&self, path: &str) -> bool {
        path.contains(&*self.own_guid().as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }

    /// Returns whether the bug ignores this input.
    fn ignores(&self, input: &Input) -> bool {
        match (self.bug, input) {
            (Some(Bug::ForgetsWaiters), Input::State(State::Connected { .. })) => self.is_renewed,
            (Some(Bug::KeepsLocksAcrossSessions | Bug::IgnoresLeases), Input::LeaseEnded) => true,
            (Some(Bug::IgnoresRefusals), Input::Reply { result: Err(error), .. }) => {
                *error == Error::Server(ErrorCode::NO_AUTH)
            }
            (Some(Bug::IgnoresOwnDeletion), Input::Watch { tag, .. }) => {
                self.watches.iter().any(|(op, path)| op.tag() == *tag && self.is_own(path))
            }
            _ => false,
        }
    }

    /// Returns the reply to a read of a node as if the node was this attempt's.
    fn as_own(&self, reply: Reply) -> Reply {
        let Some(Ok(GetDataResponse { stat, .. })) =
            (reply.opcode == OpCode::GET_DATA).then(|| reply.decode())
        else {
            return reply;
        };
        let data = self.own_guid().as_hyphenated().to_string();
        let stat = Stat { ephemeral_owner: self.session, ..stat };
        let mut body = BytesMut::new();
        GetDataResponse { data: Some(data.as_bytes()), stat }.encode(&mut body);
        Reply::new(reply.opcode, reply.zxid, body.freeze())
    }

    /// Returns what the machine receives in place of the input, if anything.
    fn input(&mut self, input: Input) -> Option<Input> {
        let reached = self.rare.input(&input);
        self.reached(reached);
        let is_creation = |reply: &Reply| reply.opcode == OpCode::CREATE2;
        if let Input::Reply { result: Ok(reply), .. } = &input
            && reply.opcode == OpCode::GET_CHILDREN
            && self.log.is_shared(&reply.body)
        {
            self.log.record(ClientEvent::Reached("lists shared"));
        }
        if let Input::State(State::Connected { session, .. }) = input {
            self.session = session;
        }
        self.is_renewed |= matches!(input, Input::State(State::Renewing));
        if self.ignores(&input) {
            return None;
        }
        self.is_created =
            matches!(&input, Input::Reply { result: Ok(reply), .. } if is_creation(reply));
        Some(match (self.bug, input) {
            (_, Input::Watch { tag, event }) => {
                if let Some(index) = self.watches.iter().position(|(op, _)| op.tag() == tag) {
                    let (_, path) = self.watches.remove(index);
                    self.log.record(ClientEvent::Woken(self.id, path));
                }
                Input::Watch { tag, event }
            }
            (Some(Bug::IgnoresContenders), Input::Reply { tag, result }) => Input::Reply {
                tag,
                result: with_names(result, |it| it.retain(|it| self.is_own(it))),
            },
            (Some(Bug::IgnoresOthersInside), Input::Reply { tag, result }) if self.is_held => {
                Input::Reply {
                    tag,
                    result: with_names(result, |it| it.retain(|it| self.is_own(it))),
                }
            }
            (Some(Bug::SeesAnotherInside), Input::Reply { tag, result })
                if self.is_held && self.kind == LockKind::Read =>
            {
                Input::Reply { tag, result: with_names(result, |it| it.push(NOBODY)) }
            }
            (Some(Bug::OverlooksOwnWriter), Input::Reply { tag, result })
                if self.is_held && self.kind == LockKind::Read =>
            {
                let is_own_writer = |it: &str| self.is_own(it) && is_writer(it);
                let result = with_names(result, |it| it.retain(|it| !is_own_writer(it)));
                Input::Reply { tag, result }
            }
            (Some(Bug::TakesUpgradesForLost), Input::Reply { tag, result: Ok(reply) })
                if self.is_held && self.kind == LockKind::Read && is_creation(&reply) =>
            {
                Input::Reply { tag, result: Err(Error::ConnectionLost) }
            }
            (Some(Bug::IgnoresForeigners), Input::Reply { tag, result }) => {
                let is_ours = |name: &str| name.bytes().filter(|byte| *byte == b'-').count() > 4;
                Input::Reply { tag, result: with_names(result, |it| it.retain(|it| is_ours(it))) }
            }
            (Some(Bug::ReadsShortLists), Input::Reply { tag, result }) => {
                let mut place = 0;
                let result = with_names(result, |it| {
                    it.retain(|it| {
                        place += 1;
                        place <= SHORT || self.is_own(it)
                    });
                });
                Input::Reply { tag, result }
            }
            (Some(Bug::SharesEarlyLists), Input::Reply { tag, result }) if !self.is_held => {
                Input::Reply {
                    tag,
                    result: with_names(result, |it| it.retain(|it| !self.is_own(it))),
                }
            }
            (Some(Bug::ForgetsToSort), Input::Reply { tag, result })
                if self.kind == LockKind::Mutex =>
            {
                let result = with_names(result, |it| {
                    if let Some(own) = it.iter().position(|it| self.is_own(it)) {
                        it.truncate(own + 1);
                    }
                });
                Input::Reply { tag, result }
            }
            (Some(Bug::CountsTwice), Input::Reply { tag, result }) => {
                Input::Reply { tag, result: with_names(result, |it| it.extend_from_within(..)) }
            }
            (Some(Bug::IgnoresBarriers), Input::Reply { tag, result: Ok(_) })
                if self.kind == LockKind::Barrier =>
            {
                Input::Reply { tag, result: Err(Error::Server(ErrorCode::NO_NODE)) }
            }
            (Some(Bug::TakesLocksOfOthers), Input::Reply { tag, result }) => {
                Input::Reply { tag, result: result.map(|reply| self.as_own(reply)) }
            }
            (Some(Bug::TakesDisconnectForEvent), Input::State(State::Suspended)) => {
                // The last watch of a lock is on its predecessor.
                match self.watches.last() {
                    Some((op, path)) => deleted(*op, path),
                    None => Input::State(State::Suspended),
                }
            }
            (Some(Bug::TakesDisconnectForLeaseEnd), Input::State(State::Suspended)) => {
                Input::LeaseEnded
            }
            (Some(Bug::TakesDisconnectForDeletion), Input::State(State::Suspended)) => {
                match self.watches.iter().find(|(_, path)| self.is_own(path)) {
                    Some((op, path)) => deleted(*op, path),
                    None => Input::State(State::Suspended),
                }
            }
            (Some(Bug::KeepsLocksAcrossSessions), Input::State(State::Renewing)) => {
                Input::State(State::Suspended)
            }
            (_, input) => input,
        })
    }

    /// Returns the path of the own node whose watch an input confirms.
    fn guarded(&self, input: &Input) -> Option<String> {
        let Input::Reply { tag, result: Ok(_) } = input else { return None };
        let own = self.watches.iter().find(|(op, path)| op.tag() == *tag && self.is_own(path));
        own.filter(|_| self.is_held).map(|(_, path)| path.clone())
    }

    fn submits(&mut self, op: OpId, request: &Request<'_>, submission: Submission) -> bool {
        let reached = self.rare.submitted(op, request, submission);
        self.reached(reached);
        let path = || request.path().unwrap_or_default().to_owned();
        match request {
            Request::Sync(_) if self.bug == Some(Bug::SearchesWithoutSync) => {
                self.skipped = Some(op);
                return false;
            }
            Request::Delete(_) => self.log.record(ClientEvent::Deletes(self.id, path())),
            _ if submission == Submission::Watch => self.watches.push((op, path())),
            _ => {}
        }
        true
    }

    fn reports(&mut self, event: &Event) -> bool {
        let reached = self.rare.event(event);
        self.reached(reached);
        if let Event::Acquired { .. } = event {
            self.is_held = true;
            if self.is_created {
                self.log.record(ClientEvent::AcquiredWithoutList(self.id));
            }
        }
        !matches!(event, Event::NotConverted(_)) || self.bug != Some(Bug::LosesRefusals)
    }
}

impl Spy for RefCell<&mut Notes> {
    fn submits(&self, op: OpId, request: &Request<'_>, submission: Submission) -> bool {
        self.borrow_mut().submits(op, request, submission)
    }

    fn unwatches(&self, op: OpId) {
        self.borrow_mut().watches.retain(|(watch, _)| *watch != op);
    }

    fn settles(&self) {
        self.borrow_mut().rare.settles();
    }

    fn reports(&self, event: &Event) -> bool {
        self.borrow_mut().reports(event)
    }
}

impl<M: Machine> Attempt<M> {
    /// Lets the machine act, and answers what the bug has skipped.
    fn act(&mut self, act: impl FnOnce(&mut M, &mut Turn<'_>), turn: &mut Turn<'_>) {
        let Self { machine, notes } = self;
        spied(turn, &RefCell::new(&mut *notes), |turn| act(machine, turn));
        while let Some(op) = notes.skipped.take() {
            let reply = Reply::new(OpCode::SYNC, Zxid::ZERO, Bytes::new());
            let input = Input::Reply { tag: op.tag(), result: Ok(reply) };
            spied(turn, &RefCell::new(&mut *notes), |turn| machine.handle(input, turn));
        }
    }
}

impl<M: Machine> Machine for Attempt<M> {
    fn handle(&mut self, input: Input, turn: &mut Turn<'_>) {
        let Some(input) = self.notes.input(input) else { return };
        let guarded = self.notes.guarded(&input);
        self.act(|machine, turn| machine.handle(input, turn), turn);
        if let Some(path) = guarded {
            self.notes.log.record(ClientEvent::Guarded(self.notes.id, path));
        }
    }

    fn command(&mut self, command: Command, turn: &mut Turn<'_>) {
        let reached = self.notes.rare.command(command);
        self.notes.reached(reached);
        self.notes.is_created = false;
        self.act(|machine, turn| machine.command(command, turn), turn);
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    fn describe(&self, description: &mut Description<'_>) {
        self.machine.describe(description);
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session() || self.notes.bug == Some(Bug::KeepsLocksAcrossSessions)
    }
}

fn deleted(op: OpId, path: &str) -> Input {
    let event = WatchedEvent::new(EventType::NODE_DELETED, path.into(), Zxid(-1));
    Input::Watch { tag: op.tag(), event }
}

/// Changes the names in a list of children.
fn with_names(
    result: Result<Reply, Error>,
    change: impl FnOnce(&mut Vec<&str>),
) -> Result<Reply, Error> {
    let reply = result?;
    if reply.opcode != OpCode::GET_CHILDREN {
        return Ok(reply);
    }
    let Ok(response) = reply.decode::<GetChildrenResponse<'_>>() else { return Ok(reply) };
    let mut names: Vec<_> = response.children.iter().collect();
    change(&mut names);
    let mut body = BytesMut::new();
    GetChildrenResponse { children: names[..].into() }.encode(&mut body);
    Ok(Reply::new(reply.opcode, reply.zxid, body.freeze()))
}
