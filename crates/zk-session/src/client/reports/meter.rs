//! The metrics of a client, for the feature `metrics`.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use zk_proto::{ErrorCode, OpCode};

use super::{Emit, Observe, Report};
use crate::client::metrics::names;
use crate::end::End;
use crate::error::Error;
use crate::session::exchanges::FinishedRequest;
use crate::session::{State, Statistics};

pub(super) fn observer() -> Option<Box<dyn Observe>> {
    Some(Box::<SessionMeter>::default())
}

/// What the recorder of the process knows of a session, and what it does not know yet.
#[derive(Debug, Default)]
struct SessionMeter {
    counted: Statistics,
    watches: usize,
    is_connected: bool,
    /// Whether a server has served this session.
    has_begun: bool,
    measured: Vec<SessionMeasure>,
}

#[derive(Debug)]
enum SessionMeasure {
    Servers(Vec<String>),
    Request(FinishedRequest),
    Connected { server: String, again: bool },
    Disconnected,
    Failed { server: String },
    Expired(u64),
    Renewed(u64),
    Watches { before: usize, now: usize },
    WatchEvents(u64),
}

impl Observe for SessionMeter {
    fn note(&mut self, report: &Report<'_>) {
        match report {
            Report::Servers(servers) => {
                let servers = servers.iter().map(ToString::to_string).collect();
                self.measured.push(SessionMeasure::Servers(servers));
            }
            Report::State(state, server) => self.state(*state, server),
            Report::Failed((server, _)) => {
                self.measured.push(SessionMeasure::Failed { server: server.clone() });
            }
            Report::Drained { exchanges, statistics, watches } => {
                self.measured.extend(exchanges.iter().cloned().map(SessionMeasure::Request));
                self.count(*statistics, *watches);
            }
        }
    }

    fn take(&mut self) -> Option<Emit> {
        let measured = core::mem::take(&mut self.measured);
        (!measured.is_empty())
            .then(|| -> Emit { Box::new(|| measured.into_iter().for_each(SessionMeasure::record)) })
    }
}

impl SessionMeter {
    fn state(&mut self, state: State, server: &str) {
        let was_connected = self.is_connected;
        self.is_connected = matches!(state, State::Connected { .. } | State::ReadOnly { .. });
        if was_connected {
            self.measured.push(SessionMeasure::Disconnected);
        }
        if self.is_connected {
            let again = core::mem::replace(&mut self.has_begun, true);
            self.measured.push(SessionMeasure::Connected { server: server.into(), again });
        }
        match state {
            State::Renewing => self.has_begun = false,
            State::Ended(End::Expired) => self.measured.push(SessionMeasure::Expired(1)),
            _ => {}
        }
    }

    fn count(&mut self, now: Statistics, watches: usize) {
        let measured = &mut self.measured;
        let counted = core::mem::replace(&mut self.counted, now);
        if now.renewals > counted.renewals {
            let renewals = now.renewals - counted.renewals;
            measured.extend([SessionMeasure::Expired(renewals), SessionMeasure::Renewed(renewals)]);
        }
        if now.notifications > counted.notifications {
            measured.push(SessionMeasure::WatchEvents(now.notifications - counted.notifications));
        }
        let before = core::mem::replace(&mut self.watches, watches);
        if watches != before {
            measured.push(SessionMeasure::Watches { before, now: watches });
        }
    }
}

impl SessionMeasure {
    fn record(self) {
        match self {
            Self::Servers(servers) => register(servers),
            Self::Request(request) => record(&request),
            Self::Connected { server, again } => {
                metrics::counter!(names::CONNECTIONS, "server" => server).increment(1);
                metrics::gauge!(names::CONNECTED).increment(1.0);
                if again {
                    metrics::counter!(names::RECONNECTS).increment(1);
                }
            }
            Self::Disconnected => metrics::gauge!(names::CONNECTED).decrement(1.0),
            Self::Failed { server } => {
                metrics::counter!(names::FAILURES, "server" => server).increment(1);
            }
            Self::Expired(count) => metrics::counter!(names::EXPIRIES).increment(count),
            Self::Renewed(count) => metrics::counter!(names::RENEWALS).increment(count),
            Self::Watches { before, now } if now > before => {
                metrics::gauge!(names::WATCHES).increment((now - before) as f64);
            }
            Self::Watches { before, now } => {
                metrics::gauge!(names::WATCHES).decrement((before - now) as f64);
            }
            Self::WatchEvents(count) => metrics::counter!(names::WATCH_EVENTS).increment(count),
        }
    }
}

/// Gives the recorder every metric with known labels, with the value 0. An alert about a change
/// misses the first event of a metric that begins with it.
fn register(servers: Vec<String>) {
    for name in [names::RECONNECTS, names::EXPIRIES, names::RENEWALS, names::WATCH_EVENTS] {
        metrics::counter!(name).increment(0);
    }
    for name in [names::CONNECTED, names::WATCHES] {
        metrics::gauge!(name).increment(0.0);
    }
    for server in servers {
        for name in [names::CONNECTIONS, names::FAILURES] {
            metrics::counter!(name, "server" => server.clone()).increment(0);
        }
    }
}

fn record(exchange: &FinishedRequest) {
    let operation = name_of(exchange.opcode);
    let outcome = outcome(exchange);
    metrics::counter!(names::REQUESTS, "operation" => operation, "outcome" => outcome).increment(1);
    if let Some(latency) = exchange.latency {
        metrics::histogram!(names::LATENCY, "operation" => operation).record(latency);
    }
}

fn name_of(opcode: OpCode) -> &'static str {
    opcode.name().unwrap_or("UNKNOWN")
}

/// Returns the code of a refusal as the server names it, or what became of the request here.
fn outcome(exchange: &FinishedRequest) -> String {
    let of_code = |code: ErrorCode| code.name().map_or_else(|| code.0.to_string(), Into::into);
    let outcome = match &exchange.error {
        None if exchange.is_rolled_back => "rolled_back",
        None => "ok",
        Some(Error::Server(code) | Error::Transaction { code, .. }) => return of_code(*code),
        Some(Error::Unsupported { .. }) => "unsupported",
        Some(Error::ConnectionLost) => "connection_lost",
        Some(Error::Undeliverable { .. }) => "undeliverable",
        Some(Error::DeadlinePassed { .. }) => "deadline_passed",
        Some(Error::NoConnection) => "no_connection",
        Some(Error::Ended { .. }) => "session_ended",
        Some(Error::ReplyTooLarge { .. }) => "reply_too_large",
        Some(_) => "failed",
    };
    outcome.into()
}
