//! What became of requests, for the feature `tracing`.

// Only the clients use it.
#![cfg_attr(not(any(feature = "tokio", feature = "blocking")), allow(dead_code))]

#[cfg(feature = "tracing")]
use alloc::vec::Vec;
use core::time::Duration;

use zk_proto::OpCode;

use crate::error::Error;

/// A request that was answered or has failed.
#[cfg(feature = "tracing")]
#[derive(Clone, Debug)]
pub(crate) struct Exchange {
    pub(crate) opcode: OpCode,
    pub(crate) error: Option<Error>,
    /// The time from the transport's taking the request to the reply, if there was one.
    pub(crate) latency: Option<Duration>,
}

/// The exchanges that a client has not taken yet. Without the feature it stores nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    /// `None` unless somebody takes them: they would fill the memory.
    #[cfg(feature = "tracing")]
    recorded: Option<Vec<Exchange>>,
}

#[cfg(feature = "tracing")]
impl Exchanges {
    pub(super) fn push(
        &mut self,
        opcode: OpCode,
        error: Option<&Error>,
        latency: Option<Duration>,
    ) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Exchange { opcode, error: error.cloned(), latency });
        }
    }
}

#[cfg(not(feature = "tracing"))]
impl Exchanges {
    #[inline]
    pub(super) const fn push(&self, _: OpCode, _: Option<&Error>, _: Option<Duration>) {}
}

#[cfg(feature = "tracing")]
impl<T> super::Session<T> {
    /// Records exchanges from now on. [Take](Self::take_exchanges) them after each drain.
    pub(crate) fn record_exchanges(&mut self) {
        self.exchanges.recorded.get_or_insert_default();
    }

    /// Returns the exchanges since the last call.
    pub(crate) fn take_exchanges(&mut self) -> Vec<Exchange> {
        self.exchanges.recorded.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
