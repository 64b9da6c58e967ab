//! What the process's observers learn of an attempt. Without the features `tracing` and `metrics`,
//! nothing.
//!
//! Observers are user code. So they are called after the session is unlocked, in the order of the
//! machine's events.

#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
mod meter;

use zk_session::dispatch::{Input, Port};

use crate::attempt::{Command, Event};

/// The reports about one attempt.
pub(crate) struct Observed {
    #[cfg(feature = "tracing")]
    log: log::Log,
    #[cfg(feature = "metrics")]
    meter: meter::Meter,
}

#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(unused_variables))]
impl Observed {
    /// Notes that a recipe is in use, which runs user code.
    pub(crate) fn register(recipe: &'static str) {
        #[cfg(feature = "metrics")]
        meter::register(recipe);
    }

    /// Begins to observe an attempt, which runs user code.
    pub(crate) fn new(recipe: &'static str, path: &str) -> Self {
        Self {
            #[cfg(feature = "tracing")]
            log: log::Log::new(recipe, path),
            #[cfg(feature = "metrics")]
            meter: meter::Meter::new(recipe),
        }
    }

    /// Notes an input, before the machine handles it.
    pub(crate) fn input(&mut self, input: &Input, port: &mut Port<'_>) {
        #[cfg(feature = "tracing")]
        self.log.input(port.now());
        #[cfg(feature = "metrics")]
        self.meter.input(input, port);
    }

    /// Notes a command, before the machine executes it.
    pub(crate) fn command(&mut self, command: Command, port: &mut Port<'_>) {
        #[cfg(feature = "metrics")]
        self.meter.command(command, port);
    }

    /// Reports an event.
    pub(crate) fn event(&mut self, event: &Event, port: &mut Port<'_>) {
        #[cfg(feature = "tracing")]
        self.log.event(event, port);
        #[cfg(feature = "metrics")]
        self.meter.event(event, port);
    }

    /// Reports that no node is left on the server.
    pub(crate) fn finish(&mut self, port: &mut Port<'_>) {
        #[cfg(feature = "metrics")]
        self.meter.finish(port);
    }
}
