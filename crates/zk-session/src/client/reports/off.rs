//! An observer that is switched off.

use zk_proto::SessionId;

use super::Emit;
use crate::client::Failure;
use crate::connect_string::ServerAddress;
use crate::session::exchanges::FinishedRequest;
use crate::session::{Session, State};

#[derive(Debug)]
pub(super) struct Off;

impl Off {
    pub(super) const fn new(_: SessionId) -> Self {
        Self
    }

    pub(super) const fn servers(&self, _: &[ServerAddress]) {}

    pub(super) const fn state(&self, _: State, _: &str) {}

    pub(super) const fn failed(&self, _: &Failure) {}

    pub(super) const fn collect<T>(&self, _: &Session<T>, _: &[FinishedRequest]) -> Option<Emit> {
        None
    }
}
