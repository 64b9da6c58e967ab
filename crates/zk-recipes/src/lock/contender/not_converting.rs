//! A contender that keeps its mode, for programs without the feature `full`.

use zk_session::Error;
use zk_session::session::Reply;

use super::Contender;
use crate::attempt::{LockMode, OpId, Turn};

/// It has no values, so the compiler drops the code for it.
pub(super) type Conversion = core::convert::Infallible;

impl Contender {
    pub(super) fn begin_conversion(&mut self, _: LockMode, _: &mut Turn<'_>) {}

    pub(super) fn handle_conversion(&mut self, _: OpId, _: Result<Reply, Error>, _: &mut Turn<'_>) {
    }

    pub(super) fn repeat_conversion(&mut self, _: &mut Turn<'_>) {}

    pub(super) fn is_replacing_node(&self) -> bool {
        false
    }

    pub(super) fn delete_replaced(&mut self, _: &mut Turn<'_>) {}
}
