//! Connects a machine to the session that it is attached to.

use alloc::vec::Vec;
use core::any::Any;

use zk_session::dispatch::{self, Attached, Port};
use zk_session::proto::EventType;
use zk_session::session::Reply;
use zk_session::time::Instant;
use zk_session::{End, Error, State};

#[cfg(feature = "full")]
use super::LockMode;
use super::operation::Watch;
use super::{Event, Input, Machine, OpId, Output, Renewal};

/// Receives the events of a machine.
///
/// The dispatcher calls it while it delivers. In a client, the session is locked then. It must not
/// block, and leaves user code to [`Port::wake`] and [`Port::defer`]. In a single-threaded loop, a
/// channel or a shared cell can pass the events to the owner.
pub trait Observer: Send {
    /// Handles an event.
    fn observe(&mut self, event: Event, port: &mut Port<'_>);

    /// Called with each input before the machine handles it, for measurements.
    fn input(&mut self, _input: &Input, _port: &mut Port<'_>) {}

    /// Called when the machine is done: it reports nothing more, and no node of it is left on the
    /// server.
    ///
    /// If the session ends first, the observer may be dropped without this call.
    fn finish(&mut self, _port: &mut Port<'_>) {}
}

/// A command from the owner of an attached machine, sent by [`Attached::command`].
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Changes the mode of the held lock; see [`Input::Convert`].
    #[cfg(feature = "full")]
    Convert(LockMode),
    /// Leaves when the recipe allows it. A [`Participant`](super::Participant) waits for the
    /// others; any other machine acts as for `Release`.
    Leave,
    /// Releases the lock, or stops waiting for it.
    Release,
    /// Reports the end of the lease to the machine, if the lease has ended. Every other command
    /// does that as well.
    CheckLease,
}

/// A machine that can be [attached](Attached) to a session.
///
/// It submits the machine's requests, gives the session's events to the machine, and reports the
/// machine's events to the [`Observer`]. It [renews](Renewal) watches that stay silent. Its owner
/// controls it by [`Command`].
#[derive(Debug)]
pub struct OnSession<M, O> {
    machine: M,
    observer: O,
    watches: Vec<Watching>,
    /// `None` if watches are not renewed.
    renewal: Option<Renewal>,
    /// The request that renews a watch, until it is answered.
    renewing: Option<u64>,
    /// The time of the last request for a watch, or of the session's resumption. Pings are counted
    /// from then, too.
    silent_since: Instant,
    /// If the machine has received no input by this time, a watch is renewed.
    silent_until: Option<Instant>,
    /// When to give the machine [`Input::Timer`].
    alarm: Option<Instant>,
    /// Whether there is a connection to a quorum.
    is_connected: bool,
    /// Whether the observer relies on what the machine holds.
    is_held: bool,
    /// Whether the machine is done, and the observer was notified.
    is_finished: bool,
}

/// A watch that is set, and how to renew it.
#[derive(Debug)]
struct Watching {
    op: OpId,
    /// The session's tag of the request. Each renewal changes between two tags.
    tag: u64,
    watch: Watch,
}

/// The bit in which the two tags of a request differ. Request numbers do not reach it.
const RENEWED: u64 = 1 << 63;

impl<M, O> OnSession<M, O> {
    /// Connects a machine to its observer. The seed spreads the [renewals](Renewal) of many
    /// machines, so give each machine a different one.
    pub fn new(machine: M, observer: O, seed: u64) -> Self {
        Self {
            machine,
            observer,
            watches: Vec::new(),
            renewal: Some(Renewal::new(seed)),
            renewing: None,
            silent_since: Instant::START,
            silent_until: None,
            alarm: None,
            is_connected: false,
            is_held: false,
            is_finished: false,
        }
    }

    /// Turns off the renewal of watches. A lost watch event then makes the machine wait for ever.
    /// This exists for comparisons only.
    #[cfg(feature = "study")]
    #[must_use]
    pub fn without_renewals(self) -> Self {
        Self { renewal: None, ..self }
    }
}

impl<M: Machine, O: Observer> OnSession<M, O> {
    fn deliver(&mut self, input: Input, port: &mut Port<'_>) {
        if self.is_finished {
            return;
        }
        self.observer.input(&input, port);
        self.machine.handle(input);
        while let Some(output) = self.machine.poll_output() {
            self.perform(output, port);
        }
        if self.machine.is_done() {
            self.is_finished = true;
            self.observer.finish(port);
        }
    }

    fn perform(&mut self, output: Output, port: &mut Port<'_>) {
        match output {
            Output::Submit { op, operation } => match operation.watch_request() {
                Some(watch) => {
                    let tag = op.0;
                    port.submit_and_watch(tag, &watch.request());
                    self.silent_since = port.now();
                    // Mostly there is only one watch.
                    self.watches.reserve_exact(1);
                    self.watches.push(Watching { op, tag, watch });
                }
                None => operation.with_request(|request| match operation.comes_in_pieces() {
                    true => port.submit_in_pieces(op.0, request),
                    false => port.submit(op.0, request),
                }),
            },
            Output::Unwatch(op) => {
                self.unwatch(op, port);
            }
            Output::SetTimer(after) => self.alarm = Some(port.now() + after),
            Output::Settle => port.settle(),
            Output::Event(event) => {
                let is_granted = matches!(event, Event::Acquired { .. });
                match event {
                    Event::Acquired { .. } => self.is_held = true,
                    Event::Lost(_) | Event::Failed(_) | Event::Released => self.is_held = false,
                    _ => {}
                }
                self.observer.observe(event, port);
                // On a slow network, the reply that grants a lock may take longer than the lease.
                if is_granted && port.lease_has_ended() {
                    self.machine.handle(Input::LeaseEnded);
                }
            }
        }
    }

    /// Ends the hold for the observer, before the request that ends it for the servers.
    fn release(&mut self, input: Input, port: &mut Port<'_>) {
        if core::mem::take(&mut self.is_held) {
            self.observer.observe(Event::Releasing, port);
        }
        self.deliver(input, port);
    }

    /// Drops a watch. Returns whether it was set.
    #[inline(never)]
    fn unwatch(&mut self, op: OpId, port: &mut Port<'_>) -> bool {
        port.unwatch(op.0);
        port.unwatch(op.0 | RENEWED);
        let place = self.watches.iter().position(|watching| watching.op == op);
        place.map(|place| self.watches.remove(place)).is_some()
    }

    fn handle_watch(&mut self, tag: u64, event_type: EventType, port: &mut Port<'_>) {
        let op = OpId(tag & !RENEWED);
        if self.unwatch(op, port) {
            self.deliver(Input::Watch { op, event_type }, port);
        }
    }

    fn handle_timer(&mut self, port: &mut Port<'_>) {
        let now = port.now();
        let is_due = |at: &mut Instant| *at <= now;
        if self.alarm.take_if(is_due).is_some() {
            self.deliver(Input::Timer, port);
        }
        if self.silent_until.take_if(is_due).is_some() {
            self.renew(port);
        }
    }

    /// Submits the request of a watch again. The old watch stays until the new one is set.
    fn renew(&mut self, port: &mut Port<'_>) {
        self.silent_since = port.now();
        let renewal = self.renewal.as_mut();
        let place = renewal.and_then(|renewal| renewal.next(self.watches.len()));
        let place = place.filter(|_| self.is_connected);
        if let Some(Watching { tag, watch, .. }) = place.map(|place| &self.watches[place]) {
            let tag = tag ^ RENEWED;
            self.renewing = Some(tag);
            port.submit_and_watch(tag, &watch.request());
        }
    }

    /// Handles the reply of a renewal, unless the watch has fired or was removed since.
    fn handle_renewal(&mut self, tag: u64, result: Result<Reply, Error>, port: &mut Port<'_>) {
        self.renewing = None;
        let op = OpId(tag & !RENEWED);
        let watching = self.watches.iter_mut().find(|watching| watching.op == op);
        let Some(watching) = watching else { return port.unwatch(tag) };
        if result.is_ok() {
            port.unwatch(core::mem::replace(&mut watching.tag, tag));
        } else {
            port.unwatch(tag);
        }
        if Renewal::is_conclusive(&result) {
            self.deliver(Input::Reply { op, result }, port);
        }
    }

    /// Called after each input: the machine is no longer silent.
    fn set_timer(&mut self, port: &mut Port<'_>) {
        self.silent_until = None;
        if let Some(renewal) = &mut self.renewal
            && self.renewing.is_none()
            && !self.watches.is_empty()
        {
            let wait = renewal.wait(port.session_timeout());
            self.silent_until = Some(self.silent_since + wait);
        }
        let at = match (self.alarm, self.silent_until) {
            (Some(alarm), Some(silent_until)) => Some(alarm.min(silent_until)),
            (alarm, silent_until) => alarm.or(silent_until),
        };
        port.set_timer(at);
    }
}

impl<M: Machine + Send, O: Observer> Attached for OnSession<M, O> {
    fn handle(&mut self, input: dispatch::Input, port: &mut Port<'_>) {
        match input {
            dispatch::Input::State(state) => {
                self.is_connected = matches!(state, State::Connected { .. });
                self.silent_since = port.now();
                if let State::Renewing = state {
                    // They were dropped with the old session.
                    self.watches.clear();
                    self.renewing = None;
                }
                self.deliver(Input::Session(state), port);
            }
            dispatch::Input::Reply { tag, result } => {
                if self.renewing == Some(tag) {
                    self.handle_renewal(tag, result, port);
                } else {
                    self.deliver(Input::Reply { op: OpId(tag), result }, port);
                }
            }
            dispatch::Input::Watch { tag, event } => {
                self.handle_watch(tag, event.event_type, port);
            }
            dispatch::Input::Closing if self.is_held => {
                self.deliver(Input::Session(State::Ended(End::Closed)), port);
            }
            dispatch::Input::LeaseEnded => self.deliver(Input::LeaseEnded, port),
            dispatch::Input::Timer => self.handle_timer(port),
            dispatch::Input::Settled => self.deliver(Input::Settled, port),
            _ => {}
        }
        self.set_timer(port);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        match message.downcast_ref() {
            #[cfg(feature = "full")]
            Some(Command::Convert(mode)) => self.deliver(Input::Convert(*mode), port),
            Some(Command::Leave) => self.release(Input::Leave, port),
            Some(Command::Release) => self.release(Input::Release, port),
            Some(Command::CheckLease) | None => return,
        }
        self.set_timer(port);
    }

    fn is_done(&self) -> bool {
        self.is_finished
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session()
    }
}
