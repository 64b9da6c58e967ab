//! An attempt to acquire a lock. It records what the machine does, and applies the injected bug.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::{Encode, ErrorCode, EventType, GetChildrenResponse, OpCode, Request, Zxid};
use zk_recipes::machine::{
    Event, FastPathHint, HintCell, Input, Machine, Observer, OpId, Operation, Output,
};
use zk_session::dispatch::Port;
use zk_session::session::Reply;
use zk_session::{Error, State};

use super::super::{AttemptId, Bug, ClientEvent, rare};

/// The number of names that [`Bug::ReadsShortLists`] considers.
const SHORT: usize = 100;

/// The event queue that a client shares with its attempts.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
struct Records {
    events: VecDeque<ClientEvent>,
    /// The hint of the last attempt at each lock path.
    hints: BTreeMap<Arc<str>, FastPathHint>,
}

impl Log {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, event: ClientEvent) {
        self.records().events.push_back(event);
    }

    pub(super) fn poll(&self) -> Option<ClientEvent> {
        self.records().events.pop_front()
    }

    /// Returns the cell for the hints of one lock path.
    pub(super) fn hint(&self, lock_path: Arc<str>) -> Hint {
        Hint { lock_path, log: self.clone() }
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
}

impl Observer for Reporter {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        self.log.record(ClientEvent::Lock(self.id, event));
    }

    fn finish(&mut self, _: &mut Port<'_>) {
        self.log.record(ClientEvent::AttemptFinished(self.id));
    }
}

/// A machine whose inputs and outputs are recorded, and changed by the bug.
#[derive(Debug)]
pub(super) struct Attempt<M> {
    id: AttemptId,
    machine: M,
    guid: Uuid,
    log: Log,
    bug: Option<Bug>,
    /// Its watches and their paths.
    watches: Vec<(OpId, String)>,
    /// Whether the last input was the reply to the create of its node.
    is_created: bool,
    /// Whether its session was renewed.
    is_renewed: bool,
    is_held: bool,
    rare: rare::Watcher,
}

impl<M> Attempt<M> {
    pub(super) fn new(id: AttemptId, machine: M, guid: Uuid, log: Log, bug: Option<Bug>) -> Self {
        Self {
            id,
            machine,
            guid,
            log,
            bug,
            watches: Vec::new(),
            is_created: false,
            is_renewed: false,
            is_held: false,
            rare: rare::Watcher::default(),
        }
    }

    pub(super) fn observer(&self) -> Reporter {
        Reporter { id: self.id, log: self.log.clone() }
    }

    fn reached(&self, what: Option<&'static str>) {
        if let Some(what) = what {
            self.log.record(ClientEvent::Reached(what));
        }
    }

    /// Returns whether a path is that of its own node.
    fn is_own(&self, path: &str) -> bool {
        path.contains(&*self.guid.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()))
    }

    /// Returns whether the bug ignores this input.
    fn ignores(&self, input: &Input) -> bool {
        match (self.bug, input) {
            (Some(Bug::ForgetsWaiters), Input::Session(State::Connected { .. })) => self.is_renewed,
            (Some(Bug::KeepsLocksAcrossSessions | Bug::IgnoresLeases), Input::LeaseEnded) => true,
            (Some(Bug::IgnoresRefusals), Input::Reply { result: Err(error), .. }) => {
                *error == Error::Server(ErrorCode::NO_AUTH)
            }
            (Some(Bug::IgnoresOwnDeletion), Input::Watch { op, .. }) => {
                self.watches.iter().any(|(watch, path)| watch == op && self.is_own(path))
            }
            _ => false,
        }
    }

    fn skips(&self, operation: &Operation) -> bool {
        let is_sync = |request: &Request<'_>| matches!(request, Request::Sync(_));
        self.bug == Some(Bug::SearchesWithoutSync) && operation.with_request(is_sync)
    }
}

impl<M: Machine> Machine for Attempt<M> {
    fn handle(&mut self, input: Input) {
        let reached = self.rare.input(&input);
        self.reached(reached);
        let is_creation = |reply: &Reply| reply.opcode == OpCode::CREATE2;
        self.is_renewed |= matches!(input, Input::Session(State::Renewing));
        if self.ignores(&input) {
            return;
        }
        self.is_created =
            matches!(&input, Input::Reply { result: Ok(reply), .. } if is_creation(reply));
        let input = match (self.bug, input) {
            (_, Input::Watch { op, event_type }) => {
                if let Some(index) = self.watches.iter().position(|(watch, _)| *watch == op) {
                    let (_, path) = self.watches.remove(index);
                    self.log.record(ClientEvent::Woken(self.id, path));
                }
                Input::Watch { op, event_type }
            }
            (Some(Bug::IgnoresContenders), Input::Reply { op, result }) => {
                let result = result.map(|reply| with_names(reply, |_, name| self.is_own(name)));
                Input::Reply { op, result }
            }
            (Some(Bug::IgnoresForeigners), Input::Reply { op, result }) => {
                let is_ours = |name: &str| name.bytes().filter(|byte| *byte == b'-').count() > 4;
                let result = result.map(|reply| with_names(reply, |_, name| is_ours(name)));
                Input::Reply { op, result }
            }
            (Some(Bug::ReadsShortLists), Input::Reply { op, result }) => {
                let result = result.map(|reply| with_names(reply, |place, _| place < SHORT));
                Input::Reply { op, result }
            }
            (Some(Bug::TakesDisconnectForEvent), Input::Session(State::Suspended)) => {
                // The last watch of a lock is on its predecessor.
                match self.watches.last() {
                    Some((op, _)) => Input::Watch { op: *op, event_type: EventType::NODE_DELETED },
                    None => Input::Session(State::Suspended),
                }
            }
            (Some(Bug::TakesDisconnectForLeaseEnd), Input::Session(State::Suspended)) => {
                Input::LeaseEnded
            }
            (Some(Bug::TakesDisconnectForDeletion), Input::Session(State::Suspended)) => {
                match self.watches.iter().find(|(_, path)| self.is_own(path)) {
                    Some((op, _)) => Input::Watch { op: *op, event_type: EventType::NODE_DELETED },
                    None => Input::Session(State::Suspended),
                }
            }
            (Some(Bug::KeepsLocksAcrossSessions), Input::Session(State::Renewing)) => {
                Input::Session(State::Suspended)
            }
            (_, input) => input,
        };
        let guarded = match &input {
            Input::Reply { op, result: Ok(_) } if self.is_held => {
                let own =
                    self.watches.iter().find(|(watch, path)| watch == op && self.is_own(path));
                own.map(|(_, path)| path.clone())
            }
            _ => None,
        };
        self.machine.handle(input);
        if let Some(path) = guarded {
            self.log.record(ClientEvent::Guarded(self.id, path));
        }
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.machine.poll_output();
        let reached = output.as_ref().and_then(|output| self.rare.output(output));
        self.reached(reached);
        match &output {
            Some(Output::Submit { op, operation }) if self.skips(operation) => {
                let reply = Reply::new(OpCode::SYNC, Zxid::ZERO, Bytes::new());
                self.machine.handle(Input::Reply { op: *op, result: Ok(reply) });
                return self.poll_output();
            }
            Some(Output::Submit { op, operation }) if operation.watches() => {
                self.watches.push((*op, operation.path().to_owned()));
            }
            Some(Output::Unwatch(op)) => self.watches.retain(|(watch, _)| watch != op),
            Some(Output::Event(Event::Acquired { .. })) => {
                self.is_held = true;
                if self.is_created {
                    self.log.record(ClientEvent::AcquiredWithoutList(self.id));
                }
            }
            _ => {}
        }
        output
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session() || self.bug == Some(Bug::KeepsLocksAcrossSessions)
    }
}

/// Removes all but some names from a list of children.
fn with_names(reply: Reply, is_left: impl Fn(usize, &str) -> bool) -> Reply {
    if reply.opcode != OpCode::GET_CHILDREN {
        return reply;
    }
    let Ok(response) = reply.decode::<GetChildrenResponse<'_>>() else { return reply };
    let names = response.children.iter().enumerate();
    let left: Vec<_> = names.filter(|(at, name)| is_left(*at, name)).map(|(_, it)| it).collect();
    let mut body = BytesMut::new();
    GetChildrenResponse { children: left[..].into() }.encode(&mut body);
    Reply::new(reply.opcode, reply.zxid, body.freeze())
}
