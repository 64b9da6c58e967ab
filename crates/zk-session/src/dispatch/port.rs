//! What an attached machine can do.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use zk_proto::{Request, SessionId};

use super::Token;
use super::effects::{Deferred, Effects};
use super::machines::{Key, Refusal, Waiting, Watches};
use crate::error::Error;
use crate::session::{RequestId, Session};
use crate::time::Instant;

/// A session, whatever its callers are.
pub(super) trait Link {
    fn submit(&mut self, request: &Request<'_>, key: Key, tag: u64) -> Result<RequestId, Error>;
    fn unwatch(&mut self, request: RequestId);
    fn id(&self) -> SessionId;
    fn timeout(&self) -> Duration;
    fn lease_has_ended(&self, now: Instant) -> bool;
    fn close(&mut self);
}

impl<T> Link for Session<Token<T>> {
    fn submit(&mut self, request: &Request<'_>, key: Key, tag: u64) -> Result<RequestId, Error> {
        Self::submit(self, request, Token::Machine(key, tag))
    }

    fn unwatch(&mut self, request: RequestId) {
        Self::unwatch(self, request);
    }

    fn id(&self) -> SessionId {
        Self::id(self)
    }

    fn timeout(&self) -> Duration {
        Self::timeout(self)
    }

    fn lease_has_ended(&self, now: Instant) -> bool {
        Self::lease_has_ended(self, now)
    }

    fn close(&mut self) {
        Self::close(self);
    }
}

/// The way from an attached machine to its session.
///
/// Requests are the server's: their paths have no chroot, and there is no time limit for them. They are
/// sent in the order in which they are submitted.
pub struct Port<'a> {
    pub(super) link: &'a mut dyn Link,
    pub(super) now: Instant,
    pub(super) key: Key,
    pub(super) deadline: &'a mut Option<Instant>,
    pub(super) own: &'a mut Vec<(u64, RequestId)>,
    pub(super) watches: &'a mut Watches,
    pub(super) waiting: &'a mut Waiting,
    pub(super) effects: &'a mut Effects,
}

impl fmt::Debug for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("now", &self.now)
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

impl Port<'_> {
    /// Submits a request. Its answer comes as [`Input::Reply`](super::Input::Reply) with this tag. A
    /// watch that it asks for is not delivered.
    pub fn submit(&mut self, tag: u64, request: &Request<'_>) {
        self.try_submit(tag, request);
    }

    /// Submits a request for a watch that fires once. The event comes as
    /// [`Input::Watch`](super::Input::Watch) with this tag. If the answer is an error that sets no watch,
    /// [drop](Self::unwatch) the watch.
    pub fn submit_and_watch(&mut self, tag: u64, request: &Request<'_>) {
        if let Some(id) = self.try_submit(tag, request) {
            self.own.push((tag, id));
            self.watches.insert(id, (self.key, tag));
        }
    }

    fn try_submit(&mut self, tag: u64, request: &Request<'_>) -> Option<RequestId> {
        let submitted = self.link.submit(request, self.key, tag);
        submitted
            .map_err(|error| self.waiting.refused.push(Refusal { key: self.key, tag, error }))
            .ok()
    }

    /// Drops the watches that requests with this tag have asked for.
    pub fn unwatch(&mut self, tag: u64) {
        for (_, id) in self.own.extract_if(.., |(own, _)| *own == tag) {
            self.watches.remove(&id);
            self.link.unwatch(id);
        }
    }

    /// The present time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sets when [`Input::Timer`](super::Input::Timer) is to come, or that it is not. Replaces what was
    /// set before. A time that has come already is reported in the next drain.
    pub fn set_timer(&mut self, at: Option<Instant>) {
        *self.deadline = at;
    }

    /// Asks for [`Input::Settled`](super::Input::Settled), once everything that has arrived by now is
    /// delivered.
    pub fn settle(&mut self) {
        self.waiting.unsettled.push(self.key);
    }

    /// The session.
    pub fn session_id(&self) -> SessionId {
        self.link.id()
    }

    /// The session timeout.
    pub fn session_timeout(&self) -> Duration {
        self.link.timeout()
    }

    /// Whether the ensemble need not keep the session any longer, as far as can be known here.
    pub fn lease_has_ended(&self) -> bool {
        self.link.lease_has_ended(self.now)
    }

    /// Runs a waker once the session is unlocked.
    pub fn wake(&mut self, waker: Waker) {
        self.effects.wakers.push(waker);
    }

    /// Runs a closure once the session is unlocked, behind all wakers, and in the order of these calls.
    pub fn defer(&mut self, run: impl FnOnce() + Send + 'static) {
        self.effects.deferred.push_back(Deferred::Run(Box::new(run)));
    }
}
