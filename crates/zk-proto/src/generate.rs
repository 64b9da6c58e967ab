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
mod tests {
    use super::*;
    use crate::records::owned::CreateTtlRequest;

    /// Servers check the ttl of a mode with a time to live, and refuse a negative one.
    #[test]
    fn only_a_request_that_harms_servers_is_replaced() {
        for (mode, ttl, harms) in [
            (CreateMode::PERSISTENT, -1, true),
            (CreateMode::EPHEMERAL, i64::MIN, true),
            (CreateMode::PERSISTENT, 0, false),
            (CreateMode::PERSISTENT, 1, false),
            (CreateMode::PERSISTENT_WITH_TTL, -1, false),
            (CreateMode::PERSISTENT_SEQUENTIAL_WITH_TTL, -1, false),
        ] {
            let (path, acl) = ("/a".into(), Default::default());
            let body = CreateTtlRequest { path, data: None, acl, mode, ttl };
            let request = owned::Request::CreateTtl(body);
            assert_eq!(request.harms_servers(), harms, "{request:?}");
            assert_eq!(request.clone().harmless() != request, harms, "{request:?}");
            assert!(!request.clone().harmless().harms_servers(), "{request:?}");
        }
    }
}
