//! The receiver of a machine's events.

use core::fmt;

use zk_session::dispatch::{Input, Port};

use super::command::Command;
use super::event::Event;

/// Receives the events of a machine.
///
/// The dispatcher calls it while it delivers. In a client, the session is locked then. It must not
/// block, and leaves user code to [`Port::wake`] and [`Port::defer`]. In a single-threaded loop, a
/// channel or a shared cell can pass the events to the owner. It leaves requests and timers to the
/// machine: a [replay](zk_session::dispatch::Attached::describe) has the machine, but no observer.
pub trait Observer {
    /// Handles an event.
    fn observe(&mut self, event: Event, port: &mut Port<'_>);

    /// Called with each input before the machine handles it, for measurements.
    fn input(&mut self, _input: &Input, _port: &mut Port<'_>) {}

    /// Called with each command before the machine executes it, for measurements.
    fn command(&mut self, _command: Command, _port: &mut Port<'_>) {}

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
