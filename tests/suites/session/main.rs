//! zk-session's clients under load and at rest.

mod detach;
mod memory;
mod reconnect;
