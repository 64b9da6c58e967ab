//! What became of requests, for the features `tracing` and `metrics`.

// Only the clients use it.
#![cfg_attr(not(feature = "blocking"), allow(dead_code))]

use alloc::vec::Vec;
use core::time::Duration;

use zk_proto::{Decode as _, MultiHeader, OpCode, Reader};

use super::Reply;
use crate::error::Error;

/// A request that was answered or has failed.
#[derive(Clone, Debug)]
pub(crate) struct FinishedRequest {
    pub(crate) opcode: OpCode,
    pub(crate) error: Option<Error>,
    /// Whether the reply says that the transaction was not applied.
    #[cfg_attr(not(feature = "metrics"), allow(dead_code))]
    pub(crate) is_rolled_back: bool,
    /// The time from the transport's taking the request to the reply, if there was one.
    pub(crate) latency: Option<Duration>,
}

/// The exchanges that a client has not taken yet.
#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges {
    /// `None` unless somebody takes them: they would fill the memory.
    recorded: Option<Vec<FinishedRequest>>,
}

impl Exchanges {
    /// Records a request that was answered.
    pub(super) fn answered(
        &mut self,
        opcode: OpCode,
        result: &Result<Reply, Error>,
        latency: Duration,
    ) {
        if let Some(recorded) = &mut self.recorded {
            let is_rolled_back = result.as_ref().is_ok_and(is_rolled_back);
            let (error, latency) = (result.as_ref().err().cloned(), Some(latency));
            recorded.push(FinishedRequest { opcode, error, is_rolled_back, latency });
        }
    }

    /// Records a request that has failed without a reply.
    pub(super) fn failed(&mut self, opcode: OpCode, error: &Error) {
        if let Some(recorded) = &mut self.recorded {
            let error = Some(error.clone());
            recorded.push(FinishedRequest { opcode, error, is_rolled_back: false, latency: None });
        }
    }
}

impl<T> super::Session<T> {
    /// Records exchanges from now on. [Take](Self::take_exchanges) them after each drain.
    pub(crate) fn record_exchanges(&mut self) {
        self.exchanges.recorded.get_or_insert_default();
    }

    /// Returns the exchanges since the last call.
    pub(crate) fn take_exchanges(&mut self) -> Vec<FinishedRequest> {
        self.exchanges.recorded.as_mut().map(core::mem::take).unwrap_or_default()
    }
}

/// Returns whether a reply is that to a transaction that was not applied: the results are errors.
fn is_rolled_back(reply: &Reply) -> bool {
    let first = || MultiHeader::decode(&mut Reader::new(&reply.body));
    reply.opcode == OpCode::MULTI
        && first().is_ok_and(|first| first.opcode == OpCode::ERROR && !first.done)
}
