//! Watching what a machine does: its requests, and the events that it reports.

use alloc::boxed::Box;
use alloc::sync::Arc;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use zk_proto::recording::Fields;
use zk_proto::{GetChildrenRequest, Request, SessionId};
use zk_recipes::machine::{Event, Observer, OpId, Turn};
use zk_session::dispatch::{Host, Port, Submission};
use zk_session::session::ServerKind;
use zk_session::time::Instant;

/// Sees what a machine does, at once and in order.
pub trait Spy {
    /// Returns whether the request is submitted.
    fn submits(&self, op: OpId, request: &Request<'_>, submission: Submission) -> bool;
    /// The watch of a request is dropped.
    fn unwatches(&self, op: OpId);
    /// The machine asks to settle.
    fn settles(&self);
    /// Returns whether the event is reported.
    fn reports(&self, event: &Event) -> bool;
    /// The machine sets its timer.
    fn sets_timer(&self) {}
}

/// Lets a machine act, and a spy watch it.
pub fn spied(turn: &mut Turn<'_>, spy: &dyn Spy, act: impl FnOnce(&mut Turn<'_>)) {
    let (port, owner, watches) = turn.parts();
    let (now, mut owner) = (port.now(), Owner { owner: Some(owner), spy });
    let mut host = Spied { port: Some(port), spy };
    act(&mut Turn::new(Port::new(&mut host, now), &mut owner, watches));
}

/// Lets a machine without a session act, and a spy watch it.
pub fn alone(
    watches: &mut zk_recipes::machine::Watches,
    spy: &dyn Spy,
    act: impl FnOnce(&mut Turn<'_>),
) {
    let mut owner = Owner { owner: None, spy };
    let mut host = Spied { port: None, spy };
    act(&mut Turn::new(Port::new(&mut host, Instant::START), &mut owner, watches));
}

struct Spied<'a> {
    port: Option<Port<'a>>,
    spy: &'a dyn Spy,
}

impl fmt::Debug for Spied<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spied").field(&self.port).finish()
    }
}

/// The bit of tags that renew a watch, which only the driver of a machine uses.
const RENEWED: u64 = 1 << 63;

impl Host for Spied<'_> {
    fn submit(&mut self, tag: u64, request: &Request<'_>, submission: Submission) {
        if !self.spy.submits(OpId::of_tag(tag), request, submission) {
            return;
        }
        if let Some(port) = &mut self.port {
            match submission {
                Submission::Plain => port.submit(tag, request),
                Submission::InPieces => port.submit_in_pieces(tag, request),
                Submission::Watch => port.submit_and_watch(tag, request),
            }
        }
    }

    fn list(&mut self, tag: u64, path: &Arc<str>) {
        let list = Request::GetChildren(GetChildrenRequest { path, watch: false });
        if self.spy.submits(OpId::of_tag(tag), &list, Submission::InPieces) {
            self.port.iter_mut().for_each(|port| port.list(tag, path));
        }
    }

    fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        self.port.as_mut()?.memo()
    }

    fn unwatch(&mut self, tag: u64) {
        if tag & RENEWED == 0 {
            self.spy.unwatches(OpId::of_tag(tag));
        }
        self.port.iter_mut().for_each(|port| port.unwatch(tag));
    }

    fn unwatch_all(&mut self) {
        self.port.iter_mut().for_each(Port::unwatch_all);
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        self.spy.sets_timer();
        self.port.iter_mut().for_each(|port| port.set_timer(at));
    }

    fn settle(&mut self) {
        self.spy.settles();
        self.port.iter_mut().for_each(Port::settle);
    }

    fn session_id(&self) -> SessionId {
        self.port.as_ref().map_or(SessionId::NONE, Port::session_id)
    }

    fn server_kind(&self) -> ServerKind {
        self.port.as_ref().map_or(ServerKind::ZooKeeper, Port::server_kind)
    }

    fn session_timeout(&self) -> Duration {
        self.port.as_ref().map_or(Duration::ZERO, Port::session_timeout)
    }

    fn lease_has_ended(&self) -> bool {
        self.port.as_ref().is_some_and(Port::lease_has_ended)
    }

    fn wake(&mut self, waker: Waker) {
        self.port.iter_mut().for_each(|port| port.wake(waker.clone()));
    }

    fn report(&mut self, run: Box<dyn FnOnce() + Send>) {
        if let Some(port) = &mut self.port {
            port.report(run);
        }
    }

    fn defer(&mut self, run: Box<dyn FnOnce() + Send>) {
        if let Some(port) = &mut self.port {
            port.defer(run);
        }
    }

    fn see(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        match &mut self.port {
            Some(port) => port.host().see(what, is_seen, numbers),
            None => is_seen,
        }
    }

    fn note(&mut self, write: &dyn Fn(&mut Fields<'_>)) {
        self.port.iter_mut().for_each(|port| port.host().note(write));
    }
}

struct Owner<'a> {
    owner: Option<&'a mut dyn Observer>,
    spy: &'a dyn Spy,
}

impl Observer for Owner<'_> {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        if self.spy.reports(&event)
            && let Some(owner) = &mut self.owner
        {
            owner.observe(event, port);
        }
    }
}
