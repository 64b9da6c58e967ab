//! Orders in which threads can run: both clients and their locks under `shuttle`, which runs one
//! thread at a time and chooses the next one at random at each lock, unlock and wake-up.
//!
//! Nothing here needs time. A thread that nothing wakes waits for ever, and fails its test. A
//! failure prints the schedule that repeats it.
//!
//! Run it by `cargo test` in this folder, whose `.cargo/config.toml` sets `--cfg shuttle`.

#![cfg(all(test, shuttle))]

mod controls;
mod network;
mod tasks;
mod threads;

use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, Runner};

/// The number of changes of the running thread that the second scheduler makes at most.
const CHANGES: usize = 3;

/// Runs a scene in many orders: half of them random, and half with few changes of the running
/// thread, which finds other errors. `ZK_ORDERS` is the number of runs.
fn in_many_orders(scene: fn()) {
    let runs = std::env::var("ZK_ORDERS").map_or(1000, |runs| runs.parse().expect("a number"));
    let mut config = Config::new();
    config.stack_size = 1 << 18;
    config.max_steps = shuttle::MaxSteps::FailAfter(1_000_000);
    let random = RandomScheduler::new(runs / 2);
    Runner::new(random, config.clone()).run(scene);
    Runner::new(PctScheduler::new(CHANGES, runs / 2), config).run(scene);
}
