//! The blocking client against a server's end made by hand, over TCP on this machine.
#![cfg(feature = "blocking")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod ending;
mod members;
mod operations;
mod requests;
mod server;
mod threads;
mod watches;
