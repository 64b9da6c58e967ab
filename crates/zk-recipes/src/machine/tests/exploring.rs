//! Exhaustive exploration of small worlds: workloads that must keep their invariants, and worlds
//! with an injected bug, which must violate one.

mod barrier;
mod double_barrier;
mod election;
mod locks;
mod multi_lock;
mod semaphore;
#[cfg(feature = "study")]
mod simple;

use core::hash::{Hash, Hasher};

use super::super::contender::InjectedBug;
use super::search;
use super::world::{Bounds, Numbers, Timers, World};
use super::*;

const ONE: &str = "0 acquires";
const TWO: &str = "1 acquires";
const THREE: &str = "2 acquires";
const FOUR: &str = "3 acquires";
const ACQUIRES: [&str; 4] = [ONE, TWO, THREE, FOUR];

/// The milestone of each event that ends a held lock.
fn lost_by(client: usize, loss: &Loss) -> Result<&'static str, String> {
    match loss {
        Loss::Renewed => Err("loses a session that nobody renews".into()),
        Loss::NodeDeleted => Ok("loses its node"),
        Loss::Ended(_) => Ok("loses its session"),
        loss => Err(format!("{client} does not trust the ensemble: {loss}")),
    }
}
