//! Connects a machine to the session that it is attached to.

#[cfg(all(feature = "full", feature = "blocking"))]
use alloc::boxed::Box;
use core::any::Any;

use zk_session::dispatch::{Attached, Input, Port};
#[cfg(all(feature = "full", feature = "blocking"))]
use zk_session::proto::recording::{Description, FieldReader};
use zk_session::{End, State};

use super::command::Command;
use super::event::Event;
use super::machine::Machine;
use super::observer::Observer;
use super::renewal::Renewal;
use super::turn::{Sight, Turn};
use super::watches::Watches;

/// A machine that can be [attached](Attached) to a session.
///
/// It gives the session's events to the machine, which acts on the session, and reports to the
/// [`Observer`]. It [renews](Renewal) watches that stay silent. Its owner controls it by
/// [`Command`].
#[derive(Debug)]
pub struct OnSession<M, O> {
    machine: M,
    watches: Watches,
    owner: Observing<O>,
    /// Whether the machine is done, and the observer was notified.
    is_finished: bool,
}

/// The observer, and what it relies on.
#[derive(Debug)]
struct Observing<O> {
    observer: O,
    /// Whether the observer relies on what the machine holds.
    is_held: bool,
    /// Whether it has received that only now.
    is_granted: bool,
}

impl<O: Observer> Observer for Observing<O> {
    fn observe(&mut self, event: Event, port: &mut Port<'_>) {
        match event {
            Event::Acquired { .. } => (self.is_held, self.is_granted) = (true, true),
            Event::Lost(_) | Event::Failed(_) | Event::Released => self.is_held = false,
            _ => {}
        }
        port.note(|fields| event.note(fields));
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
            owner: Observing { observer, is_held: false, is_granted: false },
            is_finished: false,
        }
    }

    /// Turns off the renewal of watches. A lost watch event then makes the machine wait for ever.
    /// This exists for comparisons only.
    #[must_use]
    pub fn without_renewals(self) -> Self {
        Self { watches: Watches::new(None), ..self }
    }
}

impl<M: Machine, O: Observer> OnSession<M, O> {
    fn parts<'a>(&'a mut self, port: &'a mut Port<'_>) -> (&'a mut M, Turn<'a>) {
        let turn = Turn::new(port.reborrow(), &mut self.owner, &mut self.watches);
        (&mut self.machine, turn)
    }

    /// Called after each input and command.
    fn look_after(&mut self, port: &mut Port<'_>) {
        let is_behind = self.owner.observer.is_behind_abandoned().then_some(());
        let what = Sight::AbandonedAhead as u64;
        if port.see(what, is_behind, |()| [], |[]| Some(())).is_some() {
            let (machine, mut turn) = self.parts(port);
            machine.command(Command::BehindAbandoned, &mut turn);
        }
        if self.machine.is_done() {
            self.is_finished = true;
            self.owner.observer.finish(port);
        }
    }
}

impl<M: Machine + Send, O: Observer + Send> Attached for OnSession<M, O> {
    fn handle(&mut self, mut input: Input, port: &mut Port<'_>) {
        let is_timer = matches!(input, Input::Timer);
        if let Input::Closing = input
            && self.owner.is_held
        {
            input = Input::State(State::Ended(End::Closed));
        }
        if self.watches.receive(&mut input, port) && !self.is_finished {
            self.owner.observer.input(&input, port);
            let (machine, mut turn) = self.parts(port);
            machine.handle(input, &mut turn);
            // On a slow network, the reply that grants a lock may take longer than the lease.
            if core::mem::take(&mut self.owner.is_granted) && port.lease_has_ended() {
                let (machine, mut turn) = self.parts(port);
                machine.handle(Input::LeaseEnded, &mut turn);
            }
            self.look_after(port);
        }
        if is_timer {
            self.watches.renew_if_silent(port);
        }
        self.watches.set_timer(port);
    }

    fn command(&mut self, message: &mut dyn Any, port: &mut Port<'_>) {
        let Some(command) = message.downcast_ref::<Command>().copied() else { return };
        if self.is_finished || command == Command::CheckLease {
            return;
        }
        // The hold ends for the observer before the request that ends it for the servers.
        let ends = matches!(command, Command::Leave | Command::Release);
        if ends && core::mem::take(&mut self.owner.is_held) {
            self.owner.observer.observe(Event::Releasing, port);
        }
        self.owner.observer.command(command, port);
        let (machine, mut turn) = self.parts(port);
        machine.command(command, &mut turn);
        self.look_after(port);
        self.watches.set_timer(port);
    }

    fn is_done(&self) -> bool {
        self.is_finished
    }

    fn outlives_session(&self) -> bool {
        self.machine.outlives_session()
    }

    #[cfg(all(feature = "full", feature = "blocking"))]
    fn describe(&self, description: &mut Description<'_>) {
        self.machine.describe(description);
        if description.has_name() {
            let seed = self.watches.seed();
            description.number(seed.is_some().into());
            seed.iter().for_each(|seed| description.number(*seed));
        }
    }

    #[cfg(all(feature = "full", feature = "blocking"))]
    fn describe_command(&self, message: &dyn Any, description: &mut Description<'_>) {
        if let Some(command) = message.downcast_ref::<Command>() {
            command.describe(description);
        }
    }

    #[cfg(all(feature = "full", feature = "blocking"))]
    fn described_command(&self, mut description: FieldReader<'_>) -> Option<Box<dyn Any>> {
        Some(Box::new(Command::described(&mut description).ok()?))
    }
}
