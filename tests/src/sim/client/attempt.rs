//! An attempt to get a lock, as its client runs it: what it does is noted, and a quirk of the client
//! does it wrongly.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use uuid::Uuid;
use zk_proto::{Encode, EventType, GetChildrenResponse, OpCode, Request, Zxid};
use zk_recipes::machine::{Event, Input, Machine, Observer, OpId, Operation, Output, Precedent};
use zk_session::State;
use zk_session::dispatch::Port;
use zk_session::session::Reply;

use super::super::{AttemptId, Note, Quirk};

/// What a client and its attempts write down.
#[derive(Clone, Debug, Default)]
pub(super) struct Log(Arc<Mutex<Records>>);

#[derive(Debug, Default)]
struct Records {
    notes: VecDeque<Note>,
    /// What the last attempt in each directory has left.
    precedents: BTreeMap<String, Option<Precedent>>,
}

impl Log {
    fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn note(&self, note: Note) {
        self.records().notes.push_back(note);
    }

    pub(super) fn poll(&self) -> Option<Note> {
        self.records().notes.pop_front()
    }

    fn leave(&self, directory: &str, precedent: Option<Precedent>) {
        self.records().precedents.insert(directory.to_owned(), precedent);
    }

    pub(super) fn precedent(&self, directory: &str) -> Option<Precedent> {
        self.records().precedents.get(directory).copied().flatten()
    }
}

/// Notes what a machine reports.
#[derive(Debug)]
pub(super) struct Reporter {
    id: AttemptId,
    log: Log,
}

impl Observer for Reporter {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        self.log.note(Note::Lock(self.id, event));
    }

    fn finish(&mut self, _: &mut Port<'_>) {
        self.log.note(Note::Done(self.id));
    }
}

/// A machine whose inputs and outputs are noted, and changed by the quirk.
#[derive(Debug)]
pub(super) struct Attempt<M> {
    id: AttemptId,
    machine: M,
    directory: String,
    guid: Uuid,
    log: Log,
    quirk: Option<Quirk>,
    /// Its watches, and the nodes that they are on.
    watches: Vec<(OpId, String)>,
    /// Whether the last input was the answer to the creation of its node.
    is_created: bool,
}

impl<M> Attempt<M> {
    pub(super) fn new(
        id: AttemptId,
        machine: M,
        directory: String,
        guid: Uuid,
        log: Log,
        quirk: Option<Quirk>,
    ) -> Self {
        let watches = Vec::new();
        Self { id, machine, directory, guid, log, quirk, watches, is_created: false }
    }

    pub(super) fn observer(&self) -> Reporter {
        Reporter { id: self.id, log: self.log.clone() }
    }

    fn skips(&self, operation: &Operation) -> bool {
        let is_sync = |request: &Request<'_>| matches!(request, Request::Sync(_));
        self.quirk == Some(Quirk::LooksWithoutSync) && operation.with_request(is_sync)
    }
}

impl<M: Machine> Machine for Attempt<M> {
    fn handle(&mut self, input: Input) {
        let is_creation = |reply: &Reply| reply.opcode == OpCode::CREATE2;
        self.is_created =
            matches!(&input, Input::Reply { result: Ok(reply), .. } if is_creation(reply));
        let input = match (self.quirk, input) {
            (_, Input::Watch { op, event_type }) => {
                if let Some(place) = self.watches.iter().position(|(watch, _)| *watch == op) {
                    let (_, path) = self.watches.remove(place);
                    self.log.note(Note::Woken(self.id, path));
                }
                Input::Watch { op, event_type }
            }
            (Some(Quirk::SeesOnlyItself), Input::Reply { op, result }) => {
                let guid = self.guid.to_string();
                Input::Reply { op, result: result.map(|reply| without_others(reply, &guid)) }
            }
            (Some(Quirk::TakesLossForEvent), Input::Session(State::Suspended)) => {
                // The last watch of a lock is on the node before its own.
                match self.watches.last() {
                    Some((op, _)) => Input::Watch { op: *op, event_type: EventType::NODE_DELETED },
                    None => Input::Session(State::Suspended),
                }
            }
            (_, input) => input,
        };
        self.machine.handle(input);
    }

    fn poll_output(&mut self) -> Option<Output> {
        let output = self.machine.poll_output();
        match &output {
            Some(Output::Submit { op, operation }) if self.skips(operation) => {
                let reply = Reply { opcode: OpCode::SYNC, zxid: Zxid::ZERO, body: Bytes::new() };
                self.machine.handle(Input::Reply { op: *op, result: Ok(reply) });
                return self.poll_output();
            }
            Some(Output::Submit { op, operation }) if operation.watches() => {
                self.watches.push((*op, operation.path().to_owned()));
            }
            Some(Output::Unwatch(op)) => self.watches.retain(|(watch, _)| watch != op),
            Some(Output::Event(Event::Acquired { .. })) if self.is_created => {
                self.log.note(Note::Unlisted(self.id));
            }
            None if self.is_done() => self.log.leave(&self.directory, self.machine.precedent()),
            _ => {}
        }
        output
    }

    fn is_done(&self) -> bool {
        self.machine.is_done()
    }
}

/// A list in which everybody else is missing.
fn without_others(reply: Reply, guid: &str) -> Reply {
    if reply.opcode != OpCode::GET_CHILDREN {
        return reply;
    }
    let Ok(response) = reply.decode::<GetChildrenResponse<'_>>() else { return reply };
    let own: Vec<_> = response.children.iter().filter(|child| child.contains(guid)).collect();
    let mut body = BytesMut::new();
    GetChildrenResponse { children: own[..].into() }.encode(&mut body);
    Reply { body: body.freeze(), ..reply }
}
