//! Records no requests, without the features `tracing` and `metrics`.

// Only the clients use it.
#![cfg_attr(not(feature = "blocking"), allow(dead_code))]

use alloc::vec::Vec;
use core::time::Duration;

use zk_proto::OpCode;

use super::Reply;
use crate::error::Error;

/// No request is recorded.
#[derive(Clone, Debug)]
pub(crate) enum FinishedRequest {}

#[derive(Clone, Debug, Default)]
pub(super) struct Exchanges(());

impl Exchanges {
    #[inline]
    pub(super) const fn answered(&self, _: OpCode, _: &Result<Reply, Error>, _: Duration) {}

    #[inline]
    pub(super) const fn failed(&self, _: OpCode, _: &Error) {}
}

impl<T> super::Session<T> {
    pub(crate) const fn record_exchanges(&self) {}

    pub(crate) const fn take_exchanges(&self) -> Vec<FinishedRequest> {
        Vec::new()
    }
}
