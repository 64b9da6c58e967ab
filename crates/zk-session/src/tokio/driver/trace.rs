//! The log events of the feature `tracing`. Without it, these functions do nothing.

#[cfg(feature = "tracing")]
use core::time::Duration;

#[cfg(feature = "tracing")]
use zk_proto::OpCode;

use crate::client::Failure;
use crate::error::Error;
use crate::session::{Reply, State};

/// The time after which a request is logged as slow.
#[cfg(feature = "tracing")]
const SLOW: Duration = Duration::from_secs(1);

/// When a request was made.
#[cfg(feature = "tracing")]
pub(super) struct Asked(tokio::time::Instant);

#[cfg(feature = "tracing")]
impl Asked {
    pub(super) fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn answered(self, answer: &Result<Reply, Error>) -> Option<Report> {
        let elapsed = self.0.elapsed();
        let answer = || answer.as_ref().map(|reply| reply.opcode).map_err(Error::clone);
        (elapsed >= SLOW).then(|| Report::Slow(elapsed, answer()))
    }
}

/// Something to report, once the session is unlocked: a subscriber may use the client.
#[cfg(feature = "tracing")]
#[derive(Debug)]
pub(crate) enum Report {
    State(State),
    Failure(Failure),
    Slow(Duration, Result<OpCode, Error>),
}

#[cfg(feature = "tracing")]
impl Report {
    pub(super) fn state(state: State) -> Self {
        Self::State(state)
    }

    pub(super) fn failure(failure: &Failure) -> Self {
        Self::Failure(failure.clone())
    }

    pub(super) fn emit(self) {
        match self {
            Self::State(State::Connected { server, session }) => {
                tracing::info!(server, %session, "session connected");
            }
            Self::State(State::ReadOnly { server, session }) => {
                tracing::warn!(server, %session, "session connected to a read-only server");
            }
            Self::State(State::Renewing) => {
                tracing::warn!("session expired; opening a new one");
            }
            Self::State(State::Ended(end)) => tracing::info!(%end, "session ended"),
            Self::State(other) => tracing::warn!(state = ?other, "session without a connection"),
            Self::Failure((server, reason)) => {
                tracing::warn!(%server, %reason, "connection failed");
            }
            Self::Slow(elapsed, Ok(operation)) => {
                tracing::warn!(?elapsed, ?operation, "slow request");
            }
            Self::Slow(elapsed, Err(error)) => {
                tracing::warn!(?elapsed, %error, "slow request failed");
            }
        }
    }
}

#[cfg(not(feature = "tracing"))]
pub(super) struct Asked;

#[cfg(not(feature = "tracing"))]
impl Asked {
    pub(super) fn now() -> Self {
        Self
    }

    pub(super) fn answered(self, _: &Result<Reply, Error>) -> Option<Report> {
        None
    }
}

#[cfg(not(feature = "tracing"))]
#[derive(Debug)]
pub(crate) struct Report;

#[cfg(not(feature = "tracing"))]
impl Report {
    pub(super) fn state(_: State) -> Self {
        Self
    }

    pub(super) fn failure(_: &Failure) -> Self {
        Self
    }

    pub(super) fn emit(self) {}
}
