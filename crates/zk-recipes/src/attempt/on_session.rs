//! Connects a machine to the session that it is attached to.

use core::any::Any;
use core::fmt;

use zk_session::dispatch::{self, Attached, Port};
use zk_session::{End, State};

#[cfg(feature = "full")]
use super::LockMode;
use super::{Event, Input, Machine, Renewal, Turn, Watches};

/// Receives the events of a machine.
///
/// The dispatcher calls it while it delivers. In a client, the session is locked then. It must not
/// block, and leaves user code to [`Port::wake`] and [`Port::defer`]. In a single-threaded loop, a
/// channel or a shared cell can pass the events to the owner.
pub trait Observer {
    /// Handles an event.
    fn observe(&mut self, event: Event, port: &mut Port<'_>);

    /// Called with each input before the machine handles it, for measurements.
    fn input(&mut self, _input: &Input, _port: &mut Port<'_>) {}

    /// Called when the machine is done: it reports nothing more, and no node of it is left on the
    /// server.
    ///
    /// If the session ends first, the observer may be dropped without this call.
    fn finish(&mut self, _port: &mut Port<'_>) {}

    /// Called after each input: returns whether the machine waits for a node that this client has
    /// abandoned, so that waiting is useless.
    fn is_behind_abandoned(&mut self) -> bool {
        false
    }
}

impl fmt::Debug for dyn Observer + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Observer")
    }
}

/// A command from the owner of an attached machine, sent by [`Attached::command`].
#[cfg_attr(all(feature = "defmt", target_os = "none"), derive(defmt::Format))]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Command {
    /// Changes the mode of the held lock; see [`Input::Convert`].
    #[cfg(feature = "full")]
    Convert(LockMode),
    /// Leaves when the recipe allows it. A [`Participant`](crate::machine::Participant) waits for the
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
/// It gives the session's events to the machine, which acts on the session, and reports to the
/// [`Observer`]. It [renews](Renewal) watches that stay silent. Its owner controls it by
/// [`Command`].
#[derive(Debug)]
pub struct OnSession<M, O> {
    machine: M,
    watches: Watches,
    owner: Owner<O>,
    /// Whether there is a connection to a quorum.
    is_connected: bool,
    /// Whether the machine is done, and the observer was notified.
    is_finished: bool,
}

/// The observer, and what it relies on.
#[derive(Debug)]
struct Owner<O> {
    observer: O,
    /// Whether the observer relies on what the machine holds.
    is_held: bool,
    /// Whether it has received that only now.
    is_granted: bool,
}

impl<O: Observer> Observer for Owner<O> {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        match event {
            Event::Acquired { .. } => (self.is_held, self.is_granted) = (true, true),
            Event::Lost(_) | Event::Failed(_) | Event::Released => self.is_held = false,
            _ => {}
        }
        self.observer.observe(event, port);
    }
}

impl<M, O> OnSession<M, O> {
    /// Connects a machine to its observer. The seed spreads the [renewals](Renewal) of many
    /// machines, so give each machine a different one.
    pub fn new(machine: M, observer: O, seed: u64) -> Self {
        Self {
            machine,
            watches: Watches::new(Some(Renewal::new(seed))),
            owner: Owner { observer, is_held: false, is_granted: false },
            is_connected: false,
            is_finished: false,
        }
    }

    /// Turns off the renewal of watches. A lost watch event then makes the machine wait for ever.
    /// This exists for comparisons only.
    #[cfg(feature = "study")]
    #[must_use]
    pub fn without_renewals(self) -> Self {
        Self { watches: Watches::new(None), ..self }
    }
}

impl<M: Machine, O: Observer> OnSession<M, O> {
    fn deliver(&mut self, input: Input, port: &mut Port<'_>) {
        if self.is_finished {
            return;
        }
        self.owner.observer.input(&input, port);
        self.give(input, port);
        // On a slow network, the reply that grants a lock may take longer than the lease.
        if core::mem::take(&mut self.owner.is_granted) && port.lease_has_ended() {
            self.give(Input::LeaseEnded, port);
        }
        if self.owner.observer.is_behind_abandoned() {
            self.give(Input::BehindAbandoned, port);
        }
        if self.machine.is_done() {
            self.is_finished = true;
            self.owner.observer.finish(port);
        }
    }

    fn give(&mut self, input: Input, port: &mut Port<'_>) {
        let mut turn = Turn::new(port.reborrow(), &mut self.owner, &mut self.watches);
        self.machine.handle(input, &mut turn);
    }

    /// Ends the hold for the observer, before the request that ends it for the servers.
    fn release(&mut self, input: Input, port: &mut Port<'_>) {
        if core::mem::take(&mut self.owner.is_held) {
            self.owner.observer.observe(Event::Releasing, port);
        }
        self.deliver(input, port);
    }
}

impl<M: Machine + Send, O: Observer + Send> Attached for OnSession<M, O> {
    fn handle(&mut self, input: dispatch::Input, port: &mut Port<'_>) {
        match input {
            dispatch::Input::State(state) => {
                self.is_connected = matches!(state, State::Connected { .. });
                self.watches.session_changed(port.now());
                if let State::Renewing = state {
                    self.watches.clear();
                }
                self.deliver(Input::Session(state), port);
            }
            dispatch::Input::Reply { tag, result } => {
                if let Some((op, result)) = self.watches.reply(tag, result, port) {
                    self.deliver(Input::Reply { op, result }, port);
                }
            }
            dispatch::Input::Watch { tag, event } => {
                if let Some(op) = self.watches.fired(tag, port) {
                    self.deliver(Input::Watch { op, event_type: event.event_type }, port);
                }
            }
            dispatch::Input::Closing if self.owner.is_held => {
                self.deliver(Input::Session(State::Ended(End::Closed)), port);
            }
            dispatch::Input::LeaseEnded => self.deliver(Input::LeaseEnded, port),
            dispatch::Input::Timer => {
                if self.watches.take_alarm(port.now()) {
                    self.deliver(Input::Timer, port);
                }
                self.watches.renew_if_silent(self.is_connected, port);
            }
            dispatch::Input::Settled => self.deliver(Input::Settled, port),
            _ => {}
        }
        self.watches.set_timer(port);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        match message.downcast_ref() {
            #[cfg(feature = "full")]
            Some(Command::Convert(mode)) => self.deliver(Input::Convert(*mode), port),
            Some(Command::Leave) => self.release(Input::Leave, port),
            Some(Command::Release) => self.release(Input::Release, port),
            Some(Command::CheckLease) | None => return,
        }
        self.watches.set_timer(port);
    }

    fn is_done(&self) -> bool {
        self.is_finished
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session()
    }
}
