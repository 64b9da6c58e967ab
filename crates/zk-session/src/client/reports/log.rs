//! The log of a client, for the feature `tracing`.

use alloc::string::String;
use core::time::Duration;

use tracing::field::display;
use zk_proto::{OpCode, SessionId};

use crate::client::Failure;
use crate::error::Error;
use crate::session::State;
use crate::session::exchanges::Exchange;

/// The time after which a request is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// A line of the log that is not emitted yet.
#[derive(Debug)]
pub(super) enum Line {
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
    pub(super) fn slow(exchange: &Exchange) -> Option<Self> {
        let latency = exchange.latency.filter(|latency| *latency >= SLOW)?;
        Some(Self::Slow(latency, exchange.opcode, exchange.error.clone()))
    }

    pub(super) fn emit(self) {
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
