//! An in-memory ZooKeeper ensemble for your tests, and the test tools of this workspace.
//!
//! # For your tests
//!
//! Without features, this crate is an ensemble that serves over TCP, on seven other crates. It
//! serves any client of ZooKeeper:
//!
//! ```toml
//! [dev-dependencies]
//! zk-testkit = { path = "../zk/tests" }
//! ```
//!
//! [`Embedded`](serve::Embedded) starts and stops it, and expires sessions. Its method
//! [`command`](serve::Embedded::command) reaches every fault of an [`Ensemble`](server::Ensemble),
//! and [`with`](serve::Embedded::with) every getter. For short session timeouts, start it by
//! [`with_config`](serve::Embedded::with_config): with
//! `Config::servers(3).with_tick(Duration::from_millis(100))` it grants 0.2 s to 2 s, for which the
//! client must ask.
//!
//! The feature `digest` adds credentials of the scheme `digest`, and `sasl` the mechanism
//! DIGEST-MD5. This is the example `test_server`:
//!
//! ```
#![doc = include_str!("../examples/test_server.rs")]
//! ```
//!
//! The example `chaos` tests a service with a lock in the same way.
//!
//! # For this workspace
//!
//! The feature `tools` adds the rest. Use the cheapest tool that can show the bug:
//!
//! | tool | tests | costs |
//! |---|---|---|
//! | `fuzz` | the decoder, with arbitrary bytes | microseconds |
//! | `server` | the replies of a server, with a virtual clock and injected failures | microseconds |
//! | `sim` | whole clients under random faults, from a seed | milliseconds |
//! | `linearizable` | a history of concurrent operations on a register or a lock | microseconds |
//! | `serve` | a client over TCP, against the in-memory server | milliseconds |
//! | `real` | a real ZooKeeper | seconds, and Java |

extern crate alloc;

#[cfg(feature = "observed")]
pub mod observed;
pub mod oracle;
pub mod ports;
pub mod serve;
pub mod server;
#[cfg(feature = "tools")]
#[path = "tools.rs"]
mod tools;
#[cfg(feature = "tools")]
pub use tools::*;

/// The examples in the README of the repository and in its pages compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/timing.md")]
struct Readme;
