//! Exhaustive exploration of small worlds: workloads that must keep their invariants, and worlds
//! with an injected bug, which must violate one.

pub(crate) use core::hash::{Hash, Hasher};

pub(crate) use super::search;
pub(crate) use super::world::{Bounds, Index, Node, Numbers, Timers, World};
pub(crate) use super::*;

pub(crate) const ONE: &str = "0 acquires";
pub(crate) const TWO: &str = "1 acquires";
pub(crate) const THREE: &str = "2 acquires";
pub(crate) const FOUR: &str = "3 acquires";
pub(crate) const ACQUIRES: [&str; 4] = [ONE, TWO, THREE, FOUR];

/// Returns whether the owner of a node is asked to release it.
pub(crate) fn is_revoked(node: &Node, index: Index) -> bool {
    node.data_at(index).1 == AttemptConfig::REVOKE
}

/// The milestone of each event that ends a held lock.
pub(crate) fn lost_by(client: usize, loss: &Loss) -> Result<&'static str, String> {
    match loss {
        Loss::Renewed => Err("loses a session that nobody renews".into()),
        Loss::NodeDeleted => Ok("loses its node"),
        Loss::Ended(_) => Ok("loses its session"),
        Loss::Disconnected => Ok("loses its connection"),
        Loss::LeaseEnded => Ok("loses its lease"),
        loss => Err(format!("{client} loses its lock: {loss}")),
    }
}
