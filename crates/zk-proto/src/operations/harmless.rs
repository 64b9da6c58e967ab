//! Generated requests harm no server.

use super::is_deadly;
use crate::codes::CreateMode;
use crate::owned::{CreateTtlRequest, Multi, MultiOp, Request};

impl Request {
    /// Replaces a request that harms servers by a similar one that does not.
    pub(crate) fn harmless(self) -> Self {
        match self {
            Self::Check(body) => Self::Multi(Multi(alloc::vec![MultiOp::Check(body)])),
            Self::CreateTtl(body) if is_deadly(body.mode, body.ttl) => {
                let mode = CreateMode::PERSISTENT_WITH_TTL;
                Self::CreateTtl(CreateTtlRequest { mode, ..body })
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
