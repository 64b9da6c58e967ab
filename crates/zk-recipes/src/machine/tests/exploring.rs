//! Every world within bounds: what is played, what must always be, and worlds with a flaw, which go
//! wrong.

mod double_barrier;
mod election;
mod locks;
mod semaphore;

use core::hash::{Hash, Hasher};

use super::super::contender::Mistake;
use super::search;
use super::world::{Bounds, Numbers, Timers, World};
use super::*;

const ONE: &str = "0 acquires";
const TWO: &str = "1 acquires";
const THREE: &str = "2 acquires";
const ACQUIRES: [&str; 4] = [ONE, TWO, THREE, "3 acquires"];

/// What is seen when this has ended what a client held.
fn lost_by(client: usize, loss: &Loss) -> Result<&'static str, String> {
    match loss {
        Loss::NodeDeleted => Ok("loses its node"),
        Loss::Ended(_) => Ok("loses its session"),
        loss => Err(format!("{client} does not trust the ensemble: {loss}")),
    }
}
