//! Generators of records, for the features `proptest` and `arbitrary`.
//!
//! Records and numbers get their implementations where they are declared. This module generates
//! the types of their fields.

mod replies;
#[cfg(feature = "arbitrary")]
pub(crate) mod sources;
#[cfg(feature = "proptest")]
pub(crate) mod strategies;

use alloc::vec::Vec;

use crate::codes::CreateMode;
use crate::operations::is_deadly;
use crate::owned::{self, List, Multi};

/// Node names of valid paths. There are few, so that requests meet the same nodes.
const NAMES: [&str; 6] = ["a", "b", "c", "d", "n-", "\u{fc}\u{6f22}"];

impl owned::Request {
    /// Replaces a request that harms servers by a similar one that does not.
    pub(crate) fn harmless(self) -> Self {
        match self {
            Self::Check(body) => Self::Multi(Multi(alloc::vec![owned::MultiOp::Check(body)])),
            Self::CreateTtl(body) if is_deadly(body.mode, body.ttl) => {
                let mode = CreateMode::PERSISTENT_WITH_TTL;
                Self::CreateTtl(owned::CreateTtlRequest { mode, ..body })
            }
            other => other,
        }
    }
}

#[cfg(test)]
mod tests;
