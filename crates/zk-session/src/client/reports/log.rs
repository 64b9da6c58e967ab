//! The log of a client, for the feature `tracing`.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use tracing::field::display;
use zk_proto::{OpCode, SessionId};

use super::{Emit, Observe, Report};
use crate::client::Failure;
use crate::error::Error;
use crate::session::State;
use crate::session::exchanges::FinishedRequest;

/// The time after which a request is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// Returns the log of a new client, which may resume this session.
pub(super) fn observer(session: SessionId) -> Option<Box<dyn Observe>> {
    let session = Some(session).filter(|id| *id != SessionId::NONE);
    Some(Box::new(SessionLog { lines: Vec::new(), session }))
}

/// The lines that are not emitted yet.
#[derive(Debug)]
struct SessionLog {
    lines: Vec<Line>,
    /// The session that a server has served last, or the one to resume.
    session: Option<SessionId>,
}

impl Observe for SessionLog {
    fn note(&mut self, report: &Report<'_>) {
        match report {
            Report::Servers(_) => {}
            Report::State(state, server) => {
                let (state, server) = (*state, (*server).into());
                self.lines.push(Line::State { state, server, last: self.session });
                if let State::Connected { session, .. } | State::ReadOnly { session, .. } = state {
                    self.session = Some(session);
                }
            }
            Report::Failed(failure) => self.lines.push(Line::Failure((*failure).clone())),
            Report::Drained { exchanges, .. } => {
                self.lines.extend(exchanges.iter().filter_map(Line::slow));
            }
        }
    }

    fn take(&mut self) -> Option<Emit> {
        let lines = core::mem::take(&mut self.lines);
        (!lines.is_empty()).then(|| -> Emit { Box::new(|| lines.into_iter().for_each(Line::emit)) })
    }
}

/// A line of the log.
#[derive(Debug)]
enum Line {
    State {
        state: State,
        /// That of the state, or empty.
        server: String,
        /// The session before this state.
        last: Option<SessionId>,
    },
    Failure(Failure),
    Slow(Duration, OpCode, Option<Error>),
}

impl Line {
    /// Returns the line about a request that took long.
    fn slow(exchange: &FinishedRequest) -> Option<Self> {
        let latency = exchange.latency.filter(|latency| *latency >= SLOW)?;
        Some(Self::Slow(latency, exchange.opcode, exchange.error.clone()))
    }

    fn emit(self) {
        match self {
            Self::State { state, server, last } => log_state(state, &server, last),
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

fn log_state(state: State, server: &str, last: Option<SessionId>) {
    let of_last = last.map(display);
    match state {
        State::Connected { session, .. } => match last.filter(|last| *last != session) {
            None => tracing::info!(target: "zk_session", %server, %session, "session connected"),
            Some(expired) => tracing::info!(
                target: "zk_session", %server, %session, %expired, "session renewed"
            ),
        },
        State::ReadOnly { session, .. } => tracing::warn!(
            target: "zk_session", %server, %session, "session connected to a read-only server"
        ),
        State::Renewing => tracing::warn!(
            target: "zk_session", session = of_last, "session expired; opening a new one"
        ),
        State::Ended(end) => {
            tracing::info!(target: "zk_session", session = of_last, %end, "session ended");
        }
        state => tracing::warn!(
            target: "zk_session", session = of_last, ?state, "session without a connection"
        ),
    }
}
