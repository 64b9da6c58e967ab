//! The async client over pipes to a scripted server, on a paused clock.
#![cfg(feature = "tokio")]
#![allow(missing_docs, unreachable_pub, clippy::unwrap_used)]

mod cancellation;
mod chroot;
mod connecting;
mod delivery;
mod ending;
mod persistent;
mod pressure;
mod requests;
mod sasl;
mod server;
mod servers;
mod subtree;
#[cfg(feature = "tracing")]
mod tracing;
mod watches;
mod writing;
