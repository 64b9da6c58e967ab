//! The test tools of this workspace. For tests of your own programs, take
//! [`zk_test_server`], whose modules are here as well.
//!
//! Use the cheapest tool that can show the bug:
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

pub mod conform;
pub mod contention;
pub mod examples;
pub mod explained;
pub mod fuzz;
pub mod fuzz_cache;
pub mod fuzz_machine;
pub mod fuzz_server;
pub mod fuzz_session;
pub mod fuzz_text;
pub mod guide;
pub mod kerberos;
pub mod linearizable;
pub mod log_oracle;
#[cfg(feature = "observed")]
pub mod observed;
pub mod paced;
pub mod peers;
pub mod raw;
pub mod scenarios;
pub mod scripted;
pub mod sim;
pub mod spied;
pub mod suite;
pub mod tap;
pub mod tls;
pub mod transaction_log;
pub mod turns;
pub mod watchdog;
pub mod watchers;
pub mod wire;

pub use zk_test_server::{oracle, ports, proxy, real, serve, server, skipped};

/// The examples in the README of the repository and in its pages compile.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
#[doc = include_str!("../../docs/timing.md")]
struct Readme;
