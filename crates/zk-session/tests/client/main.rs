//! The client over pipes to a server's end made by hand, on a clock that stands still while
//! anything can be done.
#![cfg(feature = "tokio")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod cancellation;
mod chroot;
mod connecting;
mod delivery;
mod ending;
mod members;
mod persistent;
mod pressure;
mod requests;
mod server;
mod subtree;
#[cfg(feature = "tracing")]
mod tracing;
mod watches;
mod writing;
