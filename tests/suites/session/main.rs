//! zk-session's clients under load and at rest.

mod memory;
mod reconnect;
