//! No watches of callers, without a client.

use super::attached::Input;
use super::effects::Wakers;
use crate::session::event::{RequestId, State};

pub(crate) struct Watchers;

impl Watchers {
    pub(super) const fn new() -> Self {
        Self
    }

    pub(super) fn deliver(&self, _: RequestId, _: bool, _: &dyn Fn(u64) -> Input, _: &mut Wakers) {}

    pub(super) const fn end(&self, _: State, _: &mut Wakers) {}
}
