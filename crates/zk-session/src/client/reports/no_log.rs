//! No log, without the feature `tracing`.

use alloc::boxed::Box;

use zk_proto::SessionId;

use super::Observe;

pub(super) const fn observer(_: SessionId) -> Option<Box<dyn Observe>> {
    None
}
