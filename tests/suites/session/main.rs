//! zk-session's clients under load and at rest.

mod detach;
#[path = "../frozen.rs"]
mod frozen;
mod memory;
mod reconnect;
