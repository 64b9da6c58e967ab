//! Counts no ephemeral nodes, without the clients: boards have few, and code takes room.

use bytes::Bytes;
use zk_proto::{ErrorCode, Request, Xid};

use super::Config;
use super::pending::PendingRequest;
use crate::error::Error;

#[derive(Clone, Debug)]
pub(super) struct Ephemerals;

impl Ephemerals {
    pub(super) fn new(_config: &Config) -> Self {
        Self
    }

    pub(super) fn clear(&mut self) {}

    pub(super) fn admit(&mut self, _request: &Request<'_>, _xid: Xid) -> Result<bool, Error> {
        Ok(false)
    }

    pub(super) const fn are_many(&self) -> bool {
        false
    }

    pub(super) fn wants_list(&mut self, _was_refused: bool) -> bool {
        false
    }

    pub(super) fn answered<T>(
        &mut self,
        _request: &PendingRequest<T>,
        _answer: ErrorCode,
        _body: Option<&Bytes>,
    ) {
    }

    pub(super) fn failed<T>(&mut self, _request: &PendingRequest<T>, _error: &Error) {}

    pub(super) fn remove(&mut self, _path: &str) {}
}
