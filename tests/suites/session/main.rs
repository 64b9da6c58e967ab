//! The clients of zk-session under load and idle.

mod credentials;
mod detach;
mod following;
#[path = "../frozen.rs"]
mod frozen;
mod long_queue;
mod memory;
mod reconnect;
mod recording;
mod sasl;
