//! What a machine acts through while it handles one input.

#[cfg(all(feature = "full", feature = "blocking"))]
use alloc::boxed::Box;
use alloc::vec::Vec;
#[cfg(all(feature = "full", feature = "blocking"))]
use core::any::Any;
use core::ops::RangeInclusive;
use core::time::Duration;

use zk_session::dispatch::Port;
use zk_session::proto::Request;
use zk_session::proto::recording::Fields;
use zk_session::session::State;
#[cfg(all(feature = "full", feature = "blocking"))]
use zk_session::sync::Arc;
use zk_session::{Error, ServerKind};

use super::connection::Connection;
use super::event::Event;
use super::observer::Observer;
use super::retry_policy::{RETRY_AFTER, RetryPolicy};
use super::watches::{OpId, Watch, Watches};

/// One call of a machine: it submits requests, sets watches and its timer, and reports to its
/// owner.
///
/// Everything takes effect at once, in the order of the calls.
#[derive(Debug)]
pub struct Turn<'a> {
    port: Port<'a>,
    owner: &'a mut dyn Observer,
    watches: &'a mut Watches,
    part: u32,
}

impl<'a> Turn<'a> {
    /// Creates the turn of a machine that reports to `owner`. `watches` are those of its attempt.
    pub fn new(port: Port<'a>, owner: &'a mut dyn Observer, watches: &'a mut Watches) -> Self {
        Self { port, owner, watches, part: 0 }
    }

    /// Returns what the turn consists of, to put something else behind the port, or another owner
    /// before this one, and [make](Self::new) a turn of that.
    pub fn parts(&mut self) -> (Port<'_>, &mut dyn Observer, &mut Watches) {
        (self.port.reborrow(), &mut *self.owner, &mut *self.watches)
    }

    /// Lets a sub-machine act whose events are changed, or left out, before the owner receives them.
    pub(crate) fn filtered<R>(
        &mut self,
        part: u32,
        filter: &mut dyn FnMut(Event) -> Option<Event>,
        act: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> R {
        let mut owner = Filtered { owner: &mut *self.owner, filter };
        let (port, watches) = (self.port.reborrow(), &mut *self.watches);
        act(&mut Turn { port, owner: &mut owner, watches, part })
    }

    /// Returns the kind of the servers. It is found out only with `full`.
    pub(super) fn server_kind(&self) -> ServerKind {
        if cfg!(feature = "full") { self.port.server_kind() } else { ServerKind::ZooKeeper }
    }

    /// Returns the connection, by the last state that the machine has received.
    pub(crate) const fn connection(&self) -> Connection {
        self.watches.connection
    }

    pub(crate) const fn connection_changed(&mut self, state: State) {
        self.watches.connection.change(state);
    }

    /// Submits a request. The reply comes with this number, to
    /// [`Machine::handle_reply`](super::Machine::handle_reply).
    ///
    /// Paths are those of the server. For a watch use [`watch`](Self::watch), or one of its
    /// neighbours.
    #[inline(never)]
    pub fn submit(&mut self, request: &Request<'_>) -> OpId {
        let op = self.next();
        self.port.submit(op.0, request);
        op
    }

    /// Submits a request whose reply may [come in pieces](Port::submit_in_pieces).
    pub fn submit_in_pieces(&mut self, request: &Request<'_>) -> OpId {
        let op = self.next();
        self.port.submit_in_pieces(op.0, request);
        op
    }

    /// Lists children, and may [share](Port::list) the list with other machines.
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub fn list_together(&mut self, path: &Arc<str>) -> OpId {
        let op = self.next();
        self.port.list(op.0, path);
        op
    }

    /// Returns the [memo](Port::memo) of a shared list.
    #[cfg(all(feature = "full", feature = "blocking"))]
    pub(crate) fn memo(&mut self) -> Option<&mut Option<Box<dyn Any + Send>>> {
        self.port.memo()
    }

    /// Submits requests, and returns the range of their numbers.
    pub(crate) fn submit_all(&mut self, submit: impl FnOnce(&mut Self)) -> RangeInclusive<OpId> {
        let first = self.watches.last_op + 1;
        submit(self);
        OpId::of(self.part, first)..=OpId::of(self.part, self.watches.last_op)
    }

    /// Sets a watch, and renews it if it stays silent.
    #[inline(never)]
    pub(crate) fn set_watch(&mut self, watch: Watch) -> OpId {
        let op = self.next();
        self.watches.set(op, watch, &mut self.port);
        op
    }

    fn next(&mut self) -> OpId {
        self.watches.last_op += 1;
        OpId::of(self.part, self.watches.last_op)
    }

    /// Removes the watch of a request.
    #[inline(never)]
    pub fn unwatch(&mut self, op: OpId) {
        self.watches.remove(op, &mut self.port);
    }

    /// Sets the timer. It replaces an earlier one.
    #[inline(never)]
    pub fn set_timer(&mut self, after: Duration) {
        let at = Some(self.port.now() + after);
        self.watches.alarm = at;
        self.port.set_timer(at);
    }

    /// Returns when to repeat a failed request. Sets the timer for [`RetryPolicy::Later`].
    pub(crate) fn retry(&mut self, error: &Error) -> RetryPolicy {
        let policy = RetryPolicy::of(error);
        if policy == RetryPolicy::Later {
            self.set_timer(RETRY_AFTER);
        }
        policy
    }

    /// Requests one [`Input::Settled`](zk_session::dispatch::Input::Settled), behind all inputs that have arrived.
    pub fn settle(&mut self) {
        self.port.settle();
    }

    /// Returns what the machine [observes](Port::see) outside its session.
    #[inline]
    pub(crate) fn see<T, const N: usize>(
        &mut self,
        what: Sight,
        seen: Option<T>,
        encode: impl FnOnce(&T) -> [u64; N],
        decode: impl FnOnce([u64; N]) -> Option<T>,
    ) -> Option<T> {
        self.port.see(what as u64, seen, encode, decode)
    }

    /// Returns whether the machine observes this.
    #[inline]
    pub(crate) fn sees(&mut self, what: Sight, is_seen: bool) -> bool {
        self.see(what, is_seen.then_some(()), |()| [], |[]| Some(())).is_some()
    }

    /// [Records](Port::note) a decision of the machine.
    #[inline]
    pub(crate) fn note(&mut self, write: impl Fn(&mut Fields<'_>)) {
        self.port.note(write);
    }

    /// Reports an event to the owner.
    #[inline(never)]
    pub fn report(&mut self, event: Event) {
        self.owner.observe(event, &mut self.port);
    }

    /// Reports how the attempt ended, once.
    #[inline(never)]
    pub(crate) fn conclude(&mut self, is_concluded: &mut bool, event: Event) {
        if !core::mem::replace(is_concluded, true) {
            self.report(event);
        }
    }
}

/// What a machine observes outside its session, or in data that recordings leave out.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sight {
    AbandonedAhead,
    Hint,
    #[cfg_attr(not(feature = "full"), expect(dead_code, reason = "a semaphore's"))]
    Maximum,
    Revocation,
    Mark,
}

/// The owner of a sub-machine whose events are filtered.
struct Filtered<'a> {
    owner: &'a mut dyn Observer,
    filter: &'a mut dyn FnMut(Event) -> Option<Event>,
}

impl Observer for Filtered<'_> {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        if let Some(event) = (self.filter)(event) {
            self.owner.observe(event, port);
        }
    }
}

/// Keeps all events.
impl Observer for Vec<Event> {
    fn observe(&mut self, event: Event, _: &mut Port<'_>) {
        self.push(event);
    }
}
