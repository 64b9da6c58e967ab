//! A machine that is driven by hand. What it asks for is recorded.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use core::cell::RefCell;
use core::ops::{Deref, DerefMut};
use core::task::Waker;
use core::time::Duration;

use zk_session::dispatch::{Host, Port, Submission};
use zk_session::session::WatchedEvent;
use zk_session::time::Instant;

use super::*;
use crate::attempt::connection::Connection;

/// What a machine has asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Submit { op: OpId, operation: Operation },
    Unwatch(OpId),
    SetTimer(Duration),
    Settle,
    Event(Event),
}

/// A request that was submitted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operation {
    opcode: OpCode,
    body: Vec<u8>,
    watches: bool,
    comes_in_pieces: bool,
}

impl Operation {
    pub(crate) fn new(request: &Request<'_>, submission: Submission) -> Self {
        let mut body = Vec::new();
        request.encode(&mut body);
        Self {
            opcode: request.opcode(),
            body,
            watches: submission == Submission::Watch,
            comes_in_pieces: submission == Submission::InPieces,
        }
    }

    /// The request that watches for the end of a node.
    pub(crate) fn watch(path: impl AsRef<str>) -> Self {
        let (path, watch) = (path.as_ref(), true);
        let request = Request::GetChildren(GetChildrenRequest { path, watch });
        Self::new(&request, Submission::Watch)
    }

    pub(crate) fn with_request<R>(&self, read: impl FnOnce(&Request<'_>) -> R) -> R {
        read(&Request::decode(self.opcode, &self.body).expect("it was encoded"))
    }

    pub(crate) fn watches(&self) -> bool {
        self.watches
    }

    pub(crate) fn comes_in_pieces(&self) -> bool {
        self.comes_in_pieces
    }

    pub(crate) fn path(&self) -> String {
        self.with_request(|request| request.paths().next().unwrap_or_default().to_string())
    }
}

/// Stands behind the port of a machine, and receives its events.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder(Rc<RefCell<VecDeque<Output>>>);

impl Recorder {
    pub(crate) fn push(&self, output: Output) {
        self.0.borrow_mut().push_back(output);
    }
}

/// The tag of a renewal, which nobody asks for here.
pub(crate) const RENEWED: u64 = 1 << 63;

impl Host for Recorder {
    fn submit(&mut self, tag: u64, request: &Request<'_>, submission: Submission) {
        let operation = Operation::new(request, submission);
        self.push(Output::Submit { op: OpId(tag), operation });
    }

    fn unwatch(&mut self, tag: u64) {
        if tag & RENEWED == 0 {
            self.push(Output::Unwatch(OpId(tag)));
        }
    }

    fn unwatch_all(&mut self) {
        unreachable!("machines name their watches");
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        self.push(Output::SetTimer(at.expect("a time").since_start()));
    }

    fn settle(&mut self) {
        self.push(Output::Settle);
    }

    fn session_id(&self) -> SessionId {
        SESSION
    }

    fn session_timeout(&self) -> Duration {
        Duration::from_secs(6)
    }

    fn lease_has_ended(&self) -> bool {
        false
    }

    fn wake(&mut self, _: Waker) {}

    fn report(&mut self, _: Box<dyn FnOnce() + Send>) {}

    fn defer(&mut self, _: Box<dyn FnOnce() + Send>) {}
}

impl Observer for Recorder {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        self.push(Output::Event(event));
    }
}

/// A machine, and what it has asked for that nobody has taken yet.
#[derive(Clone, Debug)]
pub(crate) struct Driven<M> {
    pub(crate) machine: M,
    watches: Watches,
    outputs: VecDeque<Output>,
}

/// The event of a watch.
pub(crate) fn fired(op: OpId, event_type: EventType) -> Input {
    let event = WatchedEvent::new(event_type, "/".into(), Zxid(-1));
    Input::Watch { tag: op.tag(), event }
}

impl<M: Machine> Driven<M> {
    /// Lets the machine begin, if it does not wait for a state of the session.
    pub(crate) fn new(machine: M) -> Self {
        let mut driven = Self::idle(machine);
        driven.handle(Input::Settled);
        driven
    }

    pub(crate) fn handle(&mut self, given: impl Into<Given>) {
        self.act(|machine, turn| given.into().to(machine, turn));
    }
}

impl<M> Driven<M> {
    pub(crate) fn idle(machine: M) -> Self {
        Self { machine, watches: Watches::new(None), outputs: VecDeque::new() }
    }

    /// Lets the machine act, and records what it asks for.
    pub(crate) fn act<R>(&mut self, act: impl FnOnce(&mut M, &mut Turn<'_>) -> R) -> R {
        let recorder = Recorder::default();
        let (mut host, mut owner) = (recorder.clone(), recorder.clone());
        let port = Port::new(&mut host, Instant::START);
        let mut turn = Turn::new(port, &mut owner, &mut self.watches);
        let result = act(&mut self.machine, &mut turn);
        self.outputs.append(&mut recorder.0.borrow_mut());
        result
    }

    pub(crate) const fn connection(&self) -> Connection {
        self.watches.connection
    }

    pub(crate) fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }
}

impl<M> Deref for Driven<M> {
    type Target = M;

    fn deref(&self) -> &M {
        &self.machine
    }
}

impl<M> DerefMut for Driven<M> {
    fn deref_mut(&mut self) -> &mut M {
        &mut self.machine
    }
}
