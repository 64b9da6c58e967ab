//! What a client reports to the observers of its process. Without the features `tracing` and
//! `metrics`, nothing.
//!
//! Observers are user code. So reports are collected while the session is locked, and emitted as
//! one of the effects.

#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
mod meter;
#[cfg(not(all(feature = "tracing", feature = "metrics")))]
mod off;

use alloc::boxed::Box;
use alloc::string::ToString;

#[cfg(feature = "tracing")]
use self::log::SessionLog;
#[cfg(feature = "metrics")]
use self::meter::SessionMeter;
#[cfg(not(feature = "tracing"))]
use self::off::Off as SessionLog;
#[cfg(not(feature = "metrics"))]
use self::off::Off as SessionMeter;
use super::Failure;
use crate::connect_string::ServerAddress;
use crate::dispatch::Dispatcher;
use crate::dispatch::effects::Deferred;
use crate::session::State;

/// User code that emits reports.
type Emit = Box<dyn FnOnce() + Send>;

/// The reports that are not emitted yet.
#[derive(Debug)]
pub(crate) struct Reports {
    log: SessionLog,
    meter: SessionMeter,
}

impl Reports {
    pub(crate) fn new<T>(dispatcher: &mut Dispatcher<T>, servers: &[ServerAddress]) -> Self {
        let session = &mut dispatcher.session.0;
        session.record_exchanges();
        let mut new =
            Self { log: SessionLog::new(session.id()), meter: SessionMeter::new(session.id()) };
        new.servers(servers);
        new
    }

    /// Notes the servers that may be used from now on.
    pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
        self.log.servers(servers);
        self.meter.servers(servers);
    }

    /// Reports a new state.
    pub(crate) fn state(&mut self, state: State, servers: &[ServerAddress]) {
        let server = match state {
            State::Connected { server, .. } | State::ReadOnly { server, .. } => {
                servers.get(server).map(ToString::to_string)
            }
            _ => None,
        };
        let server = server.unwrap_or_default();
        self.meter.state(state, &server);
        self.log.state(state, &server);
    }

    /// Reports a server that failed.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.meter.failed(failure);
        self.log.failed(failure);
    }

    /// Emits the reports once the session is unlocked.
    pub(crate) fn emit<T>(&mut self, dispatcher: &mut Dispatcher<T>) {
        let exchanges = dispatcher.session.0.take_exchanges();
        let session = dispatcher.session();
        let emits =
            [self.log.collect(session, &exchanges), self.meter.collect(session, &exchanges)];
        let deferred = emits.into_iter().flatten().map(Deferred::Run);
        dispatcher.effects().others.deferred.extend(deferred);
    }
}
