//! The interface of an attached machine to its session.

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
use crate::growth::room_for_growth;
use crate::session::{Again, RequestId, Session};
use crate::time::Instant;

/// A session with callers of any type.
pub(super) trait AnySession {
    fn submit(
        &mut self,
        request: &Request<'_>,
        token: (Key, u64),
        in_pieces: bool,
        belongs: bool,
    ) -> Result<RequestId, Error>;
    fn unwatch(&mut self, request: RequestId);
    fn id(&self) -> SessionId;
    fn timeout(&self) -> Duration;
    fn lease_has_ended(&self, now: Instant) -> bool;
    fn renews(&self) -> bool;
    fn close(&mut self);
}

impl<T> AnySession for Session<Token<T>> {
    fn submit(
        &mut self,
        request: &Request<'_>,
        (key, tag): (Key, u64),
        in_pieces: bool,
        belongs: bool,
    ) -> Result<RequestId, Error> {
        let again: Option<Again<Token<T>>> = in_pieces.then_some(Token::again);
        self.enqueue(request, Token::Machine(key, tag), None, again, belongs)
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
        self.is_past_lease(now)
    }

    fn renews(&self) -> bool {
        Self::renews(self)
    }

    fn close(&mut self) {
        Self::close(self);
    }
}

/// Lets an attached machine act on its session during one call.
///
/// Requests are sent in the order in which they are submitted. Their paths are absolute paths of
/// the server: a client's chroot is not added. They have no time limit.
pub struct Port<'a> {
    pub(super) session: &'a mut dyn AnySession,
    pub(super) now: Instant,
    pub(super) key: Key,
    pub(super) deadline: &'a mut Option<Instant>,
    pub(super) own: &'a mut Vec<(u64, RequestId)>,
    pub(super) watches: &'a mut Watches,
    pub(super) waiting: &'a mut Waiting,
    pub(super) effects: &'a mut Effects,
    /// Whether the session has accepted a request of this call.
    pub(super) has_submitted: bool,
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
    /// Submits a request. The reply is an [`Input::Reply`](super::Input::Reply) with this tag.
    ///
    /// A machine chooses its own tags, and may reuse them. Without a connection the request waits
    /// for one. If the session refuses the request, the reply is an error. It has room for all
    /// requests of one call, or for none. Watch events are not delivered: for those use
    /// [`submit_and_watch`](Self::submit_and_watch).
    pub fn submit(&mut self, tag: u64, request: &Request<'_>) {
        self.try_submit(tag, request, false);
    }

    /// Submits a request whose reply may be longer than
    /// [`max_reply`](crate::session::Config::max_reply). Then the reply comes [in
    /// pieces](Session::submit_in_pieces): each is an [`Input::Reply`](super::Input::Reply) with
    /// this tag.
    pub fn submit_in_pieces(&mut self, tag: u64, request: &Request<'_>) {
        self.try_submit(tag, request, true);
    }

    /// Submits a request that sets a watch. Its events are [`Input::Watch`](super::Input::Watch)
    /// with this tag.
    ///
    /// The machine owns a one-shot watch until it fires. If the reply is an error, no watch is set,
    /// except by an `exists` that finds no node. [Drop](Self::unwatch) the watch then, to free its
    /// memory.
    ///
    /// A persistent watch (`addWatch`) stays until it is dropped. The session sets it again on each
    /// new connection. Servers do not report what happened in between: the machine receives
    /// [`Input::Gap`](super::Input::Gap). A server before 3.6 refuses the watch: the machine receives
    /// [`Input::WatchLost`](super::Input::WatchLost).
    pub fn submit_and_watch(&mut self, tag: u64, request: &Request<'_>) {
        if let Some(id) = self.try_submit(tag, request, false) {
            if !id.has_watch() {
                return;
            }
            // Usually a machine has only one.
            if !cfg!(feature = "full") {
                self.own.reserve_exact(1);
            } else if self.own.len() == self.own.capacity() {
                self.own.reserve_exact(room_for_growth(self.own.len()));
            }
            self.own.push((tag, id));
            self.watches.insert(id, self.key);
        }
    }

    fn try_submit(
        &mut self,
        tag: u64,
        request: &Request<'_>,
        in_pieces: bool,
    ) -> Option<RequestId> {
        let belongs = self.has_submitted;
        let submitted = self.session.submit(request, (self.key, tag), in_pieces, belongs);
        self.has_submitted |= submitted.is_ok();
        submitted
            .map_err(|error| self.waiting.refused.push(Refusal { key: self.key, tag, error }))
            .ok()
    }

    /// Drops the watches of requests with this tag. No more of their events are delivered.
    pub fn unwatch(&mut self, tag: u64) {
        for (_, id) in self.own.extract_if(.., |(own, _)| *own == tag) {
            self.watches.remove(id);
            self.session.unwatch(id);
        }
    }

    /// Drops all watches of the machine, in time in proportion to their number.
    pub fn unwatch_all(&mut self) {
        self.watches.drop_all(self.session, self.own);
    }

    /// Returns the `now` of the current call.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Sets the machine's only timer, or clears it with `None`.
    ///
    /// [`Input::Timer`](super::Input::Timer) comes in the first drain after the next
    /// [`handle_timeout`](super::Dispatcher::handle_timeout) at or after that time, never in the
    /// current drain. A timer at [`Instant::END`] never comes.
    pub fn set_timer(&mut self, at: Option<Instant>) {
        *self.deadline = at;
    }

    /// Requests one [`Input::Settled`](super::Input::Settled), behind everything that has arrived
    /// by now. That includes bytes that the transport has received and the loop has not read.
    pub fn settle(&mut self) {
        self.waiting.unsettled.push(self.key);
    }

    /// Returns the id of the session, or [`SessionId::NONE`] while there is none.
    pub fn session_id(&self) -> SessionId {
        self.session.id()
    }

    /// Returns the session timeout: granted by the server, or requested while there is no session.
    pub fn session_timeout(&self) -> Duration {
        self.session.timeout()
    }

    /// Returns whether the [lease](Session::lease) of the session has ended by now. `false` once the
    /// session itself has ended: [`State::Ended`](crate::session::State::Ended) reports that.
    pub fn lease_has_ended(&self) -> bool {
        self.session.lease_has_ended(self.now)
    }

    /// Adds a waker to the [effects](super::Effects).
    pub fn wake(&mut self, waker: Waker) {
        self.effects.wakers.push(waker);
    }

    /// Adds a log line, a metric or the like to the [effects](super::Effects). Such closures must not
    /// wait. They run in the order of these calls. In the clients, a closure of
    /// [`defer`](Self::defer) that waits does not delay them.
    pub fn report(&mut self, run: impl FnOnce() + Send + 'static) {
        self.effects.others.deferred.push(Deferred::Run(Box::new(run)));
    }

    /// Adds a closure to the [effects](super::Effects). Closures run in the order of these calls, one
    /// at a time. The blocking client runs them in a thread of their own. They may use the session.
    pub fn defer(&mut self, run: impl FnOnce() + Send + 'static) {
        self.effects.callbacks.deferred.push(Deferred::Run(Box::new(run)));
    }
}
