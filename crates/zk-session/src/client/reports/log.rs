//! The log of a client, for the feature `tracing`.

use alloc::string::String;
use core::time::Duration;

use zk_proto::OpCode;

use crate::client::Failure;
use crate::error::Error;
use crate::session::State;
use crate::session::exchanges::Exchange;

/// The time after which a request is logged as slow.
const SLOW: Duration = Duration::from_secs(1);

/// A line of the log that is not emitted yet.
#[derive(Debug)]
pub(super) enum Line {
    /// The server is that of the state, if it has one.
    State(State, String),
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
