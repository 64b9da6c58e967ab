//! What a dispatcher puts behind the port of an attached machine.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::Any;
use core::task::Waker;
use core::time::Duration;

use zk_proto::recording::Kind;
use zk_proto::{Request, SessionId};

use super::effects::{Deferred, Effects};
use super::machines::{Key, Refusal, Waiting, drop_watches};
use super::port::{AnySession, Host, Submission};
use super::shared_lists::SharedLists;
use crate::session::growth::room_for_growth;
use crate::session::{RequestId, ServerKind};
use crate::sync::Arc;
use crate::time::Instant;

/// One call of an attached machine.
pub(super) struct Seat<'a> {
    pub(super) session: &'a mut dyn AnySession,
    pub(super) now: Instant,
    pub(super) key: Key,
    pub(super) deadline: &'a mut Option<Instant>,
    pub(super) own: &'a mut Vec<(u64, RequestId)>,
    pub(super) waiting: &'a mut Waiting,
    pub(super) lists: &'a mut SharedLists,
    pub(super) effects: &'a mut Effects,
    /// Whether the session has accepted a request of this call.
    pub(super) has_submitted: bool,
}

impl Host for Seat<'_> {
    fn submit(&mut self, tag: u64, request: &Request<'_>, kind: Submission) {
        self.session.recorder().machine_submits(tag, kind);
        let id = match self.session.submit(request, (self.key, tag), kind, self.has_submitted) {
            Ok(id) => id,
            Err(error) => return self.waiting.refused.push(Refusal { key: self.key, tag, error }),
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
        self.list_with_others(tag, path);
    }

    fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        self.lists.memo()
    }

    fn unwatch(&mut self, tag: u64) {
        self.session.recorder().output(Kind::MACHINE_UNWATCH, &[tag]);
        for (_, id) in self.own.extract_if(.., |(own, _)| *own == tag) {
            self.session.unwatch(id);
        }
    }

    fn unwatch_all(&mut self) {
        self.session.recorder().output(Kind::MACHINE_UNWATCH_ALL, &[]);
        drop_watches(self.session, self.own);
    }

    fn set_timer(&mut self, at: Option<Instant>) {
        self.session.recorder().machine_sets_timer(at);
        *self.deadline = at;
    }

    fn settle(&mut self) {
        self.session.recorder().output(Kind::MACHINE_SETTLE, &[]);
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
        self.session.recorder().sees(what, is_seen, numbers)
    }

    fn note(&mut self, write: &dyn Fn(&mut zk_proto::recording::Fields<'_>)) {
        self.session.recorder().notes(write);
    }
}
