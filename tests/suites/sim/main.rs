//! Whole clients against the in-memory ensemble while anything may fail, from seeds.
//!
//! `ZK_SEED=n` repeats one run and prints what happens in it; `ZK_SIM_RUNS=n` sets how many runs
//! there are, `ZK_SIM_FROM=n` the first seed.

mod controls;
mod lost_events;
mod outages;
mod scenarios;
mod seeds;
