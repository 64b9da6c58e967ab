//! What a client reports to the observers of its process. Without the features `tracing` and
//! `metrics`, nothing.
//!
//! Observers are user code. So reports are collected while the session is locked, and emitted as
//! one of the effects.

#[cfg(feature = "tracing")]
mod log;
#[cfg(feature = "metrics")]
pub(crate) mod meter;

#[cfg(any(feature = "tracing", feature = "metrics"))]
pub(crate) use self::observed::Reports;
#[cfg(not(any(feature = "tracing", feature = "metrics")))]
pub(crate) use self::unobserved::Reports;

#[cfg(any(feature = "tracing", feature = "metrics"))]
mod observed {
    #[cfg(feature = "tracing")]
    use alloc::boxed::Box;
    use alloc::string::ToString;
    #[cfg(feature = "tracing")]
    use alloc::vec::Vec;

    #[cfg(feature = "tracing")]
    use zk_proto::SessionId;

    use crate::client::Failure;
    use crate::connect_string::ServerAddress;
    use crate::dispatch::{Deferred, Dispatcher};
    use crate::session::State;

    /// The reports that are not emitted yet.
    #[derive(Debug, Default)]
    pub(crate) struct Reports {
        #[cfg(feature = "tracing")]
        lines: Vec<super::log::Line>,
        /// The session that a server has served last, or the one to resume.
        #[cfg(feature = "tracing")]
        session: Option<SessionId>,
        #[cfg(feature = "metrics")]
        meter: super::meter::Meter,
    }

    impl Reports {
        pub(crate) fn new<T>(dispatcher: &mut Dispatcher<T>, servers: &[ServerAddress]) -> Self {
            let session = dispatcher.session_mut();
            session.record_exchanges();
            let mut new = Self {
                #[cfg(feature = "tracing")]
                session: Some(session.id()).filter(|id| *id != SessionId::NONE),
                ..Self::default()
            };
            new.servers(servers);
            new
        }

        /// Notes the servers that may be used from now on.
        #[cfg_attr(not(feature = "metrics"), allow(unused_variables, clippy::unused_self))]
        pub(crate) fn servers(&mut self, servers: &[ServerAddress]) {
            #[cfg(feature = "metrics")]
            self.meter.servers(servers.iter().map(ToString::to_string).collect());
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
            #[cfg(feature = "metrics")]
            self.meter.state(state, &server);
            #[cfg(feature = "tracing")]
            self.lines.push(super::log::Line::State { state, server, last: self.session });
            #[cfg(feature = "tracing")]
            if let State::Connected { session, .. } | State::ReadOnly { session, .. } = state {
                self.session = Some(session);
            }
        }

        /// Reports a server that failed.
        pub(crate) fn failed(&mut self, failure: &Failure) {
            #[cfg(feature = "metrics")]
            self.meter.failed(&failure.0);
            #[cfg(feature = "tracing")]
            self.lines.push(super::log::Line::Failure(failure.clone()));
        }

        /// Emits the reports once the session is unlocked.
        pub(crate) fn emit<T>(&mut self, dispatcher: &mut Dispatcher<T>) {
            let exchanges = dispatcher.session_mut().take_exchanges();
            #[cfg(feature = "tracing")]
            {
                self.lines.extend(exchanges.iter().filter_map(super::log::Line::slow));
                if !self.lines.is_empty() {
                    let lines = core::mem::take(&mut self.lines);
                    let emit = move || lines.into_iter().for_each(super::log::Line::emit);
                    dispatcher.effects().others.deferred.push(Deferred::Run(Box::new(emit)));
                }
            }
            #[cfg(feature = "metrics")]
            if let Some(emit) = self.meter.collect(dispatcher.session(), exchanges) {
                dispatcher.effects().others.deferred.push(Deferred::Run(emit));
            }
        }
    }
}

#[cfg(not(any(feature = "tracing", feature = "metrics")))]
mod unobserved {
    use crate::client::Failure;
    use crate::connect_string::ServerAddress;
    use crate::dispatch::Dispatcher;
    use crate::session::State;

    #[derive(Debug)]
    pub(crate) struct Reports;

    impl Reports {
        pub(crate) const fn new<T>(_: &mut Dispatcher<T>, _: &[ServerAddress]) -> Self {
            Self
        }

        pub(crate) const fn servers(&self, _: &[ServerAddress]) {}

        pub(crate) const fn state(&self, _: State, _: &[ServerAddress]) {}

        pub(crate) const fn failed(&self, _: &Failure) {}

        pub(crate) const fn emit<T>(&self, _: &mut Dispatcher<T>) {}
    }
}
