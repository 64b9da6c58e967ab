//! The blocking client against a scripted server, over TCP on this machine.
#![cfg(feature = "blocking")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod ending;
mod futures;
mod operations;
mod requests;
mod sasl;
mod server;
mod servers;
mod threads;
mod watches;
