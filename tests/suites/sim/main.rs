//! Whole clients against the in-memory ensemble under random faults, from seeds.
//!
//! `ZK_SEED=n` repeats one run and prints its trace. `ZK_SIM_RUNS=n` sets the number of runs,
//! `ZK_SIM_FROM=n` the first seed.

mod caches;
mod controls;
mod following;
mod lasting;
mod lost_events;
mod outages;
mod pictures;
mod replays;
mod scenarios;
mod seeds;
