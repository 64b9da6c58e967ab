//! The interface of an attached machine to its session.

use alloc::boxed::Box;
use core::any::Any;
use core::fmt;
use core::task::Waker;
use core::time::Duration;

use zk_proto::recording::Fields;
use zk_proto::{GetChildrenRequest, Request, SessionId};

use crate::session::event::ServerKind;
use crate::sync::Arc;
use crate::time::Instant;

/// Whether a session may be recorded: only clients record.
pub(crate) const RECORDS: bool = cfg!(feature = "blocking");

/// What stands behind a [`Port`]: a dispatcher. A model checker or a test can stand there as well, so
/// that it drives the same machines through the same port.
///
/// The methods are those of [`Port`], which describes them.
pub trait Host {
    /// Submits a request, whose reply and events are delivered with this tag.
    fn submit(&mut self, tag: u64, request: &Request<'_>, kind: Submission);
    /// Lists children, perhaps for several machines at once. The default submits a list for this
    /// machine alone.
    fn list(&mut self, tag: u64, path: &Arc<str>) {
        let list = GetChildrenRequest { path, watch: false };
        self.submit(tag, &Request::GetChildren(list), Submission::InPieces);
    }
    /// Returns the memo of the machines that receive the same list. The default has none.
    fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        None
    }
    /// Drops the watches of requests with this tag.
    fn unwatch(&mut self, tag: u64);
    /// Drops all watches of the machine.
    fn unwatch_all(&mut self);
    /// Sets or clears the timer.
    fn set_timer(&mut self, at: Option<Instant>);
    /// Requests one [`Input::Settled`](super::Input::Settled).
    fn settle(&mut self);
    /// Returns the id of the session.
    fn session_id(&self) -> SessionId;
    /// Returns the kind of the servers. The default is a ZooKeeper.
    fn server_kind(&self) -> ServerKind {
        ServerKind::ZooKeeper
    }
    /// Returns the session timeout.
    fn session_timeout(&self) -> Duration;
    /// Returns whether the lease of the session has ended.
    fn lease_has_ended(&self) -> bool;
    /// Calls a waker later.
    fn wake(&mut self, waker: Waker);
    /// Runs a report later.
    fn report(&mut self, run: Box<dyn FnOnce() + Send>);
    /// Runs a closure later, which may use the session.
    fn defer(&mut self, run: Box<dyn FnOnce() + Send>);
    /// Records what the machine observes outside its session. In a replay, returns what was
    /// recorded. The default records nothing.
    fn see(&mut self, _what: u64, is_seen: bool, _numbers: &mut [u64]) -> bool {
        is_seen
    }
    /// Records a decision. The default records nothing.
    fn note(&mut self, _write: &dyn Fn(&mut Fields<'_>)) {}
}

/// How a request is submitted: by which method of [`Port`].
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Submission {
    /// By [`submit`](Port::submit).
    Plain,
    /// By [`submit_in_pieces`](Port::submit_in_pieces).
    InPieces,
    /// By [`submit_and_watch`](Port::submit_and_watch).
    Watch,
}

/// Lets an attached machine act on its session during one call.
///
/// Requests are sent in the order in which they are submitted. Their paths are absolute paths of
/// the server: a client's chroot is not added. They have no time limit.
pub struct Port<'a> {
    host: &'a mut dyn Host,
    now: Instant,
}

impl fmt::Debug for Port<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (session, now) = (self.session_id(), self.now);
        f.debug_struct("Port").field("session", &session).field("now", &now).finish_non_exhaustive()
    }
}

impl<'a> Port<'a> {
    /// Creates a port for one call of a machine. The [dispatcher](super::Dispatcher) does so for
    /// those that are attached to it.
    pub fn new(host: &'a mut dyn Host, now: Instant) -> Self {
        Self { host, now }
    }

    /// Borrows the port, for a part of the call.
    pub fn reborrow(&mut self) -> Port<'_> {
        Port { host: &mut *self.host, now: self.now }
    }

    /// Submits a request. The reply is an [`Input::Reply`](super::Input::Reply) with this tag.
    ///
    /// A machine chooses its own tags, and may reuse them. Without a connection the request waits
    /// for one. If the session refuses the request, the reply is an error. It has room for all
    /// requests of one call, or for none. Watch events are not delivered: for those use
    /// [`submit_and_watch`](Self::submit_and_watch).
    pub fn submit(&mut self, tag: u64, request: &Request<'_>) {
        self.host.submit(tag, request, Submission::Plain);
    }

    /// Submits a request whose reply may be longer than
    /// [`max_reply`](crate::session::Config::max_reply). Then the reply comes [in
    /// pieces](crate::session::Session::submit_in_pieces): each is an
    /// [`Input::Reply`](super::Input::Reply) with this tag.
    pub fn submit_in_pieces(&mut self, tag: u64, request: &Request<'_>) {
        self.host.submit(tag, request, Submission::InPieces);
    }

    /// Lists the children of a node. Machines that list it at the same time may share the list.
    /// Each reply, or [piece](Self::submit_in_pieces) of it, is an
    /// [`Input::Reply`](super::Input::Reply) with this tag.
    ///
    /// With four lists of the node in flight, the machine waits until one of them is answered. All
    /// machines that have waited share the next list, so its reply comes up to a round trip later.
    /// It shows the effects of all their earlier requests. Without the features `full` and
    /// `blocking`, each machine lists on its own.
    pub fn list(&mut self, tag: u64, path: &Arc<str>) {
        self.host.list(tag, path);
    }

    /// Returns a place in which a machine can leave something, such as the sorted names, for the
    /// next one that receives the same [list](Self::list) or piece of it. It is dropped once all
    /// have received that. `None` if no other machine receives this input.
    pub fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        self.host.memo()
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
        self.host.submit(tag, request, Submission::Watch);
    }

    /// Drops the watches of requests with this tag. No more of their events are delivered.
    pub fn unwatch(&mut self, tag: u64) {
        self.host.unwatch(tag);
    }

    /// Drops all watches of the machine, in time in proportion to their number.
    pub fn unwatch_all(&mut self) {
        self.host.unwatch_all();
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
        self.host.set_timer(at);
    }

    /// Requests one [`Input::Settled`](super::Input::Settled), behind everything that has arrived
    /// by now. That includes bytes that the transport has received and the loop has not read.
    pub fn settle(&mut self) {
        self.host.settle();
    }

    /// Returns the id of the session, or [`SessionId::NONE`] while there is none.
    pub fn session_id(&self) -> SessionId {
        self.host.session_id()
    }

    /// Returns the kind of the servers, by the last answer to a handshake.
    pub fn server_kind(&self) -> ServerKind {
        self.host.server_kind()
    }

    /// Returns the session timeout: granted by the server, or requested while there is no session.
    pub fn session_timeout(&self) -> Duration {
        self.host.session_timeout()
    }

    /// Returns whether the [lease](crate::session::Session::lease) of the session has ended by now.
    /// `false` once the session itself has ended: [`State::Ended`](crate::session::State::Ended)
    /// reports that.
    pub fn lease_has_ended(&self) -> bool {
        self.host.lease_has_ended()
    }

    /// Adds a waker to the [effects](super::Effects).
    pub fn wake(&mut self, waker: Waker) {
        self.host.wake(waker);
    }

    /// Adds a log line, a metric or the like to the [effects](super::Effects). Such closures must not
    /// wait. They run in the order of these calls. In the clients, a closure of
    /// [`defer`](Self::defer) that waits does not delay them.
    pub fn report(&mut self, run: impl FnOnce() + Send + 'static) {
        self.host.report(Box::new(run));
    }

    /// Adds a closure to the [effects](super::Effects). Closures run in the order of these calls, one
    /// at a time. The blocking client runs them in a thread of their own. They may use the session.
    pub fn defer(&mut self, run: impl FnOnce() + Send + 'static) {
        self.host.defer(Box::new(run));
    }

    /// Returns what the machine observes outside its session, such as in shared memory, or in data
    /// that recordings leave out. A [recording](crate::recording) has it, as the numbers that
    /// `encode` returns. In a replay, returns what was recorded.
    #[inline]
    pub fn see<T, const N: usize>(
        &mut self,
        what: u64,
        seen: Option<T>,
        encode: impl FnOnce(&T) -> [u64; N],
        decode: impl FnOnce([u64; N]) -> Option<T>,
    ) -> Option<T> {
        if !RECORDS {
            return seen;
        }
        let mut numbers = seen.as_ref().map_or([0; N], encode);
        self.host.see(what, seen.is_some(), &mut numbers).then_some(numbers).and_then(decode)
    }

    /// Records a decision other than a request, so that a replay compares it, too.
    #[inline]
    pub fn note(&mut self, write: impl Fn(&mut Fields<'_>)) {
        if RECORDS {
            self.host.note(&write);
        }
    }

    /// Returns the host behind the port, for a port that wraps this one.
    pub fn host(&mut self) -> &mut dyn Host {
        self.host
    }
}
