//! Tests of what the machines share.

mod creation;
mod on_session;
mod paths;
mod renewals;
mod requeuing;
mod values;
