//! What a client reports to the observers of its process. Without the feature `tracing`, nothing.
//!
//! Observers are user code. So reports are collected while the session is locked, and emitted as
//! one of the effects.

#[cfg(feature = "tracing")]
pub(crate) use self::traced::Reports;
#[cfg(not(feature = "tracing"))]
pub(crate) use self::unobserved::Reports;

#[cfg(feature = "tracing")]
mod traced {
    use alloc::boxed::Box;
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;
    use core::time::Duration;

    use zk_proto::OpCode;

    use crate::client::Failure;
    use crate::connect_string::ServerAddress;
    use crate::dispatch::{Deferred, Dispatcher};
    use crate::error::Error;
    use crate::session::State;
    use crate::session::exchanges::Exchange;

    /// The time after which a request is logged as slow.
    const SLOW: Duration = Duration::from_secs(1);

    /// The log lines that are not emitted yet.
    #[derive(Debug)]
    pub(crate) struct Reports {
        lines: Vec<Line>,
    }

    #[derive(Debug)]
    enum Line {
        /// The server is that of the state, if it has one.
        State(State, String),
        Failure(Failure),
        Slow(Duration, OpCode, Option<Error>),
    }

    impl Reports {
        pub(crate) fn new<T>(dispatcher: &mut Dispatcher<T>) -> Self {
            dispatcher.session_mut().record_exchanges();
            Self { lines: Vec::new() }
        }

        /// Reports a new state.
        pub(crate) fn state(&mut self, state: State, servers: &[ServerAddress]) {
            let server = match state {
                State::Connected { server, .. } | State::ReadOnly { server, .. } => {
                    servers.get(server).map(ToString::to_string)
                }
                _ => None,
            };
            self.lines.push(Line::State(state, server.unwrap_or_default()));
        }

        /// Reports a server that failed.
        pub(crate) fn failed(&mut self, failure: &Failure) {
            self.lines.push(Line::Failure(failure.clone()));
        }

        /// Emits the reports once the session is unlocked.
        pub(crate) fn emit<T>(&mut self, dispatcher: &mut Dispatcher<T>) {
            let slow = |exchange: Exchange| {
                let Exchange { opcode, error, latency } = exchange;
                let latency = latency.filter(|latency| *latency >= SLOW)?;
                Some(Line::Slow(latency, opcode, error))
            };
            let exchanges = dispatcher.session_mut().take_exchanges();
            self.lines.extend(exchanges.into_iter().filter_map(slow));
            if !self.lines.is_empty() {
                let lines = core::mem::take(&mut self.lines);
                let emit = move || lines.into_iter().for_each(Line::emit);
                dispatcher.effects().deferred.push_back(Deferred::Report(Box::new(emit)));
            }
        }
    }

    impl Line {
        fn emit(self) {
            match self {
                Self::State(State::Connected { session, .. }, server) => {
                    tracing::info!(target: "zk_session", %server, %session, "session connected");
                }
                Self::State(State::ReadOnly { session, .. }, server) => tracing::warn!(
                    target: "zk_session", %server, %session, "session connected to a read-only server"
                ),
                Self::State(State::Renewing, _) => {
                    tracing::warn!(target: "zk_session", "session expired; opening a new one");
                }
                Self::State(State::Ended(end), _) => {
                    tracing::info!(target: "zk_session", %end, "session ended");
                }
                Self::State(state, _) => {
                    tracing::warn!(target: "zk_session", ?state, "session without a connection");
                }
                Self::Failure((server, reason)) => {
                    tracing::warn!(target: "zk_session", %server, %reason, "connection failed");
                }
                Self::Slow(elapsed, operation, None) => {
                    tracing::warn!(target: "zk_session", ?elapsed, %operation, "slow request");
                }
                Self::Slow(elapsed, operation, Some(error)) => tracing::warn!(
                    target: "zk_session", ?elapsed, %operation, %error, "slow request failed"
                ),
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
mod unobserved {
    use crate::client::Failure;
    use crate::connect_string::ServerAddress;
    use crate::dispatch::Dispatcher;
    use crate::session::State;

    #[derive(Debug)]
    pub(crate) struct Reports;

    impl Reports {
        pub(crate) const fn new<T>(_: &mut Dispatcher<T>) -> Self {
            Self
        }

        pub(crate) const fn state(&self, _: State, _: &[ServerAddress]) {}

        pub(crate) const fn failed(&self, _: &Failure) {}

        pub(crate) const fn emit<T>(&self, _: &mut Dispatcher<T>) {}
    }
}
