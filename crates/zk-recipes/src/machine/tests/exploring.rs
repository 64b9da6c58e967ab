//! Exhaustive exploration of small worlds: workloads that must keep their invariants, and worlds
//! with an injected bug, which must violate one.

mod barrier;
mod double_barrier;
mod election;
mod ephemeral;
mod locks;
mod multi_lock;
mod semaphore;
#[cfg(feature = "study")]
mod simple;

use core::hash::{Hash, Hasher};

use super::super::contender::InjectedBug;
use super::search;
use super::world::{Bounds, Index, Node, Numbers, Timers, World};
use super::*;

const ONE: &str = "0 acquires";
const TWO: &str = "1 acquires";
const THREE: &str = "2 acquires";
const FOUR: &str = "3 acquires";
const ACQUIRES: [&str; 4] = [ONE, TWO, THREE, FOUR];

/// Returns whether the owner of a node is asked to release it.
fn is_revoked(node: &Node, index: Index) -> bool {
    node.data_at(index).1 == AttemptConfig::REVOKE
}

/// The milestone of each event that ends a held lock.
fn lost_by(client: usize, loss: &Loss) -> Result<&'static str, String> {
    match loss {
        Loss::Renewed => Err("loses a session that nobody renews".into()),
        Loss::NodeDeleted => Ok("loses its node"),
        Loss::Ended(_) => Ok("loses its session"),
        Loss::Disconnected => Ok("loses its connection"),
        Loss::LeaseEnded => Ok("loses its lease"),
        loss => Err(format!("{client} loses its lock: {loss}")),
    }
}
