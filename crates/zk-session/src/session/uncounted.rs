//! Counts no ephemeral nodes, without the clients: boards have few, and code takes room.

use bytes::Bytes;
use zk_proto::{ErrorCode, OpCode, Request};

use super::Config;
use crate::error::Error;

#[derive(Clone, Debug, Default)]
pub(super) struct Changes(());

#[derive(Clone, Debug)]
pub(super) struct Ephemerals;

impl Config {
    pub(super) const fn max_ephemerals(&self) -> usize {
        usize::MAX
    }
}

impl Ephemerals {
    pub(super) fn new(_limit: usize, _seed: u64) -> Self {
        Self
    }

    pub(super) fn clear(&mut self) {}

    pub(super) fn changes(&self, _request: &Request<'_>) -> Changes {
        Changes::default()
    }

    pub(super) fn admit(&mut self, _changes: &Changes) -> Result<(), Error> {
        Ok(())
    }

    pub(super) fn wants_list(&mut self, _was_refused: bool) -> bool {
        false
    }

    pub(super) fn answered(
        &mut self,
        _opcode: OpCode,
        _is_own: bool,
        _changes: Changes,
        _answer: ErrorCode,
        _body: Option<&Bytes>,
    ) {
    }

    pub(super) fn failed(&mut self, _: OpCode, _is_own: bool, _changes: Changes, _: &Error) {}

    pub(super) fn remove(&mut self, _path: &str) {}
}
