//! No watches of callers, without a client.

use super::Input;
use super::effects::Wakers;
use crate::session::{RequestId, State};

pub(super) struct Watchers;

impl Watchers {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) fn deliver(&self, _: RequestId, _: bool, _: impl FnOnce() -> Input, _: &mut Wakers) {
    }

    pub(super) const fn end(&self, _: State, _: &mut Wakers) {}
}
