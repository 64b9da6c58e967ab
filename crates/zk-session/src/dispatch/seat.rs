//! What a dispatcher puts behind the port of an attached machine.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::task::Waker;
use core::time::Duration;

use zk_proto::recording::{Fields, Kind};
use zk_proto::{GetChildrenRequest, Request, SessionId};

use super::any_session::AnySession;
use super::effects::{Deferred, Effects};
use super::port::{Host, Submission};
use super::shared_lists::Lists;
use super::token::Key;
use crate::error::Error;
use crate::recorder::Recorder;
use crate::session::event::{RequestId, ServerKind};
use crate::session::growth::room_for_growth;
use crate::sync::Arc;
use crate::time::Instant;

/// Drops all watches of one machine.
pub(super) fn drop_watches(session: &mut dyn AnySession, own: &mut Vec<(u64, RequestId)>) {
    for (_, id) in core::mem::take(own) {
        session.unwatch(id);
    }
}

/// A request that the session refused, and the error to deliver.
pub(super) struct Refusal {
    pub(super) key: Key,
    pub(super) tag: u64,
    pub(super) error: Error,
}

/// Machines that wait for [`settle`](super::Dispatcher::settle).
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) refused: Vec<Refusal>,
    pub(super) unsettled: Vec<Key>,
}

/// One call of an attached machine.
pub(super) struct Seat<'a> {
    pub(super) session: &'a mut dyn AnySession,
    pub(super) now: Instant,
    pub(super) key: Key,
    pub(super) deadline: &'a mut Option<Instant>,
    pub(super) own: &'a mut Vec<(u64, RequestId)>,
    pub(super) waiting: &'a mut Waiting,
    pub(super) lists: &'a mut Lists,
    pub(super) effects: &'a mut Effects,
    /// Whether the session has accepted a request of this call.
    pub(super) has_submitted: bool,
    pub(super) is_recorded: bool,
}

impl Seat<'_> {
    #[inline]
    fn record(&mut self, record: impl FnOnce(&mut Recorder)) {
        if self.is_recorded {
            self.session.record(record);
        }
    }

    fn refused(&mut self, tag: u64, error: Error) {
        self.waiting.refused.push(Refusal { key: self.key, tag, error });
    }
}

impl Host for Seat<'_> {
    fn submit(&mut self, tag: u64, request: &Request<'_>, kind: Submission) {
        self.record(|it| it.machine_submits(tag, kind));
        let id = match self.session.submit(request, (self.key, tag), kind, self.has_submitted) {
            Ok(id) => id,
            Err(error) => return self.refused(tag, error),
        };
        self.has_submitted = true;
        if kind == Submission::Watch && id.has_watch() {
            // Usually a machine has only one.
            if !cfg!(feature = "full") {
                self.own.reserve_exact(1);
            } else if self.own.len() == self.own.capacity() {
                self.own.reserve_exact(room_for_growth(self.own.len()));
            }
            self.own.push((tag, id));
        }
    }

    fn list(&mut self, tag: u64, path: &Arc<str>) {
        let Some(lists) = self.lists.first_mut() else {
            let list = Request::GetChildren(GetChildrenRequest { path, watch: false });
            return self.submit(tag, &list, Submission::InPieces);
        };
        match lists.list(self.session, path, (self.key, tag), self.has_submitted) {
            Ok(is_submitted) => self.has_submitted |= is_submitted,
            Err(error) => self.refused(tag, error),
        }
    }

    fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        self.lists.first_mut()?.memo()
    }

    fn unwatch(&mut self, tag: u64) {
        self.record(|it| it.output(Kind::MACHINE_UNWATCH, &[tag]));
        for (_, id) in self.own.extract_if(.., |(own, _)| *own == tag) {
            self.session.unwatch(id);
        }
    }

    fn unwatch_all(&mut self) {
        self.record(|it| it.output(Kind::MACHINE_UNWATCH_ALL, &[]));
        drop_watches(self.session, self.own);
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        self.record(|it| it.machine_sets_timer(at));
        *self.deadline = at;
    }

    fn settle(&mut self) {
        self.record(|it| it.output(Kind::MACHINE_SETTLE, &[]));
        self.waiting.unsettled.push(self.key);
    }

    fn session_id(&self) -> SessionId {
        self.session.id()
    }

    fn server_kind(&self) -> ServerKind {
        self.session.server_kind()
    }

    fn session_timeout(&self) -> Duration {
        self.session.timeout()
    }

    fn lease_has_ended(&self) -> bool {
        self.session.lease_has_ended(self.now)
    }

    fn wake(&mut self, waker: Waker) {
        self.effects.wakers.push(waker);
    }

    fn report(&mut self, run: Box<dyn FnOnce() + Send>) {
        self.effects.others.deferred.push(Deferred::Run(run));
    }

    fn defer(&mut self, run: Box<dyn FnOnce() + Send>) {
        self.effects.callbacks.deferred.push(Deferred::Run(run));
    }

    fn see(&mut self, what: u64, is_seen: bool, numbers: &mut [u64]) -> bool {
        let mut seen = is_seen;
        self.record(|it| seen = it.sees(what, is_seen, numbers));
        seen
    }

    fn note(&mut self, write: &dyn Fn(&mut Fields<'_>)) {
        self.record(|it| it.write(Kind::MACHINE_NOTES, write));
    }
}
