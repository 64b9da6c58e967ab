//! Reports to the observers of a client: its log and its metrics, with the features `tracing` and
//! `metrics`.
//!
//! Emitting a report runs user code. So observers collect reports while the session is locked, and
//! emit them as one of the effects.

#[cfg_attr(not(feature = "tracing"), path = "reports/no_log.rs")]
mod log;
#[cfg_attr(not(feature = "metrics"), path = "reports/no_meter.rs")]
mod meter;

use alloc::boxed::Box;
use alloc::string::ToString;
use alloc::vec::Vec;
use core::fmt::Debug;

use super::Failure;
use crate::connect_string::ServerAddress;
use crate::dispatch::Dispatcher;
use crate::dispatch::effects::Deferred;
use crate::session::exchanges::FinishedRequest;
use crate::session::{State, Statistics};

/// User code that emits reports.
type Emit = Box<dyn FnOnce() + Send>;

/// What a client reports.
#[cfg_attr(not(all(feature = "tracing", feature = "metrics")), allow(dead_code))]
enum Report<'a> {
    /// The servers that may be used from now on.
    Servers(&'a [ServerAddress]),
    /// A new state, and the server that has caused it, or an empty string.
    State(State, &'a str),
    /// A server that failed.
    Failed(&'a Failure),
    /// The requests finished since the last drain, and the current counts.
    Drained { exchanges: &'a [FinishedRequest], statistics: Statistics, watches: usize },
}

/// An observer of a client.
trait Observe: Debug + Send {
    /// Notes a report, while the session is locked.
    fn note(&mut self, report: &Report<'_>);

    /// Returns a function that emits everything new.
    fn take(&mut self) -> Option<Emit>;
}

/// The reports that are not emitted yet.
#[derive(Debug)]
pub(crate) struct Reports(Vec<Box<dyn Observe>>);

impl Reports {
    pub(crate) fn new<T>(dispatcher: &mut Dispatcher<T>, servers: &[ServerAddress]) -> Self {
        let session = &mut dispatcher.session.0;
        session.record_exchanges();
        let observers = [log::observer(session.id()), meter::observer()];
        let mut new = Self(observers.into_iter().flatten().collect());
        new.servers(servers);
        new
    }

    fn note(&mut self, report: &Report<'_>) {
        self.0.iter_mut().for_each(|observer| observer.note(report));
    }

    /// Notes the servers that may be used from now on.
    pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
        self.note(&Report::Servers(servers));
    }

    /// Reports a new state.
    pub(crate) fn state(&mut self, state: State, servers: &[ServerAddress]) {
        let server = match state {
            State::Connected { server, .. } | State::ReadOnly { server, .. } => servers.get(server),
            _ => None,
        };
        let server = server.map(ToString::to_string).unwrap_or_default();
        self.note(&Report::State(state, &server));
    }

    /// Reports a server that failed.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        self.note(&Report::Failed(failure));
    }

    /// Emits the reports once the session is unlocked.
    pub(crate) fn emit<T>(&mut self, dispatcher: &mut Dispatcher<T>) {
        if self.0.is_empty() {
            return;
        }
        let exchanges = dispatcher.session.0.take_exchanges();
        let session = dispatcher.session();
        let (statistics, watches) = (session.statistics(), session.watches());
        self.note(&Report::Drained { exchanges: &exchanges, statistics, watches });
        let emits = self.0.iter_mut().filter_map(|observer| observer.take());
        dispatcher.effects().others.deferred.extend(emits.map(Deferred::Run));
    }
}
