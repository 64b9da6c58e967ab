//! What is told to `tracing`, with the feature of that name; without it, nothing that costs.

use crate::error::Error;
use crate::face::Failure;
use crate::session::{Reply, State};

/// How long a request may take before it is told.
#[cfg(feature = "tracing")]
const SLOW: core::time::Duration = core::time::Duration::from_secs(1);

/// When a request was made.
#[cfg(feature = "tracing")]
pub(super) struct Asked(tokio::time::Instant);

#[cfg(feature = "tracing")]
impl Asked {
    pub(super) fn now() -> Self {
        Self(tokio::time::Instant::now())
    }

    pub(super) fn answered(self, answer: &Result<Reply, Error>) {
        let elapsed = self.0.elapsed();
        if elapsed >= SLOW {
            match answer {
                Ok(reply) => tracing::warn!(?elapsed, operation = ?reply.opcode, "slow request"),
                Err(error) => tracing::warn!(?elapsed, %error, "slow request failed"),
            }
        }
    }
}

#[cfg(feature = "tracing")]
pub(super) fn state(state: State) {
    match state {
        State::Connected { member, session } => {
            tracing::info!(member, %session, "session connected");
        }
        State::ReadOnly { member, session } => {
            tracing::warn!(member, %session, "session connected to a read-only member");
        }
        State::Ended(end) => tracing::info!(%end, "session ended"),
        other => tracing::warn!(state = ?other, "session without a connection"),
    }
}

#[cfg(feature = "tracing")]
pub(super) fn failure((member, reason): &Failure) {
    tracing::warn!(%member, %reason, "connection failed");
}

#[cfg(not(feature = "tracing"))]
pub(super) struct Asked;

#[cfg(not(feature = "tracing"))]
impl Asked {
    pub(super) fn now() -> Self {
        Self
    }

    pub(super) fn answered(self, _: &Result<Reply, Error>) {}
}

#[cfg(not(feature = "tracing"))]
pub(super) fn state(_: State) {}

#[cfg(not(feature = "tracing"))]
pub(super) fn failure(_: &Failure) {}
